"""``aiter-prebuilt-emulator debug``: a debugger for kernels, over the Debug Adapter Protocol or in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from aiter_prebuilt_emulator.debug_protocol import Messages
from aiter_prebuilt_emulator.debug_session import Session
from aiter_prebuilt_emulator.surroundings import with_library
from aiter_prebuilt_emulator.usage import Parser

#: Fixes the token, for an editor's settings that are written once.
_VARIABLE = "AITER_PREBUILT_EMULATOR_DEBUG_TOKEN"
_SHORTEST = 16
#: Seconds for a client to show the token.
_PATIENCE = 30.0
_EXAMPLE = "aiter-prebuilt-emulator debug --listen 4711 -- python prog.py"


def add_verb(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Register the verb."""
    verb = verbs.add_parser(
        "debug",
        help="debug the kernels of a program: an editor attaches by the Debug Adapter Protocol, or --console",
        description="Debug the kernels of a program. Without --listen or --console the Debug Adapter Protocol is spoken "
        "on standard input and output.",
    )
    verb.add_argument("--devices", default="", help="as for run")
    verb.add_argument("--checks", default="", help="as for run")
    verb.add_argument(
        "--listen",
        default="",
        metavar="PORT|PATH",
        help="wait for an editor on this port of 127.0.0.1 (0: any), or on a Unix socket",
    )
    verb.add_argument("--console", action="store_true", help="a prompt in this terminal")
    verb.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its words"
    )
    verb.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Debug one program. Exit codes: 0 the client has left; 1 it cannot be listened for; 2 wrong usage; 130 interrupted."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if (options.listen or options.console) and not command:
        print(f"error: no command; write: {_EXAMPLE}", file=sys.stderr)
        return 2
    if options.listen and options.console:
        print("error: both --listen and --console; write one of them", file=sys.stderr)
        return 2
    given = {"AITER_PREBUILT_EMULATOR": options.devices, "AITER_PREBUILT_EMULATOR_CHECKS": options.checks}
    environment = with_library(os.environ | {name: value for name, value in given.items() if value})
    # A stop is no reason to let the program go on beside its kernel.
    environment.setdefault("AITER_PREBUILT_EMULATOR_PATIENCE", str(10**9))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    try:
        if options.console:
            from aiter_prebuilt_emulator.debug_console import Console

            return Console(command, environment).run()
        if options.listen:
            return _listen(options.listen, command, environment)
        Session(
            Messages(sys.stdin.buffer, sys.stdout.buffer), command, environment, own_command=True, output=True
        ).serve()
    except KeyboardInterrupt:
        return 130
    return 0


def _terminated(number: int, frame: object) -> NoReturn:
    del frame
    raise SystemExit(128 + number)


def _listen(where: str, command: list[str], environment: dict[str, str]) -> int:
    path = None if _is_port(where) else Path(where)
    # Any program of this machine reaches a port, a browser on behalf of any web page among them.
    token = _token() if path is None else ""
    with _listening(where) as listening:
        try:
            place = f"127.0.0.1:{listening.getsockname()[1]}" if path is None else where
            print(f"waiting for a debugger on {place}", file=sys.stderr, flush=True)
            if token:
                said = f'its launch or attach request must have "token": "{token}"'
                print(said, file=sys.stderr, flush=True)
            while not _accepted(listening, command, environment, token):
                pass
        finally:
            if path:
                with contextlib.suppress(OSError):
                    path.unlink()
    return 0


def _token() -> str:
    """Return the token that the environment names, or a new one.

    Raises:
        OSError: the one of the environment is short enough to be guessed.
    """
    named = os.environ.get(_VARIABLE, "")
    if named and len(named) < _SHORTEST:
        raise OSError(f"{_VARIABLE} has {len(named)} characters; write at least {_SHORTEST}, or unset it")
    return named or secrets.token_urlsafe(16)


def _accepted(listening: socket.socket, command: list[str], environment: dict[str, str], token: str) -> bool:
    """Serve one connection; False for one that never showed the token: another one is waited for."""
    peer, _ = listening.accept()
    shown = not token

    def admitted() -> None:
        nonlocal shown
        shown = True
        peer.settimeout(None)

    if token:
        peer.settimeout(_PATIENCE)
    with peer, peer.makefile("rb") as source, peer.makefile("wb") as sink, contextlib.suppress(OSError):
        # Whoever reaches the socket may debug this command, and start no other. OSError: the client went in mid-word.
        messages = Messages(source, sink)
        Session(
            messages, command, environment, own_command=False, output=False, token=token, admitted=admitted
        ).serve()
    return shown


def _is_port(where: str) -> bool:
    """Tell whether the text is a port number.

    Else it is the path of a socket.
    """
    if where.isascii() and where.isdigit():
        return True
    if re.fullmatch(r"[-+]?\d\w*", where):
        raise OSError(
            f"--listen {where}: found neither a port (0 to 65535) nor a path; a path may begin with ./"
        )
    return False


def _listening(where: str) -> socket.socket:
    """Open a socket for this machine (a port) or this user (a path, 0600)."""
    if _is_port(where):
        if int(where) > 65535:
            raise OSError(f"--listen {where}: ports go from 0 to 65535")
        try:
            made = socket.create_server(("127.0.0.1", int(where)))
        except OSError as error:
            raise OSError(
                f"cannot listen on port {where}: {error.strerror}; --listen 0 takes a free one"
            ) from None
        return made
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        made.bind(where)
    except OSError as error:
        made.close()
        raise OSError(
            f"cannot listen on {where}: {error.strerror or error}; write another path, or a port"
        ) from None
    finally:
        os.umask(before)
    made.listen(1)
    return made

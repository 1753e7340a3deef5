"""vLLM's server on the emulator, as a program starts it: two processes, HTTP, and nothing left behind at its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from engines import surroundings, vllm_settings
from engines.errors import ServerError, last

_HOST: Final = "127.0.0.1"
_PATIENCE: Final = 600.0
_GENTLE: Final = 20.0


@dataclass(frozen=True)
class Answer:
    """The text of a completion, and how long it took."""

    text: str
    seconds: float


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    port: int
    model: str
    seconds: float
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """Return the address that it listens at."""
        return f"http://{_HOST}:{self.port}"

    def ask(self, prompt: str, tokens: int = 8, **options: Any) -> Answer:
        """Complete a prompt, with the likeliest tokens unless ``options`` say otherwise.

        Raises:
            ServerError: the server refuses it, or is gone.
        """
        body = {"model": self.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0} | options
        begun = time.monotonic()
        told = self.post("/v1/completions", body)
        return Answer(told["choices"][0]["text"], time.monotonic() - begun)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send JSON, and return what comes back.

        Raises:
            ServerError: the server refuses it, or is gone.
        """
        try:
            status, text = _request(self.port, "POST", path, json.dumps(body).encode(), _PATIENCE)
        except (OSError, HTTPException) as error:
            raise ServerError(f"The server does not answer at {self.address}: {error}") from error
        if status != HTTPStatus.OK:
            raise ServerError(f"The server refused {path} with {status}: {text[:500]!r}")
        told: dict[str, Any] = json.loads(text)
        return told

    def wait(self) -> None:
        """Wait until the server ends."""
        self.process.wait()


@contextmanager
def running(model: Path, target: str, port: int, place: surroundings.Place) -> Iterator[Server]:
    """Start a server, wait until it answers, and end it with all of its processes.

    Raises:
        ServerError: the port is taken, or the server ended or did not answer in ten minutes.
    """
    _refuse_taken(port)
    log = place.folder / f"server-{port}.log"
    name = model.name.rpartition("-")[0]  # without the seed of its weights
    command = [
        *surroundings.started(target),
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", name, "--host", _HOST, "--port", str(port)),
        *vllm_settings.words(vllm_settings.of(name)),
    ]
    begun = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=surroundings.environment(place, os.environ),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await(process, port, log)
        yield Server(port, name, time.monotonic() - begun, process)
    finally:
        _end(process)


def _request(port: int, verb: str, path: str, body: bytes | None, patience: float) -> tuple[int, bytes]:
    with closing(HTTPConnection(_HOST, port, timeout=patience)) as connection:
        connection.request(verb, path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise ServerError(
                f"Port {port} cannot be used: {error.strerror}. Name another: --port {port + 1}"
            ) from error


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    begun = time.monotonic()
    while time.monotonic() - begun < _PATIENCE:
        if process.poll() is not None:
            raise ServerError(
                f"vLLM's server ended with {process.returncode}. The end of {log}:\n{last(log.read_text(errors='replace'))}"
            )
        try:
            if _request(port, "GET", "/health", None, 5)[0] == HTTPStatus.OK:
                return
        except (OSError, HTTPException):
            pass
        time.sleep(0.5)
    raise ServerError(
        f"vLLM's server did not answer in {_PATIENCE:.0f} s. The end of {log}:\n{last(log.read_text(errors='replace'))}"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started: they are a group of their own."""
    for sent, patience in ((signal.SIGINT, _GENTLE), (signal.SIGTERM, _GENTLE), (signal.SIGKILL, _GENTLE)):
        try:
            os.killpg(process.pid, sent)
            process.wait(patience)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.wait()

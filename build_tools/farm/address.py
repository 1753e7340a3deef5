"""Check the address of a farm before connecting to it.

Work comes as pickles, and a pickle can run any program.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from build_tools.errors import FarmError, OpenFarmError

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 8786
_LAST_PORT: Final = 65535
#: Dask serves pages about each of its processes, to whoever asks: here to nobody.
NO_PAGE: Final = f"{LOOPBACK}:0"
#: In the folder that ``--tls`` names: who is trusted, and who this side is.
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"
_LOCAL: Final = re.compile(r"local:([1-9]\d{0,3})")
_PLACE: Final = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:]+\]|[^:/\[\]]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """``local``: workers to start here, or 0; else ``url`` is where the scheduler listens."""

    url: str = ""
    local: int = 0


def parse(text: str) -> Address:
    """Parse the value of ``--farm``.

    Raises:
        FarmError: it is no such address.
    """
    if match := _LOCAL.fullmatch(text):
        return Address(local=int(match[1]))
    if _place(text) is not None:
        return Address(text)
    raise FarmError(
        f"build on the farm {text!r}",
        "it is no address",
        f"Write local:4 for workers of this machine, or tls://HOST:{PORT} where a scheduler listens",
    )


def security(url: str, tls: Path | None) -> Any:
    """Dask's description of who is trusted, for a side of the farm at ``url``; None on the loopback without TLS.

    Raises:
        OpenFarmError: without TLS off the loopback. FarmError: the folder lacks one of its files.
    """
    match = _place(url)
    if match is None:
        raise FarmError(
            f"reach {url}",
            "it is no address of a scheduler",
            f"Write tls://HOST:{PORT} or tcp://{LOOPBACK}:{PORT}",
        )
    if tls is None:
        if match[1] == "tls" or not loopback(match[2].strip("[]")):
            raise _open(url, match[1])
        return None
    if match[1] != "tls":
        raise FarmError(f"reach {url} with --tls", "its address says tcp", "Write tls:// in front of it")
    return trusting(tls)


def trusting(folder: Path) -> Any:
    """Both sides show a certificate of the authority in ``folder``, and accept no other. Raises FarmError: a file is missing."""
    from distributed.security import Security

    files = {name: folder / name for name in (AUTHORITY, CERTIFICATE, KEY)}
    for path in files.values():
        if not path.is_file():
            raise FarmError(
                f"read the certificates in {folder}",
                f"there is no {path.name}",
                f"Put {AUTHORITY}, {CERTIFICATE} and {KEY} there: docs/farm.md says how they are made",
            )
    sides = {
        f"tls_{side}_{kind}": str(files[name])
        for side in ("client", "worker", "scheduler")
        for kind, name in (("cert", CERTIFICATE), ("key", KEY))
    }
    return Security(require_encryption=True, tls_ca_file=str(files[AUTHORITY]), **sides)


def _place(url: str) -> re.Match[str] | None:
    """Match the parts of a scheduler's address.

    None where it is none, or its port is one that no machine has.
    """
    match = _PLACE.fullmatch(url)
    return match if match is not None and int(match[3]) <= _LAST_PORT else None


def host_of(url: str) -> str:
    """Return the host of a scheduler's address."""
    match = _PLACE.fullmatch(url)
    return match[2].strip("[]") if match else ""


def quiet() -> None:
    """Let Dask say nothing of its own, to no visitor either: what goes wrong is said in our words, once."""
    # Importing it sets what it says: before that there is nothing to change.
    import dask
    import distributed

    dask.config.set({f"distributed.{side}.http.routes": [] for side in ("scheduler", "worker")})
    logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)


def loopback(host: str) -> bool:
    """Tell whether a host name always means this machine."""
    try:
        found = {row[4][0] for row in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(
        ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in found
    )


def _open(url: str, scheme: str) -> OpenFarmError:
    found = "no certificates are named" if scheme == "tls" else "it is neither the loopback nor encrypted"
    return OpenFarmError(
        f"reach a farm at {url}",
        f"{found}: whoever can send work there can run any program",
        f"Write tls:// and --tls FOLDER with {AUTHORITY}, {CERTIFICATE} and {KEY}: docs/farm.md says how they are made",
    )

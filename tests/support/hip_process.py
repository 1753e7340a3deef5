"""HIP calls in a process of their own: the embedded device reads its environment once, faults stay, and a crash must be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.emulator import library_path

SUCCESS, INVALID_VALUE, INVALID_CONFIGURATION, INVALID_IMAGE, NO_BINARY = 0, 1, 9, 200, 209
_PROGRAM = Path(__file__).with_name("hip_program.py")


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. ``arguments``: ("buffer", contents) for device memory, ("bytes", contents) for a value.

    ``packed``: the arguments as one block (`extra`), each at its natural alignment; else one pointer each (`kernelParams`).
    ``size``: bytes of the packed block that are passed on, all of it when negative.
    """

    image: bytes
    arguments: Sequence[tuple[str, bytes]] = ()
    kernel: str = "kernel"
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (64, 1, 1)
    lds: int = 0
    device: int = 0
    packed: bool = False
    size: int = -1


@dataclass(frozen=True, slots=True)
class Answer:
    """``loaded``, ``found``, ``status``: HIP's codes of the load, the lookup and the launch (-1: not reached)."""

    loaded: int
    found: int
    status: int
    buffers: tuple[bytes, ...] = ()
    globals: Mapping[str, bytes] = field(default_factory=dict)

    def words(self, index: int = 0) -> list[int]:
        """A buffer as u32."""
        data = self.buffers[index]
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def _python(arguments: Sequence[str], environment: Mapping[str, str], stdin: str) -> tuple[str, str]:
    settings = {"AITER_PREBUILT_EMULATOR_LOG": "error", "AITER_PREBUILT_EMULATOR_CHECKS": "none"} | dict(
        environment
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT_EMULATOR")}
    done = subprocess.run(
        [sys.executable, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=120,
        env=kept | settings,
    )  # fmt: skip
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr[-4000:]}"
    return done.stdout, done.stderr


def launches(
    requests: Sequence[Launch], names: Sequence[str] = (), **environment: str
) -> tuple[list[Answer], str]:
    """Runs the requests in order in one process. Returns an answer for each, and what went to standard error.

    ``names``: globals to read from each module after its launch. ``environment``: variables without their
    ``AITER_PREBUILT_EMULATOR_`` prefix in lower case; ``devices`` is the variable without suffix.
    """
    variables = {
        "AITER_PREBUILT_EMULATOR" + ("" if key == "devices" else f"_{key.upper()}"): value
        for key, value in environment.items()
    }
    document = [
        {
            "image": r.image.hex(), "arguments": [[kind, data.hex()] for kind, data in r.arguments], "kernel": r.kernel,
            "dims": [*r.grid, *r.block, r.lds], "device": r.device, "packed": r.packed, "size": r.size,
        }
        for r in requests
    ]  # fmt: skip
    text = json.dumps({"requests": document, "names": list(names)})
    out, log = _python([str(_PROGRAM), str(library_path())], variables, text)
    rows: list[dict[str, Any]] = json.loads(out)
    return [
        Answer(
            row["loaded"], row["found"], row["status"], tuple(bytes.fromhex(b) for b in row["buffers"]),
            {key: bytes.fromhex(value) for key, value in row["globals"].items()},
        )
        for row in rows
    ], log  # fmt: skip


def launch(request: Launch, **environment: str) -> tuple[Answer, str]:
    """One request."""
    answers, log = launches([request], **environment)
    return answers[0], log


def program(source: str, *arguments: str, **environment: str) -> tuple[str, str]:
    """Run Python source with the library's path as its first argument; a crash or an exception fails the test.

    A name in capitals is a variable as it is; another one is a setting of the embedded device.
    """
    variables = {
        key
        if key.isupper()
        else "AITER_PREBUILT_EMULATOR" + ("" if key == "devices" else f"_{key.upper()}"): value
        for key, value in environment.items()
    }
    return _python(["-c", source, str(library_path()), *arguments], variables, "")

"""One call in a child that opens the driver itself; the parent never does. A fault makes a device unusable for its process, as
on a card, and must not touch the next call.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import aiter_prebuilt
from aiter_prebuilt.contract.calls import Call
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import AiterPrebuiltError, NoDeviceError
from aiter_prebuilt.execute import recipes
from aiter_prebuilt.execute.record import Chosen
from aiter_prebuilt.execute.run import Execution, failed, named, own_state, run
from aiter_prebuilt.launch import loading

_PIECE = 1 << 16


def here(
    call: Call, vendor: str | None, ordinal: int, told: Callable[[dict[str, Any]], None] | None = None
) -> Execution:
    """Execute a call in this process. ``vendor``: the first that has a device when None; ``told`` hears words as they come."""
    try:
        facts, path = _find(vendor, ordinal)
    except AiterPrebuiltError as error:
        return failed(call, ("", ""), f"{type(error).__name__}: {error}")
    if told is None:
        return run(call, facts, path)
    told({"device": named(facts, path), "target": facts.target})
    say = told
    return run(call, facts, path, lambda chosen: say(asdict(chosen)))


def _find(vendor: str | None, ordinal: int) -> tuple[device.DeviceFacts, str]:
    chosen = vendor or loading.first_vendor()
    driver = device.probe(chosen)
    found = next((facts for facts in driver.devices if facts.ordinal == ordinal), None)
    if found is None:
        have = ", ".join(map(str, driver.devices)) or driver.error or "; ".join(driver.problems) or "none"
        raise NoDeviceError(
            f"use device {ordinal} of {chosen}",
            f"devices here: {have}",
            "Check the devices: aiter-prebuilt doctor",
        )
    return found, driver.path


def forked(call: Call, vendor: str | None, ordinal: int, limit: float) -> Execution:
    """Execute a call in a child; whatever ends the child, or ``limit`` seconds, is a problem of the call."""
    _prepare(call)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(call, vendor, ordinal, writer)
    os.close(writer)
    text, late = _read(reader, limit)
    os.close(reader)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    words: dict[str, Any] = {"device": "", "target": ""}
    for line in text.split(b"\n")[:-1]:  # what is behind the last newline was cut off
        words.update(json.loads(line))
    if "problems" in words:
        lists = {name: tuple(words[name]) for name in ("launched", "recipes", "problems")}
        return Execution(**{**words, **lists})
    said = f"it did not end within {limit:g} seconds" if late else f"the process {_ended(status)}"
    chosen = Chosen(
        words.get("kernel", ""), words.get("variant", ""), words.get("backend", ""), tuple(words.get("launched", ())),
        tuple(words.get("recipes", ())),
    )  # fmt: skip
    return failed(call, (words["device"], words["target"]), said, chosen)


def _prepare(call: Call) -> None:
    """Do once here what each child would do again, and what opens no driver; errors are the child's to report."""
    own_state()  # parses the judge's code: longer than most calls
    with suppress(AiterPrebuiltError):
        recipes.read(call.operator)
    with suppress(AiterPrebuiltError, AttributeError):
        getattr(aiter_prebuilt, call.operator)


def _child(call: Call, vendor: str | None, ordinal: int, writer: int) -> None:
    def send(words: dict[str, Any]) -> None:
        data = json.dumps(words).encode() + b"\n"
        while data:
            data = data[os.write(writer, data) :]

    status = 1
    try:
        send(asdict(here(call, vendor, ordinal, send)))
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's may run twice: no handler, no buffer


def _read(reader: int, limit: float) -> tuple[bytes, bool]:
    """(all that a child says, whether it took too long)."""
    end = time.monotonic() + limit
    pieces: list[bytes] = []
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return b"".join(pieces), True
        piece = os.read(reader, _PIECE)
        if not piece:
            return b"".join(pieces), False
        pieces.append(piece)


def _ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with status {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"

"""``python -m aiter_prebuilt.execute``: calls on standard input (or in files) to a JSON line each (``schemas/execute.json``)."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.calls import Call, CallsError, read
from aiter_prebuilt.devices import device, native
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.execute.explain import explain
from aiter_prebuilt.execute.fork import forked, here
from aiter_prebuilt.execute.run import Execution

#: A minute is long for any call on any device here.
LIMIT: Final = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 every call is right (explained: would be launched), 1 one is not, 2 nothing was executed or the stream is
    damaged (then after some).
    """
    parser = argparse.ArgumentParser(
        prog="python -m aiter_prebuilt.execute", description="Execute calls with known answers on a device."
    )
    parser.add_argument("files", nargs="*", type=Path, help="streams of calls; standard input when none")
    parser.add_argument("--vendor", choices=device.VENDORS, help="the first that has a device otherwise")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="its ordinal")
    parser.add_argument(
        "--no-fork", action="store_true", help="all calls in this process: faster, and a fault ends them all"
    )
    parser.add_argument(
        "--explain",
        metavar="TARGET",
        help="launch nothing: say what each call would launch on its cards; no device",
    )
    parser.add_argument("--timeout", type=float, default=LIMIT, metavar="SECONDS", help="of one call's child")
    options = parser.parse_args(arguments)
    count = wrong = 0
    try:
        native.module()  # loaded once, for all children; it opens no driver
        for call in _calls(options.files):
            done = _done(call, options)
            print(json.dumps(done.line(), allow_nan=False), flush=True)
            count += 1
            wrong += bool(done.problems) if options.explain else not done.ok
    except (CallsError, OSError, AiterPrebuiltError) as error:
        print(f"error: after {count} calls: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if not count:
        print("error: no call came: nothing was executed", file=sys.stderr)
        return 2
    return 1 if wrong else 0


def _done(call: Call, options: argparse.Namespace) -> Execution:
    if options.explain:
        return explain(call, options.explain)
    if options.no_fork:
        return here(call, options.vendor, options.device)
    return forked(call, options.vendor, options.device, options.timeout)


def _calls(files: Sequence[Path]) -> Iterator[Call]:
    if not files:
        yield from read(sys.stdin.buffer)
    for file in files:
        with contextlib.closing(file.open("rb")) as stream:
            try:
                yield from read(stream)
            except CallsError as error:
                raise CallsError(f"{file}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())

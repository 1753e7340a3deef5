"""Every operator in one sealed process: ``python -m promises.sealed_operators CALLS TREE COUNT``; COUNT: of operators.

The interpreter's own modules are imported before, by name: what a child that ran the cases had loaded from the standard
library. The runtime's are not; they come out of the read-only tree under the seal, and so do driver and bundles.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from promises import seal


def run_all(calls: str, operators: int, most: int | None = None) -> list[str]:
    """The calls of ``operators`` operators, at most ``most`` of each, in this process; what is wrong. What a process does beside
    computing depends on the operator and the kind of call, hardly on sizes: ``tests/emulator/test_operators.py`` has the cases.
    """
    from aiter_prebuilt.contract.calls import read
    from aiter_prebuilt.devices import device
    from aiter_prebuilt.execute.run import run

    driver = device.probe("amd")
    wrong, count = [], Counter[str]()
    with Path(calls).open("rb") as stream:
        for call in read(stream):
            count[call.operator] += 1
            if most is not None and count[call.operator] > most:
                continue
            done = run(call, driver.devices[0], driver.path)
            wrong += [f"{call.operator} {call.label}: {problem}" for problem in done.problems]
    return wrong if len(count) == operators > 0 else [*wrong, f"{len(count)} operators of {operators}"]


def learn(calls: str) -> list[str]:
    """The names of all modules that the cases import, from a child that runs one of each operator; this process opens no
    driver. Under the seal the process is nobody, who may not read an interpreter in somebody's home: a module that only other
    cases import would be seen there.
    """
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            run_all(calls, 0, 1)
        finally:
            os.write(writer, json.dumps(sorted(sys.modules)).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return list(json.load(pipe))


def held() -> set[str]:
    """The files that are open now."""
    found = set()
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder's own
            found.add(str(handle.readlink()))
    return found


def main(words: list[str]) -> int:
    """Exit status 0, a line of JSON with what is wrong: all ran. SIGSYS: the seal was broken."""
    calls, tree, operators = words
    for name in learn(calls):
        if not name.startswith(("aiter_prebuilt", "__")):
            importlib.import_module(name)
    early = sorted(name for name in sys.modules if name.startswith("aiter_prebuilt"))
    os.chdir(tree)
    seal.drop_privileges()
    seal.apply()
    wrong = run_all(calls, int(operators))
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    mapped = {line.split()[-1] for line in maps.splitlines() if tree in line}
    # A bundle is read through its open file and not mapped.
    used = sorted(mapped | {path for path in held() if path.startswith(tree)})
    print(json.dumps({"wrong": wrong[:20], "early": early, "uid": os.getuid(), "used": used}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

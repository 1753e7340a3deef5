"""Every operator case in one sealed process: ``python -m promises.sealed_operators TARGET PROFILE SEED TREE``.

The interpreter's own modules are imported before, by name: what a child that ran the cases had loaded from the standard
library. The runtime's are not; they come out of the read-only tree under the seal, and so do driver and bundles.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import torch
from emulator.operators import worker

from promises import seal


def run_all(target: str, profile: str, seed: int) -> list[str]:
    """All cases, in this process; what is wrong."""
    wrong, count = [], 0
    for case in worker.cases(profile):
        count += 1
        problems = worker.run(case, target, seed)["problems"]
        wrong += [f"{case.operator} {case.label}: {problem}" for problem in problems]
    return wrong if count > 100 or profile != "ck-free" else [f"only {count} cases"]


def learn(target: str, profile: str, seed: int) -> list[str]:
    """The names of all modules that the cases import, from a child; this process opens no driver."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            run_all(target, profile, seed)
        finally:
            os.write(writer, json.dumps(sorted(sys.modules)).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return list(json.load(pipe))


def main(words: list[str]) -> int:
    """Exit status 0, a line of JSON with the count: all right. SIGSYS: the seal was broken."""
    target, profile, seed, tree = words[0], words[1], int(words[2]), words[3]
    torch.set_num_threads(1)
    for name in learn(target, profile, seed):
        if not name.startswith(("aiter_prebuilt", "__")):
            importlib.import_module(name)
    early = sorted(name for name in sys.modules if name.startswith("aiter_prebuilt._native"))
    os.chdir(tree)
    seal.drop_privileges()
    seal.apply()
    wrong = run_all(target, profile, seed)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    used = sorted({line.split()[-1] for line in maps.splitlines() if tree in line})
    print(json.dumps({"wrong": wrong[:20], "early": early, "uid": os.getuid(), "used": used}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""FlyDSL's cache of AITER's own kernels, filled ahead of time: which calls, and the child that compiles them.

FlyDSL's key covers the sources of AITER's kernels and all files of FlyDSL, and AITER's modules fit one version of FlyDSL alone:
so what is compiled is for one checkout of AITER, and for the FlyDSL that the given Python imports. The tree that the pipeline
pins has no FlyDSL kernel.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt_bridge.flydsl_cache import TEXT, TOOL
from build_tools.compile.backends.built import CHILD_PATH
from build_tools.compile.store import Store
from build_tools.errors import ToolchainError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.pack.cache_wheel import Seed, Seeds
from build_tools.seed import flydsl_calls
from build_tools.seed.triton import Compiler, Target

_CHILD: Final = "build_tools.seed.flydsl_seed"
_SOURCE: Final = "flydsl_seed.py"
_TIMEOUT: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of FlyDSL's seeds.

    ``seeds`` for a data wheel; ``rows``: each call, its error and its keys; ``seconds``: of compiling.
    """

    seeds: Seeds
    rows: tuple[Mapping[str, Any], ...]
    failed: Mapping[str, str]
    compiled: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """The inputs of a FlyDSL seed run.

    A target, with the AITER in ``tree`` (its ``version``) and the FlyDSL of ``compiler``. ``linker``: its command; ``salt``: its
    identity with its flags.
    """

    root: Path
    target: Target
    tree: Path
    version: str
    compiler: Compiler
    linker: tuple[str, ...]
    salt: str


def make(work: Work, store: Path, only: Sequence[str] = ()) -> Made:
    """Compile the calls (``only`` those, by their names in the file); what the store has is not compiled again.

    Raises:
        ToolchainError: AITER or its FlyDSL modules cannot be imported there.
    """
    target, salt = work.target, f"{sha256_file(Path(__file__).with_name(_SOURCE))}\n{work.salt}"
    with tempfile.TemporaryDirectory(prefix="flydsl-seed-") as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        request.write_text(
            json.dumps(
                {
                    "tree": str(work.tree), "target": target.name, "compute_units": target.compute_units,
                    "linker": list(work.linker), "store": str(store.resolve()), "salt": salt,
                    "calls": flydsl_calls.requests(work.root, target.name, target.fp8, only),
                }
            ),
            encoding="utf-8",
        )  # fmt: skip
        path = [work.compiler.packages, CHILD_PATH["PYTHONPATH"]]
        environment = {**CHILD_PATH, "PYTHONPATH": os.pathsep.join(each for each in path if each)}
        words: list[str | Path] = [work.compiler.python, "-m", _CHILD, request, answer]
        done = run(words, cwd=work.root, env=environment, timeout=_TIMEOUT)
        if not done.ok or not answer.is_file():
            raise ToolchainError(
                f"compile FlyDSL kernels of the AITER in {work.tree} for {target.name}",
                f"{done.describe()}\n{done.output}",
                "Name a FlyDSL that its modules fit: its requirements.txt says which",
            )
        told = json.loads(answer.read_text(encoding="utf-8"))
    seeds = seeds_of(told, target.name, Store(store), work.version)
    return Made(seeds, tuple(told["calls"]), told["failed"], told["compiled"], told["seconds"])


def seeds_of(told: Mapping[str, Any], target: str, store: Store, version: str) -> Seeds:
    """Collect the seeds of a child's answer.

    The files are in the store. ``version``: of AITER's tree.
    """
    found = []
    for key, stored in sorted(told["kernels"].items()):
        entry, parts = store.get(stored), told["parts"][key]
        if entry is not None:
            found.append(Seed(key, parts["function"], {TEXT: entry.path.read_bytes()}, parts))
    return Seeds(
        TOOL, target, (told["flydsl"],), (version,), tuple(found), ("flydsl", "aiter"),
        {"flydsl": told["flydsl"]["version"], "aiter": version}, (flydsl_calls.FILE,),
    )  # fmt: skip

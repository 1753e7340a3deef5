"""FlyDSL's cache of AITER's own kernels, filled ahead of time: which calls, and the child that compiles them.

FlyDSL's key covers the sources of AITER's kernels and all files of FlyDSL, and AITER's modules fit one version of FlyDSL alone:
so what is compiled is for one checkout of AITER, and for the FlyDSL that the given Python imports. The tree that the pipeline
pins has no FlyDSL kernel.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.dtype import TARGET_FP8
from aiter_prebuilt_bridge.flydsl_cache import TEXT, TOOL
from build_tools.compile.backends.built import CHILD_PATH
from build_tools.compile.store import Store
from build_tools.errors import ManifestError, ToolchainError
from build_tools.files.run import run
from build_tools.pack.cache_wheel import Seed, Seeds
from build_tools.seed.triton import Compiler, Target
from build_tools.seed.triton_calls import torch_name
from build_tools.shapes import forms

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EDITION: Final = 1
FILE: Final = "manifests/bridge/flydsl.toml"
#: Launching on a stream of no framework's.
_STREAM: Final = "stream"
_CHILD: Final = "build_tools.seed.flydsl_seed"
_TIMEOUT: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Made:
    """What came of it: ``seeds`` for a data wheel; ``rows``: each call, its error and its keys; ``seconds``: of compiling."""

    seeds: Seeds
    rows: tuple[Mapping[str, Any], ...]
    failed: Mapping[str, str]
    compiled: int
    seconds: float


def calls_of(root: Path, target: Target, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The calls for ``target``, as the child is asked for them; ``only`` those, by their names in the file.

    Raises:
        ManifestError: the file says something else.
    """
    try:
        table = tomllib.loads((root / FILE).read_text(encoding="utf-8"))
        if table.get("edition") != EDITION:
            raise ManifestError([f"{FILE}: edition: {table.get('edition')!r} is not {EDITION}"])
        rows = [
            (f"calls.{label}", row, _call(row, target)) for label, row in table.get("calls", {}).items()
        ] + [
            (f"tables.{label}", row, {"tuned": row["file"]}) for label, row in table.get("tables", {}).items()
        ]
    except (OSError, tomllib.TOMLDecodeError, KeyError, forms.FormError, ValueError) as error:
        raise ManifestError([f"{FILE}: {error}"]) from None
    return [
        made | {"label": label, "name": row["client"]}
        for label, row, made in rows
        if target.name in row.get("targets", [target.name]) and (not only or label in only)
    ]


def _call(row: Mapping[str, Any], target: Target) -> dict[str, Any]:
    form = forms.parse(row["call"])
    return {
        "modules": list(row["modules"]),
        "function": form.function,
        "positional": [_value(each, target) for each in form.positional],
        "keywords": {name: _value(each, target) for name, each in form.keywords} | {_STREAM: {"stream": 0}},
    }


def _value(given: forms.Value, target: Target) -> dict[str, Any]:
    """A value of a call, in the words of the child."""
    if isinstance(given, forms.Tensor):
        strides = None if given.strides is None else [int(each) for each in given.strides]
        return {
            "dims": [int(each) for each in given.dims],
            "strides": strides,
            "dtype": _type(given.dtype, target),
        }
    if isinstance(given, forms.Type):
        return {"type": _type(given.name, target)}
    return {"value": int(given.text) if isinstance(given, forms.Size) else given.value}


def _type(name: str, target: Target) -> str:
    return torch_name(target.fp8 if name == TARGET_FP8 else name)


@dataclass(frozen=True, slots=True)
class Work:
    """What is compiled for: a target, with the AITER in ``tree`` (its ``version``) and the FlyDSL of ``compiler``. ``linker``:
    the words of one; ``salt``: what it and its flags are.
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
    target = work.target
    with tempfile.TemporaryDirectory(prefix="flydsl-seed-") as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        request.write_text(
            json.dumps(
                {
                    "tree": str(work.tree), "target": target.name, "compute_units": target.compute_units,
                    "linker": list(work.linker), "store": str(store.resolve()), "salt": work.salt,
                    "calls": calls_of(work.root, target, only),
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
    """What a child ``told``, with the files that it left in the store. ``version``: of AITER's tree."""
    found = []
    for key, stored in sorted(told["kernels"].items()):
        entry, parts = store.get(stored), told["parts"][key]
        if entry is not None:
            found.append(Seed(key, parts["function"], {TEXT: entry.path.read_bytes()}, parts))
    return Seeds(
        TOOL, target, (told["flydsl"],), (version,), tuple(found), ("flydsl", "aiter"),
        {"flydsl": told["flydsl"]["version"]}, (FILE, "build_tools/seed/flydsl_seed.py"),
    )  # fmt: skip

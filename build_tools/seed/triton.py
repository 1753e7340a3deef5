"""Seeds of Triton's cache: what AITER's own functions would have compiled at their first call, for one target.

A child calls them for each tree of AITER (``triton_seed.py``); what it compiles is kept in the store by the key of Triton's
cache. What a tree has and this Triton refuses is left out, and the caller is told.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.built import CHILD_PATH
from build_tools.compile.backends.heap import steady
from build_tools.compile.store import Store
from build_tools.errors import ToolchainError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.pack.cache_wheel import Seed, Seeds
from build_tools.seed import triton_calls
from build_tools.shapes.models import MODELS
from build_tools.tools.toolchain import Toolchain
from build_tools.tools.tree import Tree, tree_of

_CHILD: Final = "build_tools.seed.triton_seed"
_TIMEOUT: Final = 3600.0
#: AITER's Triton files, and what they import of the rest.
_FOLDERS: Final = ("aiter:package/ops/triton", "aiter:package/jit/utils")
#: What the child needs beside the toolchain.
NEEDS: Final = ("torch",)


@dataclass(frozen=True, slots=True)
class Seeded:
    """The outcome of a target's calls.

    ``problems``: calls that no tree could make, and kernels that did not compile.
    """

    seeds: Seeds
    problems: tuple[str, ...]
    compiled: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Target:
    """The facts of a target on which a seed depends.

    ``fp8``: its own, as manifests name it.
    """

    name: str
    fp8: str
    compute_units: int


@dataclass(frozen=True, slots=True)
class Compiler:
    """A build of Triton: the Python that has it, and the folder of packages from which it is taken instead, or ""."""

    python: str
    packages: str = ""


def compiler_of(place: Path, toolchain: Toolchain, package: str = "triton") -> Compiler:
    """Find the compiler that ``wheels --triton`` or ``--flydsl`` names.

    It is a Python, or a folder of packages.

    Raises:
        ToolchainError: it is neither.
    """
    if (place / package / "__init__.py").is_file():
        return Compiler(toolchain.python, str(place.resolve()))
    if place.is_file():
        return Compiler(str(place.absolute()))
    raise ToolchainError(
        f"take {package} from {place}",
        f"it is no Python, and no folder with a package {package}",
        f"Make one: pip install --no-deps --target FOLDER {package}==VERSION",
    )


def missing() -> tuple[str, ...]:
    """List the missing packages that AITER's functions need."""
    return tuple(name for name in NEEDS if importlib.util.find_spec(name) is None)


def trees(root: Path) -> tuple[Tree, ...]:
    """Return the pinned tree of AITER, and the checkout that ``AITER_DIR`` names."""
    named = tree_of("aiter", root)
    pinned = Tree(named.pin, named.cache, None)
    return (pinned,) if named.pinned else (pinned, named)


def seeds(
    root: Path, target: Target, toolchain: Toolchain, store: Path, others: Sequence[Compiler] = ()
) -> Seeded:
    """Call, and compile what the store lacks, with the toolchain's Triton and ``others``.

    Raises:
        ToolchainError: a Triton is none of the manifest's versions, or the child failed, with its words.
        ManifestError, FetchError: the manifest or a tree of AITER cannot be read.
    """
    places = trees(root)
    answers = [
        _child_answer(Work(root, target, toolchain, store), compiler, tree)
        for compiler in (Compiler(toolchain.python), *others)
        for tree in places
    ]
    _refuse_unknown(root, target, answers)
    found = Store(store)
    rows = {seed.key: seed for answer in answers for seed in _seeds(answer, found)}
    builds = {json.dumps(build, sort_keys=True) for answer in answers for build in answer["builds"]}
    return Seeded(
        Seeds(
            tool="triton",
            target=target.name,
            builds=tuple(json.loads(build) for build in sorted(builds)),
            trees=tuple(f"{tree.pin.distribution} {tree.version}" for tree in places),
            seeds=tuple(rows[key] for key in sorted(rows)),
            licences=("triton", "aiter"),
            tools={"triton": toolchain.pins.tools["triton"].version, "aiter": places[-1].version},
            sources=(triton_calls.FILE, MODELS),
        ),
        tuple(_problems(answers)),
        sum(answer["compiled"] for answer in answers),
        sum(answer["seconds"] for answer in answers),
    )


def _refuse_unknown(root: Path, target: Target, answers: Sequence[Mapping[str, Any]]) -> None:
    wanted = triton_calls.read(root).versions
    for version in (answer["builds"][0]["version"] for answer in answers):
        if version not in wanted:
            raise ToolchainError(
                f"fill Triton's cache for {target.name}",
                f"this is Triton {version}, {triton_calls.FILE} asks for {', '.join(wanted)}",
                f"Name {version} there",
            )


@dataclass(frozen=True, slots=True)
class Work:
    """The inputs that all children of a target share."""

    root: Path
    target: Target
    toolchain: Toolchain
    store: Path


def _child_answer(work: Work, compiler: Compiler, tree: Tree) -> dict[str, Any]:
    target, toolchain = work.target, work.toolchain
    with tempfile.TemporaryDirectory(prefix="triton-seed-") as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        request.write_text(
            json.dumps(
                {
                    "target": target.name,
                    "fp8": triton_calls.torch_name(target.fp8),
                    "compute_units": target.compute_units,
                    "tree": str(_importable(tree)),
                    "store": str(work.store.resolve()),
                    "salt": _salt(toolchain),
                    "environments": triton_calls.read(work.root).environments,
                    "same": [group.libraries for group in triton_calls.read(work.root).same],
                    "calls": triton_calls.requests(work.root, target.name, target.fp8),
                }
            ),
            encoding="utf-8",
        )
        environment = {
            **CHILD_PATH,
            **steady(toolchain),
            # Line numbers would bring paths; a code object is all that is kept of a compile.
            "TRITON_DISABLE_LINE_INFO": "1",
            "TRITON_HOME": folder,
            "TRITON_CACHE_DIR": f"{folder}/cache",
            "OMP_NUM_THREADS": "1",
        }
        if compiler.packages:
            environment["PYTHONPATH"] = os.pathsep.join((compiler.packages, environment["PYTHONPATH"]))
        words: list[str | Path] = [compiler.python, "-m", _CHILD, request, answer]
        outcome = run(words, cwd=work.root, env=environment, timeout=_TIMEOUT)
        if not outcome.ok or not answer.is_file():
            raise ToolchainError(
                f"fill Triton's cache for {target.name} with kernels of {tree.pin.distribution} {tree.version}",
                f"{outcome.describe()}\n{outcome.output}",
                "Mend what it says",
            )
        told: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return told


def _importable(tree: Tree) -> Path:
    """Return the folder from which ``aiter.ops.triton`` is imported."""
    for name in _FOLDERS:
        found = tree.below(name)
    return next(parent.parent for parent in found.parents if parent.name == "aiter")


def _salt(toolchain: Toolchain) -> str:
    """Hash how kernels are compiled here.

    A kept kernel depends on it beside its key of Triton's cache.
    """
    code = [
        Path(__file__).with_name("triton_seed.py"),
        Path(__file__).parents[1] / "compile" / "backends" / "child.py",
    ]
    return "\n".join([*map(sha256_file, code), toolchain.identity_of("triton")])


def _seeds(answer: Mapping[str, Any], store: Store) -> list[Seed]:
    rows = []
    for key, kept in sorted(answer["kernels"].items()):
        entry = store.get(kept)
        if entry is None:
            raise ToolchainError(
                "read a kernel that was just compiled", f"the store has no {kept}", "Run the command again"
            )
        told, parts = entry.extra["told"].encode(), answer["parts"][key]
        name = parts["function"].rpartition(".")[2][:150]
        files = {f"{name}.hsaco": entry.path.read_bytes(), f"{name}.json": told}
        rows.append(Seed(key, parts["function"], files, parts, tuple(answer["aliases"][key])))
    return rows


def _problems(answers: list[dict[str, Any]]) -> list[str]:
    """List calls that no tree could make, and failed kernels."""
    made = {row["label"] for answer in answers for row in answer["calls"] if not row["error"]}
    why = {
        row["name"]: row["error"]
        for answer in answers
        for row in answer["calls"]
        if row["label"] not in made and row["error"] != "this tree has no such function"
    }
    failed = {
        f"{answer['parts'][key]['function']}: {error.strip().splitlines()[-1]}"
        for answer in answers
        for key, error in answer["failed"].items()
    }
    return [*(f"{name}: {error}" for name, error in sorted(why.items())), *sorted(failed)]

"""State of everything that a receipt of an operator depends on, by meaning.

A receipt names the state under which its calls were right. The state covers:

- the operator's calls on the target (``cases.toml``), and how far its kernels may read behind an end;
- its function in ``reference.py`` and the draws of its inputs, with everything that they use;
- its hand-written function, if it has one, with the helpers that it uses;
- the code that makes calls, executes them and compares results.

Code counts by what it does (``contract/code_graph.py``): comments, docstrings, layout, renames and moves change no state.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from aiter_prebuilt.contract.code_graph import CodeGraph
from aiter_prebuilt.contract.code_text import Definition
from aiter_prebuilt.contract.judging import judging

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The files of a family.
REFERENCE: Final = "reference.py"
CASES: Final = "cases.toml"
_OPERATORS: Final = "operators.toml"
_TARGETS: Final = "targets.toml"
#: Functions that are written by hand: their package, and its folder below the folder that holds the manifests.
_FUNCTIONS: Final = "aiter_prebuilt.ops"
_FOLDER: Final = "src/aiter_prebuilt/ops"
#: All functions have these: they turn arguments and refuse, and compute nothing.
_COMMON: Final = ("aiter_prebuilt.ops._common", "aiter_prebuilt.ops._traced")
PACKAGE: Final = Path(__file__).resolve().parents[2] / "src" / "aiter_prebuilt"
#: Makes a call from its words: inputs, expected results, bytes.
MAKERS: Final = (("build_tools.cases.make", "question_of"), ("build_tools.cases.make", "call_of"))
#: Modules that these use for the words of errors alone.
_NOT_JUDGING: Final = ("build_tools.errors", "build_tools.manifest.*", "aiter_prebuilt.errors")
DRAWS: Final = "build_tools.cases.draw"
#: The draw of a float tensor whose call names none.
_USUAL: Final = "normal"
#: Hexadecimal digits: enough to tell the states of one operator apart.
_DIGITS: Final = 16
#: How a call says on which targets it is made (``words.py``).
_ONLY: Final = "targets="
#: How it says that it is made where the build read a source tree.
_TREE: Final = "tree="
#: A family, one of its operators, a target.
State: TypeAlias = tuple[str, str, str]


def meanings(folder: Path) -> dict[State, str]:
    """Hash the state of every operator on every target.

    Args:
        folder: ``manifests``. A family that cannot be read has no states: lint says why.
    """
    found: dict[State, str] = {}
    try:
        targets = tomllib.loads((folder / _TARGETS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return found
    functions = function_code(folder.parent)
    for path in folder.glob(f"*/{CASES}"):
        try:
            for name, digests in _family(path.parent, [*_tables(targets)], functions).items():
                found |= {(path.parent.name, name, target): digest for target, digest in digests.items()}
        except (OSError, SyntaxError, ValueError, LookupError, AttributeError, TypeError):
            continue
    return found


def _tables(targets: Mapping[str, Any]) -> Iterator[str]:
    return (name for name, facts in targets.items() if isinstance(facts, dict))


def _family(folder: Path, targets: Sequence[str], functions: CodeGraph) -> dict[str, dict[str, str]]:
    """Operator -> target -> the digest of its state."""
    cases, operators = (
        tomllib.loads((folder / name).read_text(encoding="utf-8")) for name in (CASES, _OPERATORS)
    )
    rows = operators.get("operators", {})
    formulas = formula_digests(folder.name, (folder / REFERENCE).read_text(encoding="utf-8"), cases)
    kernels = operators.get("kernels", {})
    # How far kernels may read: with less of it they were not executed.
    behind = {kernel: row["slack"] for kernel, row in kernels.items() if row.get("slack")}
    found = {}
    for name in rows.keys() & cases.keys() & formulas.keys():
        parts = [formulas[name], *judges()]
        if behind:
            parts.append(json.dumps(behind, sort_keys=True))
        if function := function_file(rows, name):
            parts.append(functions.digest([function_root(functions, function, name)]))
        found[name] = {
            target: _named([json.dumps(_row_for_target(cases[name], target), sort_keys=True), *parts])
            for target in targets
        }
    return found


def _row_for_target(row: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Select the part of an operator's cases that counts on ``target``.

    Calls of other targets do not count, nor do those of a source tree that a build may leave out, which the receipts name. Nor do
    inputs that need not be noticed, nor refused calls: they change no call, and are asked for each time.
    """
    always = row.get("default", "").split()
    left_out = set(row.get("except", {}).get(target, ()))
    calls = [
        text
        for text in row["calls"]
        if _made([*text.split(), *always], target) and left_out.isdisjoint(text.split())
    ]
    rest = {key: value for key, value in row.items() if key not in ("except", "insensitive", "refused")}
    return {**rest, "calls": calls}


def _made(words: Iterable[str], target: str) -> bool:
    """Is a call of these words made on ``target``? The first that says where counts."""
    every = list(words)
    if any(word.startswith(_TREE) for word in every):
        return False
    said = next((word for word in every if word.startswith(_ONLY)), None)
    return said is None or target in said.removeprefix(_ONLY).split(",")


def function_file(rows: Mapping[str, Any], name: str) -> str | None:
    """Find the module of an operator's hand-written function: its own key, or the one that it takes over with ``like``."""
    for _ in rows:  # no chain is longer; the parser refuses a circle
        row = rows.get(name, {})
        if "function" in row or "like" not in row:
            return str(row["function"]) if "function" in row else None
        name = row["like"]
    return None


def formula_digests(family: str, text: str, cases: Mapping[str, Any]) -> dict[str, str]:
    """Hash the references of a family.

    Args:
        family: its name.
        text: its ``reference.py``.
        cases: operator -> its table of ``cases.toml``.

    Returns:
        Operator -> digest of its function, of the draws of its inputs, and of all that these use.

    Raises:
        SyntaxError, ValueError: the text is no Python.
    """
    code, module = judge_code(), reference_module(family)
    code.add(module, text)
    names = cases.keys() & {*code.names(module)}
    return {name: code.digest(formula_roots(code, module, name, cases[name])) for name in names}


def reference_module(family: str) -> str:
    """Name a family's ``reference.py`` in the graph."""
    return f"manifests.{family}.reference"


def formula_roots(code: CodeGraph, module: str, name: str, row: Mapping[str, Any]) -> list[Definition]:
    """List what an operator's expected results start from: its reference, and the draws that its calls name."""
    known = {*code.names(module), *code.imports(module)}
    draws = sorted(_drawn(row))
    return [
        (module, name),
        *((module, f"draw_{draw}") if f"draw_{draw}" in known else (DRAWS, draw) for draw in draws),
    ]


def _drawn(row: Mapping[str, Any]) -> set[str]:
    """Name the distributions of an operator's inputs."""
    texts = [row.get("default", ""), row.get("golden", ""), *row["calls"]]
    words = (word.partition("~") for text in texts for word in text.split())
    return {_USUAL, *(how.partition(":")[0] for _, sign, how in words if sign)}


def function_code(root: Path) -> CodeGraph:
    """Open the hand-written functions of a repository."""
    return CodeGraph({_FUNCTIONS: root / _FOLDER}, _COMMON)


def function_root(code: CodeGraph, module: str, name: str) -> Definition:
    """Find the hand-written function of an operator; its whole module where that does not define the name."""
    place = f"{_FUNCTIONS}.{module}"
    return (place, name if name in code.names(place) else "")


def _named(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


@cache
def judge_code() -> CodeGraph:
    """Open the code that references and draws use."""
    return CodeGraph(
        {"build_tools": Path(__file__).parents[1], "aiter_prebuilt": PACKAGE},
        _NOT_JUDGING,
        [(DRAWS, "BUILT_IN")],
    )


@cache
def judges() -> tuple[str, str]:
    """Hash what makes the inputs and the expected results of every call, and what executes and compares."""
    return judge_code().digest(MAKERS), judging(PACKAGE)

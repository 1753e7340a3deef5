"""What voids a receipt: a change of what its proof does, and nothing else. Tried on every file that a receipt reads."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiter_prebuilt.contract.code_graph import CodeGraph
from aiter_prebuilt.contract.code_text import Definition
from aiter_prebuilt.contract.judging import ENTRY, judge_graph
from build_tools.cases import receipt_state
from build_tools.cases.receipt_state import (
    DRAWS,
    MAKERS,
    PACKAGE,
    formula_roots,
    function_code,
    function_root,
    reference_module,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = sorted(path.parent.name for path in (ROOT / "manifests").glob("*/cases.toml"))


def table(family: str, name: str) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = tomllib.loads((ROOT / "manifests" / family / name).read_text())
    return found


class Proofs:
    """The code of all proofs: graph, and roots of each operator in it."""

    def __init__(self) -> None:
        self.roots: dict[str, list[tuple[CodeGraph, list[Definition]]]] = {}
        judge, functions, code = judge_graph(PACKAGE), function_code(ROOT), receipt_state.judge_code()
        self.graphs = [judge, functions, code]
        for family in FAMILIES:
            module = reference_module(family)
            code.add(module, path_of(module).read_text())
            rows = table(family, "operators.toml")["operators"]
            for name, row in table(family, "cases.toml").items():
                if name in rows:
                    mine = [
                        (judge, [ENTRY]),
                        (code, [*MAKERS]),
                        (code, formula_roots(code, module, name, row)),
                    ]
                    if file := receipt_state.function_file(rows, name):
                        mine.append((functions, [function_root(functions, file, name)]))
                    self.roots[f"{family}.{name}"] = mine

    def states(self) -> dict[str, tuple[str, ...]]:
        known: dict[tuple[int, Definition], str] = {}

        def digest(graph: CodeGraph, roots: list[Definition]) -> str:
            key = (id(graph), roots[0])
            if key not in known:
                known[key] = graph.digest(roots)
            return known[key]

        return {name: tuple(digest(*each) for each in mine) for name, mine in self.roots.items()}

    def users(self, where: Definition) -> set[str]:
        return {
            name
            for name, mine in self.roots.items()
            if any(where in graph.reachable(roots) for graph, roots in mine)
        }

    def reached(self) -> dict[str, set[str]]:
        """Module -> the names in it that proofs reach."""
        found: dict[str, set[str]] = {}
        for mine in self.roots.values():
            for graph, roots in mine:
                for module, name in graph.reachable(roots):
                    found.setdefault(module, set()).add(name)
        return found

    def replace(self, module: str, text: str) -> None:
        for graph in self.graphs:
            if graph.names(module):
                graph.add(module, text)


@pytest.fixture(scope="module")
def proofs() -> Proofs:
    return Proofs()


def path_of(module: str) -> Path:
    package, _, rest = module.partition(".")
    base = ROOT / ("src/aiter_prebuilt" if package == "aiter_prebuilt" else package)
    return base / f"{rest.replace('.', '/')}.py"


def with_other_prose(text: str) -> str:
    """Another docstring and another comment for each definition, and other line breaks."""
    lines = text.splitlines()
    places = [
        (node.body[0].lineno, node.body[0].end_lineno or 0, node.body[0].col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node)
    ]
    for first, last, column in sorted(places, reverse=True):
        lines[first - 1 : last] = [
            f'{" " * column}"""Another text."""',
            "",
            f"{' ' * column}# Another comment.",
        ]
    return "\n\n".join(["# Another comment.", *"\n".join(lines).split("\n\n")])


def constants(tree: ast.Module, names: set[str]) -> Iterator[tuple[str, ast.Constant]]:
    """Numbers in definitions of ``names``; not in the words of an error."""
    for statement in tree.body:
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        name = getattr(statement, "name", None) or getattr(targets[0], "id", None)
        if name in names:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                    yield str(name), node


def with_constant(text: str, node: ast.Constant) -> str:
    lines = text.splitlines(keepends=True)
    line = lines[node.lineno - 1].encode()
    changed = line[: node.col_offset] + f"({node.value!r} + 1)".encode() + line[node.end_col_offset :]
    lines[node.lineno - 1] = changed.decode()
    return "".join(lines)


def test_reads_the_files_that_it_should(proofs: Proofs) -> None:
    assert {
        "aiter_prebuilt.execute.run", "aiter_prebuilt.execute.judge", "aiter_prebuilt.execute.values",
        "aiter_prebuilt.devices.device_memory", "build_tools.cases.near", "build_tools.cases.interval", DRAWS,
    } <= proofs.reached().keys()  # fmt: skip


def test_prose_and_layout_void_nothing(proofs: Proofs) -> None:
    before = proofs.states()
    texts = {module: path_of(module).read_text() for module in proofs.reached()}
    for module, text in texts.items():
        changed = with_other_prose(text)
        assert changed != text
        proofs.replace(module, changed)
    after = proofs.states()
    for module, text in texts.items():
        proofs.replace(module, text)
    assert after == before


def test_a_constant_voids_exactly_what_uses_it(proofs: Proofs) -> None:
    before = proofs.states()
    tried = 0
    for module, names in proofs.reached().items():
        text = path_of(module).read_text()
        name, node = next(constants(ast.parse(text), names), ("", ast.Constant(0)))
        if not name:
            continue
        users = proofs.users((module, name))
        proofs.replace(module, with_constant(text, node))
        after = proofs.states()
        proofs.replace(module, text)
        assert users and {each for each in before if before[each] != after[each]} == users, (module, name)
        tried += 1
    assert tried > len(proofs.reached()) / 2


def test_a_draw_voids_the_operators_whose_calls_name_it(proofs: Proofs) -> None:
    users = proofs.users((DRAWS, "zero_rows"))
    said = {
        f"{family}.{name}"
        for family in FAMILIES
        for name, row in table(family, "cases.toml").items()
        if "~zero_rows" in str(row)
    }
    assert users == said and 0 < len(said) < len(proofs.roots) / 2

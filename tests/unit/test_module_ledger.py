"""The ledger of modules: which functions operators serve, and what lint says of reasons."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from support import made_manifest, repository, upstream

import aiter_prebuilt
from build_tools.__main__ import cli
from build_tools.errors import ManifestError
from build_tools.manifest.model import Manifest
from build_tools.manifest.parse import load
from build_tools.modules.read import Modules, read
from build_tools.report import module_problems, module_reasons
from build_tools.report.ledger import Ledger, Line
from build_tools.report.module_reasons import FILE, Reason, Reasons
from build_tools.report.modules import Elsewhere, ModuleLedger, PlaceLine, Served, compute
from build_tools.report.modules_view import render

ROOT = Path(__file__).resolve().parents[2]
#: one_add has its own module; both is AITER's Python function that calls functions of two; two_size has moved from module_gone.
OPERATORS = """
[operators.both]
like = "one_add"
module = "module_two_asm"
[operators.two_size]
like = "one_add"
module = "module_gone"
[operators.outer]
like = "one_add"
module = "aiter.three"
"""
#: The operators' options of which some values are covered.
LIMITED = ("mode", "fast")
EXPLAINED = (
    "module_three", "module_three_tune", "module_tiles", "module_mixed", "module_core", "module_blas", "libtiles", "module_opus",
)  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    return read(ROOT, str(upstream.checkout(tmp_path_factory.mktemp("aiter"))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manifests = made_manifest.placed(tmp_path)
    text = made_manifest.GOOD.replace("operators.scale", "operators.one_add").replace(
        "module_norm", "module_one"
    )
    (manifests / "norm/operators.toml").write_text(text + OPERATORS)
    return manifests


@pytest.fixture
def manifest(folder: Path) -> Manifest:
    return load(folder)


def line(kernel: str, target: str, entries: int, *unproved: str) -> Line:
    return Line("norm", "one_add", kernel, "triton", "ck-free", target, entries, unproved)


def reasons(*patterns: str, newer: tuple[str, ...] = ()) -> Reasons:
    said = [Reason(covers=[each], reason=f"because of {each}") for each in patterns]
    return Reasons((*said, *(Reason(newer=[each], reason="newer") for each in newer)))


BUILT = Ledger(
    (
        line("scale", "gfx942", 2),
        line("other", "gfx942", 1, "entry"),
        line("scale", "gfx950", 0),
    )
)


def test_an_operator_serves_its_function_and_those_that_aiters_function_of_its_name_calls(
    tree: Modules, manifest: Manifest
) -> None:
    found = compute(tree, manifest, BUILT, reasons("module_three", "module_one.one_m*", "module_*"))
    by_name = {each.name: each for each in found.lines}
    add, mul = by_name["module_one"].functions
    assert (add.name, add.python, add.reason) == ("one_add", ("aiter.ops.one.one_add",), None)
    assert add.by == (Served("one_add", False, ("x", "y", "limit"), LIMITED),)
    assert (mul.by, mul.reason) == ((), "because of module_one.one_m*")
    assert by_name["module_one"].status == "partly served" and by_name["module_one"].reason is None
    two = {
        function.name: [each.operator for each in function.by]
        for function in by_name["module_two_asm"].functions
    }
    assert two == {"two_asm": ["both"], "two_size": ["two_size"], "two_gone": []}
    assert by_name["module_two_asm"].functions[0].by == (Served("both", True, ("x", "kind"), LIMITED),)
    assert [(each.name, each.reason) for each in found.lines if each.status == "not served"] == [
        ("module_three", "because of module_three"),
        ("module_three_tune", "because of module_*"),
        ("module_tiles", "because of module_*"),
        ("module_mixed", "because of module_*"),
        ("module_core", "because of module_*"),
        ("module_blas", "because of module_*"),
        ("libtiles", None),
        ("module_opus", "because of module_*"),
    ]
    assert found.unexplained() == ("libtiles",)
    assert found.elsewhere == (
        Elsewhere("outer", "aiter.three", ("module_one", "module_three", "module_two_asm")),
    )


def test_a_module_whose_functions_all_have_reasons_has_them(tree: Modules, manifest: Manifest) -> None:
    (all_of,) = [
        each for each in compute(tree, manifest, BUILT, reasons()).lines if each.name == "module_three"
    ]
    names = [f"module_three.{each.name}" for each in all_of.functions]
    assert all_of.reason is None and names
    for said, reason in ((names, "; ".join(f"because of {name}" for name in names)), (names[1:], None)):
        found = {each.name: each for each in compute(tree, manifest, BUILT, reasons(*said)).lines}
        assert found["module_three"].reason == reason


def test_a_function_of_another_module_is_not_served_where_its_own_is_there(
    tree: Modules, manifest: Manifest
) -> None:
    """module_opus has a function of the operator's name, too: it is another one."""
    opus = next(each for each in tree.modules if each.name == "module_opus")
    one = next(each for each in tree.modules if each.name == "module_one")
    both = replace(tree, modules=(one, replace(opus, functions=one.functions)))
    assert [each.served for each in compute(both, manifest, BUILT, Reasons()).lines] == [1, 0]
    moved = replace(tree, modules=(replace(opus, functions=one.functions),))
    assert [each.served for each in compute(moved, manifest, BUILT, Reasons()).lines] == [1]


def test_what_is_built_and_proved_stands_beside_it(tree: Modules, manifest: Manifest) -> None:
    found = compute(tree, manifest, BUILT, Reasons(classes=(("module_one", "asm"),)))
    one = found.lines[0]
    assert one.first == "asm" and one.kinds == ("hip",)
    assert one.places == (
        PlaceLine("one_add", "triton", "gfx942", {"tested": 1, "compiled": 1, "source only": 0}, 3, 2),
        PlaceLine("one_add", "triton", "gfx950", {"tested": 0, "compiled": 0, "source only": 1}, 0, 0),
    )
    assert [place.state for place in one.places] == ["compiled", "source only"]
    assert found.counts()["asm"] == {"served": 0, "partly served": 2, "replaced": 0, "not served": 1}
    document = found.as_json()
    assert document["total"] == {"served": 0, "partly served": 2, "replaced": 0, "not served": 8}
    assert document["functions"] == {"all": 9, "served": 3}
    assert document["modules"][0]["served_by"][0]["state"] == "compiled"
    json.dumps(document)


def test_a_module_that_a_class_of_ours_stands_for_is_replaced(tree: Modules, manifest: Manifest) -> None:
    said = Reasons(
        (Reason(covers=["module_core", "module_one"], instead=["Ours"], reason="one class calls it"),)
    )
    found = compute(tree, manifest, BUILT, said)
    by_name = {each.name: each for each in found.lines}
    assert (by_name["module_core"].status, by_name["module_core"].instead) == ("replaced", ("Ours",))
    assert by_name["module_one"].status == "partly served" and by_name["module_one"].instead == ()
    assert "module_core" not in found.unexplained() and "module_tiles" in found.unexplained()
    assert next(each for each in found.as_json()["modules"] if each["name"] == "module_core")["instead"] == [
        "Ours"
    ]
    assert "module_core: replaced by Ours: one class calls it" in shown(found)
    assert not [each for each in problems(tree, manifest, said) if "module_core" in each]


def test_what_replaces_a_module_is_public() -> None:
    names = [name for each in module_reasons.read(ROOT).reasons for name in each.instead]
    assert "CustomAllreduce" in names and set(names) <= set(aiter_prebuilt.__all__)


def shown(ledger: ModuleLedger, *only: str) -> str:
    console = Console(file=io.StringIO(), width=160)
    render(ledger, console, only)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_names_what_is_missing_and_why(tree: Modules, manifest: Manifest) -> None:
    found = compute(tree, manifest, BUILT, reasons("module_one.one_mul", "module_*"))
    text = shown(found)
    assert "module_one: not served: one_mul: because of module_one.one_mul" in text
    assert "module_two_asm: not served: two_gone: because of module_*" in text
    assert "libtiles: not served: nobody says why" in text
    assert "triton: gfx942 compiled 2/3; gfx950 source only 0/0" in text
    assert (
        "outer (aiter.three) stands for a Python function of AITER, which may load: module_one, module_three"
        in text
    )
    one = shown(found, "module_two_asm")
    assert (
        "two_asm: through both (without x, kind; certain values alone of mode, fast)" in one
        and "two_size: two_size (" in one
        and "module_one" not in one
    )


def problems(tree: Modules, manifest: Manifest, said: Reasons) -> list[str]:
    pinned = replace(tree, pinned=True)
    return module_problems.problems(pinned, compute(pinned, manifest, Ledger(()), said), manifest, said)


def test_every_module_has_its_reason_and_none_is_stale(tree: Modules, manifest: Manifest) -> None:
    gone = "manifests/norm/operators.toml: operators.two_size.module: the pinned tree has no module_gone"
    assert problems(tree, manifest, reasons(*EXPLAINED)) == [gone]
    assert problems(tree, manifest, reasons(*EXPLAINED[1:], "module_one.one_mul", newer=("module_none",))) == [
        f"{FILE}: nobody serves module_three, and no reason says why", gone,
    ]  # fmt: skip
    stale = reasons(*EXPLAINED, "module_one", "module_one.one_add", "module_none", newer=("module_tw*",))
    assert problems(tree, manifest, stale) == [
        f"{FILE}: 'module_one' covers nothing that is not served",
        f"{FILE}: 'module_one.one_add' covers nothing that is not served",
        f"{FILE}: 'module_none' covers nothing that is not served",
        f"{FILE}: 'module_tw*' is called newer, and the pinned tree has it",
        gone,
    ]
    said = reasons(*EXPLAINED)
    empty = replace(said, reasons=(*said.reasons, Reason(reason="words")))
    assert problems(tree, manifest, empty)[0] == f"{FILE}: a reason is about nothing: words"
    odd = replace(said, classes=(("module_one", "hip"), ("module_x", "hip"), ("module_two_asm", "hop")))
    assert problems(tree, manifest, odd) == [
        f"{FILE}: classes.module_one: its sources say hip, too",
        f"{FILE}: classes.module_x: the tree has no such module",
        f"{FILE}: classes.module_two_asm: 'hop' is none of tuning, blas, ck, ck_tile, asm, hip, pybind",
        gone,
    ]
    checkout = compute(tree, manifest, Ledger(()), Reasons())
    assert module_problems.problems(tree, checkout, manifest, Reasons()) == []  # a checkout may have anything


def test_a_module_that_has_nothing_of_its_operator_is_named(tree: Modules, folder: Path) -> None:
    path = folder / "norm/operators.toml"
    text = path.read_text().replace('module = "module_gone"', 'module = "module_opus"')
    where = "manifests/norm/operators.toml: operators"
    for name, words in (
        ("two_size", "which is in module_two_asm"),
        (
            "nobody",
            f'nor has AITER\'s Python side; if that is right, say why under [beyond] in {FILE}: nobody = "reason"',
        ),
    ):
        path.write_text(text.replace("operators.two_size", f"operators.{name}"))
        (line,) = problems(tree, load(folder), reasons(*EXPLAINED))
        assert line == f"{where}.{name}.module: module_opus has no {name}, {words}"
    said = replace(
        reasons(*EXPLAINED), beyond=(("nobody", "our own"), ("one_add", "ours, too"), ("gone", ""))
    )
    assert problems(tree, load(folder), said) == [
        f"{FILE}: beyond.{name}: the pinned tree has it, or nobody here" for name in ("one_add", "gone")
    ]
    path.write_text(
        text.replace("operators.two_size", "operators.alone")
    )  # a Python function that needs no module
    assert problems(tree, load(folder), reasons(*EXPLAINED)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("edition = 2", "edition 2 is not 1"),
        ("edition = ", "modules.toml: "),
        ("classes = {}", "edition: Field required"),
        ('edition = 1\n[[not_served]]\ncovers = ["a"]', "not_served.0.reason: Field required"),
        (
            'edition = 1\n[[not_served]]\ncovers = ["a"]\nreason = "r"\nwhy = "w"',
            "not_served.0.why: Extra inputs",
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path: Path, text: str, words: str) -> None:
    assert module_reasons.read(tmp_path) == Reasons()
    (tmp_path / "manifests").mkdir()
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ManifestError, match=words):
        module_reasons.read(tmp_path)


def test_the_verb_reads_a_checkout(tmp_path: Path) -> None:
    checkout = str(upstream.checkout(tmp_path / "aiter"))
    asked = ["report", "modules", "--aiter", checkout, "--bundles", str(tmp_path)]
    told = CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert told.exit_code == 0 and "AITER unpinned (AITER_DIR): 10 modules" in told.output
    document = json.loads(
        CliRunner().invoke(cli, [*asked, "--json", "module_opus"], catch_exceptions=False).output
    )
    assert document["version"] == 1 and [each["name"] for each in document["modules"]] == ["module_opus"]
    refused = CliRunner().invoke(cli, [*asked, "module_opsu"])
    assert "no module is called 'module_opsu' (did you mean 'module_opus'?)" in str(refused.exception)


def test_every_module_of_the_pinned_tree_is_served_or_has_its_reason() -> None:
    """What lint says, too: a later pin brings modules, and each of them is looked at."""
    assert (ROOT / FILE).is_file()
    assert module_problems.of_repository(repository.manifest(), ROOT) == []

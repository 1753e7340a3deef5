"""Tables as an axis of variants, sources of a tree, steps of several backends, zero fills, slack: right, and each wrong."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support import trees

from aiter_prebuilt.contract import records
from aiter_prebuilt.contract.bytecode import evaluate
from build_tools.cases.subject import subjects
from build_tools.compile.inputs import inputs_of
from build_tools.errors import ManifestError
from build_tools.manifest.parse import load
from build_tools.plan.plan import make_plan
from build_tools.records import Plan
from build_tools.tools import fetch

ROOT = Path(__file__).resolve().parents[2]

TABLE = """\
# tiles of a made-up family
knl_name,knl_file,tileM,tileN,kind
_ZN1a4k32xE,k32.co,32,64,plain

_ZN1a4k64xE,k64.co,64,64,plain
_ZN1a4k96xE,k96.co,96,64,odd
"""

GOOD = """
edition = 2

[kernels.tile]
backend = "asm"
targets = ["gfx942"]
source = "thing:hsa/{target}/gemm/{FILE}"
when = ["N % tileN == 0"]
cost = "cdiv(M, tileM)"
slack = { A = 256 }
variants_from = { table = "thing:hsa/{target}/gemm/gemm.csv", name = "{tileM}x{tileN}", rows = ["kind == 'plain'"] }
variants = { SPLIT = [1, 4] }

[[kernels.tile.steps]]
zero = "out"
if = "SPLIT > 1"

[[kernels.tile.steps]]
symbol = "{SYMBOL}"
demangled = "a::k{tileM}"
grid = ["N // tileN", "cdiv(M, tileM)", "SPLIT"]
block = [256]
slot = 16
args = ["ptr out", "ptr A", "f32 1.0", "f32 1 / sqrt(K) * log2(e)", "f32 scale * 2", "i32 1 << log2(SPLIT)"]

[operators.gemm]
python = "(A: Tensor, out: Tensor, scale: float = 1.0) -> None"
module = "module_gemm"
summary = "made up"
source = "nobody"
kernels = ["tile"]

[operators.gemm.arguments]
A = "bf16[M, K]"
out = "out f32[M, N]"
"""

SIZES = {"M": 100, "K": 64, "N": 128}
FILES = {
    "meta/hsa/gfx942/gemm/gemm.csv": TABLE.encode(),
    **{f"meta/hsa/gfx942/gemm/k{tile}.co": f"object {tile}".encode() for tile in (32, 64, 96)},
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path / "shelf"))
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("THING_DIR", raising=False)
    made = trees.repository(tmp_path / "repository", tmp_path / "shelf", FILES)
    for name in ("targets", "profiles", "catalogue"):
        shutil.copy(ROOT / "manifests" / f"{name}.toml", made / "manifests")
    for name in ("zero.hip", "common.hpp"):
        (made / "csrc/kernels/hip").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "csrc/kernels/hip" / name, made / "csrc/kernels/hip")
    (made / "manifests/gemm").mkdir()
    return made


def plan(root: Path, text: str = GOOD) -> Plan:
    (root / "manifests/gemm/operators.toml").write_text(text)
    return make_plan(load(root / "manifests"), root, inputs_of(root), (), ("gfx942",))


def operator(made: Plan) -> records.Operator:
    return next(each.operator for bundle in made.bundles for each in bundle.operators)


def problems(
    root: Path, *changes: tuple[str, str], table: str | None = None, shelf: Path | None = None
) -> str:
    text = GOOD
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    if table is not None:
        assert shelf is not None
        trees.repository(root, shelf, {**FILES, "meta/hsa/gfx942/gemm/gemm.csv": table.encode()})
    with pytest.raises(ManifestError) as caught:
        plan(root, text)
    return "\n".join(caught.value.problems)


def test_rows_are_variants_with_their_own_source_and_symbol(root: Path) -> None:
    made = plan(root)
    assert [recipe.variant for recipe in operator(made).recipes] == [
        "SPLIT1-32x64",
        "SPLIT1-64x64",
        "SPLIT4-32x64",
        "SPLIT4-64x64",
    ]
    jobs = {job.source: job for job in made.jobs}
    assert set(jobs) == {
        "csrc/kernels/hip/zero.hip",
        "thing:hsa/gfx942/gemm/k32.co",
        "thing:hsa/gfx942/gemm/k64.co",
    }
    job = jobs["thing:hsa/gfx942/gemm/k64.co"]
    assert (job.backend, job.symbol, job.demangled) == ("asm", "_ZN1a4k64xE", "a::k64")
    assert job.inputs == (job.source,) and job.constants == ()
    assert [(arg.kind, arg.offset, arg.role) for arg in job.args[:3]] == [
        ("ptr", 0, "out"),
        ("ptr", 16, "in"),
        ("f32", 32, ""),
    ]


def test_columns_stand_in_expressions(root: Path) -> None:
    recipe = operator(plan(root)).recipes[3]  # SPLIT4-64x64
    values = [SIZES.get(name, 0) for name in operator(plan(root)).slots]
    assert evaluate(recipe.conditions[0].code, values) == 1
    assert evaluate(recipe.cost, values) == 2
    assert [
        evaluate(code, values)
        for code in (recipe.steps[1].grid_x, recipe.steps[1].grid_y, recipe.steps[1].grid_z)
    ] == [2, 2, 4]


def test_a_zero_fill_is_a_launch_of_its_own_where_it_is_needed(root: Path) -> None:
    made = plan(root)
    values = [SIZES.get(name, 0) for name in operator(made).slots]
    alone, split = operator(made).recipes[0], operator(made).recipes[2]
    assert evaluate(alone.steps[0].grid_x, values) == 0
    assert evaluate(split.steps[0].grid_x, values) == -(-100 * 128 * 4 // 16384)
    zero = next(job for job in made.jobs if job.backend == "hip")
    assert (zero.symbol, [arg.kind for arg in zero.args]) == ("zero_bytes", ["ptr", "i64"])
    assert evaluate(split.steps[0].args[1].code, values) == 100 * 128 * 4


def test_floats_are_constant_computed_or_taken_from_the_call(root: Path) -> None:
    args = operator(plan(root)).recipes[0].steps[1].args
    assert [arg.kind for arg in args[2:5]] == [records.ARG_REAL] * 3
    assert len(args[2].code) == 9  # one number


def test_slack_is_known_to_the_calls(root: Path) -> None:
    plan(root)
    (subject,) = subjects(load(root / "manifests"))
    assert subject.slack == {"A": 256}


def test_the_name_of_a_table_alone_is_enough(root: Path) -> None:
    text = re.sub(r"variants_from = .*", 'variants_from = "thing:hsa/{target}/gemm/gemm.csv"', GOOD)
    assert [recipe.variant for recipe in operator(plan(root, text)).recipes][:3] == [
        "SPLIT1-tileM32tileN64", "SPLIT1-tileM64tileN64", "SPLIT1-tileM96tileN64",
    ]  # fmt: skip


def test_a_column_that_another_table_calls_otherwise_has_one_name_here(root: Path, tmp_path: Path) -> None:
    text = GOOD.replace("rows = [", 'rename = { tile_M = "tileM", tile_m = "tileM" }, rows = [')
    shown = problems(root, ("rows = [", 'rename = { tile_M = "tileM", tile_m = "tileM" }, rows = ['))
    assert "'tile_M' is not a column" in shown and "'tile_m' is not a column" in shown, "neither is there"
    for column in ("tile_M", "tile_m"):
        table = TABLE.replace("tileM", column).encode()
        trees.repository(root, tmp_path / "shelf", {**FILES, "meta/hsa/gfx942/gemm/gemm.csv": table})
        assert operator(plan(root, text)).recipes[0].variant == "SPLIT1-32x64"


def test_a_column_that_an_older_table_lacks_has_a_default(root: Path) -> None:
    text = GOOD.replace("rows = [\"kind == 'plain'\"]", 'rows = ["bias == 0"], defaults = { bias = 0 }')
    assert len(operator(plan(root, text)).recipes) == 6


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            "gemm.csv",
            "gem.csv",
            "variants_from: find|read thing:hsa/gfx942/gemm/gem.csv: there is no such file",
        ),
        (
            "{target}/gemm/gemm.csv",
            "{arch}/gemm/gemm.csv",
            r"variants_from.table: .*\{arch\}, which is no constant",
        ),
        (
            "{tileM}x{tileN}",
            "{tileM}x{tileK}",
            r"variants_from.name: .*\{tileK\}, which is no constant \(did you mean 'tile",
        ),
        ("{tileM}x{tileN}", "{tileN}", "variants_from.name: .*two rows are called '64': say more in name"),
        (
            "kind == 'plain'",
            "kind == 'none'",
            "variants_from.rows: no row of thing:hsa/gfx942/gemm/gemm.csv is left",
        ),
        ("kind == 'plain'", "sort == 'plain'", r"variants_from.rows\[0\]: .*sort"),
        (
            'name = "{tileM}x{tileN}"',
            'rename = { tileQ = "Q" }',
            "variants_from.rename: 'tileQ' is not a column .*did you mean",
        ),
        (
            'name = "{tileM}x{tileN}"',
            'rename = { tileN = "tileM" }',
            "variants_from.rename: .*two columns 'tileM'",
        ),
        ('name = "{tileM}x{tileN}"', "colour = 1", r"variants_from.*colour: unknown key"),
        ("{FILE}", "{CO}", r"source: .*\{CO\}, which is no constant"),
        ("{FILE}", "k7.co", "there is no thing:hsa/gfx942/gemm/k7.co"),
        ("thing:hsa/{target}/gemm/{FILE}", "thing:has/{FILE}", "source: thing has no root 'has'"),
        ("thing:hsa/{target}/gemm/{FILE}", "other:hsa/{FILE}", "source: there is no source tree 'other'"),
        ('"{SYMBOL}"', '"{NAME}"', r"symbol: .*\{NAME\}, which is no constant"),
        ('backend = "asm"', 'backend = "hip"', "backend 'hip' takes no source of a source tree"),
        ('zero = "out"', 'zero = "A"', r"steps\[0\].zero: 'A' is only read"),
        ('zero = "out"', 'zero = "oud"', r"steps\[0\].zero: 'oud' is not a tensor .*did you mean 'out'"),
        ('zero = "out"', 'zero = "workspace"', r"steps\[0\].zero: the kernel has no workspace to fill"),
        (
            'zero = "out"',
            'zero = "out"\nblock = [64]',
            r"steps\[0\].block: a step with zero has no other key than if",
        ),
        ("out f32[M, N]", "out f32[M, N] strides [row, 1]", r"steps\[0\].zero: 'out' need not be contiguous"),
        ('if = "SPLIT > 1"', 'if = "SPLIT > Q"', r"steps\[0\].grid\[0\]: unknown name 'Q'"),
        ('symbol = "{SYMBOL}"\n', "", r"steps\[1\].symbol: is missing"),
        ("slack = { A = 256 }", "slack = { B = 256 }", "slack.B: 'B' is no tensor that is passed"),
        ("slack = { A = 256 }", "slack = { A = 0 }", "slack.A: "),
        ("f32 1.0", "f32 one", "args.2.: 'one' is not a float attribute"),
        ("f32 scale * 2", "f32 scale // 2", "FloorDiv is not part of the language of real numbers"),
        ("log2(e)", "log2(M)", r"log2\(\) is for constants only"),
    ],
)
def test_what_is_wrong_is_said(root: Path, before: str, after: str, words: str) -> None:
    found = problems(root, (before, after))
    assert re.search(words, found), found


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("# nothing\n", "has no row"),
        ("knl_name,knl_file,tileM,tileN,kind\n", "has no row"),
        (
            TABLE.replace("_ZN1a4k64xE,k64.co,64,64,plain", "_ZN1a4k64xE,k64.co,64,64"),
            "line 5: 4 cells under 5 columns",
        ),
        (TABLE.replace("tileM,tileN", "tile-M,tileN"), "column 'tile-M' of .* can be no constant: rename it"),
        (TABLE.replace("kind", "name"), "column 'name' of .* can be no constant"),
    ],
)
def test_a_table_that_is_wrong(root: Path, tmp_path: Path, table: str, words: str) -> None:
    found = problems(root, table=table, shelf=tmp_path / "shelf")
    assert re.search(words, found), found


def test_what_a_checkout_lacks_is_left_out_and_named(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkout/hsa/gfx942/gemm"
    folder.mkdir(parents=True)
    (folder / "gemm.csv").write_text(TABLE.replace("knl_file", "co_name"))
    (folder / "k32.co").write_bytes(b"newer")
    monkeypatch.setenv("THING_DIR", str(tmp_path / "checkout"))
    made = plan(root)
    assert made.missing == ("thing:hsa/gfx942/gemm/k64.co: there is no such file",)
    assert [recipe.variant for recipe in operator(made).recipes] == ["SPLIT1-32x64", "SPLIT4-32x64"]
    (folder / "gemm.csv").unlink()
    made = plan(root)
    assert made.jobs == () and "gemm.csv" in made.missing[0]


@pytest.mark.parametrize(
    ("before", "after", "reason", "entry", "left"),
    [
        ("k64.co,64,64,plain", "k64.co,64,64", "line 5: 4 cells under 5 columns", "", 0),
        ("tileM,tileN", "tile-M,tileN", "column 'tile-M' of", "", 0),
        ("k64.co,64,64", "k64.co,many,64", "tileM", "gfx942-asm-gemm.tile-SPLIT1-32x64", 0),
    ],
)
def test_a_row_of_a_checkout_that_does_not_fit_is_left_out_and_the_rest_is_not(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, reason: str, entry: str, left: int
) -> None:  # fmt: skip
    """In the pinned tree the same is wrong in the manifest."""
    folder = tmp_path / "checkout/hsa/gfx942/gemm"
    folder.mkdir(parents=True)
    (folder / "gemm.csv").write_text(TABLE.replace(before, after))
    for tile in (32, 64):
        (folder / f"k{tile}.co").write_bytes(b"newer")
    found = problems(root, table=TABLE.replace(before, after), shelf=tmp_path / "shelf")
    assert reason in found
    monkeypatch.setenv("THING_DIR", str(tmp_path / "checkout"))
    made = plan(root)
    assert reason in made.left_out[0].reason and made.left_out[0].entry == entry, made.left_out
    assert made.left_out[0][2:5] == ("gemm", "gfx942", "ck-free")
    assert sum(len(each.operator.recipes) for bundle in made.bundles for each in bundle.operators) == left

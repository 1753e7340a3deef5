"""Rows that an upstream measured: imported, matched with kernels, and those that name nothing said with the reason."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import trees

from aiter_prebuilt.contract import records
from build_tools.__main__ import cli
from build_tools.compile.inputs import inputs_of
from build_tools.errors import ManifestError
from build_tools.manifest.parse import load
from build_tools.pipeline.bundling import sources_of
from build_tools.plan.measured import kind_of
from build_tools.plan.plan import make_plan
from build_tools.records import MeasuredTable, Plan
from build_tools.report.measured import compute
from build_tools.tools import fetch, tree
from build_tools.verbs import options

ROOT = Path(__file__).resolve().parents[2]

KERNELS = "knl_name,knl_file,tileM\n_ZN1a4k32xE,k32.co,32\n_ZN1a4k64xE,k64.co,64\n"
ROWS = """\
cu_num,M,N,K,libtype,splitK,us,kernelName
80,64,128,256,asm,4,3.5,_ZN1a4k32xE
304,64,128,256,asm,8,3.1,_ZN1a4k64xE
256,64,128,256,asm,8,3.1,_ZN1a4k64xE
80,128,128,256,asm,2,5.0,_ZN1a5k128xE
80,100,128,256,asm,5,5.0,_ZN1a4k64xE
80,64,128,256,asm,4,3.4,_ZN1a4k64xE
80,32,128,256,other,0,9.0,
"""

GOOD = """
edition = 2

[kernels.tile]
backend = "asm"
targets = ["gfx942"]
source = "thing:hsa/{target}/gemm/{FILE}"
symbol = "{SYMBOL}"
cost = "cdiv(M, tileM)"
grid = ["cdiv(M, tileM)"]
block = [256]
let.parts = "parts_wanted if parts_wanted else CUS // (cdiv(M, tileM) * 10)"
args = ["ptr out", "ptr A", "i32 parts"]
variants_from = { table = "thing:hsa/{target}/gemm/gemm.csv", name = "{tileM}" }
measured = { name = { kernelName = "{SYMBOL}" }, equal = { splitK = "parts" } }

[operators.gemm]
python = "(A: Tensor, out: Tensor, parts_wanted: int = 0) -> None"
module = "module_gemm"
summary = "made up"
source = "nobody"
kernels = ["tile"]

[operators.gemm.arguments]
A = "bf16[M, K]"
out = "out f32[M, N]"

[operators.gemm.tuned_from]
tables = ["thing:configs/tuned.csv"]
cus = "cu_num"
dims = { M = "M", N = "N", K = "K" }
fixed = { parts_wanted = 0 }
rows = ["libtype == 'asm'"]
padded.M = ["cdiv(M, 16) * 16"]
"""

FILES = {
    "meta/hsa/gfx942/gemm/gemm.csv": KERNELS.encode(),
    "meta/hsa/gfx942/gemm/k32.co": b"object 32",
    "meta/hsa/gfx942/gemm/k64.co": b"object 64",
    "thing/configs/tuned.csv": ROWS.encode(),
    "thing/configs/model/other_tuned.csv": b"M,kernelName\n1,_ZN1aE\n2,template\n",
    "thing/configs/untuned.csv": b"M\n1\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path / "shelf"))
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("THING_DIR", raising=False)
    made = trees.repository(tmp_path / "repository", tmp_path / "shelf", FILES)
    for name in ("targets", "profiles", "catalogue"):
        shutil.copy(ROOT / "manifests" / f"{name}.toml", made / "manifests")
    (made / "manifests/gemm").mkdir()
    return made


def plan(root: Path, *changes: tuple[str, str], rows: str | None = None) -> Plan:
    text = GOOD
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    (root / "manifests/gemm/operators.toml").write_text(text)
    if rows is not None:
        trees.repository(root, root.parent / "shelf", {**FILES, "thing/configs/tuned.csv": rows.encode()})
    return make_plan(load(root / "manifests"), root, inputs_of(root), ("ck-free",), ("gfx942",))


def operator(made: Plan) -> records.Operator:
    return made.bundles[0].operators[0].operator


def spans(made: Plan) -> list[tuple[int, str, int, int]]:
    """(compute units, variant, first M, last M) of the tuned rows."""
    of = operator(made)
    return [
        (row.cus, of.recipes[row.recipe].variant, row.values[0], (row.last or row.values)[0])
        for row in of.tuned
    ]


def table(made: Plan) -> MeasuredTable:
    (found,) = made.measured
    return found


def test_a_padding_may_look_at_other_dims(root: Path) -> None:
    """K is 256 in the row, so the same as a multiple of 16."""
    padded = ("cdiv(M, 16) * 16", "cdiv(M, K // 16) * (K // 16)")
    assert spans(plan(root, padded)) == [(80, "32", 49, 64)]


def test_rows_become_tuned_rows_of_the_recipes_that_they_name(root: Path) -> None:
    made = plan(root)
    of = operator(made)
    assert [of.slots[slot] for slot in of.tuned_slots] == ["M", "N", "K", "parts_wanted"]
    # 80 units and 32 rows a tile: 4 parts with two tiles, as measured, from 33 on; 304 units: 30 parts, not 8
    assert spans(made) == [(80, "32", 49, 64)]
    assert of.tuned[0].values == (49, 128, 256, 0) and of.tuned[0].last == (64, 128, 256, 0)


def test_rows_that_name_nothing_are_kept_with_the_reason(root: Path) -> None:
    found = table(plan(root))
    assert (found.rows, found.meant, found.taken, found.shapes) == (7, 5, (2,), 1)
    assert [(row.line, row.why) for row in found.unused] == [
        (3, "splitK is 8 there and 30 here"),
        (5, "no kernel here has this name"),
        (6, "splitK is 5 there and 4 here"),
        (7, "thing:configs/tuned.csv, line 2 stands before it"),
    ]
    assert (
        found.unused[1].says
        == "80 compute units, M = 128, N = 128, K = 256: kernelName = _ZN1a5k128xE, splitK = 2"
    )


def test_of_two_rows_about_a_shape_the_faster_one_counts_where_it_is_asked_for(root: Path) -> None:
    """In whichever table it stands; of equal ones the first."""
    asked = ("rows = [", 'fastest = "us"\nrows = [')
    rows = ROWS.replace("3.4,_ZN1a4k64xE", "3.4,_ZN1a4k32xE")
    found = table(plan(root, asked, rows=rows))
    assert found.taken == (7,) and found.unused[0].line == 2
    assert found.unused[0].why == "thing:configs/tuned.csv, line 7 is faster"
    assert kind_of(found.unused[0].why) == "another row about the shape is faster"
    found = table(plan(root, asked, rows=rows.replace("3.4", "3.5")))
    assert found.taken == (2,) and found.unused[-1].why == "thing:configs/tuned.csv, line 2 stands before it"
    two = ('["thing:configs/tuned.csv"]', '["thing:configs/tuned.csv", "thing:configs/model/tuned.csv"]')
    model = ROWS.splitlines()[0] + "\n80,64,128,256,asm,4,1.25,_ZN1a4k32xE\n"
    files = {
        **FILES,
        "thing/configs/tuned.csv": rows.encode(),
        "thing/configs/model/tuned.csv": model.encode(),
    }
    trees.repository(root, root.parent / "shelf", files)
    first, second = plan(root, asked, two).measured
    assert (first.taken, second.taken) == ((), (2,))
    assert first.unused[0].why == "thing:configs/tuned.csv, line 7 is faster"
    assert "thing:configs/model/tuned.csv, line 2 is faster" in [row.why for row in first.unused]
    with pytest.raises(ManifestError, match=r"'usec' is not a column of thing:configs/tuned\.csv"):
        plan(root, ("rows = [", 'fastest = "usec"\nrows = ['))


def test_a_range_ends_where_the_kernel_would_do_something_else(root: Path) -> None:
    # up to 32 rows one tile, hence 8 parts: not what was measured for 64
    made = plan(root, ('["cdiv(M, 16) * 16"]', '["64 if M <= 64 else M"]'))
    assert spans(made) == [(80, "32", 33, 64)]


@pytest.mark.parametrize("parts", ["K // 64", "4"])
def test_what_the_size_does_not_change_holds_for_every_size(root: Path, parts: str) -> None:
    """Sizes are tried one by one, and only so many of them, where the padded dim is read."""
    found = plan(
        root, ('["cdiv(M, 16) * 16"]', '["64"]'), ('equal = { splitK = "parts" }', f'equal = {{ splitK = "{parts}" }}')
    )  # fmt: skip
    assert max(last for _, variant, _, last in spans(found) if variant == "32") == (1 << 31) - 1


def test_a_row_that_names_nothing_keeps_its_calls(root: Path) -> None:
    header, row = ROWS.splitlines()[:2]
    rows = f"{header}\n{row}\n{row.replace('80,64', '80,60').replace('k32', 'k31')}\n"
    assert spans(plan(root, rows=rows)) == [(80, "32", 49, 59), (80, "32", 61, 64)]


def test_rows_that_name_kernels_of_another_bundle_are_left_to_it(root: Path) -> None:
    """A kernel of ck-full is measured, and beside it stands one that every bundle has and no row names."""
    tile = GOOD[GOOD.index("[kernels.tile]") : GOOD.index("measured = ")]
    made = plan(
        root,
        ('backend = "asm"', 'backend = "ck"\nprofile = "ck-full"'),
        ("[operators.gemm]\n", f"{tile.replace('tile]', 'plain]')}\n[operators.gemm]\n"),
        ('kernels = ["tile"]', 'kernels = ["tile", "plain"]'),
    )
    assert [each.variant for each in operator(made).recipes] == ["32", "64"]
    assert operator(made).tuned == () and made.measured == ()


def test_without_padding_a_row_is_for_its_shape(root: Path) -> None:
    made = plan(root, ('padded.M = ["cdiv(M, 16) * 16"]\n', ""))
    assert spans(made) == [(80, "32", 64, 64)] and operator(made).tuned[0].last == ()


def test_a_dim_may_be_an_expression_of_columns(root: Path) -> None:
    made = plan(root, ('K = "K"', 'K = "K // 2"'))
    assert operator(made).tuned[0].values == (49, 128, 128, 0)
    assert all("N = 128, K = 128: " in row.says for row in table(made).unused)


def test_rows_that_stand_apart_do_not_compete(root: Path) -> None:
    header, row = ROWS.splitlines()[:2]
    rows = f"{header},type\n{row},a\n{row.replace('k32', 'k64')},b\n{row.replace('k32', 'k31')},c\n{row},a\n"
    changed = ('equal = { splitK = "parts" }', "equal = {}")
    together = plan(root, changed, rows=rows)
    assert spans(together) == [(80, "32", 49, 64)] and len(table(together).unused) == 3
    apart = plan(root, changed, ("rows = [", 'apart = ["type"]\nrows = ['))
    assert spans(apart) == [(80, "32", 49, 64), (80, "64", 49, 64)]
    assert [(row.line, row.why) for row in table(apart).unused] == [
        (4, "no kernel here has this name"),
        (5, "thing:configs/tuned.csv, line 2 stands before it"),
    ]


def test_measured_rows_are_about_one_function(root: Path) -> None:
    other = """
[operators.gemm_other]
like = "gemm"
summary = "made up, too"
"""
    made = plan(root, ("[operators.gemm.tuned_from]", f"{other}\n[operators.gemm.tuned_from]"))
    first, second = (each.operator for each in made.bundles[0].operators)
    assert (first.name, second.name) == ("gemm", "gemm_other")
    assert first.tuned and not second.tuned and table(made).operator == "gemm"


def test_tuned_rows_change_no_recipe(root: Path) -> None:
    start = GOOD.index("[operators.gemm.tuned_from]")
    without = plan(root, (GOOD[start:], ""))
    assert operator(without).recipes == operator(plan(root)).recipes and without.measured == ()


def test_the_table_is_a_source_of_the_bundle(root: Path) -> None:
    made = plan(root)
    found = sources_of(made.bundles[0], made, root)
    assert re.fullmatch("[0-9a-f]{64}", found["thing:configs/tuned.csv"])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('cus = "cu_num"', 'cus = "cus"', r"tuned_from: 'cus' is not a column of thing:configs/tuned.csv"),
        ('M = "M", N', 'M = "m", N', "tuned_from: 'm' is not a column of .*known: K, M"),
        ('M = "M", N', 'M = "m // 2", N', "tuned_from.dims: unknown name 'm'"),
        ('M = "M", N', 'Q = "M", N', "tuned_from.dims.Q: 'Q' is not a dim or integer attribute of gemm"),
        ("parts_wanted = 0 }", "part_wanted = 0 }", "tuned_from.fixed.part_wanted: .*did you mean 'parts_wanted'"),
        ("parts_wanted = 0 }", "M = 0 }", "tuned_from.fixed.M: 'M' has a column already"),
        ("padded.M", "padded.Q", "tuned_from.padded.Q: 'Q' has no column"),
        ("cdiv(M, 16) * 16", "cdiv(M, 16) * Q", r"tuned_from.padded.M\[0\]: unknown name 'Q'"),
        ("cdiv(M, 16) * 16", "M // 0", "tuned_from.padded.M: "),
        ("rows = [", 'apart = ["sort"]\nrows = [', "tuned_from: 'sort' is not a column of thing:configs/tuned.csv"),
        ("libtype == 'asm'", "sort == 'asm'", r"tuned_from.rows\[0\]: .*sort"),
        ("thing:configs/tuned.csv", "thing:configs/tuna.csv", "tuned_from.tables: there is no thing:configs/tuna.csv"),
        ("thing:configs/tuned.csv", "thing:config/tuned.csv", "tuned_from.tables: thing has no root 'config'"),
        ('measured = { name = { kernelName = "{SYMBOL}" }, equal = { splitK = "parts" } }', "", "no kernel says how rows name"),
        ('"{SYMBOL}" }', '"{SYMBOLS}" }', r"measured.name.kernelName: .*\{SYMBOLS\}, which is no constant"),
        ('splitK = "parts"', 'splitK = "party"', "measured.equal.splitK: unknown name 'party'"),
        ('splitK = "parts"', 'split = "parts"', "tuned_from: 'split' is not a column of .*did you mean 'splitK'"),
        ("[operators.gemm.arg", 'tuned = "a.csv"\n[operators.gemm.arg', "tuned: an operator has tuned or tuned_from, not both"),
        ('cus = "cu_num"', 'cus = "cu_num"\ncards = 1', "tuned_from.cards: unknown key"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(root: Path, before: str, after: str, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        plan(root, (before, after))
    assert re.search(words, "\n".join(caught.value.problems)), caught.value.problems


def test_a_size_that_is_none_is_said_with_its_line(root: Path) -> None:
    with pytest.raises(ManifestError, match=r"tuned\.csv, line 3: a size is no number"):
        plan(root, rows=ROWS.replace("304,64", "304,x"))


def test_what_a_checkout_lacks_is_only_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root.parent / "checkout/hsa/gfx942/gemm"
    folder.mkdir(parents=True)
    for name in ("gemm.csv", "k32.co", "k64.co"):
        (folder / name).write_bytes(FILES[f"meta/hsa/gfx942/gemm/{name}"])
    monkeypatch.setenv("THING_DIR", str(root.parent / "checkout"))
    made = plan(root)
    assert made.missing == ("thing:configs/tuned.csv: there is no such file",) and operator(made).tuned == ()


def test_a_checkouts_table_that_does_not_fit_is_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pinned one is wrong in the manifest (above)."""
    checkout = root.parent / "checkout"
    for name, data in FILES.items():
        path = checkout / name.removeprefix("meta/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (checkout / "thing/configs/tuned.csv").write_text(ROWS.replace("304,64", "304,x"))
    monkeypatch.setenv("THING_DIR", str(checkout))
    made = plan(root)
    (left,) = made.left_out
    assert (left.source, left.entry) == (
        "thing:configs/tuned.csv",
        "",
    ) and "a size is no number" in left.reason
    assert operator(made).tuned == () and operator(made).recipes


def test_the_report_has_every_table_of_the_trees(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("build_tools.report.measured.FOLDERS", ("thing:configs",))
    other, used = compute(plan(root), root)
    assert (other.name, other.rows, other.assembly, other.uses) == (
        "thing:configs/model/other_tuned.csv",
        2,
        1,
        (),
    )
    (use,) = used.uses
    assert (used.rows, used.version, use.operator, use.target, use.meant, use.taken) == (
        7,
        "1.0",
        "gemm",
        "gfx942",
        5,
        1,
    )
    assert used.as_json()["uses"][0]["unused"][0]["line"] == 3


def unfolded(text: str) -> str:
    """Return a report whose long lines were folded for a narrow console."""
    return " ".join(text.split())


def test_the_verb_lists_rows_and_reasons(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("build_tools.report.measured.FOLDERS", ("thing:configs",))
    monkeypatch.setattr(options, "ROOT", root)
    plan(root)
    said = CliRunner().invoke(cli, ["report", "tuned", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.output)
    assert found["version"] == 1 and [row["table"] for row in found["tables"]][1] == "thing:configs/tuned.csv"
    said = CliRunner().invoke(cli, ["report", "tuned"])
    assert (
        "thing:configs/tuned.csv:5: gemm on gfx942: no kernel here has this name (80 compute units"
        in unfolded(said.output)
    )


#: Behind the measured rows: one whose kernel takes no call of it, one whose kernel takes all, one whose result, of which no row
#: says the rows, is too large for any call.
PLANTED = """\
80,96,128,256,asm,4,3.5,_ZN1a4k32xE
80,112,128,256,asm,4,3.5,_ZN1a4k64xE
80,64,4096,256,asm,4,3.5,_ZN1a4k32xE
"""
REFUSING = (
    ('cost = "cdiv(M, tileM)"', 'cost = "cdiv(M, tileM)"\nwhen = ["tileM == 64 or M < 65", "R >= M and R * N < 131072"]'),
    ('out = "out f32[M, N]"', 'out = "out f32[R, N]"'),
    ('parts_wanted if parts_wanted else CUS // (cdiv(M, tileM) * 10)', "4"),
)  # fmt: skip


def test_a_row_whose_kernel_takes_none_of_its_calls_is_told_from_one_that_can_choose(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("build_tools.report.measured.FOLDERS", ("thing:configs",))
    monkeypatch.setattr(options, "ROOT", root)
    made = plan(root, *REFUSING, rows=ROWS + PLANTED)
    assert table(made).taken == (2, 9, 10, 11)
    assert "decided" not in repr(table(made)) and {line for line, _ in table(made).decided} == {2, 9, 10, 11}
    (use,) = compute(made, root)[1].uses
    assert (use.taken, use.chooses, [(row.line, row.why) for row in use.refused]) == (
        4, 2, [(9, "refused by 'tileM == 64 or M < 65'"), (11, "refused by 'R >= M and R * N < 131072'")]
    )  # fmt: skip
    assert (
        use.refused[0].says == "80 compute units, M = 81 to 96, N = 128, K = 256, parts_wanted = 0: tile 32"
    )
    assert use.reasons == {
        "the kernel does otherwise than the row says": 2, "another row about the shape stands before it": 1,
        "no kernel here has this name": 1, "refused by 'R >= M and R * N < 131072'": 1,
        "refused by 'tileM == 64 or M < 65'": 1,
    }  # fmt: skip
    said = CliRunner().invoke(cli, ["report", "tuned", "--json"])
    told = json.loads(said.output)["tables"][1]["uses"][0]
    assert (told["taken"], told["chooses"], told["reasons"]) == (4, 2, use.reasons)
    assert [row["line"] for row in told["refused"]] == [9, 11]
    text = unfolded(CliRunner().invoke(cli, ["report", "tuned"]).output)
    assert "tuned.csv:9: gemm on gfx942: refused by 'tileM == 64 or M < 65' (80 compute units" in text


def _padded(size: int) -> tuple[int, int, int]:
    """What AITER looks a call up as, in this order."""
    step = 16 if size <= 256 else 32 if size <= 1024 else 64 if size <= 4096 else 128
    return size, -(-size // step) * step, 1 << (size - 1).bit_length()


def test_the_real_rows_are_found_as_aiter_finds_them() -> None:
    """Every call of the measured (N, K): the row that AITER takes, if the recipe splits K as the row says, else none."""
    made = make_plan(load(ROOT / "manifests"), ROOT, inputs_of(ROOT), ("ck-free",), ("gfx942",), prove=False)
    (of,) = (each.operator for each in made.bundles[0].operators if each.operator.name == "gemm_a16w16_asm")
    lines = tree.located("aiter:configs/bf16_tuned_gemm.csv", ROOT).read_text().splitlines()
    rows = {int(row["M"]): row for row in csv.DictReader(lines)}
    tuned = {
        size: of.recipes[row.recipe].variant
        for row in of.tuned
        for size in range(row.values[0], (row.last or row.values)[0] + 1)
        if row.cus == 80 and row.values[1:] == (256, 5120, 0, 0)
    }
    assert len(rows) == 8 and len(table_of(made, "gemm_a16w16_asm").taken) == 8
    for size in range(1, 1000):
        row = next((rows[each] for each in _padded(size) if each in rows), None)
        tile = int(row["kernelName"].split("_tn_")[1].split("x")[0]) if row else 1
        splits = max(1, min(64, 80 // (-(-size // tile) * 4), 80))
        expected = f"{tile}x64" if row and splits == int(row["splitK"]) else None
        assert tuned.get(size) == expected, size


def table_of(made: Plan, name: str) -> MeasuredTable:
    (found,) = (each for each in made.measured if each.operator == name)
    return found

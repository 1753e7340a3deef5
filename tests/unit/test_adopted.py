"""Every code object of a source tree is launched, or left out with a reason that still is about it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import repository, trees

from build_tools.__main__ import cli
from build_tools.compile.inputs import inputs_of
from build_tools.errors import ManifestError
from build_tools.manifest.parse import load
from build_tools.plan.plan import make_plan
from build_tools.records import Plan
from build_tools.report import adopted, left_out
from build_tools.report.adopted import Family, compute, family_of
from build_tools.report.left_out import LeftOut, Reason
from build_tools.tools import fetch, tree
from build_tools.verbs import options

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = """
edition = 2

[kernels.tile]
backend = "asm"
targets = ["gfx942"]
source = "thing:hsa/gfx942/gemm/{FILE}"
symbol = "k"
grid = ["1"]
block = [64]
args = ["ptr out", "ptr A"]
COST
variants.row = [{ name = "a", FILE = "a.co", SIZE = 1 }, { name = "b", FILE = "b.co", SIZE = 2 }]

[operators.gemm]
python = "(A: Tensor, out: Tensor) -> None"
module = "module_gemm"
summary = "made up"
source = "nobody"
arguments.A = "bf16[M, K]"
arguments.out = "out f32[M, N]"
kernels = ["tile"]
"""
FILES = {
    f"meta/hsa/{name}": name.encode()
    for name in (
        "gfx942/gemm/a.co", "gfx942/gemm/b.co", "gfx942/gemm/c.co", "gfx942/top.co", "gfx950/gemm/d.co", "gfx942/gemm/e.csv",
    )
}  # fmt: skip
C, TOP, D = "thing:hsa/gfx942/gemm/c.co", "thing:hsa/gfx942/top.co", "thing:hsa/gfx950/gemm/d.co"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(fetch.SDISTS_VARIABLE, str(tmp_path / "shelf"))
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("THING_DIR", raising=False)
    monkeypatch.setattr(adopted, "FOLDERS", ("thing:hsa",))
    made = trees.repository(tmp_path / "repository", tmp_path / "shelf", FILES)
    for name in ("targets", "profiles", "catalogue"):
        shutil.copy(ROOT / "manifests" / f"{name}.toml", made / "manifests")
    (made / "manifests/gemm").mkdir()
    return made


def planned(root: Path, cost: str = "") -> Plan:
    (root / "manifests/gemm/operators.toml").write_text(MANIFEST.replace("COST", cost))
    return make_plan(load(root / "manifests"), root, inputs_of(root), prove=False)


def reasons(*patterns: str) -> LeftOut:
    return LeftOut(tuple(Reason(files=[pattern], reason=f"because of {pattern}") for pattern in patterns))


def test_families_are_counted_by_target_and_by_how_they_are_chosen(root: Path) -> None:
    plan, manifest = planned(root, 'cost = "SIZE"'), load(root / "manifests")
    a, b = (tree.digest(f"thing:hsa/gfx942/gemm/{name}.co", root) for name in "ab")
    executed = {("gfx942", a), ("gfx950", b)}
    found = compute(plan, manifest, root, executed, reasons("*/gfx942/gemm/*", "*/gfx942/*"))
    assert found == (
        Family("gfx942", "(top)", 1, 0, 0, {}, {"because of */gfx942/*": 1}, ()),
        Family("gfx942", "gemm", 3, 2, 1, {"cost": 2}, {"because of */gfx942/gemm/*": 1}, ()),
        Family("gfx950", "gemm", 1, 0, 0, {}, {}, (D,)),
    )
    assert [each.chosen for each in compute(planned(root), manifest, root, set(), reasons())][1] == {
        "condition": 2
    }
    assert family_of("thing:hsa/gfx942/a/b/c.co", "gfx942") == "a"


def test_what_nobody_gives_a_reason_for_is_named_and_so_is_a_reason_for_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, manifest = planned(root), load(root / "manifests")
    assert adopted.problems(plan, manifest, root, reasons("*/gemm/*", TOP, D)) == []
    assert adopted.problems(plan, manifest, root, reasons("*/c.co", D)) == [
        f"hsa/left_out.toml: {TOP} is in the tree, no manifest takes it, and no reason says why"
    ]
    assert adopted.problems(plan, manifest, root, reasons(C, TOP, D, "*/gemm/b.*", "*/none.co")) == [
        "hsa/left_out.toml: '*/gemm/b.*' covers no file that is left out",
        "hsa/left_out.toml: '*/none.co' covers no file that is left out",
    ]
    monkeypatch.setenv("THING_DIR", str(root))
    (root / "hsa").mkdir()
    assert adopted.problems(plan, manifest, root, reasons()) == []  # a checkout may have anything


def test_the_verb_counts_and_names(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "ROOT", root)
    (root / "hsa").mkdir()
    (root / left_out.FILE).write_text(
        f'edition = 1\n[[left_out]]\nfiles = ["{C}", "{TOP}"]\nreason = "no caller"\n'
    )
    planned(root)
    told = CliRunner().invoke(cli, ["report", "adopted"], catch_exceptions=False)
    assert told.exit_code == 0
    assert "gfx942 gemm: 1 left out: no caller" in told.output
    assert f"{D}: left out, and hsa/left_out.toml does not say why" in told.output
    table = json.loads(
        CliRunner().invoke(cli, ["report", "adopted", "--json"], catch_exceptions=False).output
    )
    assert table["version"] == 1 and table["missing"] == []
    assert [(each["family"], each["objects"], each["launchable"]) for each in table["families"]] == [
        ("(top)", 1, 0), ("gemm", 3, 2), ("gemm", 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("edition = 2", "edition 2 is not 1"),
        ("edition = ", "left_out.toml: "),
        ("left_out = []", "edition: Field required"),
        (
            'edition = 1\n[[left_out]]\nfiles = []\nreason = "r"',
            "left_out.0.files: List should have at least 1 item",
        ),
        ('edition = 1\n[[left_out]]\nfiles = ["a"]', "left_out.0.reason: Field required"),
        ('edition = 1\n[[left_out]]\nfiles = ["a"]\nreason = "r"\nwhy = "w"', "left_out.0.why: Extra inputs"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path: Path, text: str, words: str) -> None:
    assert left_out.read(tmp_path) == LeftOut(())
    (tmp_path / "hsa").mkdir()
    (tmp_path / left_out.FILE).write_text(text)
    with pytest.raises(ManifestError, match=words):
        left_out.read(tmp_path)


def test_every_object_of_the_pinned_tree_is_launched_or_has_its_reason() -> None:
    """What lint says, too: a later pin brings objects, and each of them is looked at."""
    assert (ROOT / left_out.FILE).is_file()
    manifest = repository.manifest()
    plan = make_plan(manifest, ROOT, inputs_of(ROOT), prove=False)
    assert adopted.problems(plan, manifest, ROOT, left_out.read(ROOT)) == []

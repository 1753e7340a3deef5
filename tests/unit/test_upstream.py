"""AITER's tree beside what is here: counted in the tree, by the titles of the catalogue."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from support import repository
from support import upstream as made

from build_tools.__main__ import cli
from build_tools.manifest.model import Catalogue, CatalogueEntry, Manifest
from build_tools.modules.read import read
from build_tools.report import module_reasons, modules, upstream
from build_tools.report.coverage import compute as covered
from build_tools.report.ledger import Ledger
from build_tools.report.module_reasons import Reasons
from build_tools.report.upstream import Beside, Count
from build_tools.report.upstream_view import render
from build_tools.tools import fetch

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gfx942", "gfx950")
OBJECTS = {
    f"hsa/{name}": name
    for name in (
        "gfx942/pa/a.co", "gfx942/pa/deep/b.co", "gfx942/pa_c.co", "gfx942/pa_deep/d.co", "gfx950/pa/a.co", "gfx950/pa/x.csv",
    )
}  # fmt: skip
TRITON = {
    "aiter/ops/triton/a.py": "@triton.jit\n@triton.jit\n",
    "aiter/ops/triton/b/c.py": "@triton.jit\n",
    "aiter/ops/triton/skipped.py": "",
}
ENTRIES = [
    CatalogueEntry(
        title="Pages", operators=["rms_norm", "gone"], aiter=["ck", "hip"], objects=["pa/", "pa_*.co"], modules=["module_tiles"]
    ),
    CatalogueEntry(title="Threes", operators=["gone"], aiter=["ck"], modules=["module_three", "module_one"]),
    CatalogueEntry(title="Others", operators=["gone"], aiter=["hip"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    whole = repository.manifest()
    return whole.model_copy(update={"catalogue": Catalogue(edition=1, categories={"all": ENTRIES})})


@pytest.fixture
def beside(manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    monkeypatch.setenv("AITER_DIR", str(made.checkout(tmp_path, **OBJECTS, **TRITON)))
    ledger = modules.compute(read(ROOT), manifest, Ledger(()), Reasons())
    ledger = replace(
        ledger,
        lines=tuple(
            replace(line, functions=tuple(replace(each, by=(modules.Served("x", False, ()),)) for each in line.functions))
            if line.name == "module_three"
            else line
            for line in ledger.lines
        ),
    )  # fmt: skip
    launched = {
        ("gfx942", sha256(b"gfx942/pa/a.co").hexdigest()),
        ("gfx942", sha256(b"gfx950/pa/a.co").hexdigest()),
    }
    return upstream.compute(manifest, covered(manifest, "ck-free", TARGETS, None), ledger, ROOT, launched)


def test_objects_and_modules_are_counted_by_title(beside: Beside) -> None:
    pages, threes, rest = beside.shares  # nothing of Others is assembled, or of Composable Kernel
    assert pages.objects == {"gfx942": Count(3, 1), "gfx950": Count(1, 0)}
    assert (pages.modules, pages.without_ck, pages.operators, pages.gap) == (
        Count(1, 0),
        ("hip",),
        Count(2, 1),
        False,
    )
    assert (threes.modules, threes.operators, threes.gap) == (
        Count(1, 1),
        Count(1, 0),
        True,
    )  # module_one is HIP
    assert (rest.title, rest.objects["gfx942"], rest.modules) == (
        "not in the catalogue",
        Count(1, 0),
        Count(1, 0),
    )
    assert not rest.gap and beside.gaps() == (threes,)
    assert (beside.tuning, beside.triton, beside.built) == (1, 2, False)
    total = json.loads(json.dumps(beside.as_json()))["total"]
    assert total["objects"] == {"gfx942": {"aiter": 4, "ours": 1}, "gfx950": {"aiter": 1, "ours": 0}}
    assert total["modules"] == {"aiter": 3, "ours": 1}


def test_the_table_has_ours_first(beside: Beside) -> None:
    def shown(table: Beside) -> list[str]:
        out = io.StringIO()
        render(table, Console(file=out, width=160))
        return [" ".join(line.split()) for line in out.getvalue().splitlines()]

    lines = shown(replace(beside, built=True))
    assert lines[0] == (
        "AITER unpinned (AITER_DIR): assembled objects: gfx942 4, gfx950 1; modules of Composable Kernel: 3, and 1 for tuning; "
        "Triton sources: 2"
    )
    assert (
        "Pages 1/3 0/1 0/1 hip 1/2" in lines
        and "Threes 1/1 nothing 0/1" in lines
        and "all 1/4 0/1 1/3" in lines
    )
    assert lines[-1] == "AITER has nothing but CK for Threes: 0 of 1 operators here"
    assert "Pages ?/3 ?/1 0/1 hip 1/2" in shown(beside)  # no bundle says what is launched


def test_every_object_and_module_of_the_pinned_tree_has_its_title() -> None:
    manifest = repository.manifest()
    ledger = modules.compute(read(ROOT), manifest, Ledger(()), module_reasons.read(ROOT))
    table = upstream.compute(manifest, covered(manifest, "ck-free", TARGETS, None), ledger, ROOT, ())
    assert [share.title for share in table.shares if share.title == "not in the catalogue"] == []
    assert (table.objects("gfx942").aiter, table.objects("gfx950").aiter) == (1281, 1220)


def test_without_the_tree_the_rest_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AITER_DIR", raising=False)
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    told = CliRunner().invoke(
        cli, ["report", "coverage", "--json", "--bundles", str(tmp_path / "none")], catch_exceptions=False
    )
    assert told.exit_code == 0 and "without AITER's tree: " in told.stderr
    assert json.loads(told.stdout)["upstream"] is None

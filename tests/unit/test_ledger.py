"""The ledger: tested, compiled, source only, by what was built and what has a receipt."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from support import repository
from support.bundles import blob, small_operator, small_root

from build_tools.manifest.model import Manifest
from build_tools.objects.entries import entries_of, recipes_of
from build_tools.objects.unpack import open_bundle
from build_tools.pack import writer
from build_tools.report.coverage import compute as covered
from build_tools.report.ledger import Ledger, compute
from build_tools.report.ledger_view import render
from build_tools.verbs.reports.status import status


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return repository.manifest()


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    """rms_norm's first kernel with two entries, for gfx942 alone."""
    one = small_operator("rms_norm")
    entries = tuple(
        replace(
            one.entries[0],
            name=f"entry{place}",
            code_object=place,
            sha256=hashlib.sha256(blob(place)).digest(),
        )
        for place in range(2)
    )
    small, large = one.recipes
    step = replace(large.steps[0], entry=1)
    made = replace(
        one,
        kernels=(replace(one.kernels[0], name="rms_norm_row", backend=3),),
        entries=entries,
        recipes=(small, replace(large, steps=(step,))),
    )
    frames = tuple(
        writer.Frame(blob(place), 300, hashlib.sha256(blob(place)).digest(), "raw") for place in range(2)
    )
    (tmp_path / "gfx942-ck-free.apb").write_bytes(writer.encode(small_root(), (made,), frames))
    (tmp_path / "gfx950-ck-free.apb").write_bytes(b"damaged")
    return tmp_path


def state(ledger: Ledger, target: str) -> tuple[str, int, int]:
    (line,) = (
        line
        for line in ledger.lines
        if (line.operator, line.kernel, line.target) == ("rms_norm", "rms_norm_row", target)
    )
    return line.state, line.proved, line.entries


def digests(folder: Path) -> list[str]:
    """Of the two recipes of the bundle."""
    return list(recipes_of(open_bundle(folder / "gfx942-ck-free.apb")))


def test_three_states(manifest: Manifest, bundles: Path) -> None:
    one, other = digests(bundles)
    for proved, expected in (
        ([], ("compiled", 0, 2)),
        ([one], ("compiled", 1, 2)),
        ([one, other], ("tested", 2, 2)),
    ):
        ledger = compute(manifest, bundles, proved)
        assert state(ledger, "gfx942") == expected
        assert state(ledger, "gfx950") == ("source only", 0, 0)
        assert sum(ledger.unproved().values()) == 2 - len(proved)


def test_counts_add_up(manifest: Manifest, bundles: Path) -> None:
    ledger = compute(manifest, bundles, digests(bundles))
    keys = [(line.operator, line.kernel, line.target) for line in ledger.lines]
    assert len(keys) == len(set(keys))
    assert ledger.counts() == {"tested": 1, "compiled": 0, "source only": len(keys) - 1}
    tables = ledger.tables()
    assert tables["triton", "gfx942"]["tested"] == 1
    assert sum(sum(counts.values()) for counts in tables.values()) == len(keys)


def test_as_json_and_for_people(manifest: Manifest, bundles: Path) -> None:
    done = CliRunner().invoke(status, ["--json", "--bundles", str(bundles)])
    assert done.exit_code == 0, done.output
    table = json.loads(done.output)
    assert table["version"] == 1
    row = next(row for row in table["kernels"] if row["kernel"] == "rms_norm_row" and row["entries"])
    assert (row["target"], row["state"], row["unproved"]) == ("gfx942", "compiled", ["entry0", "entry1"])
    assert table["total"]["compiled"] == 1 and table["unproved_entries"] == 2
    assert sum(row["compiled"] for row in table["counts"]) == 1
    out = io.StringIO()
    render(compute(manifest, bundles, []), Console(file=out, width=160))
    assert "compiled (1 kernels)" in out.getvalue()
    assert "2 entries for gfx942 are not proved" in out.getvalue()


def test_coverage_knows_proved(manifest: Manifest, bundles: Path) -> None:
    one, other = digests(bundles)
    for proved, word, count in (([one], "covered, 1 not proved", 1), ([one, other], "proved", 0)):
        table = covered(manifest, "ck-free", ("gfx942",), bundles, proved)
        row = next(row for row in table.rows if row.operator == "rms_norm")
        assert row.status(("gfx942",), table.built) == word
        assert table.unproved() == table.as_json()["unproved"] == count
        assert row not in table.gaps()
        (cell,) = (cell for cell in row.cells.values() if cell.entries)
        assert (cell.entries, cell.proved) == (2, len(proved))


def test_an_entry_is_proved_when_every_recipe_that_launches_it_is(tmp_path: Path) -> None:
    made = small_operator("rms_norm")
    frame = writer.Frame(blob(0), 300, hashlib.sha256(blob(0)).digest(), "raw")
    (tmp_path / "gfx942-ck-free.apb").write_bytes(writer.encode(small_root(), (made,), (frame,)))
    (entry,) = entries_of(open_bundle(tmp_path / "gfx942-ck-free.apb"))
    one, other = digests(tmp_path)
    assert entry.recipes == (one, other)
    assert [entry.proved(known) for known in ([], [one], [other], [one, other])] == [
        False,
        False,
        False,
        True,
    ]
    assert not replace(entry, recipes=()).proved([one, other])

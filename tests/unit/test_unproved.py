"""Nothing unproved ships: wheels refuse it by name, a flag lets it in, and then wheel, list and verify say so."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.bundles import blob, small_operator, small_root

from aiter_prebuilt.__main__ import main as command
from aiter_prebuilt.contract.receipt import was_executed
from build_tools import __main__ as verbs
from build_tools.errors import UnprovedError
from build_tools.objects.entries import BuiltEntry, entries_of
from build_tools.objects.unpack import open_bundle
from build_tools.pack import notes, writer
from build_tools.pack.unproved import refuse_unproved
from build_tools.pack.wheel import write_wheels
from build_tools.release import built
from build_tools.release.provenance import commit_of

ROOT = Path(__file__).resolve().parents[2]
PROVED = '{"executed": true, "device": "d", "checks": "c", "cases": 1, "worst": 0.5}'


def write(folder: Path, target: str, *, proved: bool, operator: str = "once") -> Path:
    """A bundle with one entry, and its note."""
    made = small_operator(operator)
    if proved:
        made = replace(made, entries=(replace(made.entries[0], receipt=PROVED),))
    frame = writer.Frame(blob(0), 300, hashlib.sha256(blob(0)).digest(), "raw")
    path = folder / f"{target}-ck-free.apb"
    path.write_bytes(writer.encode(small_root(target, "ck-free"), (made,), (frame,)))
    sources = notes.hashes(ROOT, notes.manifest_files(ROOT))
    notes.write(path, {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "sources": sources})
    return path


def entry(target: str, operator: str, kernel: str = "row", executed: bool = False) -> BuiltEntry:
    return BuiltEntry(
        operator, (kernel,), "hip", target, "ck-free", f"{target}-{operator}", "00", (), executed
    )


def test_what_a_bundle_says_of_its_entries(tmp_path: Path) -> None:
    for proved in (False, True):
        (found,) = entries_of(open_bundle(write(tmp_path, "gfx942", proved=proved)))
        assert (found.operator, found.kernels, found.backend, found.executed) == (
            "once",
            ("kernel",),
            "hip",
            proved,
        )


@pytest.mark.parametrize("text", ["", "[]", "3", '{"executed": "yes"}', "{"])
def test_a_receipt_that_says_nothing_says_no(text: str) -> None:
    assert not was_executed(replace(small_operator("x").entries[0], receipt=text))


def test_every_kernel_is_named_with_its_count_and_the_command_to_type() -> None:
    left = [entry("gfx942", "rms_norm"), entry("gfx942", "rms_norm"), entry("gfx942", "softmax", "rows")]
    with pytest.raises(UnprovedError) as caught:
        refuse_unproved([*left, entry("gfx950", "silu", executed=True)], ())
    said = str(caught.value)
    assert "gfx942: rms_norm.row: 2 entries were not executed\ngfx942: softmax.rows: 1 entries" in said
    assert "3 entries for gfx942 have no receipt" in said
    assert "python -m build_tools prove --operator rms_norm --operator softmax --target gfx942," in said
    assert "--unproved gfx942" in said and "gpu_check" not in said
    assert caught.value.exit_code == 18


def test_a_card_proves_what_the_embedded_device_cannot() -> None:
    with pytest.raises(UnprovedError, match=r"ci/gpu_check\.py --record FILE.*--unproved sm_90"):
        refuse_unproved([entry("sm_90", "softmax")], ("gfx942",))
    with pytest.raises(UnprovedError, match=r"prove --operator a --target gfx942, and python ci/gpu_check"):
        refuse_unproved([entry("sm_90", "softmax"), entry("gfx942", "a")], ())
    many = [entry("gfx942", f"operator{number}") for number in range(9)]
    with pytest.raises(UnprovedError, match="prove --target gfx942,"):
        refuse_unproved(many, ())


@pytest.mark.parametrize("allowed", [("gfx942", "sm_90"), ("all",)])
def test_what_is_allowed_passes(allowed: tuple[str, ...]) -> None:
    refuse_unproved([entry("gfx942", "a"), entry("sm_90", "a"), entry("gfx950", "a", executed=True)], allowed)


def test_wheels_are_refused_and_with_the_flag_they_say_it(tmp_path: Path) -> None:
    bundles, dist = tmp_path / "bundles", tmp_path / "dist"
    bundles.mkdir()
    write(bundles, "gfx942", proved=True)
    write(bundles, "gfx950", proved=False)
    with pytest.raises(UnprovedError, match=r"gfx950: once\.kernel: 1 entries"):
        write_wheels(ROOT, bundles, dist, runtime=False, unproved=("gfx942",))
    assert list(dist.iterdir()) == []
    for path in write_wheels(ROOT, bundles, dist, runtime=False, unproved=("gfx950",)):
        with ZipFile(path) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
            about = Parser().parsestr(archive.read(name).decode())
        words = "1 of its 1 entries were not executed on any device before they shipped."
        expected = "gfx950" in path.name
        assert (words in about["Summary"], words in about.get_payload()) == (expected, expected), path.name


def test_the_verb_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles = tmp_path / "bundles"
    bundles.mkdir()
    write(bundles, "gfx942", proved=False)
    words = ["wheels", "--no-runtime", "--bundles", str(bundles), "--output", str(tmp_path / "dist")]

    def code(*more: str) -> int:
        monkeypatch.setattr(sys, "argv", ["build_tools", *words, *more])
        try:
            verbs.main()
        except SystemExit as exit_:
            return int(exit_.code or 0)
        return 0

    assert code() == 18
    assert "--unproved gfx942" in capsys.readouterr().err
    assert code("--unproved", "gfx94") == 4
    assert code("--unproved", "sm_90") == 18
    assert code("--unproved", "sm_90", "--unproved", "gfx942") == 0
    assert code("--unproved", "all") == 0
    made = sorted((tmp_path / "dist").glob("*.whl"))
    assert built.commits(made) == {path.name: commit_of(ROOT) for path in made} != {}, (
        "what signs asks for it"
    )


@pytest.mark.parametrize(
    ("told", "trees"),
    [
        ({"tools": {"zig": "1"}, "trees": {"aiter": "unpinned (AITER_DIR)"}}, ["aiter"]),
        ({"tools": {"ck": "unpinned (CK_DIR)"}, "trees": {"aiter": "unpinned (AITER_DIR)"}}, ["aiter", "ck"]),
        ({"tools": {"zig": "1"}, "trees": {"aiter": "0.1.5"}}, []),
        ({"tools": {"unpinned": "1"}}, []),
        ({"tools": 3, "trees": None}, []),
        ([], []),
        ("{", []),
    ],
)
def test_list_says_what_was_made_of_a_checkout(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    told: object,
    trees: list[str],
) -> None:
    monkeypatch.setenv("AITER_PREBUILT_BUNDLES", str(tmp_path))
    text = told if isinstance(told, str) else json.dumps(told)
    made = small_operator("once")
    frame = writer.Frame(blob(0), 300, hashlib.sha256(blob(0)).digest(), "raw")
    for target, said in (("gfx942", text), ("gfx950", small_root().provenance)):
        root = replace(small_root(target, "ck-free"), provenance=said)
        (tmp_path / f"{target}-ck-free.apb").write_bytes(writer.encode(root, (made,), (frame,)))
    assert command(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["kernels"]
    assert [(row["target"], row["unpinned"]) for row in rows] == [("gfx942", trees), ("gfx950", [])]
    command(["list"])
    text = " ".join(capsys.readouterr().out.split())
    said = f"the bundle for gfx942 (ck-free) was made of files of {' and '.join(trees)} that are not the pinned ones: "
    assert (said in text) is ("the bundle for " in text) is bool(trees)


def test_list_and_verify_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "1 entries for gfx950 were not executed on any device before they shipped"
    monkeypatch.setenv("AITER_PREBUILT_BUNDLES", str(tmp_path))
    write(tmp_path, "gfx942", proved=True)
    for proved in (False, True):
        write(tmp_path, "gfx950", proved=proved)
        for verb in ("list", "verify"):
            command([verb])
            shown = capsys.readouterr().out
            assert (said in shown) is not proved, verb
            assert "for gfx942" not in shown

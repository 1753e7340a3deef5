"""What ``verify`` counts, and that one damage hides no other: a file, a block, the table, a code object, the golden calls."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from support.bundles import blob, small_root
from support.mutate import stored_at
from support.verified import IMAGE, operator

from aiter_prebuilt.__main__ import main as command
from aiter_prebuilt.bundles import integrity
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.bundles.integrity import Verdict
from aiter_prebuilt.commands import verify as verb
from aiter_prebuilt.contract.calls import Call, pack
from aiter_prebuilt.contract.records import Operator
from aiter_prebuilt.execute.run import Execution
from build_tools.pack import writer


def named(name: str, *receipts: bool) -> Operator:
    """An operator with an entry for each of ``receipts``, executed or not."""
    made = operator()
    entries = tuple(
        replace(made.entries[0], name=f"{name}{place}", receipt=f'{{"executed": {str(done).lower()}}}')
        for place, done in enumerate(receipts)
    )
    return replace(made, name=name, entries=entries)


def placed(folder: Path, *operators: Operator, images: tuple[bytes, ...] = (IMAGE,)) -> InstalledBundle:
    path = folder / "gfx942-ck-free.apb"
    path.write_bytes(writer.encode(small_root(), operators, writer.as_is([*images]).frames))
    return InstalledBundle(str(path), "gfx942", "ck-free")


def said(verdict: Verdict) -> list[tuple[str, str]]:
    return [(finding.entry, finding.problem) for finding in verdict.findings]


def damaged(installed: InstalledBundle, part: str, index: int = 0) -> None:
    """One bit of a part of the bundle is another, and no hash says so."""
    path = Path(installed.path)
    data = bytearray(path.read_bytes())
    (at,) = struct.unpack_from("<Q", data, stored_at(data, part, index))
    data[at] ^= 1
    path.write_bytes(data)


def ran(operator: str, *problems: str) -> Execution:
    worst = None if problems else 0.5
    return Execution(
        operator, "M=1", "a card", "gfx942", "k", "v", "hip", (), (), "r", "j", worst, 0.1, problems
    )


@pytest.mark.parametrize("told", [{"lost": 3, "table": 0}, {}])
def test_what_a_checkout_lacks_is_not_wrong_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], told: dict[str, int]
) -> None:
    """Only a call that no kernel takes, of an operator of which the bundle says so; whatever was executed counts as ever."""
    root = replace(small_root(), provenance=json.dumps({"left_out": told}))
    path = tmp_path / "gfx942-ck-free.apb"
    path.write_bytes(
        writer.encode(root, (named("lost", True), named("table", True)), writer.as_is([IMAGE]).frames)
    )
    monkeypatch.setenv("AITER_PREBUILT_BUNDLES", str(tmp_path))
    none, bad = (
        "NoKernelError: lost: all 4 candidates were refused",
        "out: 3 of 8 values are not what is wanted",
    )

    def found(*runs: Execution) -> tuple[int, list[str], list[str]]:
        monkeypatch.setattr(verb, "execute_cases", lambda target: iter(runs))
        code = command(["verify", "--execute", "--json"])
        shown = json.loads(capsys.readouterr().out)
        assert command(["verify", "--execute"]) == code
        said = [
            line
            for line in capsys.readouterr().out.splitlines()
            if "its golden call was not executed" in line
        ]
        lost = [row["operator"] for row in shown["left_out"]]
        assert len(said) == len(lost) and all(name in line for name, line in zip(lost, said, strict=True))
        return code, lost, [row["operator"] for row in shown["executions"]]

    if told:
        assert found(ran("lost", none)) == (0, ["lost"], [])
        assert found(ran("lost", none), ran("table")) == (0, ["lost"], ["table"])
    else:
        assert found(ran("lost", none)) == (1, [], ["lost"])
    assert found(ran("lost", bad)) == (1, [], ["lost"])
    assert found(ran("table", none)) == (1, [], ["table"]), "only a table is not there"
    assert found(ran("lost")) == (0, [], ["lost"])
    assert found() == (3, [], [])


def test_what_a_verdict_counts(tmp_path: Path) -> None:
    installed = placed(tmp_path, named("a", True, False, True), named("b", False), named("c", True))
    assert integrity.verify(installed) == Verdict(
        installed.path, "gfx942", "ck-free", 3, 5, 1, 3, Path(installed.path).stat().st_size, ()
    )  # fmt: skip


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "gfx942-ck-full.apb"
    installed = InstalledBundle(str(path), "gfx942", "ck-full")
    for words in ("No such file", "not those of a bundle"):
        verdict = integrity.verify(installed)
        (finding,) = verdict.findings
        assert (
            verdict == Verdict(str(path), "gfx942", "ck-full", 0, 0, 0, 0, 0, (finding,)) and not verdict.ok
        )
        assert (finding.bundle, finding.entry) == (path.name, "") and words in finding.problem
        path.write_bytes(bytes(200))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_damaged_block_hides_no_other(tmp_path: Path, which: int) -> None:
    installed = placed(tmp_path, named("a", True), named("b", True), named("c", True))
    damaged(installed, "operators", which)
    verdict = integrity.verify(installed)
    assert (verdict.operators, verdict.entries, verdict.executed) == (3, 2, 2)
    (finding,) = verdict.findings
    assert finding.entry == "" and "operator " in finding.problem and "damaged" in finding.problem


def test_a_damaged_table(tmp_path: Path) -> None:
    installed = placed(tmp_path, named("a", True), named("b", True))
    damaged(installed, "table")
    verdict = integrity.verify(installed)
    assert [entry for entry, _ in said(verdict)] == ["a0", "b0", ""]
    assert len({problem for _, problem in said(verdict)}) == 1, "the table's, each time"


def test_code_objects_that_are_others_or_none(tmp_path: Path) -> None:
    """Each entry is told what is wrong with its own: other bytes than its hash, no ELF."""
    made = named("a", True, True, True)
    first, second, third = made.entries
    other = replace(second, code_object=1)
    no_elf = replace(third, code_object=1, sha256=hashlib.sha256(blob(1)).digest())
    installed = placed(tmp_path, replace(made, entries=(first, other, no_elf)), images=(IMAGE, blob(1)))
    problems = dict(said(integrity.verify(installed)))
    assert set(problems) == {"a1", "a2"}
    assert problems["a1"] == "code object 1 of a1 is damaged: SHA-256 differs" and "ELF" in problems["a2"]


def test_golden_calls_are_read_to_their_end(tmp_path: Path) -> None:
    installed = placed(tmp_path, named("a", True))
    path = Path(installed.calls)
    whole = pack(Call("a", "one", {}, ())) + pack(Call("a", "two", {}, ()))
    path.write_bytes(whole)
    assert said(integrity.verify(installed)) == []
    path.write_bytes(whole[:-1])
    ((entry, problem),) = said(integrity.verify(installed))
    assert entry == "" and problem.startswith(f"{path.name}: ")
    path.unlink()
    path.mkdir()
    ((entry, problem),) = said(integrity.verify(installed))
    assert entry == "" and problem.startswith(f"{path.name}: ") and "cannot be read" in problem
    path.rmdir()
    assert said(integrity.verify(installed)) == []

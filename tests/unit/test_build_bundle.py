"""What a bundle is made of: nothing that did not compile or that the audit refused, and receipts only for what was executed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.bundles import small_operator

from aiter_prebuilt.contract.bundle import Bundle
from aiter_prebuilt.contract.receipt import recipe_digests, was_executed
from aiter_prebuilt.contract.records import Operator
from build_tools.errors import AuditError, BundleBuildError
from build_tools.judge import audit
from build_tools.judge.receipts import Receipt
from build_tools.manifest.parse import load
from build_tools.objects import codeobject
from build_tools.objects.unpack import decompress
from build_tools.pack import bundle
from build_tools.pack.bundle import BuiltBundle, build_bundle
from build_tools.pack.compress import compress
from build_tools.pack.writer import Packed
from build_tools.pipeline import bundling
from build_tools.pipeline.settings import Settings
from build_tools.records import (
    AuditReport,
    CompileJob,
    CompileResult,
    PlannedBundle,
    PlannedOperator,
    TargetFacts,
)

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "data" / "codeobjects" / "scale_gfx942.co"
FACTS = codeobject.read(FILE.read_bytes())
GFX942 = TargetFacts(
    name="gfx942", title="CDNA3", vendor="amd", wave=64, lds_bytes=65536, vgprs=512, sgprs=102, fp8="e4m3fnuz", isa_version=9402,
    cus=(304,), devices=("MI300X",), elf_mach=0x4C, distribution="aiter-prebuilt-gfx942", extra="e",
)  # fmt: skip


def planned() -> PlannedBundle:
    """An operator with two recipes; each launches a code object of its own."""
    made = small_operator("scale")
    recipes = tuple(
        replace(recipe, steps=(replace(recipe.steps[0], entry=place),))
        for place, recipe in enumerate(made.recipes)
    )
    operator = replace(made, entries=(), recipes=recipes)
    return PlannedBundle(GFX942, "ck-free", (PlannedOperator(operator, ("one", "two")),))


def results(folder: Path) -> dict[str, CompileResult]:
    """Both jobs compiled: the same kernel in two files that differ behind its last byte."""
    made = {}
    for name in ("one", "two"):
        path = folder / f"{name}.co"
        path.write_bytes(FILE.read_bytes() + name.encode())
        job = CompileJob(name, GFX942, "hip", "scale.hip", "scale", (), (), 24, (64, 1, 1), ("scale.hip",))
        made[name] = CompileResult(job, name * 8, True, path, "scale")
    return made


AUDITS = {name: AuditReport(name, FACTS, ()) for name in ("one", "two")}


def build(
    folder: Path, compiled: Mapping[str, CompileResult], audits: Mapping[str, AuditReport], *receipts: Receipt
) -> BuiltBundle:
    known = {receipt.digest: receipt for receipt in receipts}
    return build_bundle(planned(), compiled, audits, {}, "0.1.0", "", folder, known)


def read(built: BuiltBundle) -> Operator:
    return Bundle(built.path.read_bytes(), decompress).operator("scale")


def receipt(digest: str, device: str) -> Receipt:
    return Receipt(digest, "norm", "scale.row", "", "gfx942", device, "", frozenset(), "r", "c", 3, 0.5, {})


def test_a_bundle_has_what_its_jobs_gave(tmp_path: Path) -> None:
    compiled = results(tmp_path)
    built = build(tmp_path, compiled, AUDITS)
    entries = read(built).entries
    assert (built.entries, built.code_objects, built.unproved) == (2, 2, 2)
    paths = [compiled[entry.name].path for entry in entries]
    assert [entry.sha256 for entry in entries] == [
        hashlib.sha256(path.read_bytes()).digest() for path in paths if path is not None
    ]


@pytest.mark.parametrize("place", [0, 1])
def test_an_entry_has_the_receipt_of_the_recipe_that_launches_it(tmp_path: Path, place: int) -> None:
    """The other one was not executed, and says so."""
    digest = recipe_digests(read(build(tmp_path, results(tmp_path), AUDITS)))[place]
    built = build(tmp_path, results(tmp_path), AUDITS, receipt(digest, f"card {place}"))
    entries = read(built).entries
    assert [was_executed(entry) for entry in entries] == [place == 0, place == 1] and built.unproved == 1
    assert json.loads(entries[place].receipt)["device"] == f"card {place}"


@pytest.mark.parametrize(
    ("compiled", "audited", "said"),
    [
        ({"ok": False}, {}, "put two into a bundle: its compile failed"),
        ({"path": None}, {}, "put two into a bundle: its compile failed"),
        ({}, {"problems": ("it has no kernel", "waves of 32")}, "two into a bundle: it has no kernel; waves"),
        ({}, {"facts": None, "problems": ("damaged",)}, "put two into a bundle: damaged"),
    ],
)
def test_what_failed_or_was_refused_enters_no_bundle(
    tmp_path: Path, compiled: dict[str, Any], audited: dict[str, Any], said: str
) -> None:
    made = results(tmp_path)
    made["two"] = replace(made["two"], **compiled)
    with pytest.raises(BundleBuildError, match=said):
        build(tmp_path, made, AUDITS | {"two": replace(AUDITS["two"], **audited)})
    assert not list(tmp_path.glob("*.apb"))


@pytest.mark.parametrize(
    ("sources", "together"),
    [
        (("a.hip", "a.hip"), True),
        (("a.hip", "b.hip"), False),
        (("csrc/kernels/hip/a.hip", "csrc/kernels/hip/b.hip"), False),
        (("aiter:hsa/gfx942/fmoe/silu/a.co", "aiter:hsa/gfx942/fmoe/gelu/b.co"), True),
        (("aiter:hsa/gfx942/fmoe/a.co", "aiter:hsa/gfx942/pa/a.co"), False),
    ],
)
def test_what_is_likely_to_be_alike_is_stored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: tuple[str, str], together: bool
) -> None:
    """Kernels of one source, and those that AITER has in one family's folder."""
    groups: list[str] = []

    def seen(blobs: Sequence[bytes], names: Sequence[str], pool: Executor | None) -> Packed:
        groups.extend(names)
        return compress(blobs, names, pool)

    monkeypatch.setattr(bundle, "compress", seen)
    made = results(tmp_path)
    for name, source in zip(("one", "two"), sources, strict=True):
        made[name] = replace(made[name], job=replace(made[name].job, source=source))
    build(tmp_path, made, AUDITS)
    assert (len(groups), len(set(groups)) == 1) == (2, together)


class Tools:
    """What the pipeline asks of a toolchain."""

    trees: tuple[tuple[str, str], ...] = ()

    def provenance(self) -> dict[str, str]:
        return {}


@pytest.mark.parametrize("broken", [(), ("two",), ("one", "two")])
def test_the_audit_stops_the_build_and_names_each_code_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...]
) -> None:
    """The bundle of an earlier build is not left behind either."""

    def judge(result: CompileResult, *_: object) -> AuditReport:
        name = result.job.id
        return replace(AUDITS[name], problems=("it is too large",) if name in broken else ())

    monkeypatch.setattr(audit, "judge", judge)
    settings = Settings(tmp_path, tmp_path / "store", tmp_path)
    old = tmp_path / "gfx942-ck-free.apb"
    old.write_bytes(b"of an earlier build")
    made, manifest = tuple(results(tmp_path).values()), load(ROOT / "manifests")
    tools: Any = Tools()

    def run() -> BuiltBundle:
        return bundling._bundle(planned(), made, manifest, tools, settings, {}, {}, {}, "")

    if not broken:
        assert run().path.read_bytes() == old.read_bytes() != b"of an earlier build"
        return
    with pytest.raises(AuditError) as caught:
        run()
    assert str(caught.value).splitlines()[:-1] == [f"{name}: it is too large" for name in broken]
    assert not old.exists()

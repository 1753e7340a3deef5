"""A target stands in one table: what the runtime knows of it, and what it prints, follows from ``manifests/targets.toml``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support import repository

from aiter_prebuilt.bundles import extras
from aiter_prebuilt.contract import products
from aiter_prebuilt.contract.targets import TARGETS
from build_tools.generate import targets
from build_tools.manifest.model import Manifest

ROOT = Path(__file__).resolve().parents[2]
#: Places that have more of a target than its name: facts of one GPU, tables that a target has or has not, AITER's own names.
_NAMED = re.compile(r"\b(gfx\d+[a-z]?|sm_?\d+)\b")


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    """This repository's."""
    return repository.manifest()


def _with_one_more(manifest: Manifest) -> dict[str, Any]:
    facts = manifest.targets["gfx950"].model_copy(
        update={"elf_mach": 0x7F, "extra": "gfx999", "devices": ["MI900X", "MI955X"], "fp8": "e4m3fnuz"}
    )
    return {**manifest.targets, "gfx999": facts}


def test_the_table_is_generated(manifest: Manifest) -> None:
    assert Path(targets.FILE) in repository.generated()


def test_a_new_target_is_known_everywhere(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {"__name__": "targets_with_one_more"}
    exec(targets.text(_with_one_more(manifest)), found)
    assert found["AMD"] == (*(name for name, each in TARGETS.items() if each.vendor == "amd"), "gfx999")
    assert found["AMDGPU_MACHS"][0x7F] == "gfx999" and found["NAMES"].endswith(", gfx999")
    assert (found["fp8_of"]("gfx999"), found["fp8_of"]("")) == ("e4m3fnuz", "e4m3fn")
    table = found["TARGETS"]
    monkeypatch.setitem(TARGETS, "gfx999", table["gfx999"])
    assert products.supported().endswith(", gfx999 (MI900)")
    assert extras.nothing_installed().endswith("or 'aiter-prebuilt[gfx999]'")
    assert products.of_table(TARGETS)["mi955x"] == products.of_table(TARGETS)["mi900"] == "gfx999"


def test_no_message_lists_targets_by_hand() -> None:
    """Two targets in one text of the runtime's commands and of the build's verbs are a list that a new one would miss."""
    folders = (
        "src/aiter_prebuilt/commands",
        "src/aiter_prebuilt/bundles",
        "src/aiter_prebuilt/launch",
        "build_tools/verbs",
    )
    listed = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.count('"') >= 2 and {"gfx942", "gfx950"} <= set(_NAMED.findall(line))
    ]
    assert not listed

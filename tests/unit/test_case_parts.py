"""``lint`` fails when any part of an operator is missing, and names operator and part."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import repository

from build_tools import __main__ as verbs
from build_tools.cases import parts, table
from build_tools.cases.subject import subjects
from build_tools.errors import ManifestError
from build_tools.manifest.parse import load
from build_tools.verbs import options

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of what lint reads of kernels and manifests."""
    for name in ("manifests", "csrc/kernels", "hsa"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def edited(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))


def missing(root: Path, family: str = "") -> list[str]:
    """What lint finds, in one family or in all, before it asks whether cases notice anything."""
    folder = root / "manifests"
    manifest = load(folder)
    asked = [subject for subject in subjects(manifest) if family in ("", subject.family)]
    found = [*parts.unreferenced(asked, folder)]
    if found:
        return found
    try:
        return [*parts.uncalled(table.load(folder, asked, manifest.targets), manifest.targets)]
    except ManifestError as error:
        return [*error.problems]


def test_nothing_is_missing_here() -> None:
    manifest = repository.manifest()
    assert [*parts.unreferenced(subjects(manifest), repository.MANIFESTS)] == []
    assert [*parts.uncalled(repository.cases(), manifest.targets)] == []


def without(name: str) -> Callable[[str], str]:
    return lambda text: text.replace(f"\ndef {name}(", f"\ndef _{name}(")


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("softmax/reference.py", without("softmax"), r"softmax/reference\.py: softmax: no reference: write def softmax"),
        ("softmax/cases.toml", lambda text: text.replace("golden", "# golden", 1), r"softmax\.golden: no golden"),
        ("softmax/cases.toml", lambda text: text.replace("[softmax]", "[softmux]"), "softmax: the operator has no table"),
        (
            "softmax/cases.toml",
            lambda text: re.sub(r"calls = \[.*?\n\]", "calls = []", text, flags=re.DOTALL),
            "softmax.calls: no calls",
        ),
        (
            "softmax/cases.toml",
            lambda text: re.sub(r'golden = "([^"]*)"', r'golden = "\1 targets=gfx942"', text),
            "softmax: no golden call on gfx950, where it has kernels",
        ),
    ],
)  # fmt: skip
def test_operator_and_part_are_named(root: Path, file: str, change: Callable[[str], str], said: str) -> None:
    edited(root / "manifests" / file, change)
    found = missing(root, "softmax")
    assert any(re.search(said, line) for line in found), found


def test_a_family_without_references_names_its_operators(root: Path) -> None:
    (root / "manifests/norm/reference.py").unlink()
    found = missing(root)
    assert any("norm/reference.py: rms_norm: no reference" in line for line in found)
    assert len(found) == len(
        [subject for subject in subjects(load(root / "manifests")) if subject.family == "norm"]
    )


def test_the_verb_refuses_missing_parts_and_stale_files(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "ci", root / "ci")
    monkeypatch.setattr(options, "ROOT", root)
    monkeypatch.setattr(
        "build_tools.cases.sensitivity.check_all", lambda *_: ([], {})
    )  # has tests of its own
    monkeypatch.setattr(sys, "argv", ["build_tools", "lint"])

    def code() -> int:
        try:
            verbs.main()
        except SystemExit as exit_:
            return int(exit_.code or 0)
        return 0

    assert code() == 14  # none of the generated files was copied
    assert "docs/operators.md" in capsys.readouterr().err
    edited(root / "manifests/softmax/reference.py", without("softmax"))
    assert code() == 3
    assert "softmax: no reference" in capsys.readouterr().err

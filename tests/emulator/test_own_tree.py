"""Build and prove the examples of ``docs/own-kernels.md`` and ``docs/own-kernels-flydsl.md`` as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.emulator import library_path

pytest.importorskip("flydsl")
pytest.importorskip("ziglang")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "own-kernels-flydsl.md"
HIP_PAGE = ROOT / "docs" / "own-kernels.md"
_FILE = re.compile(r"^(?:[^\n]* )?`([\w/.]+)`[^\n`]*:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    command = [sys.executable, "-m", "build_tools", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1200)


def tree_of(page: Path, folder: Path) -> Path:
    """Write the files that ``page`` shows into a new tree in ``folder``."""
    library_path()  # or there is none, and nothing to be proved on
    assert run("new-tree", folder).returncode == 0
    for name, text in _FILE.findall(page.read_text()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The tree of the page about FlyDSL."""
    return tree_of(PAGE, tmp_path / "tree")


def built(tree: Path, *words: str) -> dict[str, Any]:
    done = run("build", "--root", tree, "--store", tree.parent / "store", "--json", *words)
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def cached(told: dict[str, Any]) -> set[bool]:
    return {job["cached"] for job in told["jobs"]}


def unproved(told: dict[str, Any]) -> int:
    return sum(bundle["unproved"] for bundle in told["bundles"])


def test_the_page_is_built_proved_and_keyed_by_all_that_it_reads(tree: Path) -> None:
    first = built(tree)
    assert cached(first) == {False} and unproved(first) == 8
    assert (tree / "build" / "bundles" / "gfx942-ck-free.tree.apb").is_file()
    assert "def own_gelu(x: torch.Tensor)" in (tree / "build" / "functions" / "own.py").read_text()
    done = run("prove", "--root", tree)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told = json.loads((tree / "manifests" / "own" / "receipts.json").read_text())
    assert {(place["target"], len(place["recipes"])) for place in told["devices"]} == {
        ("gfx942", 2),
        ("gfx950", 2),
    }
    assert all(0 < row["worst"] < 1 for place in told["devices"] for row in place["recipes"].values())
    again = built(tree)
    assert cached(again) == {True} and unproved(again) == 0

    # A byte of a package that the source imports is another key; the code is the same, and the receipts hold.
    helper = tree / "parts" / "elements.py"
    helper.write_text(helper.read_text() + "#")
    other = built(tree, "--target", "gfx942")
    assert cached(other) == {False} and unproved(other) == 0

    # Another kernel is not proved, and its results are wrong.
    source = tree / "gelu.py"
    assert source.read_text().count("value * 0.5 *") == 1
    source.write_text(source.read_text().replace("value * 0.5 *", "value * 0.25 *"))
    wrong = built(tree, "--target", "gfx942")
    assert cached(wrong) == {False} and unproved(wrong) > 0
    done = run("prove", "--root", tree, "--target", "gfx942")
    assert done.returncode != 0 and "own_gelu" in done.stderr and "calls are wrong" in done.stderr


def test_hip_example_is_linted_built_and_proved(tmp_path: Path) -> None:
    tree = tree_of(HIP_PAGE, tmp_path / "tree")
    linted = run("lint", "--root", tree)
    assert linted.returncode == 0 and "manifests are right: 1 operators" in linted.stdout, linted.stderr
    assert unproved(built(tree)) == 4
    proved = run("prove", "--root", tree)
    assert proved.returncode == 0, proved.stdout[-3000:] + proved.stderr[-3000:]
    assert unproved(built(tree)) == 0
    assert "def own_scale(x: torch.Tensor" in (tree / "build" / "functions" / "own.py").read_text()
    assert "use_scale.py" in [path.name for path in tree.iterdir()]
    assert called(tree, "use_scale.py").split() == ["True"]


def called(tree: Path, program: str) -> str:
    """Run a program of the page on the emulator, as the page says, and return its output."""
    pytest.importorskip("torch")
    paths = os.pathsep.join((str(tree / "build" / "functions"), str(ROOT / "src")))
    env = {**os.environ, "PYTHONPATH": paths, "AITER_PREBUILT_BUNDLES": str(tree / "build" / "bundles")}
    emulated = [sys.executable, "-m", "aiter_prebuilt_emulator", "run", "--devices", "gfx942", "--"]
    command = [*emulated, sys.executable, "-m", "aiter_prebuilt_emulator.torch", program]
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_lint_asks_a_tree_for_its_own_operators_alone(tree: Path) -> None:
    done = run("lint", "--root", tree)
    assert done.returncode == 0 and "manifests are right: 1 operators" in done.stdout, done.stderr
    cases = tree / "manifests" / "own" / "cases.toml"
    cases.write_text('[own_gelu]\ngolden = "B=2 M=3 N=5 T=f32 x~zeros"\ncalls = ["B=2 M=3 N=5 x~zeros"]\n')
    done = run("lint", "--root", tree)
    assert done.returncode != 0 and "own_gelu" in done.stderr and "notice" in done.stderr, done.stderr


def test_a_link_out_of_the_tree_is_refused_by_name(tree: Path) -> None:
    helper = tree / "parts" / "elements.py"
    secret = helper.rename(tree.parent / "secret.py")
    helper.symlink_to(secret)
    done = run("build", "--root", tree, "--target", "gfx942")
    assert done.returncode != 0
    assert f"parts/elements.py leads out of its tree, to {secret}" in done.stderr

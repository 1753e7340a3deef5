"""What judges is part of what a receipt says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aiter_prebuilt.contract.judging import ENTRY, NOT_JUDGING, judge_graph, judging
from aiter_prebuilt.execute.run import own_state
from build_tools.cases.receipt_state import PACKAGE
from build_tools.errors import ManifestError
from build_tools.judge import receipts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PACKAGE, tmp_path / "aiter_prebuilt", ignore=shutil.ignore_patterns("*.so")))


def test_the_executor_and_the_build_mean_the_same_judge() -> None:
    assert own_state() == judging(PACKAGE)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("execute/judge.py", "least <= value <= most", "least <= value"),
        ("execute/run.py", "tensor.changed_behind()", "not tensor.changed_behind()"),
        ("execute/layout.py", "return", "return not"),
        ("execute/array.py", "POISON", "_POISON"),
        ("execute/values.py", '"f16": (10, -14)', '"f16": (10, -15)'),
        ("execute/record.py", "0 not in", "1 not in"),
        ("devices/device_memory.py", "_HOST_TO_DEVICE = 1", "_HOST_TO_DEVICE = 2"),
    ],
)
def test_another_verdict_is_another_judge(package: Path, name: str, before: str, after: str) -> None:
    known = judging(package)
    text = (package / name).read_text()
    assert before in text
    (package / name).write_text(text.replace(before, after))
    assert judging(package) != known
    (package / name).write_text(f"# prose\n{text}")
    assert judging(package) == known


def test_decides_about_every_module_that_it_imports() -> None:
    """A new import of the judge is followed, unless somebody says that it judges nothing."""
    graph = judge_graph(PACKAGE)
    modules = {module for module, _ in graph.reachable([ENTRY])}
    assert all(module.startswith("aiter_prebuilt.") for module in modules)
    assert modules.isdisjoint(NOT_JUDGING)
    imported = {
        target
        for module in modules
        for owner, name in graph.imports(module).values()
        for target in (owner, f"{owner}.{name}")
    }
    unused = NOT_JUDGING - imported - {"aiter_prebuilt._native"}
    assert not unused


@pytest.mark.parametrize("worst", [1.0001, 5.0, -0.1])
def test_a_receipt_of_a_wrong_result_is_none(tmp_path: Path, worst: float) -> None:
    text = (ROOT / "manifests/norm/receipts.json").read_text()
    place = text.index('"worst": ') + len('"worst": ')
    end = text.index(",", place)
    path = tmp_path / "manifests/norm/receipts.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert receipts.read(tmp_path)
    path.write_text(f"{text[:place]}{worst}{text[end:]}")
    with pytest.raises(ManifestError, match=r"was wrong: .* of what is allowed"):
        receipts.read(tmp_path)

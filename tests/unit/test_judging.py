"""What judges is part of what a receipt says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aiter_prebuilt.contract import judging
from aiter_prebuilt.execute.run import own_state
from build_tools.cases.meaning import PACKAGE
from build_tools.errors import ManifestError
from build_tools.judge import receipts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in judging.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, tmp_path / name)
    return tmp_path


def test_the_executor_and_the_build_mean_the_same_files() -> None:
    assert own_state() == judging.judging(PACKAGE)


@pytest.mark.parametrize("name", judging.FILES)
def test_a_change_of_any_of_them_is_another_state(package: Path, name: str) -> None:
    before = judging.judging(package)
    with (package / name).open("a") as file:
        file.write("# changed\n")
    assert judging.judging(package) != before


def test_the_comparison_itself_is_among_them() -> None:
    assert {"execute/judge.py", "execute/values.py", "execute/layout.py", "execute/run.py"} <= {
        *judging.FILES
    }


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

"""A new operator by the scaffold verb: complete as it stands, and lint names what is taken away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from build_tools.errors import UsageError
from build_tools.generate import scaffold
from build_tools.manifest.parse import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of what defines the operators."""
    for folder in ("manifests", "csrc/kernels", "hsa"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_a_copy_has_every_part_of_its_model(root: Path) -> None:
    changed = scaffold.new_operator("toy_and_mul", "gelu_and_mul", load(root / "manifests"), root)
    assert [path.relative_to(root).as_posix() for path in changed] == [
        "manifests/activation/operators.toml", "manifests/activation/reference.py", "manifests/activation/cases.toml",
    ]  # fmt: skip
    family = {
        operator.name: operator for operator in load(root / "manifests").families["activation"].operators
    }
    toy, model = family["toy_and_mul"], family["gelu_and_mul"]
    assert (toy.python, toy.arguments, toy.kernels) == (model.python, model.arguments, model.kernels)
    assert "def toy_and_mul(input: Values)" in (root / "manifests/activation/reference.py").read_text()
    assert (
        '[toy_and_mul]\ndefault = "input~normal:4"' in (root / "manifests/activation/cases.toml").read_text()
    )


@pytest.mark.parametrize(
    ("name", "like", "part"),
    [
        ("toy", "gelu_and_mull", "did you mean 'gelu_and_mul'"),
        ("silu_and_mul", "gelu_and_mul", "there is one in manifests/activation"),
        ("Toy!", "gelu_and_mul", "no name of a function"),
        ("toy", "flash_attn_func", "hand-written function"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(
    root: Path, name: str, like: str, part: str
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.toml")}
    with pytest.raises(UsageError, match=part):
        scaffold.new_operator(name, like, load(root / "manifests"), root)
    assert before == {path: path.read_bytes() for path in root.rglob("*.toml")}

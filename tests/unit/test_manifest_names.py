"""What operators, parameters and families may be called."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest
from support import made_manifest, repository

import aiter_prebuilt.ops._common
from build_tools.errors import ManifestError
from build_tools.manifest.names import operator_problem
from build_tools.manifest.parse import load
from build_tools.manifest.python import PythonSignatureError, parse_python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_manifest.placed(tmp_path)


TAKEN = "aiter_prebuilt has something of that name"
WORD = "it is a word of Python's grammar"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, TAKEN) for name in ("devices", "bundles", "errors", "launch", "execute", "ops", "contract", "shuffle")),
        *((name, TAKEN) for name in ("preload", "shuffle_weight", "import_module", "attention", "generated")),
        *((name, WORD) for name in ("class", "lambda", "match", "case")),
        *((name, "Python has one of that name") for name in ("max", "print", "tuple", "id")),
        *((name, "use it themselves") for name in ("operator", "torch", "traced", "like", "refuse", "element_type")),
        *((name, "references, or torch.ops") for name in ("np", "near", "name")),
        *((name, "starts with a small letter") for name in ("_scale", "Scale", "SCALe", "S")),
        ("type", ""),  # a builtin, and from Python 3.12 on a soft keyword
        ("draw_scale", "references call their draws"),
        ("refuse_scale", "refuse_NAME is generated"),
    ],
)  # fmt: skip
def test_an_operator_cannot_be_called_what_is_taken(folder: Path, name: str, why: str) -> None:
    path = folder / "norm" / "operators.toml"
    path.write_text(path.read_text().replace("[operators.scale", f"[operators.{name}"))
    with pytest.raises(ManifestError) as caught:
        load(folder)
    (line,) = [line for line in caught.value.problems if "no name of a function" in line]
    assert f"operators.{name}: {name!r} is no name of a function here: " in line and why in line


def test_names_of_aiter_are_not_taken() -> None:
    names = [
        name
        for entries in repository.manifest().catalogue.categories.values()
        for entry in entries
        for name in entry.operators
    ]
    around = set(aiter_prebuilt.ops.COMPOSED)  # functions of ours: theirs in AITER, and taken by that
    assert len(names) > 50 and not [name for name in names if name not in around and operator_problem(name)]


def test_everything_that_the_package_has_is_taken() -> None:
    """Asked of the package as it is imported; the rule reads its files."""
    ours = set(aiter_prebuilt.ops.HOMES)
    has = {module.name for module in pkgutil.iter_modules(aiter_prebuilt.__path__)} | set(
        vars(aiter_prebuilt)
    )
    has |= set(aiter_prebuilt.__all__) | set(aiter_prebuilt.ops.COMPOSED)
    has |= {name for name in dir(aiter_prebuilt.ops._common) if not name.startswith("__")}
    assert "tracing" in has and not [name for name in has - ours if operator_problem(name) is None]


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ("class: Tensor", "'class' is no name of a parameter here: it is a word of Python's grammar"),
        ("a: Tensor, lambda : int = 0", "'lambda' is no name of a parameter here: it is a word"),
        ("_input: Tensor", "'_input' is no name of a parameter here: it starts with a letter"),
        ("like: Tensor", "'like' is no name of a parameter here: generated functions use it themselves"),
        ("NOT_A_TENSOR: Tensor", "generated functions use it themselves"),
        ("kinds: Tensor", "references, or generated functions, use it themselves"),
        ("a: Tensor, b: int, a: int", "parameter 'a' stands there twice"),
        ("a: Tensor, b", "parameter 'b' has no annotation"),
        ("a: Tensor b", "is not of the form"),
    ],
)
def test_a_parameter_cannot_be_called_what_is_taken(parameters: str, why: str) -> None:
    with pytest.raises(PythonSignatureError, match=re.escape(why)):
        parse_python(f"({parameters}) -> None")
    assert parse_python("(input: Tensor, type: int, XQ: Tensor) -> None").names == ("input", "type", "XQ")


@pytest.mark.parametrize("name", ["class", "two-words", "__init__"])
def test_a_family_is_a_module(folder: Path, name: str) -> None:
    (folder / "norm").rename(folder / name)
    with pytest.raises(
        ManifestError, match=f"manifests/{name}/operators.toml: '{name}' is no name of a family"
    ):
        load(folder)


def test_a_module_by_hand_bears_its_family_s_name(folder: Path) -> None:
    path = folder / "norm" / "operators.toml"
    text = path.read_text()
    for name, refused in (("other", True), ("normal", True), ("norm_scale", False)):
        path.write_text(re.sub(r"(?m)^(python = )", rf'function = "{name}"\n\1', text, count=1))
        try:
            load(folder)
            problems: tuple[str, ...] = ()
        except ManifestError as error:
            problems = tuple(error.problems)
        line = f"ops/{name}.py does not bear the family's name: norm or norm_..."
        assert any(line in each for each in problems) is refused, problems

"""A tree of kernels of one's own: what it has of this repository, and the functions of its operators."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from build_tools import __main__ as cli
from build_tools.errors import UsageError
from build_tools.generate import extension, own_tree
from build_tools.manifest.parse import load
from build_tools.manifest.python import PythonSignatureError, parse_python
from build_tools.manifest.tree import FILE, load_tree
from build_tools.verbs import options

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
_KERNEL = """
[kernels.mine]
backend = "hip"
targets = ["gfx942"]
source = "mine.hip"
symbol = "mine"
grid = ["M"]
block = [64]
args = ["ptr out"]
"""
OPERATORS = """
edition = 2

[kernels.halves]
backend = "flydsl"
targets = ["gfx942"]
source = "halves.py"
symbol = "halves"
grid = ["M"]
block = [64]
args = ["ptr out", "ptr x", "i32 M"]

[operators.own_halves]
python = "(x: Tensor) -> Tensor"
module = "module_own"
summary = "`x / 2`."
source = "nobody"
arguments.x = "f32[M]"
returns.out = "f32[M]"
kernels = ["halves"]
"""


def tree(folder: Path) -> Path:
    own_tree.make(folder, ROOT)
    (folder / "manifests" / "own").mkdir()
    (folder / "manifests" / "own" / "operators.toml").write_text(OPERATORS)
    (folder / "halves.py").write_text("")
    return folder


def test_what_is_copied_once_is_right(tmp_path: Path) -> None:
    written = own_tree.make(tmp_path, ROOT)
    assert set(written) == {*own_tree.COPIED, own_tree.CATALOGUE, FILE}
    assert own_tree.make(tmp_path, ROOT) == []
    own_tree.check(tmp_path, ROOT)
    assert load(tmp_path / "manifests").families == {}


@pytest.mark.parametrize("name", [*own_tree.COPIED, own_tree.CATALOGUE, FILE])
def test_a_tree_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    own_tree.make(tmp_path, ROOT)
    (tmp_path / name).unlink()
    with pytest.raises(UsageError, match=rf"it has no {name}.*new-tree {tmp_path}"):
        own_tree.check(tmp_path, ROOT)
    assert own_tree.make(tmp_path, ROOT) == [name]


@pytest.mark.parametrize("name", own_tree.COPIED)
def test_a_copy_of_another_time_is_refused_and_renewed(tmp_path: Path, name: str) -> None:
    own_tree.make(tmp_path, ROOT)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"\n")
    with pytest.raises(UsageError, match=f"its {name} is another than the one of these tools"):
        own_tree.check(tmp_path, ROOT)
    assert own_tree.make(tmp_path, ROOT) == [name]
    own_tree.check(tmp_path, ROOT)


def test_a_catalogue_of_one_s_own_is_kept(tmp_path: Path) -> None:
    own_tree.make(tmp_path, ROOT)
    (tmp_path / own_tree.CATALOGUE).write_text("edition = 1\n[categories]\n# mine\n")
    own_tree.check(tmp_path, ROOT)
    assert own_tree.make(tmp_path, ROOT) == []


@pytest.mark.parametrize("folder", [ROOT, ROOT / "examples"])
def test_this_repository_is_no_such_tree(folder: Path) -> None:
    with pytest.raises(UsageError, match="it belongs to this repository, or is one"):
        own_tree.make(folder, ROOT)
    assert not options.own_tree(ROOT)


def test_the_functions_of_its_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tree(tmp_path)
    place = own_tree.write_functions(load(folder / "manifests"), folder)
    assert sorted(path.name for path in place.iterdir()) == ["__main__.py", "own.py"]
    stamp = (place / "own.py").stat().st_mtime_ns
    own_tree.write_functions(load(folder / "manifests"), folder)
    assert (place / "own.py").stat().st_mtime_ns == stamp
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "own", raising=False)
    import own  # type: ignore[import-not-found]

    assert own.OPERATORS == ("own_halves",)
    assert own.own_halves.__doc__.startswith("``x / 2``.")
    monkeypatch.delitem(sys.modules, "own")


def test_a_function_by_hand_has_no_place_there(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    text = OPERATORS.replace('module = "module_own"', 'module = "module_own"\nfunction = "own_by_hand"')
    (folder / "manifests" / "own" / "operators.toml").write_text(text)
    with pytest.raises(UsageError, match="manifests/own says that own_halves is written by hand"):
        own_tree.write_functions(load(folder / "manifests"), folder)


@pytest.mark.parametrize("name", ["random", "numpy"])
def test_a_family_hides_no_other_module(tmp_path: Path, name: str) -> None:
    folder = tree(tmp_path)
    (folder / "manifests" / "own").rename(folder / "manifests" / name)
    with pytest.raises(UsageError, match=f"manifests/{name} would become a module '{name}'"):
        own_tree.write_functions(load(folder / "manifests"), folder)


@pytest.mark.parametrize("verb", ["build", "prove"])
def test_verbs_refuse_a_folder_that_is_none(
    tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["build_tools", verb, "--root", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == UsageError.exit_code
    assert f"new-tree {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folder", "name"),
    [("acme", "acme"), ("Acme Kernels_2", "acme-kernels-2"), ("9x", "own-9x"), ("aiter", "own-aiter")],
)
def test_a_new_tree_has_a_name_that_a_wheel_can_have(tmp_path: Path, folder: str, name: str) -> None:
    own_tree.make(tmp_path / folder, ROOT)
    tree = load_tree(tmp_path / folder)
    assert tree is not None and tree.name == name and tree.order == "before"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('name = "aiter-prebuilt-gfx942"', "no name of ours"),
        ('name = "Acme"', "small letters"),
        ('name = "acme"\nversion = "new"', "'new' is no version"),
        ('name = "acme"\norder = "first"', "'before' or 'after'"),
        ('name = "acme"\nlicense = "MIT"', "Extra inputs"),
        ("name = ", "not TOML"),
    ],
)
def test_a_wrong_tree_toml_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / FILE).write_text(f'{line}\nlicence = "MIT"\n')
    with pytest.raises(UsageError, match=rf"read {tmp_path / FILE}.*{said}"):
        load_tree(tmp_path)


def test_another_signature_of_a_known_operator_is_refused_before_it_is_built(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    name = next(iter(load(ROOT / "manifests").families["l2norm"].operators)).name
    (folder / "manifests" / "own" / "operators.toml").write_text(OPERATORS.replace("own_halves", name))
    with pytest.raises(
        UsageError, match=rf"add kernels to {name}: its signature is .*that of the product is"
    ):
        options.own_tree(folder)


def test_an_operator_of_the_product_is_copied_with_reference_and_calls(tmp_path: Path) -> None:
    own_tree.make(tmp_path, ROOT)
    house = load(ROOT / "manifests")
    assert extension.extend(tmp_path, ROOT, house, "gemm_a16w16") == [
        f"manifests/gemm/{name}" for name in ("operators.toml", "reference.py", "cases.toml")
    ]
    place = tmp_path / "manifests" / "gemm" / "operators.toml"
    text = place.read_text().replace("kernels = []", 'kernels = ["mine"]') + _KERNEL
    place.write_text(text)
    (tmp_path / "mine.hip").write_text("")
    options.own_tree(tmp_path)  # the signature is the product's
    reference = (tmp_path / "manifests" / "gemm" / "reference.py").read_text()
    assert "def gemm_a16w16(" in reference and "def gemm_a8w8" not in reference
    assert "otype=" not in (tmp_path / "manifests" / "gemm" / "cases.toml").read_text()
    assert own_tree.added_operators(tmp_path) == {"gemm": ()}
    with pytest.raises(UsageError, match="is there already"):
        extension.extend(tmp_path, ROOT, house, "gemm_a16w16")


def test_an_operator_whose_native_call_is_no_function_s_is_not_copied(tmp_path: Path) -> None:
    house = load(ROOT / "manifests")
    refused = []
    for family in house.families.values():
        for operator in family.operators:
            assert (
                tomllib.loads(extension.operator_text(operator))["operators"][operator.name]["kernels"] == []
            )
            try:
                assert parse_python(extension.python_of(operator)).returned == len(operator.returns)
            except PythonSignatureError:
                refused.append(operator.name)
    assert 0 < len(refused) < 20
    with pytest.raises(
        UsageError, match=f"copy {refused[0]} into .*no Python function can have its native arguments"
    ):
        extension.extend(tmp_path, ROOT, house, refused[0])

"""A new operator by the scaffold verb: complete as it stands, and lint names what is taken away."""

from __future__ import annotations

import ast
import builtins
import re
import shutil
import symtable
import sys
from pathlib import Path

import pytest
from support import repository

from build_tools.__main__ import cli
from build_tools.cases import limits
from build_tools.errors import ManifestError, StaleFilesError, UsageError
from build_tools.generate import matrix, scaffold, scaffold_function
from build_tools.manifest.parse import document, load
from build_tools.manifest.problems import Problems
from build_tools.verbs import options

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of what defines the operators, which may leave out of AITER's tree what it likes, modules and objects, and has no
    models.
    """
    for folder in ("manifests", "csrc/kernels", "hsa"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "hsa" / "left_out.toml").unlink()
    for name in ("modules.toml", "models.toml", "clients.toml"):
        (tmp_path / "manifests" / name).unlink()
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
        '[toy_and_mul]\ndefault = "input~normal:4 X=T"'
        in (root / "manifests/activation/cases.toml").read_text()
    )


def test_a_hand_written_function_is_copied_with_what_it_uses(root: Path) -> None:
    shutil.copytree(ROOT / scaffold_function.FOLDER, root / scaffold_function.FOLDER)
    manifest = load(root / "manifests")
    changed = scaffold.new_operator("toy_heads", "fused_kv_norm_rope_group_quant", manifest, root)
    assert changed[-1] == root / scaffold_function.FOLDER / "rope_group_quant_toy_heads.py"
    text = changed[-1].read_text()
    assert '_toy_heads = operator("toy_heads")' in text and "@traced\ndef toy_heads(" in text
    assert "inverse" not in text, "another function of the module"
    operators = {each.name: each for each in load(root / "manifests").families["rope_group_quant"].operators}
    assert operators["toy_heads"].function == "rope_group_quant_toy_heads"
    cases = document(root / "manifests/rope_group_quant/cases.toml", Problems())
    assert cases is not None and "refused" in cases["toy_heads"]
    assert cases["toy_heads"] == cases["fused_kv_norm_rope_group_quant"]


def test_limits_that_a_model_shares_are_the_copy_s_own(root: Path) -> None:
    shutil.copytree(ROOT / scaffold_function.FOLDER, root / scaffold_function.FOLDER)
    scaffold.new_operator("toy_bwd", "attention_dropout_bwd", load(root / "manifests"), root)
    assert limits.problems_of(load(root / "manifests"), root / "manifests") == []
    cases = document(root / "manifests/attention_dropout/cases.toml", Problems())
    assert cases is not None and cases["toy_bwd"]["refused"]["HQ a multiple of HK"] == "HQ=3 HK=2"


def test_a_copied_function_lacks_no_name() -> None:
    operators = [each for family in repository.manifest().families.values() for each in family.operators]
    seen = 0
    for operator in operators:
        if operator.function is None:
            continue
        module = ast.parse(scaffold_function.text(ROOT, operator.function, operator.name, "toy"))
        table = symtable.symtable(ast.unparse(module), "toy.py", "exec")
        made = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
        made |= {each.get_name() for each in table.get_symbols() if each.is_namespace()}
        assert "toy" in made, operator.name
        lacks = {name for name in globals_of(table) if name not in made and not hasattr(builtins, name)}
        assert not lacks, (operator.name, lacks)
        seen += 1
    assert seen > 50


def globals_of(table: symtable.SymbolTable) -> set[str]:
    """Return the names that a module's functions look up outside of themselves."""
    found = {each.get_name() for each in table.get_symbols() if each.is_global()}
    return found.union(*(globals_of(child) for child in table.get_children()))


@pytest.mark.parametrize(
    ("name", "like", "part"),
    [
        ("toy", "gelu_and_mull", "did you mean 'gelu_and_mul'"),
        ("silu_and_mul", "gelu_and_mul", "there is one in manifests/activation"),
        ("Toy!", "gelu_and_mul", "no name of a function"),
        ("class", "gelu_and_mul", "no name of a function"),
        ("__init__", "gelu_and_mul", "no name of a function"),
        ("operator", "gelu_and_mul", "no name of a function"),
        ("devices", "gelu_and_mul", "aiter_prebuilt has something of that name"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(
    root: Path, name: str, like: str, part: str
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.toml")}
    with pytest.raises(UsageError, match=part):
        scaffold.new_operator(name, like, load(root / "manifests"), root)
    assert before == {path: path.read_bytes() for path in root.rglob("*.toml")}


def _cut(text: str, pattern: str, instead: str = "") -> str:
    changed = re.sub(pattern, instead, text, count=1, flags=re.DOTALL)
    assert changed != text
    return changed


_CALLS = r"(\[toy_and_mul\].*?)"
_TOY = r"(\[operators\.toy_and_mul\].*?)"
#: (file that loses a part, what is cut, what is put there instead, what lint says of the toy)
PARTS = [
    ("operators.toml", _TOY + r"python = [^\n]*\n", r"\1", r"operators\.toy_and_mul\.python: is missing"),
    ("operators.toml", _TOY + r"module = [^\n]*\n", r"\1", r"operators\.toy_and_mul\.module: is missing"),
    ("operators.toml", _TOY + r"summary = [^\n]*\n", r"\1", r"operators\.toy_and_mul\.summary: is missing"),
    ("operators.toml", _TOY + r"source = [^\n]*\n", r"\1", r"operators\.toy_and_mul\.source: is missing"),
    ("operators.toml", _TOY + r"arguments\.input = [^\n]*\n", r"\1", r"toy_and_mul\.arguments: tensor 'input'"),
    ("operators.toml", _TOY + r"kernels = [^\n]*", r"\1", r"operators\.toy_and_mul\.kernels: is missing"),
    ("reference.py", r"def toy_and_mul\(.*", "", r"reference\.py: toy_and_mul: no reference"),
    ("cases.toml", r"\[toy_and_mul\].*", "", r"cases\.toml: toy_and_mul: the operator has no table of cases"),
    ("cases.toml", _CALLS + r"golden = [^\n]*\n", r"\1", r"toy_and_mul\.golden: no golden"),
    ("cases.toml", _CALLS + "golden = .*", r'\1golden = "M=0 d=1"\ncalls = ["M=0 d=1"]', "toy_and_mul: no call notices"),
]  # fmt: skip


def _lint(*words: str) -> str:
    """What lint says of the manifests, "" when it passes."""
    try:
        cli.main(["lint", *words], standalone_mode=False)
    except ManifestError as error:
        return str(error)
    return ""


def test_lint_names_the_operator_and_the_part_that_is_taken_away(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toy is made by the verbs as a person makes it; each part is taken away in turn, and put back.

    Beside its family there is nothing: lint asks the cases of every operator whether they notice.
    """
    for folder in (root / "manifests").iterdir():
        if folder.is_dir() and folder.name != "activation":
            shutil.rmtree(folder)
    for name in ("unasked.toml", "limits.toml"):  # they name operators of others
        (root / "manifests" / name).unlink()
    (root / "ci").mkdir()
    for template in matrix.PIPELINES.values():
        shutil.copy(ROOT / template, root / template)
    monkeypatch.setattr(options, "ROOT", root)
    cli.main(["generate"], standalone_mode=False)
    cli.main(["new-operator", "toy_and_mul", "--like", "gelu_and_mul"], standalone_mode=False)
    cli.main(["lint"], standalone_mode=False)
    family = root / "manifests" / "activation"
    for file, cut, instead, said in PARTS:
        whole = (family / file).read_text()
        (family / file).write_text(_cut(whole, cut, instead))
        sys.modules.pop("manifests.activation.reference", None)
        problems = _lint()
        assert re.search(said, problems), f"{file} without {cut}: {problems or 'nothing was said'}"
        (family / file).write_text(whole)
    with pytest.raises(UsageError, match=r"'toy_and_mull'.*did you mean 'toy_and_mul'"):
        cli.main(["lint", "--operator", "toy_and_mull"], standalone_mode=False)
    file, cut, instead, said = PARTS[-1]
    (family / file).write_text(_cut((family / file).read_text(), cut, instead))
    assert re.search(said, _lint("--operator", "toy_and_mul")) and not _lint("--operator", "silu")
    (family / file).write_text(whole)
    generated = root / "src/aiter_prebuilt/ops/generated/activation.py"
    generated.write_text(generated.read_text().replace("def toy_and_mul(", "def toy("))
    with pytest.raises(StaleFilesError, match=r"ops/generated/activation\.py.*build_tools generate"):
        cli.main(["lint"], standalone_mode=False)

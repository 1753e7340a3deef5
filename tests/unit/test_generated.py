"""What is generated from the manifests: it is what stands in the repository, and it behaves as the manifests say."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from support import repository

import aiter_prebuilt
from aiter_prebuilt import errors
from aiter_prebuilt.ops._common import number
from aiter_prebuilt.tracing import signatures
from build_tools.errors import StaleFilesError
from build_tools.generate import exports, functions, matrix, outputs
from build_tools.generate.docstring import docstring, tensors
from build_tools.generate.functions import refusal
from build_tools.generate.python_text import fitted, substituted, wrapped
from build_tools.manifest.model import Operator
from build_tools.manifest.operators import GIVEN, ArgumentType
from build_tools.manifest.python import Parameter, parse_python

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = repository.manifest()
OPERATORS = {
    operator.name: operator for family in MANIFEST.families.values() for operator in family.operators
}
#: A value of each kind that no covered list has.
OTHERS: dict[str, Any] = {
    "int": 77,
    "bool": None,
    "float": 0.123,
    "str": "another",
    "Tensor": torch.zeros(2),
    "dtype": torch.int16,
    "tuple[int, ...]": (3, 0),
}
OPTIONS = [(name, option) for name, operator in OPERATORS.items() for option in operator.covered]


def test_the_committed_files_are_what_the_manifests_say() -> None:
    assert outputs.differing(repository.generated(), ROOT) == [], f"run: {outputs.COMMAND}"


def test_a_marked_function_is_public_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / exports.HAND_WRITTEN
    folder.mkdir(parents=True)
    body = "(x):\n    pass\n"
    marks = (
        "@traced\ndef composed",
        "@graph_break('it waits')\ndef waiting",
        "@cache\ndef inner",
        "@traced\ndef operator_",
    )
    (folder / "new_family.py").write_text("".join(f"{mark}{body}" for mark in marks))
    assert exports.composed(tmp_path, ["operator_"]) == {"new_family": ["composed", "waiting"]}
    text = exports.exports((), tmp_path)
    assert '    "composed": "new_family",' in text and "import composed, operator_, waiting" in text


def test_stale_missing_and_forgotten_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of whole plans, which nothing here changes; the test above compares the file with the manifests.
    rows = json.loads((ROOT / matrix.MATRIX).read_text())["bundles"]
    monkeypatch.setattr(matrix, "rows", lambda root: rows)
    for path in (*repository.generated(), *matrix.PIPELINES.values()):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests", dirs_exist_ok=True)
    shutil.copytree(ROOT / "csrc" / "kernels", tmp_path / "csrc" / "kernels")
    shutil.copytree(ROOT / "hsa", tmp_path / "hsa")
    for path in (ROOT / exports.HAND_WRITTEN).glob("*.py"):
        shutil.copy(path, tmp_path / exports.HAND_WRITTEN)
    outputs.check(MANIFEST, tmp_path)
    norm, extra = outputs.GENERATED / "norm.py", outputs.GENERATED / "gone.py"
    (tmp_path / norm).write_text((tmp_path / norm).read_text() + "\n")
    (tmp_path / extra).write_text("")
    (tmp_path / "docs" / "operators.md").unlink()
    pins = tmp_path / "manifests" / "toolchains.toml"
    pins.write_text(pins.read_text().replace('name = "msgpack"', 'name = "msgpacked"'))
    with pytest.raises(StaleFilesError) as caught:
        outputs.check(MANIFEST, tmp_path)
    assert all(
        path in str(caught.value)
        for path in (norm.as_posix(), extra.as_posix(), "docs/operators.md", outputs.COMMAND)
    )
    assert set(outputs.write(MANIFEST, tmp_path)) == {
        norm, extra, Path("docs/operators.md"), Path("build_tools/requirements.txt")
    }  # fmt: skip
    outputs.check(MANIFEST, tmp_path)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_function_has_the_parameters_that_the_manifest_says(name: str) -> None:
    found = inspect.signature(getattr(aiter_prebuilt, name)).parameters.values()
    wanted = OPERATORS[name].python.parameters
    assert [each.name for each in found] == [each.name for each in wanted]
    for has, says in zip(found, wanted, strict=True):
        assert has.default is inspect.Parameter.empty if says.required else has.default == says.default


@pytest.mark.parametrize("name", OPERATORS)
def test_a_docstring_speaks_of_every_parameter(name: str) -> None:
    text = inspect.getdoc(getattr(aiter_prebuilt, name)) or ""
    assert "Source: " in text and "Raises:" in text
    missing = [
        each
        for each in OPERATORS[name].python.names
        if each not in text and not each.startswith("cu_seqlens")
    ]
    assert not missing


@pytest.mark.parametrize("name", [name for name, each in OPERATORS.items() if each.dense])
def test_a_docstring_says_which_tensors_are_copied(name: str) -> None:
    operator = OPERATORS[name]
    text = " ".join(line.strip() for line in docstring(operator))
    for each in operator.dense:
        said = re.search(rf" {operator.into.get(each, each)}: (.*?)\.(?= |$)", text)
        spec = tensors(operator).get(each)
        copied = (
            "a strided one" if spec is None or spec.strides is None else "one whose strides no kernel takes"
        )
        assert said is not None and copied in said[1] and "contiguous" not in said[1], each


def _uncovered(parameter: Parameter, values: tuple[Any, ...]) -> Any:
    if parameter.kind == "bool":
        return not values[0]
    if values == GIVEN:
        return None
    return OTHERS[parameter.kind]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_option_that_is_not_covered_is_refused_by_name(name: str, option: str) -> None:
    operator = OPERATORS[name]
    if option in operator.attributes and operator.function is None and option != "num_splits":
        pytest.skip("an enum of the native call, refused there (tests/native)")
    parameter = operator.python.parameter(option)
    assert parameter is not None
    arguments: dict[str, Any] = {
        each.name: torch.zeros(2, 2)
        for each in operator.python.parameters
        if each.kind == "Tensor" and (each.required or operator.covered.get(each.name) == GIVEN)
    }
    arguments |= {
        each.name: operator.covered.get(each.name, (0,))[0]
        for each in operator.python.parameters
        if each.required and (each.kind != "Tensor" or operator.covered.get(each.name) == (None,))
    }
    with pytest.raises(errors.UnsupportedError) as caught:
        getattr(aiter_prebuilt, name)(
            **{**arguments, option: _uncovered(parameter, operator.covered[option])}
        )
    assert f"{name}(" in caught.value.asked and option in caught.value.asked


class Members(Enum):
    """As AITER's enumerations are: no integers, with a number of their own."""

    ONE = 1
    FAR = 5


class Counted:
    """An integer of another library."""

    def __index__(self) -> int:
        return 1


def test_a_member_of_an_enumeration_stands_for_its_number() -> None:
    assert [number(each) for each in (1, Members.ONE, Counted(), Members.FAR, None, "a")] == [
        1, 1, 1, 5, None, "a"
    ]  # fmt: skip
    x = torch.zeros(2, 2)
    arguments = (x,) * 8
    with pytest.raises(errors.UnsupportedError, match=r"fmoe_g1u1\(activation=5\)"):
        aiter_prebuilt.fmoe_g1u1(*arguments, 1, x, x, x, "", activation=Members.FAR)


def test_nothing_that_a_hand_written_function_takes_is_left_unsaid() -> None:
    left = {
        parameter.name
        for operator in OPERATORS.values()
        if operator.function is not None
        for parameter in operator.python.parameters
        if parameter.name
        not in {*operator.arguments, *operator.attributes, *operator.covered, *operator.ignored}
    }
    # whether lse is made, and of how many parts; what becomes a window; which sequences are left alone; where numbers come
    # from; along which dim scales lie; which operator takes a weight; what becomes a list of sequences; what is returned, too;
    # which position turns a pair; what is dropped, and by which numbers; whose keys they are
    windows = {"is_causal", "causal", "window_size", "window_size_left", "window_size_right", "max_seqlen_k"}
    assert left == {
        "return_lse", "return_softmax_lse", "num_kv_splits", "min_seqlen_q", "generator", *windows, "sliding_window",
        "cu_seqlens_q_padded", "cu_seqlens_k_padded", "block_table", "seqlen_k", "return_attn_probs",
        "max_num_partitions", "partition_size", "page_size", "logit_cap", "apply_scale", "flash_layout", "output_zeros",
        "q_out_dtype", "max_seqlen_qo", "dtype", "dtype_quant", "output_unquantized_inp1",
        "is_x_scale_strided", "x_pad_to_multiple", "transpose_bm", "transpose_bm_in", "scale_shuffle_padding", "axis",
        "activation", "seq_lens_cpu", "output_final_state", "out_quant_type", "output_dtype", "need_rstd", "bpreshuffle",
        "mrope_section_", "dropout_p", "rng_state", "return_dropout_randval", "is_cp_round_robin",
    }  # fmt: skip


def test_an_option_that_is_a_tuple_is_refused_as_others_are() -> None:
    (plain,) = parse_python("(size: tuple[int, ...] = (1, 2)) -> None").parameters
    assert refusal(plain, ((1, 2),)) == "integers(size) not in ((1, 2),)"
    (perhaps,) = parse_python("(size: tuple[int, ...] | None = None) -> None").parameters
    assert refusal(perhaps, (None, (1, 2))) == "size is not None and integers(size) not in ((1, 2),)"


def test_signatures_have_the_parameters_and_what_is_covered() -> None:
    for name, signature in signatures.load().items():
        operator: Operator = OPERATORS[name]
        assert signature.parameters == operator.python.names
        for option, values in operator.covered.items():
            said = tuple(
                {"type_of": v.argument}
                if isinstance(v, ArgumentType)
                else {"given": True}
                if v == GIVEN[0]
                else v
                for v in values
            )
            assert signature.covered[option] == said


def test_text_is_laid_out_as_the_formatter_does() -> None:
    assert fitted("f(", ["a", "b"], ")") == ["f(a, b)"]
    long = ["x" * 50, "y" * 50]
    assert fitted("function(", long, ")") == ["function(", f"    {', '.join(long)}", ")"]
    assert fitted("f(", [*long, "z" * 50], ")", 4)[1] == f"        {'x' * 50},"
    assert wrapped("one two three", 2, 9, 2) == ["  one two", "    three"]


def test_dims_become_python() -> None:
    assert (
        substituted("2 * d + cdiv(N, 32)", {"d": "x.shape[-1]", "N": "w.shape[0]"})
        == "2 * x.shape[-1] + -(-w.shape[0] // 32)"
    )
    with pytest.raises(KeyError):
        substituted("d", {})


def test_one_module_has_a_family_s_functions_and_one_the_refusals_of_those_by_hand() -> None:
    family = MANIFEST.families["gemm_asm"]
    made = ast.parse(functions.functions(family) or "").body
    assert {
        node.name for node in made if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    } == {operator.name for operator in family.operators if operator.function is None}
    refusing = ast.parse(functions.refusals_of(family) or "").body
    assert [node.name for node in refusing if isinstance(node, ast.FunctionDef)] == [
        f"refuse_{operator.name}"
        for operator in family.operators
        if operator.function is not None and functions.refused(operator)
    ]

"""From cases.toml to calls: the whole way, what is wrong with a file, and that every operator's cases bind on every target."""

from __future__ import annotations

import io
import random
import zlib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support import repository, toy_operator

from aiter_prebuilt.contract.calls import Array, Call, ElementType, pack, read
from build_tools.cases import bind, make, numbers, sensitivity, table
from build_tools.cases.noticing import Noticing, with_value
from build_tools.errors import BuildToolsError, ManifestError, UnknownTargetError, UsageError
from build_tools.manifest.model import Target
from build_tools.verbs.cases import cases as cases_verb
from build_tools.verbs.lint import reasons


def _calls(folder: Path, target: str = "gfx950", *, golden: bool = False, **changed: str) -> list[Call]:
    cases = toy_operator.cases(folder, **changed)
    return list(make.calls(cases, target, toy_operator.targets()[target], 1, golden=golden))


def test_every_call_of_the_cross_product(tmp_path: Path) -> None:
    found = _calls(tmp_path)
    assert len(found) == 8 + 8 + 4 + 8
    assert len({call.label for call in found}) == len(found)
    assert [call.label for call in _calls(tmp_path, golden=True)] == ["M=1 N=4 T=bf16 Q=i8 O=bf16"]


def test_what_is_not_said_is_left_to_the_function(tmp_path: Path) -> None:
    found = {call.label: call for call in _calls(tmp_path)}
    first = found["bias~normal epsilon=2.0 T=bf16 Q=fp8 O=f32"]
    assert list(first.arguments) == ["out", "input", "bias", "index", "state", "epsilon", "kind"]
    assert first.arguments["kind"] == ElementType("f32") and first.arguments["epsilon"] == 2.0
    # It has no default: None is said.
    assert found["M=(2,2) mode=twice shift=1 fast=true T=bf16 Q=i8 O=f32"].arguments["bias"] is None
    said = found["M=3 N=5 in_row=8 input@1 kind=none O=bf16 T=f16 Q=i8"]
    assert said.arguments["kind"] is None
    assert found["otype=input.dtype once=true T=f16 Q=i8 O=f32"].arguments["otype"] == ElementType("f16")


def test_a_tensor_is_its_whole_allocation(tmp_path: Path) -> None:
    call = next(call for call in _calls(tmp_path) if call.label.startswith("M=3 N=5 in_row=8 input@1"))
    array = call.arguments["input"]
    assert isinstance(array, Array) and array.data is not None
    assert (array.shape, array.strides, array.offset, array.span) == ((3, 5), (8, 1), 1, 1 + 16 + 5)
    codes = np.frombuffer(array.data, np.uint16)
    assert len(codes) == array.span
    values = numbers.decode(codes, "bf16")
    inside = np.concatenate([values[1 + 8 * row :][:5] for row in range(3)])
    assert (
        np.isfinite(inside).all()
        and np.isnan(np.delete(values, [1 + 8 * r + c for r in range(3) for c in range(5)])).all()
    )
    out = call.arguments["out"]
    assert isinstance(out, Array) and out.data is None


def test_elements_in_one_place_have_one_value(tmp_path: Path) -> None:
    """What is asked is what the device has: planted, each index drawn for itself, and the last one stored."""
    text = """
[toy]
default = "index~permutation N=6 M=3 T=bf16 Q=i8 O=f32 epsilon=0.5 bias=none"
golden = "M=1 N=4"
calls = ["in_row=0", "in_row=2"]
"""
    cases = toy_operator.cases(tmp_path, text)
    bounds = make.bounds(cases, "gfx942", toy_operator.targets()["gfx942"])
    same, over = (make.question_of(cases, bound, 1).inputs["input"] for bound in bounds)
    assert same is not None and over is not None
    assert (same == same[0]).all() and len(np.unique(same)) > 1
    assert (over[1:, :4] == over[:-1, 2:]).all() and len(np.unique(over)) > 6


def test_wants_name_what_is_written_and_returned(tmp_path: Path) -> None:
    call = _calls(tmp_path)[0]
    assert [(want.name, want.dtype, want.returned) for want in call.wants] == [
        ("out", "e4m3fn", False), ("state", "f32", False), ("total", "bf16", True),
    ]  # fmt: skip
    assert call.wants[0].kept is None
    assert call.wants[1].kept is not None and sum(call.wants[1].kept) == 5


def test_a_seed_gives_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    cases = toy_operator.cases(tmp_path)
    facts = toy_operator.targets()["gfx942"]
    streams = [b"".join(map(pack, make.calls(cases, "gfx942", facts, seed))) for seed in (1, 1, 2)]
    assert streams[0] == streams[1] != streams[2]
    assert [call.label for call in read(io.BytesIO(streams[0]))] == [
        call.label for call in _calls(tmp_path, "gfx942")
    ]


def test_a_call_of_one_target_alone(tmp_path: Path) -> None:
    text = toy_operator.CASES.replace('"bias~normal', '"targets=gfx942 bias~normal')
    assert len(_calls(tmp_path, "gfx942", text=text)) == 28
    assert len(_calls(tmp_path, "gfx950", text=text)) == 20


def test_calls_that_a_target_leaves_out_by_their_words(tmp_path: Path) -> None:
    text = toy_operator.CASES.replace("golden =", 'except.gfx942 = ["bias~normal", "N=5"]\ngolden =')
    assert len(_calls(tmp_path, "gfx942", text=text)) == 16
    assert len(_calls(tmp_path, "gfx950", text=text)) == 28
    both = text.replace('"bias~normal epsilon', '"targets=gfx942 bias~normal epsilon')
    assert (len(_calls(tmp_path, "gfx942", text=both)), len(_calls(tmp_path, "gfx950", text=both))) == (
        16,
        20,
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("golden =", "# ", "cases.toml: toy.golden: no golden call"),
        ("calls = [", "calls = 3\nother = [", "cases.toml: toy.calls: no calls"),
        ("[toy]", "[tyo]", "cases.toml: tyo: no operator of the family has this name (did you mean 'toy'?)"),
        ("[toy]", "[tyo]", "cases.toml: toy: the operator has no table of cases"),
        ("golden", "goldne", "cases.toml: toy.goldne: no such key (did you mean 'golden'?)"),
        ('"bias~normal', '3, "bias~normal', "cases.toml: toy.calls[0]: is not a text of words"),
        ("epsilon=2.0", "epsilom=2.0", "cases.toml: toy.calls[0]: toy has nothing called 'epsilom'"),
        ("N=6 M=2", "N=6", "cases.toml: toy.calls[0]: 'M' is not said, and out needs it"),
        ("M=1 N=4", "M=1 N=4 T=f64", "cases.toml: toy.golden: 'T' is said twice"),
        (
            '"otype=',
            '"bias~normal epsilon=2.0", "otype=',
            "toy.calls[3]: a call with the words 'bias~normal epsilon=2.0 T=bf16",
        ),
        ("[toy]", "[toy", "cases.toml: not TOML"),
        ("[toy]", "[toy]\ninsensitive = 3", "cases.toml: toy.insensitive: is not a table of reasons"),
        ("[toy]", '[toy]\nexcept = ["M=1"]', "cases.toml: toy.except: is not a table of lists of words"),
        ("[toy]", '[toy]\nexcept.gfx942 = ["M=9"]', "cases.toml: toy.except.gfx942: 'M=9' stands in no call"),
        ("[toy]", "[toy]\nexcept.gfx94 = []", "toy.except.gfx94: is no target (did you mean 'gfx942'?)"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in toy_operator.CASES
    with pytest.raises(ManifestError) as caught:
        toy_operator.cases(tmp_path, toy_operator.CASES.replace(old, new))
    assert [line for line in caught.value.problems if problem in line], caught.value.problems


def test_a_family_without_its_files(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        table.load(tmp_path / "manifests", [toy_operator.subject()], toy_operator.targets())
    assert caught.value.problems == ("manifests/toys/reference.py: the file is missing",)


def _blind(folder: Path, **changed: str) -> list[str]:
    cases = toy_operator.cases(folder, **changed)
    return [blind.what for blind in sensitivity.check(cases, "gfx950", toy_operator.targets()["gfx950"])]


def test_cases_that_see_everything(tmp_path: Path) -> None:
    text = toy_operator.CASES.replace(
        "bias~normal epsilon", "bias~normal mode=plain shift=2 fast=false epsilon"
    )
    assert _blind(tmp_path, text=text) == []


@pytest.mark.parametrize(
    ("text", "reference", "blind"),
    [
        # the reference does not look at a parameter: nor does any kernel have to
        ("", ("shift\n    if bias", "0 * shift\n    if bias"), "the default of shift moved"),
        ("", ("    y = input", "    index = np.arange(index.size)\n    y = input"), "index with its rows shifted by one"),
        # no call has the bias, or none leaves it out
        ("bias~normal epsilon|epsilon", None, "bias left out"),
        ("bias=none |", None, "bias given where it is left out"),
        # an epsilon that is lost in inputs of size one
        ("", ("+ epsilon", "+ 1e-9 * epsilon"), "epsilon moved"),
        ("fast=true|", None, "fast moved"),
        ("mode=twice|", None, "mode='twice', which no call has"),
        ("otype=input.dtype|", None, "otype=input.dtype, which no call has"),
        ("kind=none O=bf16|", None, "kind=None, which no call has"),
    ],
)  # fmt: skip
def test_cases_that_are_blind(
    tmp_path: Path, text: str, reference: tuple[str, str] | None, blind: str
) -> None:
    old, _, new = text.partition("|")
    assert old in toy_operator.CASES
    formula = toy_operator.REFERENCE.replace(*reference) if reference else toy_operator.REFERENCE
    assert (formula != toy_operator.REFERENCE) == bool(reference)
    assert blind in _blind(
        tmp_path, text=toy_operator.CASES.replace(old, new) if old else toy_operator.CASES, reference=formula
    )


def test_blindness_that_is_declared(tmp_path: Path) -> None:
    text = (
        toy_operator.CASES
        + 'insensitive.otype = "it is the type of input anyway"\ninsensitive.shift = "made up"\n'
    )
    unseen = text.replace("otype=input.dtype", "").replace("shift=1 ", "")
    deaf = toy_operator.REFERENCE.replace("epsilon + shift", "epsilon")
    seen = _blind(tmp_path, text=unseen, reference=deaf)
    assert not [what for what in seen if "otype" in what or "shift" in what]
    cases = toy_operator.cases(tmp_path, text=text)
    (needless,) = [
        each for each in sensitivity.check(cases, "gfx950", toy_operator.targets()["gfx950"]) if each.needless
    ]
    assert str(needless).endswith("toy.insensitive.shift: calls notice it; take the line out")
    with pytest.raises(
        ManifestError,
        match=r"toy\.insensitive\.shfit: nothing of this name is moved \(did you mean 'shift'\?\)",
    ):
        _blind(tmp_path, text=text.replace("insensitive.shift", "insensitive.shfit"))
    _blind(tmp_path, text=text.replace("insensitive.shift", 'insensitive."row.shift"'))  # of one kernel
    _blind(tmp_path, text=text.replace("insensitive.shift", 'insensitive."row.N"'))  # a size of its calls
    with pytest.raises(ManifestError, match=r"insensitive\.raw\.shift: nothing of this name is moved"):
        _blind(tmp_path, text=text.replace("insensitive.shift", 'insensitive."raw.shift"'))


@pytest.fixture(scope="module")
def everything() -> tuple[dict[str, table.Cases], dict[str, Target]]:
    manifest = repository.manifest()
    return repository.cases(), manifest.targets


def test_every_operator_has_cases_that_bind_on_every_target(
    everything: tuple[dict[str, table.Cases], dict[str, Target]],
) -> None:
    known, targets = everything
    assert len(known) >= 15
    for name, cases in known.items():
        assert cases.golden is not None
        for target, facts in targets.items():
            bound = [
                each
                for words in (*cases.calls, cases.golden)
                for each in bind.bind(cases.subject, words, facts.fp8)
            ]
            assert len(bound) >= 10, (name, target)
            types = {(variable, kind) for each in bound for variable, kind in each.types.items()}
            assert types == {(v, kind) for v, allowed in cases.subject.types.items() for kind in allowed}, (
                name,
                target,
            )


def test_every_golden_call_is_small(
    everything: tuple[dict[str, table.Cases], dict[str, Target]],
) -> None:
    known, targets = everything
    for name, cases in known.items():
        made = [pack(call) for call in make.calls(cases, "gfx942", targets["gfx942"], 1, golden=True)]
        # The smallest weights that kernels of experts take are 192 KiB, with a scale for each block 384; the least result of
        # mla's is 16 KiB, told thrice; the smallest matrix of mi350_a8w8_blockscale_asm 128 KiB.
        # Those of 16-bit activations have tiles of 512 columns of I, and two of them rows of 1024 or numbers of two bytes.
        larger = {
            "fmoe_asm": 224,
            "moe_stage1_asm": 208,
            "fmoe_blockscale_asm": 400,
            "fmoe_a16_asm": 1100,
            "fmoe_f4_asm": 224,
            "mla": 96,
            "moe_ck": 224,
        }
        # A scale of pages for assembly is of 128 slots, 16 elements each, whose codes a call has before and after it, twice.
        alone = {"mi350_a8w8_blockscale_asm": 160, "reshape_and_cache_with_block_quant_for_asm_pa": 72}
        most = alone.get(name) or larger.get(cases.subject.family, 64)
        assert made and sum(map(len, made)) < most << 10, name
        assert len(zlib.compress(b"".join(made))) < 64 << 10, f"{name}, as it is kept, nearly"


def test_the_cases_of_this_repository_would_notice(
    everything: tuple[dict[str, table.Cases], dict[str, Target]],
) -> None:
    """A sixth of the operators, another one in each run; ``build_tools lint`` asks all."""
    known, targets = everything
    names = random.sample(sorted(known), len(known) // 6)
    blind, _ = sensitivity.check_all({name: known[name] for name in names}, targets)
    assert blind == []
    assert all(reason for cases in known.values() for reason in cases.insensitive.values())


@pytest.mark.parametrize("name", ["rms_norm", "rmsnorm2d_fwd", "rmsnorm2d_fwd_with_add", "layernorm2d_fwd"])
def test_an_epsilon_inside_the_mean_would_be_noticed(
    everything: tuple[dict[str, table.Cases], dict[str, Target]], name: str
) -> None:
    """Beside squares of size 1 no epsilon of use is seen; the calls have small rows and a large epsilon, too."""
    known, targets = everything
    judge = Noticing(known[name], make.bounds(known[name], "gfx950", targets["gfx950"]))

    def inside(question: make.Question) -> list[make.Question]:
        (width,) = (
            layout.shape[-1] for key, layout in question.bound.tensors.items() if layout and key == "weight"
        )
        epsilon = question.bound.values["epsilon"] / width
        return [with_value(question, "epsilon", epsilon)] if width > 1 else []

    assert sensitivity._noticed(judge, sensitivity._Move("epsilon", "epsilon inside", inside, must=True))


def test_the_verb_writes_a_stream(tmp_path: Path) -> None:
    output = tmp_path / "calls"
    words = ["--target", "gfx942", "--operator", "softmax", "--operator", "silu_and_mul", "--golden"]
    done = CliRunner().invoke(cases_verb, [*words, "--output", str(output)], catch_exceptions=False)
    assert done.exit_code == 0
    with output.open("rb") as stream:
        assert {call.operator for call in read(stream)} == {"softmax", "silu_and_mul"}


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["--target", "gfx90a"], UnknownTargetError, "gfx90a (MI200) is not supported"),
        (["--target", "gfx942", "--operator", "softmaxx"], UsageError, "did you mean 'softmax'"),
    ],
)
def test_what_the_verb_refuses(
    tmp_path: Path, words: list[str], error: type[BuildToolsError], said: str
) -> None:
    done = CliRunner().invoke(cases_verb, [*words, "--output", str(tmp_path / "calls")])
    assert isinstance(done.exception, error) and said in str(done.exception)
    assert not (tmp_path / "calls").exists()


def test_of_the_large_calls_one_is_drawn_while_there_are_others(
    everything: tuple[dict[str, table.Cases], dict[str, Target]],
) -> None:
    known, targets = everything
    calls = list(make.bounds(known["fmoe_g1u1"], "gfx950", targets["gfx950"]))
    large = {bound.label for bound in calls if make._elements(bound) > make.LARGE}
    small = len(calls) - len(large)
    assert small > 5 and len(large) > 20
    seen = set()
    for seed in range(40):
        labels = [bound.label for bound in make.by_lot(calls, 5, random.Random(seed))]
        assert len(set(labels)) == 5 and sum(label in large for label in labels) <= 1
        assert labels == [bound.label for bound in calls if bound.label in labels]
        seen.update(labels)
    assert len(seen) > 50 and seen & large
    assert len(make.by_lot(calls, small + 9, random.Random(1))) == small + 9
    assert make.by_lot(calls, len(calls) + 1, random.Random(1)) == calls


def test_lint_says_the_reasons_of_the_operators_that_were_asked_for() -> None:
    declared = {"one.eps": "it is 0", "two.k.scale": "unread", "two values of each size of one, yet": "slow"}
    assert reasons(declared, ["one"]) == [
        "No case has to notice a change of one.eps: it is 0",
        "No case has to notice a change of two values of each size of one, yet: slow",
        "There is 1 more such part. The reasons: python -m build_tools lint --json",
    ]
    assert reasons(declared, []) == [
        "3 parts may change without a case that notices it. The reasons: python -m build_tools lint --json"
    ]
    assert reasons(declared, ["two"])[-1].startswith("There are 2 more such parts. ")
    assert reasons({}, ["one"]) == []

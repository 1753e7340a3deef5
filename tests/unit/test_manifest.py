"""Manifests: what is wrong is said, all of it at once, with file and path; what is right becomes the right plan."""

from __future__ import annotations

import json
import pkgutil
import re
import shutil
from pathlib import Path

import pytest

import aiter_prebuilt.ops._common
from aiter_prebuilt.contract.dtype import BY_NUMBER
from aiter_prebuilt.contract.expression import evaluate
from build_tools.errors import ManifestError, UnknownTargetError, UsageError
from build_tools.manifest import sharing
from build_tools.manifest.grammar import SignatureError, parse_attribute, parse_tensor
from build_tools.manifest.names import operator_problem
from build_tools.manifest.parse import load
from build_tools.manifest.problems import Problems
from build_tools.manifest.python import PythonSignatureError, parse_python
from build_tools.manifest.schema import manifest_schema
from build_tools.plan.plan import make_plan, shard_of
from build_tools.plan.slots import assign_slots, tensor_records
from build_tools.records import Plan

ROOT = Path(__file__).resolve().parents[2]

GOOD = """
edition = 2

[kernels.scale]
backend = "triton"
targets = ["gfx942", "gfx950", "sm_90"]
source = "kernel.py"
symbol = "scale_kernel"
when = ["N <= BLOCK", "mode == 'exact' or not given(bias)"]
cost = "BLOCK * cdiv(M, CUS)"
grid = ["M"]
args = ["ptr out", "ptr input", "ptr bias", "i32 N", "i64 in_row", "f32 epsilon"]
constants = { num_warps = 2, FP8 = "{fp8}" }
variants = { BLOCK = [1024, 4096], EVEN = [0, 1] }
except = ["EVEN and BLOCK == 4096 and target == 'gfx942'"]
assume = { when_constant = "EVEN", divisible = ["input", "N"] }

[operators.scale]
python = "(out: Tensor, input: Tensor, bias: Tensor | None, epsilon: float, mode: str = 'exact', fast: bool = False) -> None"
module = "module_norm"
summary = "made up"
source = "nobody"
covered.mode = ["fast", "exact"]
covered.fast = [false]
types.T = ["bf16", "f16"]
types.Q = ["fp8", "i8"]
kernels = ["scale"]

[operators.scale.arguments]
out = "out Q[*M, N] strides [out_row, 1]"
input = "T[*M, N] strides [in_row, 1] align 2"
bias = "T[N] optional"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    for name in ("targets", "profiles", "catalogue"):
        shutil.copy(ROOT / "manifests" / f"{name}.toml", manifests)
    (tmp_path / "kernel.py").write_text("")
    (manifests / "norm").mkdir()
    (manifests / "norm" / "operators.toml").write_text(GOOD)
    return manifests


def _plan(folder: Path, profiles: tuple[str, ...] = (), targets: tuple[str, ...] = ()) -> Plan:
    return make_plan(load(folder), folder.parent, lambda _b, source, _s, _c: (source,), profiles, targets)


def _problems(folder: Path, *changes: tuple[str, str]) -> list[str]:
    text = GOOD
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "norm" / "operators.toml").write_text(text)
    with pytest.raises(ManifestError) as caught:
        _plan(folder)
    return list(caught.value.problems)


def test_plan_of_a_good_manifest(folder: Path) -> None:
    plan = _plan(folder)
    assert len(plan.jobs) == (3 + 4 + 4) * 4
    assert len({job.id for job in plan.jobs}) == len(plan.jobs)
    job = next(job for job in plan.jobs if job.id == "gfx942-triton-scale.scale-BLOCK1024-EVEN1-f16_e4m3fnuz")
    assert job.constant("FP8") == "e4m3fnuz"
    assert [(arg.kind, arg.dtype, arg.offset, arg.divisible) for arg in job.args] == [
        ("ptr", "e4m3fnuz", 0, False),
        ("ptr", "f16", 8, True),
        ("ptr", "f16", 16, False),
        ("i32", "", 24, True),
        ("i64", "", 32, False),
        ("f32", "", 40, False),
        ("ptr", "", 48, False),
        ("ptr", "", 56, False),
    ]
    assert job.kernarg_size == 64


def test_recipes_say_what_the_manifest_says(folder: Path) -> None:
    bundle = next(bundle for bundle in _plan(folder).bundles if bundle.target.name == "gfx950")
    operator = bundle.operators[0].operator
    recipe = next(r for r in operator.recipes if r.variant == "BLOCK4096-EVEN1")
    assert [BY_NUMBER[number].name for number in recipe.types] == ["bf16", "e4m3fn"]
    slots = dict.fromkeys(operator.slots, 0) | {"M": 1000, "N": 64, "CUS": 256, "mode": 1, "&input": 4096}
    values = list(slots.values())
    assert [evaluate(c.code, values) for c in recipe.conditions] == [1, 1, 1, 1]
    assert evaluate(recipe.cost, values) == 4096 * 4
    assert (recipe.steps[0].block_x, evaluate(recipe.steps[0].grid_x, values)) == (128, 1000)
    values[operator.slots.index("&input")] = 4104
    assert evaluate(recipe.conditions[2].code, values) == 0


def test_profiles_and_targets_are_filters(folder: Path) -> None:
    assert {job.target.name for job in _plan(folder, targets=("gfx950",)).jobs} == {"gfx950"}
    assert _plan(folder, profiles=("ck-full",)).jobs == ()
    with pytest.raises(UnknownTargetError, match="did you mean 'gfx942'"):
        _plan(folder, targets=("gfx94",))
    with pytest.raises(UsageError, match="did you mean 'ck-free'"):
        _plan(folder, profiles=("ckfree",))


def test_shards_are_a_partition(folder: Path) -> None:
    plan = _plan(folder)
    shards = [shard_of(plan, f"{index}/3").jobs for index in (1, 2, 3)]
    assert sorted(job.id for jobs in shards for job in jobs) == [job.id for job in plan.jobs]
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    for wrong in ("0/3", "4/3", "1", "a/b"):
        with pytest.raises(UsageError, match="I/N"):
            shard_of(plan, wrong)


def test_everything_wrong_is_said_at_once(folder: Path) -> None:
    problems = _problems(
        folder, ('"gfx950",', '"gfx95",'), ('backend = "triton"', 'backend = "tritn"'), ("summary =", "sumary =")
    )  # fmt: skip
    assert problems == [
        "manifests/norm/operators.toml: operators.scale.sumary: unknown key (did you mean 'summary'?)",
        "manifests/norm/operators.toml: kernels.scale.backend: 'tritn' is not allowed (did you mean 'triton'?)",
        "manifests/norm/operators.toml: kernels.scale.targets[1]: 'gfx95' is not a known target (did you mean 'gfx950'?)",
    ]


@pytest.mark.parametrize(
    ("before", "after", "path", "part"),
    [
        ('"i32 N"', '"i32 NN"', "kernels.scale.args[3]", "unknown name 'NN'"),
        ('"ptr bias"', '"ptr bia"', "kernels.scale.args[2]", "did you mean 'bias'"),
        ('"f32 epsilon"', '"f32 eps"', "kernels.scale.args[5]", "not a float attribute"),
        ('"f32 epsilon"', '"f99 epsilon"', "kernels.scale.args[5]", "not of the form"),
        ('"N <= BLOCK"', '"aligned(inpt, 16)"', "kernels.scale.when[0]", "name of a tensor"),
        ("mode == 'exact' or", "mode == 'exct' or", "kernels.scale.when[1]", "not one of fast, exact"),
        ("BLOCK * cdiv", "BLOK * cdiv", "kernels.scale.cost", "unknown name 'BLOK'"),
        ("grid = [\"M\"]", "grid = [\"M\", \"Z\"]", "kernels.scale.grid[1]", "unknown name 'Z'"),
        ("align 2", "align 3", "arguments.input", "power of two"),
        ("align 2", "algn 2", "arguments.input", "not of the form"),
        ("T[N] optional", "U[N] optional", "arguments.bias", "neither an element type nor a type variable"),
        ("strides [in_row, 1]", "strides [1]", "arguments.input", "2 dims and 1 strides"),
        ("str = 'exact'", "str = 'slow'", "covered.mode", "the default 'slow' is not among the covered values"),
        ("fast: bool", "fst: bool", "covered.fast", "did you mean 'fst'"),
        ("bias: Tensor | None", "bias: Tensor", "arguments.bias", "only one of 'optional' and '| None'"),
        ("bias: Tensor | None", "bias: int | None", "arguments.bias", "is no tensor"),
        (") -> None", ") -> Tensor", "returns", "it returns 1 tensors, and 'returns' has 0"),
        ("(out: Tensor, input: Tensor,", "(input: Tensor, out: Tensor,", "arguments", "in another order"),
        ("epsilon: float", "epsilon: complex", "python", "annotated 'complex'"),
        ("epsilon: float", "epsilon: float = None", "python", "annotate it float | None"),
        ("epsilon: float", "*, epsilon: float", "python", "only plain parameters"),
        ("epsilon: float", "epsilon", "python", "has no annotation"),
        ("epsilon: float", "epsilon: float, eps: dtype | None = None", "python", "neither type_of nor covered"),
        ("epsilon: float", "epsilon: float, k: Tensor | None", "arguments", "has no contract"),
        ('covered.fast = [false]', 'covered.fast = [0]', "covered.fast", "no value of"),
        ('module = "module_norm"', 'module = "norm"', "operators.scale.module", "does not match"),
        ('kernels = ["scale"]', 'kernels = ["scal"]', "kernels[0]", "did you mean 'scale'"),
        ('kernels = ["scale"]', 'kernels = ["scale", "scale"]', "kernels[1]", "stands here twice"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\nattributes = {}', "attributes", "are derived"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\nnotes.inptu = ""', "notes", "did you mean 'input'"),
        ('backend = "triton"\n', "", "kernels[0].backend", "is missing"),
        ('backend = "triton"\n', 'like = "scale"\nbackend = "triton"\n', "like", "like itself"),
        ('backend = "triton"\n', 'backend = "triton"\non.gfx90a = {}\n', "on.gfx90a", "not a known target"),
        ("variants = { BLOCK", "variants = { N", "kernels.scale", "has the name of a dim"),
        ("source = \"kernel.py\"", "source = \"kernels.py\"", "kernels.scale.source", "not a file of the repository"),
        ("EVEN and BLOCK == 4096 and target == 'gfx942'", "BLOCK", "kernels.scale.variants", "no variant is left"),
        ('source = "kernel.py"', 'source = "/etc/passwd"', "kernels.scale.source", "not a file of the repository"),
        ('source = "kernel.py"', 'source = "../x"', "kernels.scale.source", "not a file of the repository"),
        ('source = "kernel.py"', f'source = "{"a" * 5000}"', "kernels.scale.source", "not a file of the repository"),
        ("edition = 2", "edition = 1", "edition", "not allowed"),
        ("when_constant = \"EVEN\"", "when_constant = \"ODD\"", "kernels.scale.assume.when_constant", "not a constant"),
        ("\"N <= BLOCK\"", "\"1 // 0 == 1\"", "kernels.scale.when[0]", "cannot be computed: division by zero"),
        ('types.T = ["bf16"', 'types.T = ["bf17"', "operators.scale.types.T[0]", "did you mean 'bf16'"),
        ("assume = {", 'types = { T = ["bf17"] }\nassume = {', "kernels.scale.types.T", "not a type that the operator allows"),
        ('"i32 N"', '"u32 N"', "kernels.scale.args[3]", "ptr|i32|i64|f32"),
        ("num_warps = 2", "num_warps = 32", "operators.scale.kernels.scale", "no block of 1 to 1024 threads"),
        ("num_warps = 2", 'num_warps = "many"', "operators.scale.kernels.scale", "no block of 1 to 1024 threads"),
        ("T[N] optional", "T[2 *] optional", "operators.scale.arguments.bias", "not an expression"),
        ("align 2", "align 4294967296", "arguments.input", "more than 2147483648"),
        ("T[N] optional", f"T[{', '.join('N' * 17)}] optional", "arguments.bias", "17 dims, the runtime takes at most 16"),
        ("assume = {", "slot = 4\nassume = {", "kernels.scale.slot", "too small for 'ptr out'"),
        ("args = [", "args = [" + 512 * '"i64 N", ', "kernels.scale.args", "the runtime takes at most 4096"),
        ("targets = [\"gfx942\",", "block = [64]\ntargets = [\"gfx942\",", "kernels.scale.block", "have no block"),
    ],
)  # fmt: skip
def test_one_problem_has_its_path(folder: Path, before: str, after: str, path: str, part: str) -> None:
    problems = _problems(folder, (before, after))
    assert any(path + ":" in line and part in line for line in problems), problems


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ('"1 // 0"', "block[0]: '1 // 0' cannot be computed"),
        ("64, 32", "block: [64, 32, 1] is more than 1024 threads"),
    ],
)
def test_a_block_that_no_kernel_can_have(folder: Path, block: str, part: str) -> None:
    problems = _problems(
        folder, ('backend = "triton"', f'backend = "hip"\nblock = [{block}]'), ("assume = {", "#"),
    )  # fmt: skip
    assert any(part in line for line in problems), problems


def test_a_profile_cannot_include_itself(folder: Path) -> None:
    path = folder / "profiles.toml"
    path.write_text(path.read_text().replace("[ck-free]", '[ck-free]\nincludes = "ck-full"'))
    with pytest.raises(ManifestError) as caught:
        load(folder)
    assert caught.value.problems == (
        "manifests/profiles.toml: ck-free.includes: the profile includes itself (ck-free -> ck-full -> ck-free)",
        "manifests/profiles.toml: ck-full.includes: the profile includes itself (ck-full -> ck-free -> ck-full)",
    )


def test_the_list_of_kernels_is_their_order(folder: Path) -> None:
    second = '[kernels.other]\nlike = "scale"\ncost = 1\n'
    text = GOOD.replace("[operators.scale]", second + "[operators.scale]", 1)
    (folder / "norm" / "operators.toml").write_text(
        text.replace('kernels = ["scale"]', 'kernels = ["other", "scale"]')
    )
    operator = _plan(folder, targets=("gfx950",)).bundles[0].operators[0].operator
    assert [(kernel.name, kernel.rank) for kernel in operator.kernels] == [("other", 0), ("scale", 1)]
    (folder / "norm" / "operators.toml").write_text(text)
    with pytest.raises(ManifestError, match=r"kernels\.other: no operator uses this kernel"):
        _plan(folder)


def test_what_a_compiler_assumes_is_a_condition(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conditions are written by the build; were one lost, the trial of assumptions would find the call."""
    (kernel,) = load(folder).families["norm"].operators[0].kernels
    assert kernel.when[2:] == ["not EVEN or aligned(input, 16)", "not EVEN or N % 16 == 0"]
    for left, lost in ((0, "N"), (1, "input")):
        monkeypatch.setattr(sharing, "_implied", lambda *_, left=left: (kernel.when[2 + left],))
        with pytest.raises(
            ManifestError, match=f"'{lost}' is assumed to be a multiple of 16.* lets this call through"
        ):
            _plan(folder)


def _changed(folder: Path, *changes: tuple[str, str]) -> Plan:
    """The plan of the good manifest with other texts."""
    text = GOOD
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    (folder / "norm" / "operators.toml").write_text(text)
    return _plan(folder, targets=("gfx950",))


def test_a_condition_that_can_never_hold_leaves_its_variant_out(folder: Path) -> None:
    """Nothing is compiled for it, and it is in no bundle; a condition that always holds is not written down."""
    plan = _changed(folder, ('when = ["N <= BLOCK"', 'when = ["BLOCK < 2000", "N <= BLOCK"'))
    assert {job.constant("BLOCK") for job in plan.jobs} == {1024}
    recipes = plan.bundles[0].operators[0].operator.recipes
    assert len(recipes) == len(plan.jobs) == 2 * 4 and all("BLOCK1024" in r.variant for r in recipes)
    assert all(next(c.text for c in r.conditions) == "N <= BLOCK" for r in recipes)


def test_kernels_that_differ_in_their_arguments_alone_are_two_jobs(folder: Path) -> None:
    """What a compiler may assume of an argument is part of what it compiles."""
    second = '[kernels.loose]\nlike = "scale"\nassume = { divisible = [] }\n\n'
    plan = _changed(
        folder,
        ("[operators.scale]", second + "[operators.scale]"),
        ('kernels = ["scale"]', 'kernels = ["scale", "loose"]'),
    )
    assumed = {
        job.id: [arg.name for arg in job.args if arg.divisible]
        for job in plan.jobs
        if "BLOCK1024-EVEN1-f16_i8" in job.id
    }
    assert assumed == {
        "gfx950-triton-scale.scale-BLOCK1024-EVEN1-f16_i8": ["input", "N"],
        "gfx950-triton-scale.loose-BLOCK1024-EVEN1-f16_i8": [],
    }


@pytest.mark.parametrize("taken", ["Q", "N", "in_row", "mode"])
def test_a_constant_cannot_shadow_what_a_call_has(folder: Path, taken: str) -> None:
    """A type variable, a dim, a stride, an attribute: a kernel would be compiled with one and told the other."""
    for before, after in (
        ("constants = { num_warps", f"constants = {{ {taken} = 3, num_warps"),
        ("variants = { BLOCK", f"variants = {{ {taken} = [1, 2], BLOCK"),
    ):
        problems = _problems(folder, (before, after))
        assert any(f"constant {taken!r} has the name of a dim, stride" in line for line in problems), problems


def test_an_assumption_must_hold_without_the_optional_tensors_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition that only looks at a tensor when it is given guarantees nothing for the calls without it."""
    for text, holds in (("N % 16 == 0", True), ("N % 16 == 0 or not given(bias)", False)):
        monkeypatch.setattr(sharing, "_implied", lambda *_, text=text: ("aligned(input, 16)", text))
        if holds:
            assert _plan(folder).jobs
        else:
            with pytest.raises(ManifestError, match="'N' is assumed to be a multiple of 16") as caught:
                _plan(folder)
            assert "bias=0" not in str(caught.value)


def test_kernels_share_and_differ(folder: Path) -> None:
    """``use`` joins constants, ``more`` appends, ``on`` splits by target; an operator that is like another takes its keys."""
    text = GOOD.replace(
        "[operators.scale]", "on.gfx942.constants = { num_warps = 8 }\n\n[operators.scale]", 1
    )
    text += """
[operators.scale_more]
like = "scale"
kernels = [{ use = "scale", constants = { EXTRA = 1 }, more.args = ["i32 EXTRA"], variants = { BLOCK = [2048] } }]
"""
    (folder / "norm" / "operators.toml").write_text(text)
    scale, more = load(folder).families["norm"].operators
    assert more.summary == scale.summary and more.attributes == {
        "epsilon": "float",
        "mode": "enum(fast, exact) = exact",
    }
    assert [(kernel.targets, kernel.constants["num_warps"]) for kernel in more.kernels] == [
        (["gfx950", "sm_90"], 2), (["gfx942"], 8)
    ]  # fmt: skip
    assert all(kernel.args is not None and kernel.args[-1] == "i32 EXTRA" for kernel in more.kernels)
    assert all(kernel.variants == {"BLOCK": [2048], "EVEN": [0, 1]} for kernel in more.kernels)
    assert all(kernel.args is not None and "i32 EXTRA" not in kernel.args for kernel in scale.kernels)
    assert len(_plan(folder).jobs) == (3 + 4 + 4) * 4 + (2 + 2 + 2) * 4


def test_a_profile_admits_only_its_backends(folder: Path) -> None:
    problems = _problems(folder, ('backend = "triton"', 'backend = "ck"\nblock = [256]'))
    assert any("backend 'ck' is not part of profile 'ck-free'" in line for line in problems)


def test_broken_toml_and_missing_files(folder: Path) -> None:
    (folder / "norm" / "operators.toml").write_text("family = ")
    (folder / "catalogue.toml").unlink()
    with pytest.raises(ManifestError) as caught:
        load(folder)
    assert "manifests/catalogue.toml: the file is missing" in caught.value.problems
    assert any(line.startswith("manifests/norm/operators.toml: not TOML") for line in caught.value.problems)


def test_one_operator_in_two_files(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "operators.toml").write_text(GOOD)
    with pytest.raises(
        ManifestError, match=r"operators\.scale: is an operator of manifests/norm/operators\.toml already"
    ):
        load(folder)


def test_in_place_of_an_input(folder: Path) -> None:
    """It names an argument that is only read and has the same type and dims; the bundle's record has its position."""
    out = (
        'out = "out Q[*M, N] strides [out_row, 1]"',
        'out = "out T[*M, N] strides [out_row, 1] in place of input"',
    )
    unused = ('types.Q = ["fp8", "i8"]\n', "")
    assert parse_tensor("x", "out f16[N] in place of y optional", {}).in_place == "y"
    assert parse_tensor("x", "out f16[N]", {}).in_place is None
    for text in ("f16[N] in place of y", "inout f16[N] in place of y", "out f16[N] in place of"):
        with pytest.raises(SignatureError):
            parse_tensor("x", text, {})
    for after, words in (
        (
            out[1].replace("of input", "of inputs"),
            "'inputs' is no argument that is only read (did you mean 'input'?)",
        ),
        (out[1].replace("of input", "of out"), "'out' is no argument that is only read"),
        (out[1].replace("of input", "of bias"), "in place of bias: their types and dims are not the same"),
        (out[1].replace("T[", "Q["), "in place of input: their types and dims are not the same"),
    ):
        found = _problems(folder, (out[0], after))
        assert any(words in line and "arguments.out" in line for line in found), found
    (folder / "norm" / "operators.toml").write_text(GOOD.replace(*out).replace(*unused))
    (operator,) = load(folder).families["norm"].operators
    slots = assign_slots(operator, Problems())
    records = tensor_records(slots, "e4m3fn", Problems())
    assert [record.in_place for record in records] == [2, 0, 0]


TAKEN = "aiter_prebuilt has something of that name"
WORD = "it is a word of Python's grammar"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, TAKEN) for name in ("device", "native", "errors", "loading", "execute", "ops", "contract", "shuffle")),
        *((name, TAKEN) for name in ("preload", "shuffle_weight", "import_module", "attention", "generated")),
        *((name, WORD) for name in ("class", "lambda", "match", "case")),
        *((name, "Python has one of that name") for name in ("max", "print", "tuple", "id")),
        *((name, "use it themselves") for name in ("operator", "torch", "traced", "like", "refuse", "element_type")),
        *((name, "references, or torch.ops") for name in ("np", "near", "name")),
        *((name, "starts with a small letter") for name in ("_scale", "Scale")),
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
        for entries in load(ROOT / "manifests").catalogue.categories.values()
        for entry in entries
        for name in entry.operators
    ]
    assert len(names) > 50 and not [name for name in names if operator_problem(name)]


def test_everything_that_the_package_has_is_taken() -> None:
    """Asked of the package as it is imported; the rule reads its files."""
    ours = set(aiter_prebuilt.ops.HOMES)
    has = {module.name for module in pkgutil.iter_modules(aiter_prebuilt.__path__)} | set(
        vars(aiter_prebuilt)
    )
    has |= {name for name in dir(aiter_prebuilt.ops._common) if not name.startswith("__")}
    assert "signatures" in has and not [name for name in has - ours if operator_problem(name) is None]


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


@pytest.mark.parametrize("text", ["", "T", "T[M", "T[*M, *N]", "in T[M]", "T[M,,N]", "out out T[M]"])
def test_wrong_tensors(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_tensor("x", text, {"T": ["bf16"]})


@pytest.mark.parametrize("text", ["", "integer", "int = 1.5", "enum", "float(1)", "bool = yes"])
def test_wrong_attributes(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_attribute("x", text)


def test_committed_schema_is_the_generated_one() -> None:
    assert (ROOT / "manifests" / "manifest.schema.json").read_text() == manifest_schema()


def test_the_schema_accepts_the_manifests() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    tomllib = pytest.importorskip("tomllib")
    schema = json.loads(manifest_schema())
    checked = 0
    for path in sorted((ROOT / "manifests").glob("*/operators.toml")):
        jsonschema.validate(tomllib.loads(path.read_text()), schema["family"])
        checked += 1
    assert checked >= 5

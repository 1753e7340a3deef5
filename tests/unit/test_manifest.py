"""Manifests: what is wrong is said, all of it at once, with file and path; what is right becomes the right plan."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from aiter_prebuilt.contract.dtype import BY_NUMBER
from aiter_prebuilt.contract.expression import evaluate
from build_tools.errors import ManifestError, UnknownTargetError, UsageError
from build_tools.manifest.grammar import SignatureError, parse_attribute, parse_tensor
from build_tools.manifest.parse import load
from build_tools.manifest.schema import manifest_schema
from build_tools.plan.plan import make_plan, shard_of
from build_tools.records import Plan

ROOT = Path(__file__).resolve().parents[2]

GOOD = """
edition = 1
family = "norm"

[[operators]]
name = "scale"
summary = "made up"
reference = "norm.scale"
types.T = ["bf16", "f16"]
types.Q = ["fp8", "i8"]

[operators.arguments]
out = "out Q[*M, N] strides [out_row, 1]"
input = "T[*M, N] strides [in_row, 1] align 2"
bias = "T[N] optional"

[operators.attributes]
epsilon = "float"
mode = "enum(fast, exact) = exact"

[[operators.kernels]]
name = "scale"
backend = "triton"
targets = ["gfx942", "gfx950", "sm_90"]
source = "kernel.py"
symbol = "scale_kernel"
when = ["N <= BLOCK", "not EVEN or (N % 16 == 0 and aligned(input, 16))", "mode == 'exact' or not given(bias)"]
cost = "BLOCK * cdiv(M, CUS)"
grid = ["M"]
args = ["ptr out", "ptr input", "ptr bias", "i32 N", "i64 in_row", "f32 epsilon"]
constants = { num_warps = 2, FP8 = "{fp8}" }
variants = { BLOCK = [1024, 4096], EVEN = [0, 1] }
except = ["EVEN and BLOCK == 4096 and target == 'gfx942'"]
assume = { when_constant = "EVEN", divisible = ["input", "N"] }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    for name in ("targets", "profiles", "catalogue"):
        shutil.copy(ROOT / "manifests" / f"{name}.toml", manifests)
    (tmp_path / "kernel.py").write_text("")
    (manifests / "norm.toml").write_text(GOOD)
    return manifests


def _plan(folder: Path, **options: tuple[str, ...]) -> Plan:
    return make_plan(load(folder), folder.parent, lambda _b, source, _s, _c: (source,), **options)


def _problems(folder: Path, *changes: tuple[str, str]) -> list[str]:
    text = GOOD
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "norm.toml").write_text(text)
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
    assert [evaluate(c.code, values) for c in recipe.conditions] == [1, 1, 1]
    assert evaluate(recipe.cost, values) == 4096 * 4
    assert (recipe.steps[0].block_x, evaluate(recipe.steps[0].grid_x, values)) == (128, 1000)
    values[operator.slots.index("&input")] = 4104
    assert evaluate(recipe.conditions[1].code, values) == 0


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
        folder, ('"gfx950",', '"gfx95",'), ('backend = "triton"', 'backend = "tritn"'),
        ("[[operators.kernels]]\nname", "[[operators.kernels]]\nnam"),
    )  # fmt: skip
    assert problems == [
        "manifests/norm.toml: operators[0].kernels[0].name: is missing",
        "manifests/norm.toml: operators[0].kernels[0].backend: 'tritn' is not allowed (did you mean 'triton'?)",
        "manifests/norm.toml: operators[0].kernels[0].targets[1]: 'gfx95' is not a known target (did you mean 'gfx950'?)",
        "manifests/norm.toml: operators[0].kernels[0].nam: unknown key (did you mean 'name'?)",
    ]


@pytest.mark.parametrize(
    ("before", "after", "path", "part"),
    [
        ('"i32 N"', '"i32 NN"', "kernels[0].args[3]", "unknown name 'NN'"),
        ('"ptr bias"', '"ptr bia"', "kernels[0].args[2]", "did you mean 'bias'"),
        ('"f32 epsilon"', '"f32 eps"', "kernels[0].args[5]", "not a float attribute"),
        ('"f32 epsilon"', '"f99 epsilon"', "kernels[0].args[5]", "not of the form"),
        ("aligned(input, 16)", "aligned(inpt, 16)", "kernels[0].when[1]", "name of a tensor"),
        ("mode == 'exact'", "mode == 'exct'", "kernels[0].when[2]", "not one of fast, exact"),
        ("BLOCK * cdiv", "BLOK * cdiv", "kernels[0].cost", "unknown name 'BLOK'"),
        ("grid = [\"M\"]", "grid = [\"M\", \"Z\"]", "kernels[0].grid[1]", "unknown name 'Z'"),
        ("align 2", "align 3", "arguments.input", "power of two"),
        ("align 2", "algn 2", "arguments.input", "not of the form"),
        ("T[N] optional", "U[N] optional", "arguments.bias", "neither an element type nor a type variable"),
        ("strides [in_row, 1]", "strides [1]", "arguments.input", "2 dims and 1 strides"),
        ("enum(fast, exact) = exact", "enum(fast, exact) = slow", "attributes.mode", "not a value of enum"),
        ("variants = { BLOCK", "variants = { N", "kernels[0]", "has the name of a dim"),
        ("source = \"kernel.py\"", "source = \"kernels.py\"", "kernels[0].source", "not a file of the repository"),
        ("and aligned(input, 16)", "and aligned(input, 8)", "kernels[0].assume.divisible", "lets this call through"),
        ("N % 16 == 0 and", "N % 8 == 0 and", "kernels[0].assume.divisible", "'N' is assumed to be a multiple of 16"),
        ("EVEN and BLOCK == 4096 and target == 'gfx942'", "BLOCK", "kernels[0].variants", "no variant is left"),
        ('source = "kernel.py"', 'source = "/etc/passwd"', "kernels[0].source", "not a file of the repository"),
        ('source = "kernel.py"', 'source = "../x"', "kernels[0].source", "not a file of the repository"),
        ('source = "kernel.py"', f'source = "{"a" * 5000}"', "kernels[0].source", "not a file of the repository"),
        ("edition = 1", "edition = 2", "edition", "not allowed"),
        ("when_constant = \"EVEN\"", "when_constant = \"ODD\"", "kernels[0].assume.when_constant", "not a constant"),
        ("\"N <= BLOCK\"", "\"1 // 0 == 1\"", "kernels[0].when[0]", "cannot be computed: division by zero"),
        ('types.T = ["bf16"', 'types.T = ["bf17"', "operators[0].types.T[0]", "did you mean 'bf16'"),
        ("assume = {", 'types = { T = ["bf17"] }\nassume = {', "kernels[0].types.T", "not a type that the operator allows"),
        ('"i32 N"', '"u32 N"', "kernels[0].args[3]", "ptr|i32|i64|f32"),
        ("num_warps = 2", "num_warps = 32", "operators[0].kernels[0]", "no block of 1 to 1024 threads"),
        ("num_warps = 2", 'num_warps = "many"', "operators[0].kernels[0]", "no block of 1 to 1024 threads"),
        ("types.T =", 'order = ["scale", "scale"]\ntypes.T =', "operators[0].order", "'scale' stands here twice"),
        ("[operators.attributes]", '[operators.returns]\nsum = "T[M, 2 *]"\n\n[operators.attributes]',
         "operators[0].returns.sum", "not an expression"),
        ("align 2", "align 4294967296", "arguments.input", "more than 2147483648"),
        ('"float"', '"float = 1_0"', "attributes.epsilon", "not a value of float"),
        ("T[N] optional", f"T[{', '.join('N' * 17)}]", "arguments.bias", "17 dims, the runtime takes at most 16"),
        ("assume = {", "slot = 4\nassume = {", "kernels[0].slot", "too small for 'ptr out'"),
        ("args = [", "args = [" + 512 * '"i64 N", ', "kernels[0].args", "the runtime takes at most 4096"),
        ("targets = [\"gfx942\",", "block = [64]\ntargets = [\"gfx942\",", "kernels[0].block", "have no block"),
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


def test_two_kernels_need_an_order(folder: Path) -> None:
    second = GOOD[GOOD.index("[[operators.kernels]]") :].replace('name = "scale"', 'name = "other"')
    (folder / "norm.toml").write_text(GOOD + second)
    with pytest.raises(ManifestError, match="their order must be said"):
        _plan(folder)
    (folder / "norm.toml").write_text(GOOD.replace("types.T", 'order = ["other", "scale"]\ntypes.T') + second)
    operator = _plan(folder, targets=("gfx950",)).bundles[0].operators[0].operator
    assert [(kernel.name, kernel.rank) for kernel in operator.kernels] == [("other", 0), ("scale", 1)]


def test_a_profile_admits_only_its_backends(folder: Path) -> None:
    problems = _problems(folder, ('backend = "triton"', 'backend = "ck"\nblock = [256]'))
    assert any("backend 'ck' is not part of profile 'ck-free'" in line for line in problems)


def test_broken_toml_and_missing_files(folder: Path) -> None:
    (folder / "norm.toml").write_text("family = ")
    (folder / "catalogue.toml").unlink()
    with pytest.raises(ManifestError) as caught:
        load(folder)
    assert "manifests/catalogue.toml: the file is missing" in caught.value.problems
    assert any(line.startswith("manifests/norm.toml: not TOML") for line in caught.value.problems)


def test_one_operator_in_two_files(folder: Path) -> None:
    (folder / "other.toml").write_text(GOOD.replace('family = "norm"', 'family = "other"'))
    with pytest.raises(ManifestError, match=r"'scale' is an operator of manifests/norm\.toml already"):
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
    for path in sorted((ROOT / "manifests").glob("*.toml")):
        if path.name not in ("targets.toml", "profiles.toml", "toolchains.toml", "catalogue.toml"):
            jsonschema.validate(tomllib.loads(path.read_text()), schema["family"])
            checked += 1
    assert checked >= 5

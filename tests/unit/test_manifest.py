"""Manifests: what is wrong is said, all of it at once, with file and path."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import made_manifest
from support.made_manifest import GOOD, problems_of

from build_tools.errors import ManifestError
from build_tools.manifest.parse import load, read
from build_tools.manifest.problems import Problems


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_manifest.placed(tmp_path)


def test_everything_wrong_is_said_at_once(folder: Path) -> None:
    problems = problems_of(
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
        ("epsilon: float", "epsilon: float, k: object | None = None", "python", "is any object, which no kernel takes"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\ninto.out = "epsilon"', "into.out", "by which 'Tensor | None'"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\ninto.out = "inptu"', "into.out", "not 'inptu'"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\nserved_by.f32 = "scal"', "served_by.f32", "that an operator of this file"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\nserved_by.fp32 = "scale"', "served_by.fp32", "that an operator of this"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\ndense = ["inptu"]', "dense", "is no tensor (did you mean 'input'?)"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\nfirst_rows.out = "inptu"', "first_rows.out", "did you mean 'input'"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\nfirst_rows.input = "out"', "first_rows.input", "'input' is only read"),
        ('kernels = ["scale"]', 'kernels = ["scale"]\nplain = ["epsilon"]', "plain", "that may not be shuffled, not 'epsilon'"),
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
        ('"i32 N"', '"u32 N"', "kernels.scale.args[3]", "ptr|u8|i32|i64|f32"),
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
    problems = problems_of(folder, (before, after))
    assert any(path + ":" in line and part in line for line in problems), problems


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ('"1 // 0"', "block[0]: '1 // 0' cannot be computed"),
        ("64, 32", "block: [64, 32, 1] is more than 1024 threads"),
    ],
)
def test_a_block_that_no_kernel_can_have(folder: Path, block: str, part: str) -> None:
    problems = problems_of(
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


def test_a_kernel_of_another_family(folder: Path) -> None:
    """It is the same kernel; a family or kernel that is none is said; one that reads behind its tensors serves its own alone."""
    text = (folder / "norm" / "operators.toml").read_text()
    (folder / "other").mkdir()

    def other(use: str, slack: str = "") -> list[str]:
        (folder / "norm" / "operators.toml").write_text(text.replace("assume = {", f"{slack}assume = {{"))
        copy = text.replace("operators.scale", "operators.other")
        copy = copy[: copy.index("[kernels.")] + copy[copy.index("[operators.") :]
        (folder / "other" / "operators.toml").write_text(copy.replace('"scale"]', f'{{ use = "{use}" }}]'))
        problems = Problems()
        manifest = read(folder, problems)
        if manifest is not None and not problems.lines:
            assert (
                manifest.families["other"].operators[0].kernels
                == manifest.families["norm"].operators[0].kernels
            )
        return problems.lines

    assert other("norm/scale") == []
    assert "is not a kernel of this file" in other("scale")[0]
    assert "'nrm' is not a family (did you mean 'norm'?)" in other("nrm/scale")[0]
    assert "'scal' is not a kernel of norm (did you mean 'scale'?)" in other("norm/scal")[0]
    assert "serves its own family alone" in other("norm/scale", "slack = { input = 16 }\n")[0]


def test_a_kernel_on_some_of_its_targets(folder: Path) -> None:
    path = folder / "norm" / "operators.toml"
    text = path.read_text()

    def kernels(targets: str) -> tuple[list[str], list[str]]:
        path.write_text(text.replace('"scale"]', f'{{ use = "scale", targets = ["{targets}"] }}]'))
        problems = Problems()
        manifest = read(folder, problems)
        if manifest is None or problems.lines:
            return [], problems.lines
        made = manifest.families["norm"].operators[0].kernels
        return [target for kernel in made for target in kernel.targets], []

    assert kernels("gfx942") == (["gfx942"], [])
    assert "'gfx940' is not" in " ".join(kernels("gfx940")[1])


@pytest.mark.parametrize("taken", ["Q", "N", "in_row", "mode"])
def test_a_constant_cannot_shadow_what_a_call_has(folder: Path, taken: str) -> None:
    """A type variable, a dim, a stride, an attribute: a kernel would be compiled with one and told the other."""
    for before, after in (
        ("constants = { num_warps", f"constants = {{ {taken} = 3, num_warps"),
        ("variants = { BLOCK", f"variants = {{ {taken} = [1, 2], BLOCK"),
    ):
        problems = problems_of(folder, (before, after))
        assert any(f"constant {taken!r} has the name of a dim, stride" in line for line in problems), problems


def test_a_profile_admits_only_its_backends(folder: Path) -> None:
    problems = problems_of(folder, ('backend = "triton"', 'backend = "ck"\nblock = [256]'))
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

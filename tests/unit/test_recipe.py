"""From one kernel variant to its recipe and jobs: each part, its bounds, and what is said where."""

from __future__ import annotations

from typing import Any

import pytest
from support import planned

from aiter_prebuilt.contract import dtype, real
from aiter_prebuilt.contract.bytecode import evaluate
from aiter_prebuilt.contract.records import (
    ARG_FLOAT,
    ARG_INT,
    ARG_NULL,
    ARG_REAL,
    ARG_TENSOR,
    ARG_WORKSPACE,
    Arg,
)
from build_tools.manifest.problems import Problems
from build_tools.plan.recipe import JobDraft, RecipeDraft, draft
from build_tools.plan.slots import Slots
from build_tools.records import KernelArg

#: Slots: M N row epsilon.. are floats; CUS and two for each tensor follow.
SIGNATURE: dict[str, Any] = {
    "types": {"T": ["bf16"]},
    "arguments": {"out": "out T[M, N]", "x": "fp8[M, N]", "q": "i8[M]"},
    "attributes": {"bound": "float", "epsilon": "float"},
}
M, N = 6, 40
NO_FORM = "is not of the form 'ptr|u8|i32|i64|f32|f64 WHAT', or several of it in braces"
VALUES = (M, N, 304, 0, 1, 0, 1, 0, 1)
STEP = {"symbol": "k", "grid": ["M"], "block": [64], "args": ["ptr out"]}


def attempt(of: Slots | None = None, **changes: Any) -> tuple[RecipeDraft | None, list[str]]:
    """The draft of the first variant, and what was said."""
    slots = of or planned.slots(**SIGNATURE)
    made = planned.kernel(**changes)
    problems = Problems()
    return draft(made, planned.variants(made, slots)[0], slots, problems), problems.lines


def good(**changes: Any) -> RecipeDraft:
    found, said = attempt(**changes)
    assert found is not None and said == []
    return found


def said(**changes: Any) -> list[str]:
    return attempt(**changes)[1]


def value(code: bytes) -> int:
    return evaluate(code, VALUES)


def steps(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A kernel of several steps."""
    return {"symbol": None, "grid": None, "block": None, "args": None, "steps": [*rows], **changes}


def test_one_launch() -> None:
    made = good(
        constants={"BLOCK": 128},
        block=["BLOCK", 2],
        grid=["M", "N * 2", 3],
        lds="BLOCK * 4",
        cost="M + 1",
        workspace="N",
        demangled="ours::k<{BLOCK}>",
    )
    recipe = made.recipe
    assert (recipe.kernel, recipe.variant, recipe.types) == (0, "default", (dtype.BY_NAME["bf16"].number,))
    assert (recipe.conditions, value(recipe.cost), value(recipe.workspace)) == ((), M + 1, N)
    (step,) = recipe.steps
    assert (step.entry, step.kernarg_size, step.block_x, step.block_y, step.block_z) == (0, 20, 128, 2, 1)
    assert [value(code) for code in (step.grid_x, step.grid_y, step.grid_z, step.lds)] == [M, 2 * N, 3, 512]
    args = (
        KernelArg("ptr", "out", 0, 8, "bf16", role="out"),
        KernelArg("ptr", "x", 8, 8, "e4m3fnuz", role="in"),
        KernelArg("i32", "N", 16, 4),
    )
    constants = (("BLOCK", 128), ("T", "bf16"))
    assert made.jobs == (
        JobDraft("", "hip", "k.hip", "k", constants, args, 20, (128, 2, 1), None, "ours::k<128>"),
    )


def test_what_is_left_out_is_an_empty_program() -> None:
    recipe = good(grid=["M", "N"]).recipe
    (step,) = recipe.steps
    assert (recipe.cost, recipe.workspace, step.lds, step.grid_z) == (b"", b"", b"", b"")
    assert value(step.grid_y) == N and good().recipe.steps[0].grid_y == b""


def test_arguments_lie_at_their_own_alignment() -> None:
    texts = ["i32 N", "ptr out", "f32 epsilon", "i64 M * 3", "ptr null", "i32 2", "ptr workspace"]
    texts += ["ptr workspace + N * 2", "f32 bound"]
    made = good(args=texts, workspace="N")
    args = made.recipe.steps[0].args
    assert [(arg.kind, arg.size, arg.offset, arg.operand) for arg in args] == [
        (ARG_INT, 4, 0, 0), (ARG_TENSOR, 8, 8, 0), (ARG_FLOAT, 4, 16, 1), (ARG_INT, 8, 24, 0), (ARG_NULL, 8, 32, 0),
        (ARG_INT, 4, 40, 0), (ARG_WORKSPACE, 8, 48, 0), (ARG_WORKSPACE, 8, 56, 0), (ARG_FLOAT, 4, 64, 0),
    ]  # fmt: skip
    assert made.recipe.steps[0].kernarg_size == made.jobs[0].kernarg_size == 68
    assert [value(arg.code) if arg.code else None for arg in args] == [
        N, None, None, M * 3, None, 2, None, 2 * N, None
    ]  # fmt: skip
    assert [arg.dtype for arg in made.jobs[0].args] == ["", "bf16", *[""] * 7]
    assert [arg.name for arg in made.jobs[0].args] == [text.partition(" ")[2] for text in texts]


def test_bytes_doubles_and_structs() -> None:
    """What is behind a struct begins where the struct ends, not where its last field does."""
    texts = [
        "u8 N == 40",
        "{ i64 M, u8 max(M, N) }",
        "u8 1",
        "f64 epsilon",
        "{u8 2, i32 N}",
        "f64 bound * 2",
        "u8 3",
    ]
    made = good(args=texts)
    args = made.recipe.steps[0].args
    assert [(arg.kind, arg.size, arg.offset) for arg in args] == [
        (ARG_INT, 1, 0), (ARG_INT, 8, 8), (ARG_INT, 1, 16), (ARG_INT, 1, 24), (ARG_FLOAT, 8, 32), (ARG_INT, 1, 40),
        (ARG_INT, 4, 44), (ARG_REAL, 8, 48), (ARG_INT, 1, 56),
    ]  # fmt: skip
    assert [(arg.offset, arg.size) for arg in made.jobs[0].args] == [(arg.offset, arg.size) for arg in args]
    assert [value(arg.code) for arg in args if arg.kind == ARG_INT] == [N == 40, M, max(M, N), 1, 2, N, 3]
    assert [arg.name for arg in made.jobs[0].args][1:3] == ["M", "max(M, N)"]
    assert made.jobs[0].kernarg_size == 57
    assert good(args=["{ i64 M, u8 0 }"]).jobs[0].kernarg_size == 16
    assert said(args=["{ i64 M, u8 0 }"], slot=8) == [
        "slot: a slot of 8 bytes is too small for '{ i64 M, u8 0 }'"
    ]


def test_packed_structs_have_no_gaps_and_no_alignment() -> None:
    """FlyDSL's ``fx.Tensor``: an address, then sizes and strides one behind the other; the next address is aligned again."""
    made = good(
        args=[
            "ptr q",
            "packed { i32 M, i32 N, i32 3, i64 M * N, i64 N }",
            "i32 N",
            "packed{i32 N, i64 M}",
            "ptr out",
        ]
    )
    args = made.recipe.steps[0].args
    assert [(arg.offset, arg.size) for arg in args] == [
        (0, 8), (8, 4), (12, 4), (16, 4), (20, 8), (28, 8), (36, 4), (40, 4), (44, 8), (56, 8),
    ]  # fmt: skip
    assert [value(arg.code) for arg in args if arg.kind == ARG_INT] == [M, N, 3, M * N, N, N, N, M]
    assert made.jobs[0].kernarg_size == 64
    assert good(args=["packed { i64 M, u8 0 }"]).jobs[0].kernarg_size == 9
    assert said(args=["packed { i64 M, u8 0 }"], slot=8) == [
        "slot: a slot of 8 bytes is too small for 'packed { i64 M, u8 0 }'"
    ]


@pytest.mark.parametrize("text", ["u8 N", "f64 epsilon", "{ i32 N, i32 M }", "packed { i32 N, i32 M }"])
def test_what_triton_has_no_word_for(text: str) -> None:
    words = f"args[1]: {text!r}: kernels of triton take none of u8, f64, {{, packed"
    assert said(backend="triton", args=["i32 N", text], block=None) == [words]


def test_slots_of_one_size() -> None:
    assert good(args=[]).jobs[0].kernarg_size == 0
    made = good(args=["i32 N", "ptr q", "f32 epsilon"], slot=16)
    assert [(arg.offset, arg.size) for arg in made.jobs[0].args] == [(0, 4), (16, 8), (32, 4)]
    assert made.jobs[0].kernarg_size == 48
    assert made.jobs[0].args[1].dtype == "i8"
    assert good(args=["i32 N", "ptr q"], slot=8).jobs[0].kernarg_size == 16
    assert said(args=["i32 N", "ptr q"], slot=7) == ["slot: a slot of 7 bytes is too small for 'ptr q'"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ptr", f"args[1]: 'ptr' {NO_FORM}"),
        ("u7 N", f"args[1]: 'u7 N' {NO_FORM}"),
        ("{}", f"args[1]: '{{}}' {NO_FORM}"),
        ("packed", f"args[1]: 'packed' {NO_FORM}"),
        ("packed {}", f"args[1]: 'packed {{}}' {NO_FORM}"),
        ("{ i64 N", f"args[1]: '{{ i64 N' {NO_FORM}"),
        ("{ i64 N, u8 }", f"args[1]: '{{ i64 N, u8 }}' {NO_FORM}"),
        ("{ i64 N,, u8 0 }", f"args[1]: '{{ i64 N,, u8 0 }}' {NO_FORM}"),
        ("f32 zz", "args[1]: 'zz' is not a float attribute (known: bound, epsilon)"),
        ("f32 epsilo", "args[1]: 'epsilo' is not a float attribute (did you mean 'epsilon'?)"),
        (
            "f32 zz * 2",
            "args[1]: unknown name 'zz' (known: CUS, M, N, bound, epsilon, lds_bytes, sizeof_T, wave) in 'zz * 2'",
        ),
        ("ptr ou", "args[1]: 'ou' is not a tensor of the operator (did you mean 'out'?)"),
        ("ptr zzzz", "args[1]: 'zzzz' is not a tensor of the operator (known: out, q, x)"),
    ],
)
def test_an_argument_that_is_none(text: str, words: str) -> None:
    """What has a kind keeps its place, so that the arguments behind it are not wrong, too."""
    found, lines = attempt(args=["i32 N", text, "i32 M"])
    assert lines == [words] and found is not None
    args = found.recipe.steps[0].args
    assert args[-1].kind == ARG_INT and value(args[-1].code) == M
    wanted = {"ptr": Arg(ARG_NULL, 8, 8, 0, b""), "f32": Arg(ARG_REAL, 4, 4, 0, b"")}
    kind, _, what = text.partition(" ")
    if kind in wanted and what:
        assert args[1] == wanted[kind] and found.jobs[0].args[1].dtype == ""
        assert (args[2].offset, args[2].size) == ({"ptr": 16, "f32": 8}[kind], 4)
    else:
        assert len(args) == 2


def test_computed_floats() -> None:
    """A name alone is an attribute's own slot; everything else is computed, over dims and attributes and constants."""
    made = good(args=["f32 epsilon", "f32 epsilon + bound * B", "f32 M / N", "f32 -1.5"], constants={"B": 4})
    taken, sums, share, constant = made.recipe.steps[0].args
    assert taken == Arg(ARG_FLOAT, 4, 0, 1, b"")
    assert [(arg.kind, arg.offset, arg.operand) for arg in (sums, share, constant)] == [
        (ARG_REAL, 4, 0), (ARG_REAL, 8, 0), (ARG_REAL, 12, 0)
    ]  # fmt: skip
    assert [real.evaluate(arg.code, VALUES, (0.5, 0.25)) for arg in (sums, share, constant)] == [
        0.25 + 0.5 * 4, M / N, -1.5
    ]  # fmt: skip
    assert {arg.kind for arg in made.jobs[0].args} == {"f32"}


def test_the_same_text_with_other_constants_is_another_number() -> None:
    """Bytecode is kept by what its names mean."""
    for number in (2, 3, 2):
        (arg,) = good(args=["f32 epsilon * B"], constants={"B": number}).recipe.steps[0].args
        assert real.evaluate(arg.code, VALUES, (0.0, 0.5)) == 0.5 * number
        (arg,) = good(args=["i32 N * B"], constants={"B": number}).recipe.steps[0].args
        assert value(arg.code) == N * number


def test_the_last_byte_of_arguments_that_fits() -> None:
    assert good(args=["i64 N"] * 512).jobs[0].kernarg_size == 4096
    assert said(args=["i64 N"] * 512 + ["i32 N"]) == [
        "args: 4100 bytes of kernel arguments, the runtime takes at most 4096"
    ]


def test_triton_gets_two_pointers_more_and_a_block_of_waves() -> None:
    made = good(backend="triton", block=None)
    assert [(arg.kind, arg.name, arg.offset) for arg in made.jobs[0].args[3:]] == [
        ("ptr", "null", 24), ("ptr", "null", 32)
    ]  # fmt: skip
    step = made.recipe.steps[0]
    assert (step.block_x, step.block_y, step.block_z, made.jobs[0].block) == (256, 1, 1, (0, 0, 0))
    for warps, threads in ((1, 64), (2, 128), (16, 1024)):
        step = good(backend="triton", block=None, constants={"num_warps": warps}).recipe.steps[0]
        assert (step.block_x, step.block_y, step.block_z) == (threads, 1, 1)


@pytest.mark.parametrize("warps", [0, -1, 17, "many"])
def test_triton_has_no_block_of_that_many_waves(warps: int | str) -> None:
    found, lines = attempt(backend="triton", block=None, constants={"num_warps": warps})
    assert lines == [f"num_warps = {warps!r} makes no block of 1 to 1024 threads (waves of 64)"]
    assert found is not None
    step = found.recipe.steps[0]
    assert (step.block_x, step.block_y, step.block_z) == (64, 1, 1)


def test_only_triton_goes_without_a_block() -> None:
    assert said(backend="triton") == [
        "block: Triton kernels have no block: it is num_warps times the wave size"
    ]
    found, lines = attempt(block=None)
    assert lines == ["block: is missing (needed for backend 'hip')"]
    assert found is not None and found.jobs[0].block == (1, 1, 1)


@pytest.mark.parametrize("block", [[1024], [1, 1024], [1, 1, 1024], [1], [2, 4, 128], [4, 256], [3, 5, 7]])
def test_blocks_that_fit(block: list[str | int]) -> None:
    x, y, z = (*map(int, block), 1, 1)[:3]
    made = good(block=block)
    step = made.recipe.steps[0]
    assert (step.block_x, step.block_y, step.block_z) == made.jobs[0].block == (x, y, z)


@pytest.mark.parametrize(
    ("block", "lines"),
    [
        ([1025], ["block[0]: 1025 is not a constant between 1 and 1024"]),
        ([0], ["block[0]: 0 is not a constant between 1 and 1024"]),
        ([2, "N", 3], ["block[1]: 'N' is not a constant between 1 and 1024"]),
        ([1, 1, "1 // 0"], ["block[2]: '1 // 0' cannot be computed: division by zero",
                          "block[2]: '1 // 0' is not a constant between 1 and 1024"]),
        ([41, 25], ["block: [41, 25, 1] is more than 1024 threads"]),
        ([1, 41, 25], ["block: [1, 41, 25] is more than 1024 threads"]),
        ([5, 5, 41], ["block: [5, 5, 41] is more than 1024 threads"]),
    ],
)  # fmt: skip
def test_blocks_that_do_not(block: list[str | int], lines: list[str]) -> None:
    found, known = attempt(block=block)
    assert known == lines and found is not None
    x, y, z = (each if isinstance(each, int) and 1 <= each <= 1024 else 1 for each in (*block, 1, 1)[:3])
    assert found.jobs[0].block == (x, y, z)


def test_conditions_that_are_known_now() -> None:
    """Always true: not written down. Never: no recipe. One that is wrong is left out and said."""
    conditions = good(when=["1 < 2", "N > 1", "M == 6"], constants={"B": 2}).recipe.conditions
    assert [(each.text, value(each.code)) for each in conditions] == [("N > 1", 1), ("M == 6", 1)]
    assert attempt(when=["N > 1", "B > 2"], constants={"B": 2}) == (None, [])
    found, lines = attempt(when=["M > 1", "Z > 1", "1 // 0", "N > 1"])
    assert found is not None and {each.text for each in found.recipe.conditions} >= {"M > 1", "N > 1"}
    assert lines[0].startswith("when[1]: ") and "unknown name 'Z'" in lines[0]
    assert lines[1] == "when[2]: '1 // 0' cannot be computed: division by zero"


@pytest.mark.parametrize(
    ("changes", "path"),
    [({"cost": "Z"}, "cost"), ({"workspace": "Z"}, "workspace"), ({"lds": "Z"}, "lds"), ({"grid": ["M", 1, "Z"]}, "grid[2]"),
     ({"args": ["i32 N", "i32 Z"]}, "args[1]"), ({"args": ["ptr workspace + Z"]}, "args[0]"),
     ({"when": ["Z > 1"]}, "when[0]"), ({"block": [1, "Z"]}, "block[1]")],
)  # fmt: skip
def test_unknown_names_are_said_where_they_stand(changes: dict[str, Any], path: str) -> None:
    line = said(**changes)[0]
    assert line.startswith(f"{path}: ") and "unknown name 'Z'" in line


def test_what_the_compiler_may_assume() -> None:
    args = ["ptr out", "ptr x", "i32 N"]

    def divisible(**assume: Any) -> list[str]:
        made = good(args=args, assume=assume, constants={"EVEN": 1, "ODD": 0})
        return [arg.name for arg in made.jobs[0].args if arg.divisible]

    assert divisible(divisible=["x", "N"]) == ["x", "N"]
    assert divisible(divisible=["x"], when_constant="EVEN") == ["x"]
    assert divisible(divisible=["x"], when_constant="ODD") == []
    assert divisible(divisible=[]) == []
    found, lines = attempt(assume={"divisible": ["x"], "when_constant": "OTHER"})
    assert lines == ["assume.when_constant: 'OTHER' is not a constant of the kernel"] and found is not None
    assert not any(arg.divisible for arg in found.jobs[0].args)
    assert said(assume={"divisible": ["q", "x", "M"]}) == [
        "assume.divisible: 'M' is not an argument of the kernel", "assume.divisible: 'q' is not an argument of the kernel",
    ]  # fmt: skip


def test_steps_have_jobs_of_their_own() -> None:
    second: dict[str, Any] = {**STEP, "symbol": "l", "source": "l.hip", "uses": ["BLOCK"], "block": ["BLOCK"]}
    second["constants"] = {"PART": 1, "BLOCK": 2}
    made = good(**steps(STEP, second, constants={"FIXED": 3}, variants={"BLOCK": [4], "OTHER": [5]}))
    first, last = made.jobs
    assert (first.step, first.source, first.symbol, first.used) == ("k", "k.hip", "k", None)
    assert first.constants == (("BLOCK", 4), ("FIXED", 3), ("OTHER", 5), ("T", "bf16"))
    assert (last.step, last.source, last.symbol, last.used) == ("l", "l.hip", "l", frozenset({"BLOCK"}))
    assert last.constants == (("BLOCK", 2), ("PART", 1), ("T", "bf16")), "OTHER and FIXED are not used"
    assert [step.block_x for step in made.recipe.steps] == [64, 2]
    assert (last.block, made.recipe.variant) == ((2, 1, 1), "BLOCK4-OTHER5")


def test_problems_of_a_step_say_which() -> None:
    lines = said(**steps(STEP, {**STEP, "uses": ["BLOCKS"], "grid": ["Z"]}, constants={"BLOCK": 1}))
    assert lines[0].startswith("steps[1].grid[0]: ")
    assert lines[1:] == ["steps[1].uses: 'BLOCKS' is not a constant of the kernel (did you mean 'BLOCK'?)"]


def test_a_step_that_lacks_something_is_left_out() -> None:
    for keys in (("symbol",), ("grid",), ("args",), ("symbol", "grid", "args")):
        found, lines = attempt(**steps({**STEP, "symbol": "l"}, {**STEP, **dict.fromkeys(keys)}))
        assert lines == [f"steps[1].{key}: is missing" for key in keys]
        assert found is not None and [job.symbol for job in found.jobs] == ["l"]
        assert len(found.recipe.steps) == 1


def test_a_step_that_is_launched_only_where_it_is_needed() -> None:
    made = good(**steps(STEP, {**STEP, "grid": ["N", "M", 3], "if": "M > 5 or N > 50"}))
    always, perhaps = made.recipe.steps
    assert value(always.grid_x) == M and value(perhaps.grid_y) == M and value(perhaps.grid_z) == 3
    for m, n, wanted in ((6, 40, 40), (5, 50, 0), (5, 51, 51)):
        assert evaluate(perhaps.grid_x, (m, n, *VALUES[2:])) == wanted


def test_names_are_filled_in() -> None:
    made = good(source="{target}/k{B}.hip", symbol="k{B}_{T}", demangled="k<{B}>", constants={"B": True})
    job = made.jobs[0]
    assert (job.source, job.symbol, job.demangled) == ("gfx942/k1.hip", "k1_bf16", "k<1>")
    for key, text in (("source", "{C}.hip"), ("symbol", "{C}"), ("demangled", "k<{C}>")):
        changes: dict[str, Any] = {key: text}
        found, lines = attempt(**changes)
        assert lines == [f"{key}: {text!r} has {{C}}, which is no constant (known: T, target)"]
        assert found is not None and getattr(found.jobs[0], key) == text


def test_nothing_of_a_variant_is_in_an_object_that_is_there_already() -> None:
    variants = {"backend": "asm", "constants": {"B": 1}, "variants": {"C": [2]}}
    assert good(source="k.co", **variants).jobs[0].constants == ()
    assert good(source="k.s", **variants).jobs[0].constants == (("B", 1), ("C", 2), ("T", "bf16"))


def test_a_step_has_a_backend_of_its_own() -> None:
    made = good(**steps(STEP, {**STEP, "backend": "asm", "demangled": "ns::l<int, 2>"}))
    assert [(job.backend, job.step) for job in made.jobs] == [("hip", "k"), ("asm", "ns_l_int_2_")]


def test_what_stands_with_steps_or_is_missing_without() -> None:
    whole = {
        "symbol": "k",
        "grid": [1],
        "block": [1],
        "args": [],
        "lds": 0,
        "slot": 8,
        "assume": {"divisible": []},
    }
    words = "stands with the steps when there are steps"
    keys = ("symbol", "grid", "block", "args", "lds", "slot", "assume")
    assert said(**steps(STEP, **whole)) == [f"{key}: {words}" for key in keys]
    for key in ("symbol", "grid", "args"):
        found, lines = attempt(**{key: None})
        assert (
            lines == [f"{key}: is missing"]
            and found is not None
            and (found.jobs, found.recipe.steps) == ((), ())
        )

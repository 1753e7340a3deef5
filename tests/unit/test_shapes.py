"""Models' shapes: the grammar of calls, sizes, what lint refuses, rows and how they are printed. The choice is made up here."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click.testing
import pytest
from rich.console import Console
from support import repository

from aiter_prebuilt.contract.calls import Array, Call, ElementType
from build_tools.__main__ import cli
from build_tools.errors import ManifestError, ShapesError, UnknownTargetError, UsageError
from build_tools.manifest.python import REQUIRED, Parameter
from build_tools.report import shapes as records
from build_tools.report.shapes import ShapeRow, Shapes
from build_tools.report.shapes_view import render
from build_tools.shapes import ask, models, problems
from build_tools.shapes.ask import Filter
from build_tools.shapes.forms import Form, FormError, Literal, Size, Tensor, Type, bind, names, parse
from build_tools.shapes.models import ClientCall, Model, Models, Phase, Sizes
from build_tools.verbs import options
from build_tools.verbs.reports import shapes as verb

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = repository.manifest()
TOLD = models.read(ROOT)


def test_a_call_is_read_as_python_would() -> None:
    form = parse(
        "ops.mm(bf16[M, 2 * H], fp8[N], strided(f32[M, H], 1, M), None, (-1, 0), 'auto', S + 1, eps, dtype=bf16, on=True)"
    )
    assert form == Form(
        "ops.mm",
        (
            Tensor("bf16", ("M", "2 * H")), Tensor("fp8", ("N",)), Tensor("f32", ("M", "H"), ("1", "M")), Literal(None),
            Literal((-1, 0)), Literal("auto"), Size("S + 1"), Size("eps"),
        ),
        (("dtype", Type("bf16")), ("on", Literal(True))),
    )  # fmt: skip
    assert list(form.texts()) == ["M", "2 * H", "N", "M", "H", "1", "M", "S + 1", "eps"]
    assert names("cdiv(M, 16) * max(H, 2)") == {"M", "H"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mm(", "is no call"), ("M + 1", "is no call"), ("mm(**all)", "names its arguments one by one"),
        ("mm(bf17[M])", "'bf17' is no element type"), ("mm(strided(M, 1))", "the first is a tensor"),
        ("mm(strided(bf16[M, N], 1))", "2 dims and 1 strides"), ("mm(a.b[M])", "'a.b' is no element type"),
    ],
)  # fmt: skip
def test_what_is_no_call_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormError, match=said.replace("(", r"\(")):
        parse(text)


PARAMETERS = (
    Parameter("x", "Tensor", False, REQUIRED), Parameter("w", "Tensor", True, None), Parameter("n", "int", False, 1),
)  # fmt: skip


def test_arguments_are_bound_as_python_binds_them() -> None:
    assert bind(parse("f(bf16[M], n=M)"), PARAMETERS) == {"x": Tensor("bf16", ("M",)), "n": Size("M")}
    assert list(bind(parse("f(bf16[M], None, 3)"), PARAMETERS)) == ["x", "w", "n"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f()", "'x' is missing"), ("f(bf16[M], None, 1, 2)", "4 by position, and it has 3 parameters"),
        ("f(bf16[M], y=1)", "no parameter 'y'"), ("f(bf16[M], x=bf16[M])", "'x' is given by position, too"),
        ("f(bf16[M], 3)", "'w' is a tensor"), ("f(bf16[M], None, bf16[M])", "'n' is no tensor"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_parameters_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormError, match=said):
        bind(parse(text), PARAMETERS)


def test_sizes_follow_from_each_other() -> None:
    sizes = Sizes({"heads": 32, "TP": 8, "M": 5}, {"HQ": "heads // TP", "QKV": "HQ * 3 + M"}, {"eps": 1e-5})
    assert (sizes.value("QKV"), sizes.value("eps"), sizes.integer("cdiv(M, 2)")) == (17, 1e-5, 3)
    with pytest.raises(FormError, match=r"no size is called 'HK' \(known: HQ, M"):
        sizes.integer("HK + 1")
    with pytest.raises(FormError, match="A -> B -> A is a circle"):
        Sizes({}, {"A": "B", "B": "A + 1"}, {}).integer("A + 0")
    with pytest.raises(FormError, match="zero"):
        sizes.integer("M // (TP - 8)")
    with pytest.raises(FormError, match="is no expression"):
        sizes.integer("M +")


def test_an_argument_is_what_the_executor_takes() -> None:
    sizes = Sizes({"M": 3, "N": 4}, {}, {})

    def take(text: str) -> Any:
        return ask.argument(parse(f"f({text})").positional[0], sizes, "e4m3fnuz")

    assert take("fp8[M, N]") == Array("e4m3fnuz", (3, 4), (4, 1), 0, None)
    assert take("strided(f32[M, N], 1, M)") == Array("f32", (3, 4), (1, 3), 0, None)
    assert (take("fp8"), take("bf16")) == (ElementType("e4m3fnuz"), ElementType("bf16"))
    assert (take("(-1, 0)"), take("M * N"), take("None"), take("''")) == ([-1, 0], 12, None, "")
    with pytest.raises(FormError, match="is \\(-1,\\)"):
        take("bf16[M - N]")


CALL = ClientCall(client="c", call="rms_norm(bf16[M, H], bf16[H], eps)")
TOY = Models(
    {"decode": Phase(tokens=[1, 8, 64]), "prefill": Phase(tokens=[1024])}, {"I": "inter // TP"}, {"dense": {"down": ("H", "I")}},
    {"all": ("norm", "gone", "mm")},
    {"toy": Model(facts={"H": 64, "inter": 512}, reals={"eps": 1e-5}, ranks=[1, 2], linears=["dense"], parts=["all"])},
    {
        "norm": CALL,
        "gone": ClientCall(client="c", call="nobody(M)", not_served="no reason", phases=["decode"], targets=["gfx950"]),
        "mm": ClientCall(client="c", call="gemm_a16w16(bf16[M, K], bf16[N, K])", each=["dense"]),
    },
)  # fmt: skip


def test_each_call_is_made_with_the_sizes_of_each_step() -> None:
    made = list(ask.step_calls(TOY, MANIFEST, "gfx950", Filter()))
    assert [(each.row.ranks, each.row.call, each.row.tokens) for each in made if each.row.ranks == 2] == [
        *((2, "norm", tokens) for tokens in (1, 8, 64, 1024)), *((2, "gone", tokens) for tokens in (1, 8, 64)),
        *((2, "mm", tokens) for tokens in (1, 8, 64, 1024)),
    ]  # fmt: skip
    last = made[-1]
    assert last.row.arguments == "bf16[1024, 256], bf16[64, 256]" and last.row.layer == "down"
    assert last.call is not None and last.call.arguments["B"] == Array("bf16", (64, 256), (256, 1), 0, None)
    assert made[0].row.arguments == "bf16[1, 64], bf16[64], 1e-05"
    assert [each.call for each in made if each.row.state == records.NOT_SERVED] == [None] * 6
    few = ask.step_calls(TOY, MANIFEST, "gfx942", Filter(("toy",), ("rms_norm", "nobody"), (4,)))
    assert {(each.row.call, each.row.ranks) for each in few} == {("norm", 4)}
    assert not list(ask.step_calls(TOY, MANIFEST, "gfx942", Filter(models=("other",))))


def answer(**said: Any) -> dict[str, Any]:
    return {"kernel": "", "variant": "", "backend": "", "problems": [], **said}


def explain(target: str, calls: Iterable[Call]) -> Iterator[Mapping[str, Any]]:
    """Norms are chosen but for the longest; there is no GEMM."""
    for call in calls:
        if call.operator == "gemm_a16w16":
            yield answer(problems=["NoOperatorError: nobody has it"])
        elif call.label.endswith("M=1024"):
            yield answer(problems=["NoKernelError: no kernel takes the call of rms_norm; needs M < 1000"])
        else:
            kernel = "rms_norm_row"
            yield answer(kernel=kernel, variant="64", backend="triton", reason=f"on {target}", cost=7)


def rows(target: str = "gfx950") -> list[ShapeRow]:
    every = ask.step_calls(TOY, MANIFEST, target, Filter(ranks=(1,)))
    return ask.answered(every, ask.operators_of(MANIFEST), target, explain)


def test_rows_say_what_the_runtime_says() -> None:
    found = rows()
    assert [row.state for row in found] == [
        *["chosen"] * 3, "refused", *["not served"] * 3, *["not in the bundles"] * 4,
    ]  # fmt: skip
    first = found[0]
    assert (first.kernel, first.variant, first.backend, first.profile, first.cost, first.reason) == (
        "rms_norm_row", "64", "triton", "ck-free", 7, "on gfx950",
    )  # fmt: skip
    assert found[3].reason == "no kernel takes the call of rms_norm; needs M < 1000"
    shapes = Shapes((*found, *rows("gfx942")), {"gfx950-ck-full.apb": "sample"})
    assert shapes.counts()["gfx950"] == {
        "chosen": 3, "refused": 1, "not in the bundles": 4, "unbound": 0, "not served": 3, "on the host": 0,
    }  # fmt: skip
    assert len(shapes.without()) == 8 + 5
    document = shapes.as_json()
    assert document["version"] == records.JSON_VERSION and len(document["shapes"]) == 11 + 8
    assert document["shapes"][0]["arguments"] == "bf16[1, 64], bf16[64], 1e-05"


def test_tokens_and_targets_that_choose_alike_are_one_line() -> None:
    out = io.StringIO()
    every = [*rows(), *(replace(row, target="gfx942") for row in rows() if row.state != "not served")]
    render(Shapes(tuple(every), {"a.apb": "sample", "b.apb": "tuned"}), Console(file=out, width=240))
    text = out.getvalue()
    (line,) = [line for line in text.splitlines() if "rms_norm_row" in line]
    for word in ("rms_norm", "1 to 64", "gfx950, gfx942", "rms_norm_row[64] triton, ck-free", "on gfx950"):
        assert word in line
    assert "not served: nobody: no reason" in text and "a.apb: the sample set" in text and "b.apb" not in text


def changed(**said: Any) -> Models:
    return replace(TOY, calls={**TOY.calls, "norm": CALL.model_copy(update=said)})


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (TOY, ""), (changed(call="rms_norm(bf16[M, H]"), "is no call"),
        (changed(call="rms_norm(bf16[M, H], bf16[H])"), "rms_norm does not take it: 'epsilon' is missing"),
        (changed(unbound="some reason"), "rms_norm takes it: unbound is stale"),
        (changed(not_served="some reason"), "rms_norm is served: not_served is stale"),
        (changed(host=True), "rms_norm is an operator, which launches something"),
        (changed(call="rms_nrm(bf16[M, H], bf16[H], eps)"), "rms_nrm is no operator here"),
        (changed(call="rms_norm(bf16[M, G], bf16[H], eps)"), "of toy: no size is called 'G'"),
        (changed(phases=["prefil"]), "calls.norm.phases: nothing is called 'prefil' (did you mean 'prefill'?)"),
        (changed(targets=["gfx940"]), "calls.norm.targets: nothing is called 'gfx940'"),
        (changed(each=["moe"]), "calls.norm.each: nothing is called 'moe'"),
        (replace(TOY, parts={"all": ["norm", "gone", "mm", "more"]}), "parts.all: nothing is called 'more'"),
        (replace(TOY, parts={"all": ["norm", "gone"]}), "no model has the call 'mm'"),
        (replace(TOY, parts={**TOY.parts, "more": []}), "no model has the part 'more'"),
        (replace(TOY, linears={"dense": {"down": ["H"]}}), "linears.dense.down: not rows and columns"),
        (replace(TOY, linears={**TOY.linears, "moe": {}}), "no model has the group of linears 'moe'"),
    ],
)  # fmt: skip
def test_lint_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch, told: Models, said: str) -> None:
    monkeypatch.setattr(problems, "read", lambda root: told)
    found = problems.of_repository(MANIFEST, ROOT)
    assert said in "\n".join(found) if said else found == []


def test_the_repository_has_nothing_to_mend() -> None:
    assert problems.of_repository(MANIFEST, ROOT) == []
    assert len(TOLD.models) >= 11 and {rank for model in TOLD.models.values() for rank in model.ranks} == {
        1,
        8,
    }


def test_weights_are_those_of_the_published_models() -> None:
    """Rows and columns on one rank, as the models have them."""
    wanted = {
        ("Llama-3.1-8B", 1): {"qkv": (6144, 4096), "gate_up": (28672, 4096), "lm_head": (128256, 4096)},
        ("Llama-3.1-405B", 8): {"qkv": (2304, 16384), "o_proj": (16384, 2048), "down": (16384, 6656)},
        ("Qwen3-235B-A22B", 8): {"qkv": (1280, 4096), "o_proj": (4096, 1024), "router": (128, 4096)},
        ("DeepSeek-V3", 8): {"qkv_a": (2112, 7168), "q_b": (3072, 1536), "kv_b": (4096, 512), "shared_down": (7168, 256)},
        ("Kimi-K2", 1): {"q_b": (12288, 1536), "kv_b": (16384, 512), "o_proj": (7168, 8192), "gate_up": (36864, 7168)},
        ("Mixtral-8x22B", 8): {"qkv": (1024, 6144), "o_proj": (6144, 768), "lm_head": (4096, 6144)},
        ("gpt-oss-120b", 8): {"qkv": (640, 2880), "o_proj": (2880, 512), "lm_head": (25136, 2880)},
    }  # fmt: skip
    for (name, ranks), layers in wanted.items():
        model = TOLD.models[name]
        sizes = models.sizes_of(TOLD, model, TOLD.phases["decode"], ranks, 1)
        found = {
            layer: tuple(map(sizes.integer, shape))
            for layer, shape in models.layers(TOLD, model, model.linears)
        }
        assert layers.items() <= found.items(), name


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    assert models.read(tmp_path) == Models()
    (tmp_path / "manifests").mkdir()
    (tmp_path / models.CLIENTS).write_text('edition = 1\n[calls.a]\ncall = "f()"\nclinet = "c"\n')
    with pytest.raises(ManifestError) as caught:
        models.read(tmp_path)
    assert "manifests/clients.toml: calls.a.clinet: Extra inputs are not permitted" in caught.value.problems


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The verb on made-up models and bundles."""
    monkeypatch.setattr(models, "read", lambda root: TOY)
    monkeypatch.setattr(verb, "_explain", lambda files: explain)
    for target in ("gfx942", "gfx950"):
        (tmp_path / f"{target}-ck-free.apb").touch()
    return ["report", "shapes", "--bundles", str(tmp_path)]


def test_the_verb_prints_json_and_is_strict_when_asked(asked: list[str]) -> None:
    run = click.testing.CliRunner()
    done = run.invoke(cli, [*asked, "--json", "--target", "gfx950", "--tp", "1"], catch_exceptions=False)
    document = json.loads(done.stdout)
    assert done.exit_code == 0 and set(document) == {"version", "counts", "sums", "ck", "stale", "shapes"}
    assert document["ck"] == {"gfx950-ck-free.apb": "tuned"} and len(document["shapes"]) == 11
    text = run.invoke(cli, [*asked, "--operator", "rms_norm"], catch_exceptions=False).stdout
    assert "toy, TP 2" in text and "rms_norm_row[64]" in text and "nobody" not in text
    strict = run.invoke(cli, [*asked, "--strict"])
    assert isinstance(strict.exception, ShapesError) and strict.exception.exit_code == 20
    assert "26 of 38 have none" in str(strict.exception)  # both ranks, both targets
    assert "first rms_norm of toy, TP 1, with 1024 tokens on gfx942: refused: no kernel" in str(
        strict.exception
    )


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["--model", "toi"], UsageError, "no model is called 'toi' (did you mean 'toy'?)"),
        (["--operator", "rms"], UsageError, "no client calls 'rms'"),
        (["--tp", "3"], UsageError, "toy has inter = 512, which 3 ranks cannot share"),
        (["--target", "sm_90"], UnknownTargetError, "No target 'sm_90'. The targets are gfx942, gfx950"),
    ],
)
def test_what_is_not_there_is_refused(
    asked: list[str], words: list[str], error: type[Exception], said: str
) -> None:
    found = click.testing.CliRunner().invoke(cli, [*asked, *words])
    assert isinstance(found.exception, error) and said in str(found.exception)


def test_models_that_lint_refuses_are_refused(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "read", lambda root: changed(unbound="some reason"))
    found = click.testing.CliRunner().invoke(cli, asked)
    assert isinstance(found.exception, ManifestError) and "unbound is stale" in str(found.exception)


def test_without_bundles_there_is_nothing_to_say(asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "gfx942-ck-free.apb").unlink()
    found = click.testing.CliRunner().invoke(cli, asked)
    assert "has no bundle of it" in str(found.exception) and "build_tools build" in str(found.exception)


def test_the_child_is_given_the_bundles_and_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    from build_tools.prove import ready, workers

    seen: list[Any] = []
    monkeypatch.setattr(ready, "native_parts", lambda root: Path("library"))

    def explained(*words: Any) -> Iterator[Any]:
        seen.append(words)
        return iter(())

    monkeypatch.setattr(workers, "explained", explained)
    calls: list[Call] = []
    list(verb._explain((Path("a.apb"),))("gfx942", calls))
    assert seen == [(workers.Place(options.ROOT, (Path("a.apb"),), "gfx942", Path("library")), calls)]

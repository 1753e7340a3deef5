"""A misspelt word on the command line gets the word that was meant; a product's name stands for its target."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from aiter_prebuilt.__main__ import main
from aiter_prebuilt.bundles import locate, opening, overlap
from aiter_prebuilt.bundles.products import known_target
from aiter_prebuilt.commands import list as list_verb
from aiter_prebuilt.contract.error_text import did_you_mean
from aiter_prebuilt.contract.products import target_of
from aiter_prebuilt.contract.targets import AMD, products_of
from aiter_prebuilt.errors import ArgumentError, NoBundleError, NoOperatorError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "VERB is required. The verbs are bench, bridge, certify, completion, coverage, doctor"),
        (("--verison",), "No option '--verison'. Did you mean '--version'?"),
        (("lst",), "No verb 'lst'. Did you mean 'list'?"),
        (("xyzzy",), "No verb 'xyzzy'. The verbs are"),
        (("list", "--tagret", "gfx950"), "No option '--tagret'. Did you mean '--target'?"),
        (("list", "--tagret=gfx950"), "No option '--tagret'. Did you mean '--target'?"),
        # argparse would speak of --model, which is missing, and not of the misspelt option.
        (("coverage", "--modle", "llama3"), "No option '--modle'. Did you mean '--model'?"),
        (("explain", "--tagret", "gfx950"), "No option '--tagret'. Did you mean '--target'?"),
        (
            ("list", "surplus"),
            "Too many arguments: surplus. For example: aiter-prebuilt list --operator rms_norm",
        ),
        (("vresion",), "No verb 'vresion'. Did you mean '--version'?"),
        (("sign",), "No verb 'sign'. The verbs are"),  # the dashes of --version are no likeness
        (("bridge", "statsu"), "No action 'statsu'. Did you mean 'status'? Choose one of: status, folder."),
        (("completion", "bsh"), "No shell 'bsh'. Did you mean 'bash'?"),
        (
            ("coverage",),
            "--model must be given. For example: aiter-prebuilt coverage --model llama3 --engine vllm",
        ),
    ],
)
def test_names_the_word_that_was_meant(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2 and said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("status --operator rms_norm", "--operator belongs to `bridge folder`, not to `bridge status`."),
        ("status --module module_norm", "--module belongs to `bridge folder`, not to `bridge status`."),
        ("status --check", "--check belongs to `bridge folder`, not to `bridge status`."),
        ("folder jit --model llama3", "--model belongs to `bridge status`, not to `bridge folder`."),
        ("folder jit --engine vllm", "--engine belongs to `bridge status`, not to `bridge folder`."),
        ("status jit", "A folder belongs to `bridge folder`, not to `bridge status`."),
        ("status --engine vllm", "--engine needs --model."),
    ],
)
def test_an_option_of_the_other_action_is_refused(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was ignored: a misspelt operator looked as if it had been looked up."""
    assert main(["bridge", *words.split()]) == ArgumentError.exit_code
    found = capsys.readouterr()
    assert not found.out and said in found.err


def test_names_the_model_and_the_engine_that_were_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--model", "lama3"]) == 2
    assert (
        "No model 'lama3'. Did you mean 'llama3'? The models are: llama3, qwen3moe" in capsys.readouterr().err
    )
    assert main(["coverage", "--model", "llama3", "--engine", "vlm"]) == 2
    assert "No engine 'vlm'. Did you mean 'vllm'? The engines are: vllm, sglang" in capsys.readouterr().err


class Bundle:
    """An installed bundle with two operators."""

    profile = "ck-free"
    names = ("rms_norm", "fused_experts")

    def __init__(self, target: str = "gfx942") -> None:
        self.target = target


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rms_nrom", "No operator 'rms_nrom'. Did you mean 'rms_norm'? List all: aiter-prebuilt list"),
        ("fused_moe", "fused_moe is a function of several operators. Name one of them: "),
        (
            "flash_attn_func --target gfx950",
            "Cannot list flash_attn_func on gfx950: it is not in the installed bundles for gfx950.",
        ),
        (
            "moe_gemm_gathered_fp8 --target gfx942",
            "Cannot list moe_gemm_gathered_fp8 on gfx942: it exists only for gfx950",
        ),
    ],
)
def test_list_ends_for_an_unknown_operator_as_explain_does(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said "Did you mean" of the same name, and that a public function is no operator, with code 1."""
    monkeypatch.delenv(locate.VARIABLE, raising=False)
    monkeypatch.setattr(locate, "installed", lambda: (Bundle("gfx942"), Bundle("gfx950")))
    monkeypatch.setattr(opening, "read_bundle", lambda bundle: bundle)
    monkeypatch.setattr(list_verb, "_rows", lambda *_: iter(()))
    monkeypatch.setattr(overlap, "overlaps", lambda _: [])
    for form in ((), ("--json",)):  # with it, it ended with 1 and a list of nothing
        assert main(["list", "--operator", *words.split(), *form]) == NoOperatorError.exit_code
        shown = capsys.readouterr()
        assert said in shown.err + shown.out


@pytest.mark.parametrize("verb", [["explain"], ["explain", "--target", "gfx950"]])
def test_a_misspelt_operator_is_told_before_a_target_is_asked_for(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locate, "installed", lambda: (Bundle(),))
    monkeypatch.setattr(opening, "read_bundle", lambda bundle: bundle)
    assert main([*verb, "rms_nrom"]) == NoOperatorError.exit_code
    assert (
        "No operator 'rms_nrom'. Did you mean 'rms_norm'? List all: aiter-prebuilt list"
        in capsys.readouterr().err
    )


def test_a_function_of_several_operators_is_told_with_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locate, "installed", lambda: (Bundle(),))
    monkeypatch.setattr(opening, "read_bundle", lambda bundle: bundle)
    assert main(["explain", "fused_moe", "M=1"]) == NoOperatorError.exit_code
    said = capsys.readouterr().err
    assert "fused_moe is a function of several operators. Name one of them: " in said
    assert "fused_experts" in said


def test_nothing_is_suggested_that_is_not_close() -> None:
    assert did_you_mean("rms_nrom", ["silu", "rms_norm"]) == "Did you mean 'rms_norm'? "
    assert did_you_mean("zzz", ["silu", "rms_norm"]) == ""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("mi300x", "gfx942"), ("MI300A", "gfx942"), ("AMD Instinct MI325X", "gfx942"), ("mi355x", "gfx950"),
        ("H100", "sm_90"), ("sm90", "sm_90"), ("gfx942", "gfx942"), ("gfx942:xnack-", "gfx942:xnack-"), ("gfx7", "gfx7"),
    ],
)  # fmt: skip
def test_a_product_stands_for_its_target(text: str, target: str) -> None:
    assert target_of(text) == target


def test_every_product_of_the_table_of_targets_is_known() -> None:
    table = tomllib.loads((ROOT / "manifests/targets.toml").read_text())
    targets = {name: row for name, row in table.items() if isinstance(row, dict)}
    assert len(targets) >= 3
    for name, row in targets.items():
        for product in (*row["devices"], *row.get("apus", ())):
            assert target_of(product) == name
    assert targets["gfx942"]["apus"] == ["MI300A"]


def test_pages_list_the_products_of_the_table_and_no_source_lists_them_again() -> None:
    """Each page has a row that begins with all products of a target."""
    for target in AMD:
        row = f"{', '.join(products_of(target))} | "
        assert f"| {row}" in (ROOT / "README.md").read_text()
        assert f"| `{target}` | {row}" in (ROOT / "docs" / "support.md").read_text()
    folders = (ROOT / "build_tools", ROOT / "src", ROOT / "manifests")
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in (".py", ".toml") and re.search(r"MI300A|MI325X", path.read_text())
    ]
    assert sorted(found) == ["manifests/targets.toml", "src/aiter_prebuilt/contract/targets.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gfx90a", "gfx90a (MI200) is not supported"), ("MI250X", "MI250X is not supported"),
        ("gfx90a:sramecc+", "gfx90a:sramecc+ (MI200) is not supported"),
    ],
)  # fmt: skip
def test_a_gpu_that_no_wheel_serves_is_named(text: str, said: str) -> None:
    with pytest.raises(
        ArgumentError, match=re.escape(said) + r"\. Supported: gfx942 \(MI300\), gfx950 \(MI350\)"
    ):
        known_target(text)
    # A call on such a card says the same.
    with pytest.raises(
        NoBundleError, match=re.escape(said) if text.startswith("gfx") else "is not supported"
    ):
        locate.for_target(text, (), "device 0")


def test_the_command_takes_products(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--target", "gfx90a"]) == 2
    assert "gfx90a (MI200) is not supported. Supported: gfx942 (MI300)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gfx9422", "No target 'gfx9422'. Did you mean 'gfx942'? Supported: gfx942 (MI300), gfx950 (MI350)"),
        ("gfx95", "No target 'gfx95'. Did you mean 'gfx950'? "), ("mi3000x", "No target 'mi3000x'. Did you mean 'mi300x'? "),
        ("H10", "No target 'H10'. Did you mean 'h100'? "), ("nothing", "No target 'nothing'. Supported: "),
        ("gfx1030", "gfx1030 is not supported. Supported: "), ("gfx940", "gfx940 is not supported. "),
        ("sm_80", "sm_80 is not supported. "), ("gfx9-4-generic", "No target 'gfx9-4-generic'. "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [("explain", "rms_norm", "M=1"), ("list",), ("verify",), ("preload",)])
def test_every_verb_refuses_a_target_that_does_not_exist(
    words: tuple[str, ...], text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--target", text]) == ArgumentError.exit_code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["gfx942", "gfx950:sramecc+", "MI300X", "sm_90", "H200", "sm90"])
def test_a_target_or_product_of_ours_is_known(text: str) -> None:
    assert known_target(text).partition(":")[0] in {"gfx942", "gfx950", "sm_90"}

"""``aiter-prebuilt coverage``: the table of a model's calls is the live choice of the bundles that are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.emulator import bundles

from aiter_prebuilt.contract.calls import Array, ElementType
from aiter_prebuilt.errors import NativeError
from aiter_prebuilt.inspection import call_forms

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "src/aiter_prebuilt/schemas/coverage.json").read_text())
MODELS = ("llama3", "qwen3moe", "deepseek_v3", "gptoss")


def command(*words: str, places: tuple[Path, ...] | None = None) -> subprocess.CompletedProcess[str]:
    """The verb, with the bundles of both targets unless ``places`` names others."""
    paths = bundles("gfx942", "ck-free") + bundles("gfx950", "ck-free") if places is None else places
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80", "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, paths))
    }  # fmt: skip
    line = [sys.executable, "-m", "aiter_prebuilt", "coverage", *words]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)


def document(*words: str) -> Any:
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_every_call_has_a_row_and_what_is_launched_is_proved(model: str) -> None:
    found = document("--model", model)
    rows = found["calls"]
    assert {row["target"] for row in rows} == {"gfx942", "gfx950"}
    assert {row["form"] for row in rows} == set(found["forms"])
    for row in rows:
        assert row["have"] or row["reason"], row["form"]
        assert (row["proved"] is None) == (not row["have"] or row["kernel"] == "on the host"), row
        assert row["proved"] is not False, row
        assert "DriverError" not in row["reason"], row  # the bundles say what cards have
    kernels = {row["form"]: row["backend"] for row in rows if row["target"] == "gfx950"}
    assert kernels["sglang_greedy"] == "hip"
    sums = [row for row in rows if row["form"] == "vllm_all_reduce"]
    assert {(row["have"], row["proved"], *row["within"]) for row in sums} == {(True, True, "peer_all_reduce")}


def test_collectives_say_how_many_ranks_they_serve() -> None:
    """Each rank's launch is a call of its own, by as many ranks: which kernel of which types, executed or not."""
    rows = [row for row in document("--model", "llama3")["calls"] if row["operator"].startswith("peer_")]
    served = {
        (row["operator"], world)
        for row in rows
        for world in (2, 4, 6, 8)
        if row["form"].startswith(f"rank_of_{world}_")
        and f"WORLD{world}" in row["variant"].split("-")
        and row["backend"] == "hip"
    }
    whole = ("peer_all_reduce", "peer_all_reduce_rmsnorm", "peer_all_gather", "peer_reduce_scatter")
    codes = {("peer_all_reduce_codes", world) for world in (2, 4, 8)}
    assert served == {(name, world) for name in whole for world in (2, 4, 6, 8)} | codes
    assert all(row["have"] and row["proved"] for row in rows)
    exchanges = {(row["tokens"], row["variant"]) for row in rows if row["form"] == "rank_of_8_all_reduce"}
    assert exchanges == {(1, "WORLD8-OPreduce1"), (64, "WORLD8-OPreduce2"), (4096, "WORLD8-OPreduce2")}


def test_it_is_the_live_choice() -> None:
    rows = [
        row
        for row in document("--model", "llama3", "--target", "gfx950")["calls"]
        if row["form"] == "ours_tgemm"
    ]
    assert rows
    for row in rows:
        if row["layer"] != "qkv":
            continue
        line = [
            sys.executable, "-m", "aiter_prebuilt", "explain", "gemm_a16w16", f"M={row['tokens']}", "N=6144", "K=4096", "T=bf16",
            "bias=none", "--target", "gfx950", "--json",
        ]  # fmt: skip
        environment = os.environ | {
            "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80", "AITER_PREBUILT_BUNDLES": str(bundles("gfx950", "ck-free")[0])
        }  # fmt: skip
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)
        (chosen,) = [each for each in json.loads(done.stdout)["decisions"] if each["chosen"]]
        assert (chosen["kernel"], chosen["variant"]) == (row["kernel"], row["variant"])


def test_a_function_around_others_is_served_by_those_that_take_the_call() -> None:
    rows = document("--model", "gptoss")["calls"]
    around = {
        (row["target"], row["tokens"]): row["within"] for row in rows if row["form"] == "vllm_fused_moe_mxfp4"
    }
    assert around["gfx942", 4096] == ["fused_experts_a16w4"]
    assert around["gfx950", 4096] == ["fused_experts_a16w4", "fused_experts_mxfp4"]


def test_an_engine_leaves_what_the_other_calls() -> None:
    whole = set(document("--model", "llama3", "--target", "gfx942")["forms"])
    vllm, sglang = (
        set(document("--model", "llama3", "--target", "gfx942", "--engine", engine)["forms"])
        for engine in ("vllm", "sglang")
    )
    assert vllm < whole and sglang < whole and "sglang_norm" not in vllm and "vllm_rms_norm" not in sglang
    assert "ours_tgemm" in vllm & sglang  # which tgemm.mm of both calls


def test_what_is_not_served_says_why() -> None:
    done = command("--model", "qwen3moe", "--target", "gfx950")
    text = " ".join(done.stdout.split())
    assert "Not served: aiter_stage1, " in text
    assert (
        "NoOperatorError: Cannot call ck_moe_stage1_fwd on gfx950: its kernels are in the bundle gfx950 (ck-full)"
        in text
    )
    assert "because they are Composable Kernel's own entries" in text
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_table_for_people() -> None:
    done = command("--model", "llama3", "--target", "gfx950", "--forms")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "llama3: steps of Llama-3.1-8B on one GPU"
    (head,) = [
        place
        for place, line in enumerate(lines)
        if line.split() == ["call", "tokens", "served", "by", "proved"]
    ]
    place = next(at for at, line in enumerate(lines) if at > head and line.split()[:1] == ["rms_norm"])
    norm = lines[place]
    assert "rms_norm_row[" in norm and norm.endswith("yes")
    assert lines[place + 1].split() == ["1/64,"] and lines[place + 2].split() == ["prefill"]  # below "decode"
    assert lines[-1].startswith("gfx950: ") and "are proved" in lines[-1]
    assert lines[-1] in lines[1:head], "hundreds of lines follow"
    text = " ".join(done.stdout.split())
    assert "vllm_rms_norm, a call of rms_norm: rms_norm(bf16[M, H], bf16[H], eps)" in text
    assert "Not served: " not in text and " peer_all_reduce " in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "llama4"), "ArgumentError: No model 'llama4'. Did you mean 'llama3'? The models are: llama3, qwen3moe, "),
        (("--model", "llama3", "--engine", "trt"), "ArgumentError: No engine 'trt'. The engines are: vllm, sglang"),
        (("--model", "llama3", "--target", "sm_90"), "ArgumentError: Cannot show coverage of sm_90: AITER serves models only"),
        (("--model", "llama3", "--target", "gfx950"), "NoBundleError: Cannot serve calls of models on gfx950: no bundle"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_an_error_with_its_name(words: tuple[str, ...], said: str) -> None:
    done = command(*words, places=bundles("gfx942", "ck-free"))
    assert done.returncode == (5 if said.startswith("NoBundleError") else 2)
    assert said in done.stderr


def test_nothing_installed(tmp_path: Path) -> None:
    done = command("--model", "llama3", places=(tmp_path,))
    assert done.returncode == 5
    assert "NoBundleError: Cannot show coverage: no bundle for an AMD GPU is installed" in done.stderr
    assert "Run: pip install 'aiter-prebuilt[gfx942]' or 'aiter-prebuilt[gfx950]'" in done.stderr


def test_arguments_are_what_the_file_says() -> None:
    forms = call_forms.load()
    calls = {
        (each.form.name, each.tokens): each for each in forms.models["deepseek_v3"].calls if each.layer in ("", "q_b")
    }  # fmt: skip
    made = forms.call(calls["vllm_gemm_blockscale", 64], "gfx942")
    assert made.operator == "gemm_a8w8_blockscale"
    assert made.arguments["XQ"] == Array("e4m3fnuz", (64, 1536), (1536, 1), 0, None)
    assert made.arguments["dtype"] == ElementType("bf16")
    assert forms.call(calls["vllm_gemm_blockscale", 64], "gfx950:xnack-").arguments["XQ"] == Array(
        "e4m3fn", (64, 1536), (1536, 1), 0, None
    )
    latent = forms.call(calls["aiter_latent_norms", 64], "gfx942").arguments
    assert latent["q"] == Array("bf16", (64, 1536), (2112, 1), 0, None) and latent["q_out"] == Array(
        "bf16", (64, 1536), (1536, 1), 0, None
    )


@pytest.mark.parametrize(
    "text", ["", "{}", '{"edition": 2}', '{"edition": 1, "fp8": {}, "forms": {"a": {}}, "models": {}}']
)
def test_a_file_of_another_layout_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "call_forms.json").write_text(text)
    monkeypatch.setattr(call_forms, "_FILE", tmp_path / "call_forms.json")
    with pytest.raises(NativeError, match="pip install --force-reinstall aiter-prebuilt"):
        call_forms.load.__wrapped__()

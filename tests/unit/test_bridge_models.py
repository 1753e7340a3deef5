"""Where a client takes a function from, and whether what is there takes its call: read from texts, nothing is launched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiter_prebuilt.inspection.call_forms import Form
from aiter_prebuilt_bridge import lookup_log, models, serving
from aiter_prebuilt_bridge.signature_check import Limit, Words


def form(text: str, client: str = "vLLM 0.33.0", targets: tuple[str, ...] = ()) -> Form:
    return Form("one", client, text.partition("(")[0], text, targets, (), False, "")


@pytest.mark.parametrize(
    ("client", "made"),
    [
        ("vLLM 0.33.0", True),
        ("vLLM 0.33.0, SGLang 0.5.23, when a model is loaded", True),
        ("vLLM 0.33.0, as torch.ops.aiter.paged_attention_v1", True),
        ("vLLM 0.33.0 in fused_moe, of 256 tokens and more", False),
        ("AITER 0.1.7 in fused_moe", False),
        ("what tgemm.mm calls here", False),
    ],
)
def test_only_calls_that_a_client_makes_itself(client: str, made: bool) -> None:
    assert models._is_made(form("f(1)", client), "gfx942") is made
    assert models._is_made(form("f(1)", client, ("gfx950",)), "gfx942") is False


def test_modules_that_define_a_name(tmp_path: Path) -> None:
    for name, text in {
        "ops/norm.py": "def rms(x): ...\n", "ops/_private.py": "def rms(x): ...\n", "gluon/norm.py": "def rms(x): ...\n",
        "tuned.py": "class Other:\n    def rms(self): ...\nrmsnorm = 1\n", "mm/__init__.py": "rms = Other()\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [*models._defining(tmp_path, "rms")] == ["aiter.mm", "aiter.ops.norm"]


def _plain(x: Any, option: int = 0) -> None:
    del x, option


def test_a_call_that_what_is_there_does_not_take() -> None:
    assert models._refused(_plain, form("f(bf16[M, H], 3)"), None) == ""
    said = models._refused(_plain, form("f(bf16[M, H], causal=True)"), None)
    assert said == "it does not take the call: got an unexpected keyword argument 'causal'"


def test_an_option_with_which_ours_does_not_take_it() -> None:
    signature = serving.signature_of(_plain)
    assert signature is not None
    words = Words(signature, ("x", "option"), (), (Limit("option", 0, (0, 1)),), ())
    row = lookup_log.Name("aiter.ops", "f", "public", "", words=words)
    assert models._refused(_plain, form("f(bf16[M])"), row) == ""
    assert models._refused(_plain, form("f(bf16[M], option=1)"), row) == ""
    assert (
        models._refused(_plain, form("f(bf16[M], option=2)"), row) == "ours take it only with option 0 or 1"
    )
    assert models._refused(_plain, form("f(bf16[M], f32[1])"), row) == "ours take it only with option 0 or 1"

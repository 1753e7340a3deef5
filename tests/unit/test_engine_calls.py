"""Calls that vLLM made on the emulator (``tests/data/engine_calls.json``) against the forms of ``manifests/clients.toml``."""

from __future__ import annotations

import copy
import enum
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from build_tools.shapes import forms, models, recorded

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import engine_calls  # noqa: E402  # programs of ci/
from engines import recorder  # noqa: E402

TOLD = models.read(ROOT)
KEPT: list[dict[str, Any]] = json.loads(engine_calls.KEPT.read_text(encoding="utf-8"))
DERIVED = {name: text for name, text in TOLD.sizes.items() if forms.names(text)}

FORM = forms.parse(
    "f(strided(bf16[M, HQ, D], QKV, D, 1), k=bf16[M, H], scale=f32[()], one=f32[1], eps=eps, kind=0, "
    "window=(-1, -1), dtype=bf16, cache=fp8[POOL, HQ * D])"
)


def tensor(dtype: str, *shape: int, strides: tuple[int, ...] | None = None) -> dict[str, Any]:
    dense = [1] * len(shape)
    for place in range(len(shape) - 2, -1, -1):
        dense[place] = dense[place + 1] * shape[place + 1]
    return {"tensor": dtype, "shape": list(shape), "strides": list(strides or dense)}


def call() -> dict[str, Any]:
    return {
        "name": "f",
        "args": [tensor("bfloat16", 3, 4, 128, strides=(1024, 128, 1))],
        "keywords": {
            "k": tensor("bfloat16", 3, 512),
            "scale": tensor("float32"),
            "one": tensor("float32", 1),
            "eps": 1e-5,
            "kind": {"enum": "QuantType.No", "value": 0},
            "window": [-1, -1],
            "dtype": {"dtype": "bfloat16"},
            "cache": tensor("float8_e4m3fnuz", 9, 512),
        },
    }


@pytest.mark.parametrize(
    "kept", KEPT, ids=[f"{place}-{recorded.function_of(each)}" for place, each in enumerate(KEPT)]
)
def test_each_call_that_vllm_made_has_a_form(kept: dict[str, Any]) -> None:
    told = recorded.compare(TOLD, [kept], engine_calls.CLIENT)
    assert not told.misfits, (told.misfits[0].nearest, told.misfits[0].why)


def test_each_model_was_recorded_on_both_targets() -> None:
    runs = {run for each in KEPT for run in each["runs"]}
    for model in ("llama", "llama-64", "qwen3-moe", "deepseek-v3"):
        assert {f"{model}-gfx942-plain", f"{model}-gfx950-plain"} <= runs


def test_a_call_of_the_form_fits() -> None:
    assert recorded.differences(FORM, call(), DERIVED) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("scale", tensor("float32", 1), "scale: 1 dims, the form has 0"),
        ("one", tensor("float32"), "one: 0 dims, the form has 1"),
        ("one", tensor("float32", 2), "one: 2, the form has 1"),
        ("k", tensor("float16", 3, 512), "k: float16, the form has bf16"),
        ("k", tensor("bfloat16", 4, 512), "k: M is 4, and 3 before"),
        (
            "k",
            tensor("bfloat16", 3, 512, strides=(1, 3)),
            r"k: strides \[1, 3\] of \[3, 512\], the form is dense",
        ),
        ("k", None, "k: None, the form has a tensor"),
        ("eps", True, "eps: True, the form has eps"),
        ("kind", {"enum": "QuantType.per_Token", "value": 2}, "kind: QuantType.per_Token, the form has 0"),
        ("window", [127, 0], r"window: \[127, 0\], the form has \(-1, -1\)"),
        ("dtype", {"dtype": "float16"}, "dtype: float16, the form has the type bf16"),
        ("cache", tensor("uint8", 9, 512), "cache: uint8, the form has fp8"),
        ("cache", tensor("float8_e4m3fn", 9, 500), r"HQ \* D is 500, and its sizes give 512"),
        ("more", 1, "more: the form does not have it"),
    ],
)
def test_a_difference_is_named(name: str, value: Any, said: str) -> None:
    changed = call()
    changed["keywords"][name] = value
    with pytest.raises(AssertionError, match=said):
        assert not (found := recorded.differences(FORM, changed, DERIVED)), "\n".join(found)


def test_arguments_that_are_missing_or_too_many_are_named() -> None:
    changed = call()
    del changed["keywords"]["eps"]
    changed["args"].append(None)
    assert recorded.differences(FORM, changed, DERIVED) == [
        "2 by position, the form has 1",
        "eps: not given",
    ]


def test_another_distance_between_rows_is_named() -> None:
    changed = call()
    changed["args"][0]["strides"] = [1024, 256, 1]
    assert recorded.differences(FORM, changed, DERIVED) == ["0, a stride: D is 256, and 128 before"]
    changed["args"][0] = tensor(
        "bfloat16", 3, 1, 128, strides=(1024, 7, 1)
    )  # one head: its stride means nothing
    changed["keywords"]["cache"] = tensor("float8_e4m3fn", 9, 128)
    assert recorded.differences(FORM, changed, DERIVED) == []


def test_calls_that_differ_in_sizes_alone_are_kept_once(tmp_path: Path) -> None:
    first, second, other = call(), call(), call()
    second["keywords"]["k"], second["keywords"]["eps"] = tensor("bfloat16", 7, 512), 1e-6
    other["keywords"]["window"] = None
    rows = [each | {"times": 1} for each in (first, second, other)]
    (tmp_path / "a.json").write_text(json.dumps(rows[:1]))
    (tmp_path / "b.json").write_text(json.dumps(rows[1:]))
    found = engine_calls.read(tmp_path)
    assert sorted(each["runs"] for each in found) == [["a", "b"], ["b"]]


def test_a_call_without_a_form_is_printed(tmp_path: Path) -> None:
    known = copy.deepcopy(next(each for each in KEPT if "paged_attention_v1" in each["name"]))
    known["args"][14] = tensor("float32", 1)  # vLLM's scales of keys have no dims
    (tmp_path / "run.json").write_text(
        json.dumps([known | {"times": 1}, {**call(), "name": "torch.ops.aiter.zz"}])
    )
    done = subprocess.run(
        [sys.executable, str(ROOT / "ci" / "engine_calls.py"), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no form: paged_attention_v1, in run\n  nearest: vllm_paged_v1" in done.stdout
    assert "no form: zz, in run\n  nearest: none\n    the function has no form" in done.stdout
    assert "2 calls, 2 without a form" in done.stdout


def test_a_folder_without_recordings_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no recordings. Make some: python -m engines run --record"):
        engine_calls.read(tmp_path)


def test_the_recorder_describes_arguments() -> None:
    torch: Any = pytest.importorskip("torch")

    class Kind(enum.Enum):
        NO = 0

    whole = torch.zeros(4, 6, dtype=torch.bfloat16)
    assert recorder.described(whole) == {"tensor": "bfloat16", "shape": [4, 6], "strides": [6, 1]}
    assert recorder.described(whole[:, :2]) == {
        "tensor": "bfloat16",
        "shape": [4, 2],
        "strides": [6, 1],
        "view": True,
    }
    assert recorder.described(torch.zeros(())) == {"tensor": "float32", "shape": [], "strides": []}
    assert recorder.described((1, None, "x", True, torch.int8, Kind.NO)) == [
        1, None, "x", True, {"dtype": "int8"}, {"enum": "Kind.NO", "value": 0},
    ]  # fmt: skip


CLIENT = """
import sys
from engines import recorder
recorder._NAMES = recorder.Path(sys.argv[1])
recorder.start()
import vllm.caller
vllm.caller.call()
import json
print(json.dumps(recorder.calls()))
"""


def test_only_the_clients_own_calls_are_recorded(tmp_path: Path) -> None:
    """AITER's function calls another of AITER's, and an operator of torch's."""
    pytest.importorskip("torch")
    (tmp_path / "aiter").mkdir()
    (tmp_path / "vllm").mkdir()
    (tmp_path / "aiter" / "__init__.py").write_text(
        "import torch\n"
        "library = torch.library.Library('aiter', 'DEF')\n"
        "library.define('add(Tensor x, int n) -> Tensor')\n"
        "library.impl('add', lambda x, n: x + n, 'CPU')\n"
        "def inner(x, n): return torch.ops.aiter.add(x, n)\n"
        "def outer(x, *, n=1): return inner(x, n)\n"
        "class Ranks:\n    def reduce(self, x): return x\n"
    )
    (tmp_path / "vllm" / "__init__.py").write_text("")
    (tmp_path / "vllm" / "caller.py").write_text(
        "import torch\nfrom aiter import Ranks, outer\n"
        "def call():\n"
        "    x = torch.zeros(2)\n"
        "    outer(x, n=3); outer(x, n=3); torch.ops.aiter.add(x, 5); Ranks().reduce(x)\n"
    )
    names = tmp_path / "names.json"
    names.write_text(
        json.dumps({"vllm 1": [["aiter", "inner"], ["aiter", "outer"], ["aiter", "Ranks"]], "other 2": []})
    )
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, str(names)],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'ci'}", "PATH": "/usr/bin", "AITER_PREBUILT_BRIDGE": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    x = {"tensor": "float32", "shape": [2], "strides": [1]}
    assert json.loads(done.stdout) == [
        {"name": "Ranks.reduce", "args": [x], "keywords": {}, "times": 1},
        {"name": "outer", "args": [x], "keywords": {"n": 3}, "times": 2},
        {"name": "torch.ops.aiter.add", "args": [x, 5], "keywords": {}, "times": 1},
    ]

"""``manifests/bridge/triton.toml``: which calls of AITER's functions are made ahead of time, with which sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from build_tools.errors import ManifestError
from build_tools.manifest.parse import load
from build_tools.seed import triton_calls

ROOT = Path(__file__).resolve().parents[2]
AMD = {"gfx942": "e4m3fnuz", "gfx950": "e4m3fn"}
MODELS = """
edition = 1
[phases.decode]
tokens = [1]
sizes = { S = "M" }
[phases.prefill]
tokens = [1]
sizes = { S = "2" }
[sizes]
HQ = "heads // TP"
[linears]
dense = { up = ["2 * H", "H"], down = ["H", "heads"] }
[models.A]
facts = { H = 32, heads = 8 }
reals = { eps = 1e-5 }
ranks = [1, 4]
linears = ["dense"]
parts = ["norms"]
"""
CALL = """
[calls.one]
client = "a client"
modules = ["aiter.a", "aiter.b"]
models = ["A"]
"""


def repository(folder: Path, text: str) -> Path:
    (folder / "manifests" / "bridge").mkdir(parents=True)
    (folder / "manifests" / "models.toml").write_text(MODELS)
    (folder / triton_calls.FILE).write_text(f"edition = 1\n{text}")
    return folder


def requests(folder: Path, text: str, target: str = "gfx942") -> list[dict[str, Any]]:
    return triton_calls.requests(repository(folder, text), target, AMD[target])


def test_the_repositorys_file_is_right_for_every_target() -> None:
    manifest = load(ROOT / "manifests")
    amd = {name: row.fp8 for name, row in manifest.targets.items() if row.vendor == "amd"}
    assert amd.keys() == AMD.keys() and not triton_calls.problems(ROOT, amd)
    file = triton_calls.read(ROOT)
    for target, fp8 in amd.items():
        asked = {row["name"] for row in triton_calls.requests(ROOT, target, fp8)}
        assert asked == {name for name, call in file.calls.items() if target in (call.targets or amd)}
    assert all(reason for reason in file.left.values())


def test_the_toolchains_triton_is_one_of_those_that_are_asked() -> None:
    from build_tools.tools import pins

    assert pins.load(ROOT).tools["triton"].version in triton_calls.read(ROOT).versions


def test_a_call_is_made_with_the_sizes_of_each_step(tmp_path: Path) -> None:
    called = "f(bf16[M, HQ], strided(fp8[S, H], H + 1, 1), None, n=HQ, kind=fp8, win=(-1, 0), e=eps)"
    text = f'[tokens]\ndecode = [1, 3]\n{CALL}call = "{called}"'
    rows = requests(tmp_path, text)
    assert [row["label"] for row in rows] == [
        f"one A TP={ranks} decode M={tokens}" for ranks in (1, 4) for tokens in (1, 3)
    ]
    row = rows[3]
    assert (row["function"], row["modules"]) == ("f", ["aiter.a", "aiter.b"])
    assert row["positional"] == [
        {"dims": [3, 2], "dtype": "bfloat16", "strides": None, "device": "meta"},
        {"dims": [3, 32], "dtype": "float8_e4m3fnuz", "strides": [33, 1], "device": "meta"},
        {"value": None},
    ]
    assert row["keywords"] == {
        "n": {"value": 2}, "kind": {"type": "float8_e4m3fnuz"}, "win": {"value": [-1, 0]}, "e": {"value": 1e-5}
    }  # fmt: skip


def test_equal_calls_are_made_once(tmp_path: Path) -> None:
    rows = requests(tmp_path, f'[tokens]\ndecode = [1, 3]\nprefill = [1]\n{CALL}call = "f(bf16[S, H])"')
    assert [row["positional"][0]["dims"] for row in rows] == [[1, 32], [3, 32], [2, 32]]


def test_each_linear_layer_is_a_call(tmp_path: Path) -> None:
    rows = requests(
        tmp_path, f'{CALL}each = ["dense"]\nranks = [1]\ntokens = {{ decode = [1] }}\ncall = "f(bf16[N, K])"'
    )
    assert [row["positional"][0]["dims"] for row in rows] == [[64, 32], [32, 8]]


def test_a_call_of_another_target_is_not_made(tmp_path: Path) -> None:
    text = f'{CALL}targets = ["gfx950"]\ntokens = {{ decode = [1] }}\nranks = [1]\ncall = "f(fp8[M])"'
    assert requests(tmp_path / "a", text) == []
    (row,) = requests(tmp_path / "b", text, "gfx950")
    assert row["positional"][0]["dtype"] == "float8_e4m3fn"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'{CALL}call = "f(bf16[M"', "is no call"),
        (f'{CALL}call = "f(x16[M])"', "is no element type"),
        (f'{CALL}call = "f(bf16[Q])"\ntokens = {{ decode = [1] }}', "no size is called 'Q'"),
        (f'{CALL}call = "f()"\neach = ["experts"]', "no group of layers 'experts'"),
        (f'{CALL}call = "f()"\ntokens = {{ training = [1] }}', "no phase 'training'"),
        (f'{CALL}call = "f()"\ndevice = "cuda"', "no device 'cuda'"),
        (f'{CALL.replace("models = [", "models = [1, ")}call = "f()"', "models"),
        (f'{CALL.replace("A", "B")}call = "f()"', "no model 'B'"),
        (f'{CALL}call = "f()"\ntargets = ["gfx1"]', "no target 'gfx1'"),
        (f'{CALL}call = "f()"\n[left]\nf = "no time"', "f is called, too"),
        ("[tokens]\ntraining = [1]", "tokens: there is no phase 'training'"),
        ("word = 1", "word"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, says: str) -> None:
    (problem, *_) = triton_calls.problems(repository(tmp_path, text), AMD)
    assert says in problem and triton_calls.FILE in problem


def test_a_size_that_cannot_be_computed_ends_a_build(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="one: A TP=1 decode M=1"):
        requests(tmp_path, f'{CALL}call = "f(bf16[Q])"\ntokens = {{ decode = [1] }}')


def test_a_repository_without_the_file_asks_for_nothing(tmp_path: Path) -> None:
    assert triton_calls.requests(tmp_path, "gfx942", "e4m3fnuz") == [] and not triton_calls.problems(
        tmp_path, AMD
    )

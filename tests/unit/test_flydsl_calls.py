"""``manifests/bridge/flydsl.toml``: which calls of AITER's FlyDSL functions are made ahead of time."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_tools.errors import ManifestError
from build_tools.manifest.parse import load
from build_tools.seed import flydsl_calls

ROOT = Path(__file__).resolve().parents[2]
AMD = {"gfx942": "e4m3fnuz", "gfx950": "e4m3fn"}
CALL = '[calls.one]\nclient = "somebody"\nmodules = ["aiter.ops.flydsl"]\n'


def repository(folder: Path, text: str) -> Path:
    (folder / "manifests" / "bridge").mkdir(parents=True)
    (folder / flydsl_calls.FILE).write_text(f"edition = 1\n{text}")
    return folder


def test_the_repositorys_file_is_right_for_every_target() -> None:
    manifest = load(ROOT / "manifests")
    amd = {name: row.fp8 for name, row in manifest.targets.items() if row.vendor == "amd"}
    assert amd.keys() == AMD.keys() and flydsl_calls.problems(ROOT, amd) == []
    asked = {
        target: {row["label"] for row in flydsl_calls.requests(ROOT, target, fp8)}
        for target, fp8 in amd.items()
    }
    assert "index_scores_few" in asked["gfx942"] & asked["gfx950"]
    # AITER's tables have kernels of FlyDSL's for one target.
    assert asked["gfx950"] - asked["gfx942"] == {"llama_70b", "gpt_oss", "deepseek_v3"}


def test_a_call_is_what_its_words_say(tmp_path: Path) -> None:
    root = repository(
        tmp_path,
        CALL + 'call = "f(fp8[2, 3], strided(f32[4], 8), bf16, 7, causal=False)"\n'
        '[tables.two]\nclient = "somebody"\nfile = "a.csv"\ntargets = ["gfx950"]\n',
    )
    (row,) = flydsl_calls.requests(root, "gfx942", AMD["gfx942"])
    assert row == {
        "label": "one", "name": "somebody", "modules": ["aiter.ops.flydsl"], "function": "f",
        "positional": [
            {"dims": [2, 3], "strides": None, "dtype": "float8_e4m3fnuz"},
            {"dims": [4], "strides": [8], "dtype": "float32"},
            {"type": "bfloat16"},
            {"value": 7},
        ],
        "keywords": {"causal": {"value": False}, "stream": {"stream": 0}},
    }  # fmt: skip
    rows = flydsl_calls.requests(root, "gfx950", AMD["gfx950"])
    assert [row["label"] for row in rows] == ["one", "two"] and rows[1]["tuned"] == "a.csv"
    assert flydsl_calls.requests(root, "gfx950", AMD["gfx950"], ["two"]) == rows[1:]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CALL + 'call = "f("\n', "one: "),
        (CALL + 'call = "f(bf16[M])"\n', "'M'"),
        (CALL + 'call = "f()"\nsizes = 1\n', "sizes"),
        (CALL, "call"),
        (CALL + 'call = "f()"\ntargets = ["gfx90a"]\n', "there is no target 'gfx90a'"),
        ('[tables.two]\nclient = "somebody"\n', "file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, says: str) -> None:
    (problem, *_) = flydsl_calls.problems(repository(tmp_path, text), AMD)
    assert says in problem and flydsl_calls.FILE in problem


def test_a_file_of_another_form_is_no_request(tmp_path: Path) -> None:
    with pytest.raises(ManifestError):
        flydsl_calls.requests(repository(tmp_path, CALL), "gfx942", AMD["gfx942"])


def test_without_the_file_nothing_is_asked(tmp_path: Path) -> None:
    assert flydsl_calls.requests(tmp_path, "gfx942", AMD["gfx942"]) == []
    assert flydsl_calls.problems(tmp_path, AMD) == []

"""The judgement of engines' answers, and what a run says where something is missing. Engines themselves: ``nox -s engines``."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import client_names  # noqa: E402  # programs of ci/
from engines import __main__ as engines_main  # noqa: E402
from engines import exact, models, packages, runs, server, surroundings, vllm_run, vllm_settings, vllm_tree  # noqa: E402
from engines.errors import EngineError, ServerError  # noqa: E402


def rows(*logprobs: float, best: int = 7, ahead: float = 0.0) -> list[list[dict[str, Any]]]:
    return [[{"logprob": each, "best": best, "best_logprob": each + ahead} for each in logprobs]]


def answers(*logprobs: float, token: int = 7) -> list[dict[str, Any]]:
    return [{"prompt": [1], "tokens": [token] * len(logprobs), "logprobs": list(logprobs)}]


def test_equal_answers_are_right() -> None:
    judged = exact.compared(answers(-1.0, -2.0), rows(-1.01, -2.0), rows(-1.03, -2.0))
    assert judged.right and (judged.equal, judged.tokens) == (2, 2)
    assert math.isclose(judged.error, 0.01) and math.isclose(judged.plain_error, 0.02, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (answers(-1.0, -2.0), rows(-1.0, -2.2)),  # one probability is off
        (answers(math.nan, -2.0), rows(-1.0, -2.0)),
        (answers(-1.0, math.nan), rows(-1.0, -2.0)),
        (answers(-1.0, token=8), rows(-1.0, ahead=0.11)),  # another token is likelier by more than a near tie
        ([], []),  # no answer at all
    ],
)
def test_wrong_answers_are_found(given: list[Any], told: list[Any]) -> None:
    assert not exact.compared(given, told, told).right


def test_a_near_tie_is_right() -> None:
    assert exact.compared(answers(-1.0, token=8), rows(-1.0, ahead=0.09), rows(-1.0, ahead=0.09)).right


def test_missing_answers_are_no_judgement() -> None:
    with pytest.raises(ValueError, match="shorter"):
        exact.compared(answers(-1.0, -2.0), rows(-1.0), rows(-1.0))


def place(folder: Path, aiter: Path | None = None) -> surroundings.Place:
    return surroundings.Place(folder, folder / "vllm-1", aiter)


def test_an_engine_gets_none_of_this_processs_settings(tmp_path: Path) -> None:
    base = {
        "PATH": "/bin",
        "HOME": "/h",
        "AITER_PREBUILT_BRIDGE": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "PYTHONPATH": "/x",
    }
    made = surroundings.environment(place(tmp_path, tmp_path / "aiter"), base)
    assert (
        made["AITER_PREBUILT_BRIDGE"] == "strict"
        and made["VLLM_USE_V2_MODEL_RUNNER"] == "0"
        and made["HOME"] == "/h"
    )
    assert (
        made["PYTHONPATH"].split(os.pathsep)[-1] == str(tmp_path / "aiter") and "/x" not in made["PYTHONPATH"]
    )
    assert surroundings.environment(place(tmp_path), base, "v2")["VLLM_USE_V2_MODEL_RUNNER"] == "1"


def test_a_compiler_that_is_started_is_told(tmp_path: Path) -> None:
    here = place(tmp_path)
    made = surroundings.environment(here, dict(os.environ))
    done = subprocess.run(["hipcc", "-c", "x.cu"], env=made, check=False)
    assert done.returncode == 1 and here.compilers.read_text().endswith("hipcc -c x.cu\n")


def test_the_tree_has_no_compiled_module(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"there is none. Run: nox -s engines"):
        vllm_tree.unpacked(tmp_path)
    wheel = tmp_path / "vllm-1.0-cp38-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/__init__.py", "")
        archive.writestr("vllm/_C.abi3.so", "compiled")
    made = vllm_tree.unpacked(tmp_path)
    assert sorted(path.name for path in (made / "vllm").iterdir()) == ["_C.py", "__init__.py"]
    (made / "vllm" / "__init__.py").write_text("changed")
    assert vllm_tree.unpacked(tmp_path) == made and (made / "vllm" / "__init__.py").read_text() == "changed"


def test_a_wheel_that_is_none_leaves_nothing_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "vllm-1.0-cp38-abi3-linux_x86_64.whl").write_bytes(b"<html>")
    for _ in range(2):
        with pytest.raises(EngineError, match="cannot be unpacked"):
            vllm_tree.unpacked(tmp_path)


def test_a_taken_port_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(ServerError, match=f"Port {port} cannot be used.*--port {port + 1}"),
            server.running(tmp_path, "gfx942", port, place(tmp_path)),
        ):
            pass


def test_a_server_that_dies_is_said_with_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "dies"
    program.write_text("#!/bin/sh\necho no such model >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(surroundings, "started", lambda target: [str(program), target])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        pytest.raises(ServerError, match=r"ended with 3[\s\S]*no such model"),
        server.running(tmp_path, "gfx942", port, place(tmp_path)),
    ):
        pass


def test_nothing_is_left_of_a_server(tmp_path: Path) -> None:
    """A child that ignores SIGINT and SIGTERM goes with its group."""
    child = "trap '' INT TERM; sleep 600"
    process = subprocess.Popen(
        ["sh", "-c", f'sh -c "{child}" & echo $!; wait'], start_new_session=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as output:
        grandchild = int(output.readline())
    server._end(process)
    ends = time.monotonic() + 10
    while _runs(grandchild):
        assert time.monotonic() < ends
        time.sleep(0.01)


def _runs(process: int) -> bool:
    """Tell whether a process is there, and no zombie that nobody has asked for."""
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_an_engine_that_ends_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"ended with 4 and no answers[\s\S]*sorry"):
        vllm_run._told_by(
            [sys.executable, "-c", "import sys; sys.exit(print('sorry', file=sys.stderr) or 4)"],
            dict(os.environ),
        )
    told = vllm_run._told_by(
        [sys.executable, "-c", "print('noise'); print('{\"answers\": []}')"], dict(os.environ)
    )
    assert told == {"answers": []}


def test_vllm_is_the_version_whose_names_are_recorded() -> None:
    assert packages.VLLM.startswith(f"vllm=={client_names.CLIENTS['vllm']} --hash=sha256:")


def test_pinned_words_name_aiter_and_triton_by_hash(tmp_path: Path) -> None:
    words = packages.pinned(
        ROOT, tomllib.loads((ROOT / "manifests" / "toolchains.toml").read_text()), tmp_path
    )
    text = Path(words[-1]).read_text()
    assert "--require-hashes" in words and text.count("--hash=sha256:") >= 2
    assert text.startswith("triton==") and "\namd-aiter==" in text


def test_the_outcome_for_programs_is_json() -> None:
    judged = exact.compared(answers(-1.0), rows(-1.0), rows(-1.0))
    run = vllm_run.Run("llama", "gfx942", "fp8-cache", settings={"kv_cache_dtype": "fp8"})
    outcome = vllm_run.Outcome(run, judged, 3, 2, {"rms_norm": 1}, {"start": 1.0}, 900, "", ())
    told = json.loads(json.dumps(vllm_run.as_json(outcome)))
    assert not dataclasses.replace(outcome, launches=0).right  # torch alone answered
    assert not dataclasses.replace(outcome, missed=("scaled",)).right
    assert not dataclasses.replace(outcome, evidence=0).right  # a prefix cache that was not used
    assert dataclasses.replace(outcome, evidence=5).right
    assert not dataclasses.replace(outcome, compiled="hipcc x.cu").right
    assert told["right"] and told["options"] == "fp8-cache" and told["launches"] == 3


def test_a_model_that_the_pinned_aiter_cannot_run_is_left_out_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = engines_main.build_parser().parse_args(["--folder", str(tmp_path), "run", "--target", "gfx942"])
    pinned = engines_main._chosen(words, place(tmp_path))
    assert not {run.model for run in pinned} & models.AUGUST.keys()
    assert "left out: qwen3-moe needs topk_gating" in capsys.readouterr().err
    checkout = engines_main._chosen(words, place(tmp_path, tmp_path))
    assert {run.model for run in checkout} == {*models.CONFIGS} and len(checkout) > len(pinned)


def test_options_are_chosen_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--folder", str(tmp_path), "run"]
    words = engines_main.build_parser().parse_args([*folder, "llama", "--option", "prefix-cache"])
    assert [(run.model, run.option, run.rounds) for run in engines_main._chosen(words, place(tmp_path))] == [
        ("llama", "prefix-cache", 2)
    ]
    with pytest.raises(SystemExit):
        engines_main.build_parser().parse_args([*folder, "--option", "prefix"])
    assert "invalid choice: 'prefix'" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_of_aiter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vllm_tree, "unpacked", lambda folder: folder)
    words = ["--folder", str(tmp_path), "--aiter", str(tmp_path / "none"), "run", "llama"]
    before = signal.getsignal(signal.SIGTERM)
    assert engines_main.main(words) == 1
    assert signal.getsignal(signal.SIGTERM) is before
    assert "none is no checkout of AITER: it has no aiter/__init__.py." in capsys.readouterr().err


def test_each_run_has_a_name_of_its_own() -> None:
    """Recordings are files by these names."""
    names = [(run.model, run.target, run.option) for run in runs.RUNS]
    assert len({*names}) == len(names)


def test_a_runs_variables_reach_its_process(tmp_path: Path) -> None:
    more = {"VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}
    assert surroundings.environment(place(tmp_path), {}, "v1", more).items() >= more.items()


def test_a_misspelt_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("run", "serve"):
        with pytest.raises(SystemExit) as ended:
            engines_main.main(["--folder", str(tmp_path), verb, "lama"])
        assert ended.value.code == 2
        assert "no model 'lama'. Choose one of: llama, llama-64, qwen3-moe" in capsys.readouterr().err


def test_the_server_has_the_settings_of_offline_runs() -> None:
    words = [*vllm_settings.words(vllm_settings.of("llama"))]
    assert words[:3] == ["--enforce-eager", "--max-model-len", "512"] and words[-2:] == [
        "--attention-backend",
        "ROCM_AITER_FA",
    ]
    assert "attention_backend" not in vllm_settings.of("deepseek-v3")
    assert models.CONFIGS.keys() >= models.LATENT and models.CONFIGS.keys() >= models.AUGUST.keys()

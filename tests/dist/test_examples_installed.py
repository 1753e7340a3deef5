"""``examples`` and ``aiter-prebuilt coverage`` as a user has them: installed wheels, a copy of the folder, no checkout."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.installed import Environment, make_environment, run

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
#: The cheapest: all others are those of ``nox -s examples``.
MODEL, TARGET = "llama3", "gfx942"


@pytest.fixture(scope="module")
def environment(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheels of one target. torch, which no index is asked for, is this process's, behind them on the path."""
    torch = find_spec("torch")
    wanted = ("aiter_prebuilt_emulator-*.whl", f"aiter_prebuilt_{TARGET}-*.whl")
    if torch is None or torch.origin is None or not all(list(dist.glob(name)) for name in wanted):
        pytest.skip(f"no torch here, or no {' or '.join(wanted)} in {dist}: run python -m build_tools wheels")
    made = make_environment(tmp_path_factory.mktemp("user"))
    made.install(f"aiter-prebuilt[{TARGET},emulator]", places=(dist,))
    (made.site / "torch.pth").write_text(f"{Path(torch.origin).parents[1]}\n")
    return made


def test_a_copy_of_the_examples_runs(environment: Environment, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    python = str(environment.folder / "bin" / "python")
    place = run([python, "-c", "import aiter_prebuilt; print(aiter_prebuilt.__file__)"], tmp_path)
    assert Path(place.stdout.strip()).is_relative_to(environment.folder), place.stdout + place.stderr
    done = run(
        [python, "examples/decoder_layer.py", MODEL, "--target", TARGET, "--json"],
        tmp_path,
        OMP_NUM_THREADS="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    report = json.loads(done.stdout)
    assert report["right"] and report["tokens"] == report["exact"] and len(report["layer"]) == 4


@pytest.mark.parametrize("model", MODELS)
def test_coverage_of_what_is_installed(model: str, environment: Environment) -> None:
    """On a machine without a driver each call has a kernel that was executed, or a reason that does not lie in the machine."""
    done = environment.command("coverage", "--model", model, "--engine", "vllm", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["calls"]
    assert rows and all(row["have"] or row["reason"] for row in rows)
    assert not [row["form"] for row in rows if row["proved"] is False or "DriverError" in row["reason"]]
    assert sum(row["have"] for row in rows) > 0.9 * len(rows)

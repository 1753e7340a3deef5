"""``aiter_prebuilt_emulator.torch``: tests written for a GPU, by pytest's plugin and by ``-m``; what it needs, it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import library_path

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[2]


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    library_path()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT_EMULATOR")}
    return subprocess.run(
        [sys.executable, *words],
        env=kept | {"PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_EMULATOR": "gfx942,gfx950"} | environment,
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["torch_bridge_program.py", "torch_training_program.py"])
def test_a_file_of_tests_for_a_gpu(tmp_path: Path, name: str) -> None:
    program = Path(__file__).with_name(name)
    done = python(
        "-m", "pytest", "-p", "aiter_prebuilt_emulator.torch", "-q", "-p", "no:cacheprovider", "--noconftest", "-rs",
        "-c", os.devnull, "--rootdir", str(tmp_path), str(program), TRITON_CACHE_DIR=str(tmp_path), TRITON_DEFAULT_FP_FUSION="1",
    )  # fmt: skip
    count = program.read_text(encoding="utf-8").count("\ndef test_")
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed and int(passed[1]) >= count and "skipped" not in done.stdout, (
        done.stdout[-6000:] + done.stderr[-2000:]
    )


@pytest.mark.parametrize("way", ["script", "module", "line"])
def test_a_program_for_a_gpu(tmp_path: Path, way: str) -> None:
    text = "import sys, torch\nprint(sys.argv[1:], torch.ones(2, device='cuda').device)\n"
    line = "import aiter_prebuilt_emulator.torch as bridge\nbridge.install()\nbridge.install()\n"
    path = tmp_path / "program.py"
    path.write_text((line if way == "line" else "") + text, encoding="utf-8")
    runner = ["-m", "aiter_prebuilt_emulator.torch"]
    words = {"script": [*runner, str(path)], "module": [*runner, "-m", "program"], "line": [str(path)]}[way]
    done = python(
        *words, "a", "b", **({"PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}"} if way == "module" else {})
    )
    assert done.stdout == "['a', 'b'] cuda:0\n", done.stderr


def test_without_torch_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport aiter_prebuilt_emulator.torch as bridge\nbridge.install()"
    done = python("-c", code)
    assert done.returncode == 1 and "pip install torch" in done.stderr
    assert python("-m", "aiter_prebuilt_emulator.torch").returncode == 2


@pytest.mark.parametrize(
    "hidden", [{"HIP_VISIBLE_DEVICES": "-1"}, {"ROCR_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "7"}]
)
def test_with_every_device_hidden_a_program_goes_its_way_without_one(hidden: dict[str, str]) -> None:
    code = (
        "import aiter_prebuilt_emulator.torch as bridge; bridge.install(); import torch; "
        "print(torch.cuda.is_available(), torch.cuda.device_count(), torch.ones(2).sum().item())"
    )
    done = python("-c", code, **hidden)
    assert done.stdout == "False 0 2.0\n", done.stderr

"""Run the Python programs that the pages print, as printed, with torch's CPU build on the emulator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path
from support.page_commands import blocks

ROOT = Path(__file__).resolve().parents[2]
#: Pages whose programs are files of an example, and the test that builds it.
ELSEWHERE = {
    "docs/own-kernels.md": "tests/emulator/test_own_tree.py",
    "docs/own-kernels-flydsl.md": "tests/emulator/test_own_tree.py",
}
PROGRAMS = [
    (f"{block.page}:{number}", block.text)
    for number, block in enumerate(blocks())
    if block.language == "python" and block.page not in ELSEWHERE
]
#: What a page says that its program prints.
SAYS = re.compile(r"^It prints `(.*)`", re.MULTILINE)


def run(program: Path, target: str) -> subprocess.CompletedProcess[str]:
    """Start a program as ``aiter-prebuilt-emulator run -- python -m aiter_prebuilt_emulator.torch`` does."""
    library_path()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_PREBUILT")}
    environment = kept | {
        "PYTHONPATH": str(ROOT / "src"),
        "AITER_PREBUILT_BUNDLES": ":".join(map(str, bundles(target, "ck-free"))),
    }
    words = ["-m", "aiter_prebuilt_emulator", "run", "--devices", target, "--"]
    command = [sys.executable, *words, sys.executable, "-m", "aiter_prebuilt_emulator.torch", str(program)]
    return subprocess.run(
        command, cwd=program.parent, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(("place", "text"), PROGRAMS, ids=[place for place, _ in PROGRAMS])
def test_program_of_a_page_runs_and_prints_what_the_page_says(place: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(text if "import aiter_prebuilt" in text else f"import aiter_prebuilt\n{text}")
    done = run(program, "gfx942")
    assert done.returncode == 0, f"{place}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    if "print(" in text:
        page = (ROOT / place.partition(":")[0]).read_text()
        assert done.stdout.strip() in SAYS.findall(page), done.stdout


def test_the_pages_have_these_programs() -> None:
    pages = [place.partition(":")[0] for place, _ in PROGRAMS]
    assert {"README.md", "docs/quickstart.md", "docs/server.md", "docs/emulator-torch.md"} <= set(pages)
    for name, test in ELSEWHERE.items():
        assert name.rpartition("/")[2] in (ROOT / test).read_text()

"""``torch.compile`` on the emulator: public functions are operators of whole graphs."""

from __future__ import annotations

from pathlib import Path

from support.torch_programs import run_tests


def test_public_functions_in_whole_graphs(tmp_path: Path) -> None:
    assert run_tests("torch_compile", tmp_path, "gfx942").startswith("13 passed")

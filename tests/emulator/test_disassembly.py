"""Code objects disassembled by the emulator's decoder, for ``build --keep-ir``."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.bundle import Bundle
from build_tools.errors import CodeObjectError
from build_tools.objects import disassembly
from build_tools.objects.unpack import decompress


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that the session built."""
    monkeypatch.setattr(disassembly, "LIBRARY", library_path())


def test_every_instruction_of_a_kernel_has_a_line(tmp_path: Path) -> None:
    bundle = Bundle(bundles("gfx942", "ck-free")[0].read_bytes(), decompress)
    entry = bundle.operator("rms_norm").entries[0]
    path = tmp_path / "kernel.co"
    path.write_bytes(bundle.code_object(entry))
    lines = disassembly.disassembly(path, "gfx942").splitlines()
    assert f"{entry.symbol}:" in lines
    kernel = lines[lines.index(f"{entry.symbol}:") :]
    end = next(place for place, line in enumerate(kernel) if line.endswith("s_endpgm"))
    assert end > 20 and not any("unknown instruction" in line for line in kernel[:end])


def test_what_is_no_code_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.co").write_bytes(b"text")
    with pytest.raises(CodeObjectError, match=r"x\.co: it is no code object"):
        disassembly.disassembly(tmp_path / "x.co", "gfx942")


def test_targets_that_the_decoder_does_not_know_are_not_available() -> None:
    assert disassembly.available("gfx942") and not disassembly.available("sm_90")

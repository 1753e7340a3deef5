"""The demo ends with ten lines: what was built, what was proved, what to type next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))
import demo_summary  # noqa: E402  # a program of ci/

SHOWN = """bundle  operators
executed on device 0 (gfx942)
target  operator  verdict  error / bound
gfx942  rms_norm  right    0.5
gfx942  softmax   WRONG    1.5
gfx950  rms_norm  right    0.5
"""
NAMES = ("", "_gfx942", "_gfx942_ck", "_gfx950", "_bridge", "_bridge_gfx942", "_bridge_gfx950", "_emulator")


@pytest.mark.parametrize("missing", ["", "pip finds no torch"])
def test_says_what_was_built_proved_and_comes_next(tmp_path: Path, missing: str) -> None:
    for name in NAMES:
        if not (missing and name.startswith("_bridge_")):
            (tmp_path / f"aiter_prebuilt{name}-0.1.0-py3-none-any.whl").write_bytes(bytes(500_000))
    lines = demo_summary.lines(tmp_path, SHOWN, missing)
    assert len(lines) <= 10
    assert lines[0] == f"Built: {6 if missing else 8} wheels, {3 if missing else 4}.0 MB, in {tmp_path}"
    assert (
        "  gfx942: gfx942, gfx942-ck" if missing else "  gfx942: bridge-gfx942, gfx942, gfx942-ck"
    ) in lines
    assert "  every GPU: runtime, bridge, emulator" in lines
    assert (f"Not built: the data wheels of the bridge. {missing}" in lines) is bool(missing)
    assert any(line.endswith(": 1 operators on gfx942, 1 operators on gfx950; 1 wrong") for line in lines)
    assert lines[-2:] == [
        f"  pip install --no-index --find-links {tmp_path} 'aiter-prebuilt[gfx942,bridge]'",
        "  aiter-prebuilt doctor",
    ]

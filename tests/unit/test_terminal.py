"""A terminal gets colour and a pager; a pipe gets plain text. Tables fit the width of either."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from support.bundles import small_bundle

from aiter_prebuilt.commands import output

ROOT = Path(__file__).resolve().parents[2]
BOLD = "\x1b[1m"


def listed(folder: Path, *, terminal: bool, **settings: str) -> str:
    """What ``list`` prints."""
    (folder / "gfx942-ck-free.apb").write_bytes(small_bundle()[0])
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_BUNDLES": str(folder),
        "COLUMNS": "80", "LINES": "50", "TERM": "xterm", **settings,
    }  # fmt: skip
    command = [sys.executable, "-m", "aiter_prebuilt", "list"]
    if not terminal:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    mine, its = pty.openpty()
    with subprocess.Popen(command, env=environment, stdin=its, stdout=its, stderr=its) as child:
        os.close(its)
        shown = b""
        try:
            while part := os.read(mine, 4096):
                shown += part
        except OSError:  # the other side is closed
            pass
    os.close(mine)
    assert child.returncode == 0, shown
    return shown.decode()


def test_sums_stand_first_and_last(tmp_path: Path) -> None:
    lines = listed(tmp_path, terminal=False).splitlines()
    assert lines[0] == lines[-1] and lines[0].startswith("gfx942: ") and lines[0].endswith("executed")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "gfx942-ck-free.apb").write_bytes(small_bundle()[0])
    environment = {"PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_BUNDLES": str(tmp_path)}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "aiter_prebuilt", "list"]
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "error: Cannot write the output: No space left on device.\n"


def test_colour_is_for_terminals(tmp_path: Path) -> None:
    assert BOLD + "operator" in listed(tmp_path, terminal=True)
    assert "\x1b" not in listed(tmp_path, terminal=False)
    assert "\x1b" not in listed(tmp_path, terminal=True, NO_COLOR="1")
    assert "\x1b" not in listed(tmp_path, terminal=True, TERM="dumb")


def test_a_pager_shows_what_is_longer_than_the_screen(tmp_path: Path) -> None:
    pager = "sed 's/^/paged: /'"
    assert "paged: " in listed(tmp_path, terminal=True, PAGER=pager, LINES="2")
    assert "paged: " not in listed(tmp_path, terminal=True, PAGER=pager)
    assert "paged: " not in listed(tmp_path, terminal=False, PAGER=pager, LINES="2")


def test_a_table_fits_and_keeps_names_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    name = "a_name_that_is_longer_than_its_column"
    output.print_table(["name", "words", "count"], [("short", "one two " * 6, 17), (name, "x" * 50, 4)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40 and name in lines
    words = "".join(line[line.index(" ") :] for line in lines if " " in line)
    assert words.count("one") == 6 and words.count("x") == 50 and "17" in words


def test_a_narrow_table_breaks_no_word_that_can_stay_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    call, kernel = "rmsnorm2d_fwd_with_add_dynamicquant", "rms_add_dynamic_row[8192]"
    output.print_table(
        ["call", "tokens", "served by", "proved"],
        [
            (call, "decode 1/64, prefill 4096", f"{kernel} triton", "yes"),
            ("rms_norm", "decode 1", "a b", "yes"),
        ],
    )
    text = capsys.readouterr().out
    assert call in text and kernel in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_command_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    command = "pip install --no-index --find-links /a/long/folder 'aiter-prebuilt[gfx942]'"
    lines = output.with_command(f"There is no bundle for this GPU. Run: {command}")
    assert lines[-1] == f"    {command}" and max(map(len, lines[:-1])) <= 30
    assert output.with_command("Nothing is wrong: all is well") == ["Nothing is wrong: all is well"]

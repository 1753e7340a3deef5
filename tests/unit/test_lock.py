"""What writes receipts does so alone in a checkout: a second process is told who is at it, and leaves everything as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from build_tools.__main__ import cli
from build_tools.errors import BusyError
from build_tools.files.lock import alone
from build_tools.verbs import options

ROOT = Path(__file__).resolve().parents[2]
HOLDS = """
import sys
from pathlib import Path
from build_tools.files.lock import alone
with alone(Path(sys.argv[1]), "hold it"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    place = tmp_path / "build" / "receipts.lock"
    with alone(place, "prove"):
        with pytest.raises(BusyError) as caught, alone(place, "prove again"):
            pass
        said = str(caught.value)
        assert "prove again" in said and f"process {os.getpid()} (since " in said and str(place) in said
        assert "Wait until it has ended" in said and caught.value.exit_code == 19
    with alone(place, "prove"):
        pass
    assert place.read_text() == ""


def test_it_is_free_after_an_error(tmp_path: Path) -> None:
    place = tmp_path / "receipts.lock"
    with pytest.raises(ZeroDivisionError), alone(place, "prove"):
        raise ZeroDivisionError
    with alone(place, "prove"):
        pass


@pytest.mark.parametrize("words", [["prove"], ["receipts", "lines.jsonl"]])
def test_verbs_that_write_receipts_wait_for_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    place = tmp_path / "receipts.lock"
    monkeypatch.setattr(options, "RECEIPTS_LOCK", place)
    for name in ("build_tools.prove.prove.prove", "build_tools.prove.recorded.join"):
        monkeypatch.setattr(name, lambda *_: pytest.fail("it began all the same"))
    child = [sys.executable, "-c", HOLDS, str(place)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    with subprocess.Popen(
        child, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        done = CliRunner().invoke(cli, words)
        assert isinstance(done.exception, BusyError) and f"process {other.pid} " in str(done.exception)
        other.kill()  # the kernel lets go of it, whatever stands in the file
        other.wait()
    with alone(place, "prove"):
        pass

"""The one caller of subprocess: what a child sees, how it ends, and that nothing of it stays behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from build_tools.files import run


def python(code: str, **options: Any) -> run.Outcome:
    return run.run([sys.executable, "-c", code], **options)


def test_exit_status_and_both_streams() -> None:
    outcome = python("import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)")
    assert (outcome.ok, outcome.exit_code, outcome.describe()) == (False, 3, "exit code 3")
    assert outcome.output.split() == ["out", "err"]
    assert outcome.command.startswith(sys.executable)


def test_only_the_end_of_a_long_output_is_kept() -> None:
    outcome = python("print('x' * 100_000 + 'the end')")
    assert len(outcome.output) <= run.TAIL_BYTES
    assert outcome.output.rstrip().endswith("the end")


def test_a_signal_and_a_missing_program_are_values() -> None:
    assert python("import os; os.abort()").describe() == "ended by signal SIGABRT"
    outcome = run.run(["/no/such/compiler", "-c"])
    assert (outcome.exit_code, outcome.describe()) == (run.NOT_STARTED, "could not be started")
    assert "No such file" in outcome.output


PEAKS = r"""
import os, sys, threading
from build_tools.files import run
if "plain" in sys.argv:
    del os.pidfd_open
large = "x = bytearray(%d << 20)"
python = lambda code: run.run([sys.executable, "-c", code])
with run.watched() as whole:
    with run.watched() as small:
        assert python("pass").ok
    with run.watched() as grown:
        busy = f"{large % 200}; import time; until = time.process_time() + 0.3\nwhile time.process_time() < until: pass"
        assert python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])").ok
    other = threading.Thread(target=lambda: python(large % 400))
    other.start()
    other.join()
with run.watched() as none:
    run.run(["/no/such/compiler"])
assert python("pass").ok  # with nobody watching
print(*(watch.peak >> 20 for watch in (small, grown, whole, none)))
print(*(watch.cpu for watch in (small, grown, whole, none)))
"""


@pytest.mark.parametrize("how", ["descriptor", "plain"])
def test_what_children_take_is_known(how: str) -> None:
    """Memory of the largest process, time of a core of all, a child's own children too; of the thread that looks, and of none
    that it did not run. In a process of its own, since no child is smaller than what began it.
    """
    words = [sys.executable, "-c", PEAKS, how]
    outcome = run.run(words, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert outcome.ok, outcome.output
    memory, busy = (line.split() for line in outcome.output.splitlines())
    small, grown, whole, none = map(int, memory)
    assert 0 < small < 100 and 200 <= grown < 400 and whole == grown and none == 0
    short, long, both, nothing = map(float, busy)
    assert short > 0 and long > 0.3 and both == short + long and nothing == 0


def test_variables_that_steer_compilers_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPATH", "TRITON_INTERPRET", "LLVM_OPTS", "PYTHONPATH"):
        monkeypatch.setenv(name, "/somewhere")
    outcome = python("import os; print(*sorted(os.environ))", env={"GIVEN": "1"})
    names = set(outcome.output.split())
    assert {"GIVEN", "LC_ALL", "PYTHONHASHSEED"} <= names
    assert not names & {"CPATH", "TRITON_INTERPRET", "LLVM_OPTS", "PYTHONPATH"}


GRANDCHILD = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); __import__('time').sleep(60)"


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":  # ended; its parent is gone too and nobody has collected it yet
            return True
        time.sleep(0.05)
    return False


def test_the_time_limit_ends_the_whole_group() -> None:
    outcome = python(GRANDCHILD, timeout=2.0)
    assert (outcome.exit_code, outcome.describe()) == (
        run.TIMED_OUT,
        "was still running after its time limit",
    )
    assert gone(int(outcome.output.split()[0]))


def test_kill_all_ends_every_child() -> None:
    outcomes: list[run.Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.extend(python(GRANDCHILD) for _ in range(3)))
    thread.start()
    time.sleep(1.0)
    try:
        run.kill_all()
        thread.join(20)
        assert not thread.is_alive()
    finally:
        run.allow()
    assert [outcome.exit_code for outcome in outcomes[1:]] == [run.STOPPED] * 2
    assert "interrupted" in outcomes[1].describe()
    assert python("pass").ok
    assert outcomes[0].describe() == "ended by signal SIGKILL"
    assert gone(int(outcomes[0].output.split()[0]))


def test_a_child_has_no_terminal_to_wait_for() -> None:
    assert python("print(repr(__import__('sys').stdin.read()))").output.strip() == "''"
    assert os.getpgid(0) != 0


ECHO = "import sys\nfor line in sys.stdin: print(line.strip() * 2, flush=True)"


def test_a_conversation() -> None:
    with run.converse([sys.executable, "-c", ECHO]) as child:
        assert [child.ask(b"ab\n"), child.ask(b"c\n")] == ["abab\n", "cc\n"]
        assert child.answered == 2


@pytest.mark.parametrize(
    ("code", "said"), [("import sys; sys.exit('no more')", "no more"), ("print('half', end='')", "")]
)
def test_a_child_that_ended_answers_nothing(code: str, said: str) -> None:
    with run.converse([sys.executable, "-c", code]) as child:
        assert child.ask(b"x" * 1_000_000) is None
        assert child.ask(b"y") is None
        time.sleep(0.2)
        assert child.last_words() == said


def test_a_conversation_that_cannot_start_says_why() -> None:
    with run.converse(["/no/such/program"]) as child:
        assert child.ask(b"x") is None
        assert "No such file" in child.last_words()
    run.kill_all()
    try:
        with run.converse([sys.executable, "-c", ECHO]) as child:
            assert child.ask(b"x\n") is None
            assert "interrupted" in child.last_words()
    finally:
        run.allow()


def test_a_conversation_ends_with_its_context_and_with_kill_all() -> None:
    grandchild = GRANDCHILD.replace("print(", "sys.stdin.readline(); print(")
    with run.converse([sys.executable, "-c", grandchild]) as child:
        pid = int(child.ask(b"go\n") or 0)
    assert gone(pid)
    with run.converse([sys.executable, "-c", grandchild]) as child:
        pid = int(child.ask(b"go\n") or 0)
        threading.Timer(0.3, run.kill_all).start()
        assert child.ask(b"more\n") is None
    run.allow()
    assert gone(pid)


def test_a_child_keeps_its_bytecode_where_this_process_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    words = run.environment()
    assert words["PYTHONDONTWRITEBYTECODE"] == "1" and "PYTHONPYCACHEPREFIX" not in words
    (tmp_path / "said.py").write_text("print('imported')")
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))
    outcome = python("import sys; sys.path.insert(0, '.'); import said", cwd=tmp_path)
    assert outcome.output == "imported\n"
    assert list((tmp_path / "kept").rglob("said*.pyc")) and not list(tmp_path.glob("__pycache__"))

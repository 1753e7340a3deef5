"""No JIT, no network, no write, no subprocess: every operator in a process that could do none of it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support import proof
from support.emulator import bundles

from promises import seal
from promises.conftest import environment, python

pytestmark = pytest.mark.skipif(not seal.possible(), reason="the filter is written for x86-64 Linux")

FORBIDDEN = {
    "a program": "import subprocess; subprocess.run(['true'])",
    "a fork": "import os; os.fork()",
    "a connection": "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
    "a local socket": "import socket; socket.socket(socket.AF_UNIX)",
    "a file": "open(folder + '/x', 'w')",
    "a file that is there": "open(folder + '/there', 'r+')",
    "an appended line": "open(folder + '/there', 'a')",
    "a folder": "import os; os.mkdir(folder + '/y')",
    "a removal": "import os; os.unlink(folder + '/there')",
    "a renaming": "import os; os.rename(folder + '/there', folder + '/z')",
    "a link": "import os; os.symlink(folder, folder + '/l')",
    "flock": "import fcntl; fcntl.flock(there, fcntl.LOCK_EX)",
    "fcntl's lock": "import fcntl; fcntl.lockf(there, fcntl.LOCK_SH)",
    "a changed date": "import os; os.utime(folder + '/there')",
    "code made at run time": "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
    "a file in memory": "import os; os.memfd_create('x')",
}
PROBE = """
import fcntl, mmap, os, socket, subprocess, sys, threading
from promises import seal
folder = sys.argv[1]
there = open(folder + "/there")
seal.apply()
thread = threading.Thread(target=lambda: print("reads", there.read()))
thread.start()
thread.join()
print(len(os.listdir(folder)), open(folder + "/there").read(), flush=True)
exec(sys.argv[2])
print("done", flush=True)
"""


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_seal_holds(what: str, tmp_path: Path) -> None:
    """What the next tests rely on: each deed ends the process, with the line that did it; reading and threads do not."""
    (tmp_path / "there").write_text("words")
    done = python(["-c", PROBE, str(tmp_path), FORBIDDEN[what]], environment())
    assert done.stdout.splitlines() == ["reads words", "1 words"]
    assert done.returncode == -signal.SIGSYS and "done" not in done.stdout, done.stderr
    # subprocess blocks all signals around its vfork: there the process ends without a word.
    assert what == "a program" or "File" in done.stderr
    quiet = python(["-c", PROBE, str(tmp_path), "pass"], environment())
    assert quiet.returncode == 0 and quiet.stdout.endswith("done\n"), quiet.stderr


def digest(tree: Path) -> str:
    """Names, dates, modes and contents of everything in the tree."""
    text = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        facts = path.stat()
        text.update(f"{path} {facts.st_mode} {facts.st_mtime_ns} {facts.st_size}\n".encode())
        if path.is_file():
            text.update(path.read_bytes())
    return text.hexdigest()


def sealed(tree: Path, target: str, profile: str, **more: str) -> subprocess.CompletedProcess[str]:
    """``sealed_operators.py`` on a device of ``target``, out of the tree."""
    names = ["ck-free"] if profile == "ck-free" else ["ck-free", "ck-full"]
    files = [tree / "aiter_prebuilt_bundles" / f"{target}-{name}.apb" for name in names]
    calls, operators = proof.golden(files[-1])
    for place in (calls, calls.parent):
        place.chmod(0o755)  # nobody reads them
    variables = environment(
        tree,
        HOME=str(tree / "home"),
        AITER_PREBUILT_HIP=str(tree / "aiter_prebuilt_emulator" / "lib" / "libamdhip64.so"),
        AITER_PREBUILT_EMULATOR=target,
        AITER_PREBUILT_BUNDLES=os.pathsep.join(map(str, files)),
        **more,
    )
    words = ["-m", "promises.sealed_operators", str(calls), str(tree), str(operators)]
    return python(words, variables, timeout=600)


def test_the_seal_sees_the_native_side(tree: Path, tmp_path: Path) -> None:
    """A miss log is a file that the user asked the extension to write: under the seal its first line ends the process."""
    tmp_path.chmod(0o777)
    done = sealed(tree, "gfx942", "ck-free", AITER_PREBUILT_MISS_LOG=str(tmp_path / "misses"))
    assert done.returncode == -signal.SIGSYS and "run_all" in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("profile", ["ck-free", "ck-full"])
@pytest.mark.parametrize("target", proof.TARGETS)
def test_every_operator_runs_in_a_sealed_process(tree: Path, target: str, profile: str) -> None:
    """As nobody, from a read-only tree, with a HOME that is empty and stays so."""
    before = digest(tree)
    done = sealed(tree, target, profile)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr[-4000:]}"
    answer = json.loads(done.stdout.splitlines()[-1])
    partly = proof.in_part(
        tuple(bundles(target, "ck-full"))
    )  # of these one instance is there, which need not serve each call
    refused = ("NoKernelError: ", "no kernel takes these types")
    wrong = [
        said
        for said in answer["wrong"]
        if said.split()[0] not in partly or not any(word in said for word in refused)
    ]
    assert not wrong, wrong
    assert answer["uid"] != 0, "as an unprivileged user"
    assert not answer["early"], "the native extension is loaded under the seal"
    used = {Path(path).name for path in answer["used"]}
    assert {"_native.abi3.so", "libamdhip64.so"} <= used and any(name.endswith(".apb") for name in used)
    assert digest(tree) == before and not list((tree / "home").iterdir())


READS = ("open", "openat")
STARTS = ("clone", "clone3")


def _traced(log: Path) -> list[str]:
    """What a trace may not hold, after the interpreter itself was started."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        call = line.split(None, 1)[-1]
        name = call.split("(")[0]
        if name in READS:
            bad = any(word in call for word in ("O_WRONLY", "O_RDWR", "O_CREAT"))
        elif name in STARTS:
            bad = "CLONE_THREAD" not in call
        else:
            bad = not call.startswith(("+++", "---", "<..."))
        found += [call] if bad else []
    return found[1:] if found and found[0].startswith("execve(") else found


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("what", ["a program", "a connection", "a file", "a folder", "flock"])
def test_the_trace_is_read(what: str, tmp_path: Path) -> None:
    """What the next test relies on: the deed shows in the trace, and a process without it shows nothing."""
    (tmp_path / "there").write_text("words")
    start = "import sys; folder = sys.argv[1]; there = open(folder + '/there'); "
    seen = []
    for deed in (FORBIDDEN[what], "import threading; threading.Thread(target=print).start()"):
        log = tmp_path / "trace"
        guarded = f"{start}\ntry:\n    {deed}\nexcept OSError: pass"
        traced(log, ["-c", guarded, str(tmp_path)], environment())
        seen.append(_traced(log))
    assert seen[0] and not seen[1], seen


CALLS = """execve execveat fork vfork clone clone3 connect bind open openat creat mkdir mkdirat flock unlink unlinkat rename
renameat renameat2 ftruncate truncate link linkat symlink symlinkat memfd_create"""


def traced(
    log: Path, words: list[str], variables: dict[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The interpreter under ``strace -f``; skips where tracing is not allowed."""
    command = [
        "strace",
        "-f",
        "-qq",
        "-e",
        f"trace={','.join(CALLS.split())}",
        "-o",
        str(log),
        sys.executable,
    ]
    done = subprocess.run(
        [*command, *words],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "ptrace" in done.stderr and not log.read_text():
        pytest.skip(f"this machine lets nobody trace: {done.stderr.splitlines()[0]}")
    return done


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_whole_process_traced_from_its_first_instruction(tree: Path) -> None:
    """``verify --execute``, start to end, under ``strace -f``: one execve, and nothing else of the list."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "trace"
        variables = environment(
            tree,
            HOME=str(tree / "home"),
            AITER_PREBUILT_HIP=str(tree / "aiter_prebuilt_emulator" / "lib" / "libamdhip64.so"),
            AITER_PREBUILT_EMULATOR="gfx942,gfx950",
        )
        done = traced(log, ["-m", "aiter_prebuilt", "verify", "--execute"], variables, tree)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert done.stdout.count(" right ") >= 30 and "compilers in this process: none" in done.stdout
        assert "libamdhip64.so" in log.read_text() and not _traced(log)

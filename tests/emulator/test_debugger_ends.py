"""``aiter-prebuilt-emulator debug``: how sessions begin and end, who may connect, and what is left (nothing)."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.dap_client import Adapter, DapClient, DapError, alive, connected, gone
from support.debugged import WITH, finish, image, source, words

__all__ = ["image"]


@pytest.mark.parametrize("how", ["disconnect", "drop", "terminate", "SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("stands", [True, False])
def test_nothing_is_left(image: Path, how: str, stands: bool) -> None:
    with Adapter(words(image, "endless", groups=2)) as adapter:
        client = adapter.begin()
        client.ask("configurationDone")
        process = client.event("process")["systemProcessId"]
        if stands:
            client.ask("pause", threadId=1)
            client.stopped("pause")
        assert alive(process)
        if how == "drop":
            adapter.drop()
        elif how.startswith("SIG"):
            adapter.process.send_signal(getattr(signal, how))
        else:
            client.ask(how)
        if how == "terminate":
            client.event("terminated")
            client.ask("disconnect")
        adapter.process.wait(30)
        assert gone(process)


def test_a_program_that_is_let_go_ends_by_itself(image: Path) -> None:
    with Adapter(words(image)) as adapter:
        client = adapter.begin()
        client.ask("setFunctionBreakpoints", breakpoints=[{"name": "kernel"}])
        client.ask("configurationDone")
        client.stopped("function breakpoint")
        client.ask("disconnect", terminateDebuggee=False)
        assert adapter.process.wait(60) == 0
        assert adapter.process.stdout
        assert "status 0" in adapter.process.stdout.read().decode()


_FAMILY = """
import os, subprocess, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import debug_program
command = sys.argv[1:]
sys.argv[:] = command
debug_program.main()
child = os.fork()
if child == 0:
    debug_program.main()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert subprocess.run([sys.executable, *command], timeout=60).returncode == 0
print("family", flush=True)
"""


def test_other_processes_of_the_program_are_let_go(image: Path) -> None:
    """A fork, and a program that it starts: neither stops, and both end."""
    with Adapter([sys.executable, "-c", _FAMILY, *words(image, groups=1)[1:]]) as adapter:
        client = adapter.begin()
        client.ask("setFunctionBreakpoints", breakpoints=[{"name": "kernel", "condition": "wave=0"}])
        client.ask("configurationDone")
        client.ask("continue", threadId=client.stopped("function breakpoint"))
        assert "another process" in client.event("output")["output"]
        printed = finish(adapter)
        assert printed.count("status 0") == 3 and printed.endswith("family\n")
        assert len([m for m in client.timeline if m.get("event") == "stopped"]) == 1


@pytest.mark.parametrize("stands", [True, False])
def test_ctrl_c_of_the_program_ends_its_kernel(image: Path, stands: bool) -> None:
    """Also while it stands at a breakpoint: it goes on, and its launch ends as it would have."""
    with Adapter(words(image, "endless", groups=2)) as adapter:
        client = adapter.begin()
        client.ask("configurationDone")
        process = client.event("process")["systemProcessId"]
        if stands:
            client.ask("pause", threadId=1)
            client.stopped("pause")
        os.kill(process, signal.SIGINT)
        if stands:
            client.event("continued")
        assert client.event("exited")["exitCode"] != 0
        finish(adapter)


def test_the_program_goes_on_when_the_debugger_dies(image: Path) -> None:
    with Adapter(words(image)) as adapter:
        client = adapter.begin()
        client.ask("setFunctionBreakpoints", breakpoints=[{"name": "kernel"}])
        client.ask("configurationDone")
        process = client.event("process")["systemProcessId"]
        client.stopped("function breakpoint")
        adapter.process.kill()
        assert gone(process)
        assert adapter.process.stdout
        assert "status 0" in adapter.process.stdout.read().decode()


def test_standard_streams_and_a_program_of_the_clients(image: Path) -> None:
    command = words(image)
    with Adapter([], listen="") as adapter:
        client = adapter.begin(program=command[0], args=command[1:], env={"SOME": "thing"})
        client.ask("configurationDone")
        assert client.event("exited")["exitCode"] == 0
        client.event("terminated")
        printed = "".join(m["body"]["output"] for m in client.timeline if m.get("event") == "output")
        assert "data 0x" in printed and "status 0" in printed
        client.ask("disconnect")
        assert adapter.process.wait(30) == 0


def test_who_reaches_a_socket_may_not_name_the_program(image: Path, tmp_path: Path) -> None:
    path = tmp_path / "editor"
    with Adapter(words(image), listen=str(path)) as adapter:
        adapter.begin(program="/bin/false")
        adapter.client.ask("configurationDone")
        assert "status 0" in finish(adapter)
    assert not path.exists()


def test_sockets_are_this_users_and_this_machines(image: Path, tmp_path: Path) -> None:
    path = tmp_path / "editor"
    command = [sys.executable, "-m", "aiter_prebuilt_emulator", "debug", "--listen", str(path), "--", "true"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr and process.stderr.readline()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        connected(str(path)).close()
        assert process.wait(30) == 0 and not path.exists()
    with Adapter(words(image)) as adapter:
        host, port = adapter.place.split(":")
        assert host == "127.0.0.1"
        addresses = Path("/proc/net/tcp").read_text()
        listening = [
            line.split()[1]
            for line in addresses.splitlines()
            if line.split()[1].endswith(f":{int(port):04X}")
        ]
        assert all(one.startswith("0100007F:") for one in listening)


def test_a_web_page_starts_nothing(tmp_path: Path) -> None:
    """A POST whose body is the protocol's own messages, as a page in a browser can send it to a port of this machine."""
    mark = tmp_path / "started"
    command = [sys.executable, "-c", f"open({str(mark)!r}, 'w')"]
    with Adapter(command) as adapter:
        texts = [
            json.dumps({"seq": number, "type": "request", "command": word, "arguments": adapter.token})
            for number, word in enumerate(("initialize", "launch", "configurationDone"), start=1)
        ]
        body = "".join(f"Content-Length: {len(text)}\r\n\r\n{text}" for text in texts)
        adapter.drop()
        with connected(adapter.place) as page:
            page.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            assert page.recv(4096) == b""
        assert adapter.process.poll() is None and not mark.exists()


def test_a_client_without_the_token_starts_nothing_and_the_next_one_is_served(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    command = [sys.executable, "-c", f"open({str(mark)!r}, 'w')"]
    with Adapter(command) as adapter:
        adapter.client.ask("initialize", adapterID="test")
        for word in ("configurationDone", "threads", "evaluate"):
            with pytest.raises(DapError, match="with the token first"):
                adapter.client.ask(word)
        with pytest.raises(DapError, match="is not the one that the debugger printed"):
            adapter.client.ask("launch", token="x" * 22)
        adapter.drop()
        assert adapter.process.poll() is None and not mark.exists()
        with connected(adapter.place) as again, again.makefile("rb") as source, again.makefile("wb") as sink:
            client = DapClient(source, sink)
            client.ask("initialize", adapterID="test")
            client.ask("launch", **adapter.token)
            client.event("initialized")
            client.ask("configurationDone")
            assert client.event("exited")["exitCode"] == 0
            again.shutdown(socket.SHUT_RDWR)  # the client's reader holds the file until its read ends
        assert adapter.process.wait(30) == 0 and mark.exists()


def test_a_short_token_is_refused() -> None:
    command = [sys.executable, "-m", "aiter_prebuilt_emulator", "debug", "--listen", "0", "--", "true"]
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"),
        "AITER_PREBUILT_EMULATOR_DEBUG_TOKEN": "guess",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "AITER_PREBUILT_EMULATOR_DEBUG_TOKEN has 5 characters" in done.stderr


def test_wrong_requests_are_refused_and_the_session_goes_on(image: Path) -> None:
    with Adapter(words(image)) as adapter:
        client = adapter.begin()
        for command, arguments in (
            ("stackTrace", {"threadId": 1}), ("continue", {}), ("nonsense", {}), ("setBreakpoints", {}),
            ("variables", {"variablesReference": 7}), ("evaluate", {"expression": "v0"}), ("scopes", {"frameId": 3}),
        ):  # fmt: skip
            with pytest.raises(DapError):
                client.ask(command, **arguments)
        for condition in ("wvae=2", "class=mfma"):
            (one,) = client.ask("setBreakpoints", **source(211, condition))["breakpoints"]
            assert one["verified"] is False and condition in one["message"]
        client.ask("configurationDone")
        assert "status 0" in finish(adapter)


def test_usage() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    for words_, says in (
        (["--listen", "0"], "no command; write: aiter-prebuilt-emulator debug --listen 4711"),
        (["--listen", "0", "--console", "--", "true"], "write one of them"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "aiter_prebuilt_emulator", "debug", *words_],
            env=environment, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2 and says in done.stderr, done.stderr


def test_the_console(image: Path) -> None:
    first = (
        "break debugged.hip:211 if workgroup=1:0:0,wave=1",
        "run",
        "bt",
        "p lds[0:8],u",
        "p s[0:1]",
        "dis 2",
        "nonsense",
    )
    script = "\n".join((*first, "ni", "waves", "delete", "c", ""))
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt_emulator", "debug", "--console", "--", *words(image)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")},
        input=script, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (
        "breakpoint: kernel workgroup (1, 0, 0) wave 1" in done.stdout and "debugged.hip:211" in done.stdout
    )
    assert f"{WITH} {WITH + 3}\n" in done.stdout and "step: kernel workgroup (1, 0, 0) wave 1" in done.stdout
    assert "status 0" in done.stdout and "found 'nonsense'" in done.stderr

"""Ctrl-C while a kernel runs: one without an end is stopped soon and Python raises KeyboardInterrupt, the device stays usable,
the program's handler is called as ever and is there again afterwards; short launches never notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from native.conftest import extension_path
from support.assembly import code_object
from support.emulator import library_path
from support.hip import ADD_ONE

__all__ = ["extension_path"]

ENDLESS = "again:\ns_branch again\ns_endpgm\n"
#: Waves that never end, in two workgroups of which one sleeps at a barrier.
WAITING = (
    "s_cmp_eq_u32 s2, 0\ns_cbranch_scc1 last\nagain:\ns_sleep 1\ns_branch again\nlast:\ns_barrier\ns_endpgm\n"
)
#: Some milliseconds.
SHORT = (
    "s_movk_i32 s6, 20000\nagain:\ns_sub_u32 s6, s6, 1\ns_cmp_lg_u32 s6, 0\ns_cbranch_scc1 again\ns_endpgm\n"
)
#: Without an end, and instructions that take microseconds here.
HEAVY = (
    "again:\n"
    + "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]\n" * 8
    + "s_branch again\ns_endpgm\n"
)

START = """
import ctypes, json, os, signal, sys, threading, time
lib, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)

def load(text):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.hipModuleLoadData(ctypes.byref(module), bytes.fromhex(text) + bytes(64)) == 0
    assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
    return function

endless, waiting, good, short, heavy = map(load, sys.argv[2:7])
memory = ctypes.c_void_p()
assert lib.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(256)) == 0
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))

def launch(function, blocks=1, items=64):
    return lib.hipModuleLaunchKernel(function, blocks, 1, 1, items, 1, 1, 0, None, parameters, None)

def handler():
    '''The address that the kernel calls at SIGINT.'''
    action = (ctypes.c_uint64 * 64)()
    assert libc.sigaction(signal.SIGINT, None, action) == 0
    return action[0]

def say(value):
    print(json.dumps(value), flush=True)

def after(seconds, work):
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
"""


def started(code: str, **settings: str) -> subprocess.Popen[str]:
    """A process of its own with three kernels; its standard output is what it says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT")}
    images = [code_object("gfx942", body).hex() for body in (ENDLESS, WAITING, ADD_ONE, SHORT, HEAVY)]
    return subprocess.Popen(
        [sys.executable, "-c", START + textwrap.dedent(code), str(library_path()), *images],
        env=kept | {"AITER_PREBUILT_EMULATOR_LOG": "error"} | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(code: str, seconds: float = 60, **settings: str) -> tuple[list[Any], str]:
    """What the process says, and its standard error."""
    process = started(code, **settings)
    try:
        out, log = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, f"ended with {process.returncode}: {log[-2000:]}"
    return [json.loads(line) for line in out.splitlines()], log


@pytest.mark.parametrize(("kernel", "blocks"), [("endless", 1), ("endless", 40), ("waiting", 2)])
@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_kernel_without_an_end(kernel: str, blocks: int, threads: str) -> None:
    lines, log = said(
        f"""
        before = handler()
        after(0.3, interrupt)
        start = time.monotonic()
        try:
            launch({kernel}, {blocks})
            time.sleep(5)
            say("went on")
        except KeyboardInterrupt:
            say(time.monotonic() - start)
        say(handler() == before)
        say([launch(good), lib.hipDeviceSynchronize()])
        """,
        AITER_PREBUILT_EMULATOR_THREADS=threads,
    )
    seconds, same, usable = lines
    assert isinstance(seconds, float) and 0.3 < seconds < 4, lines
    assert same is True and usable == [0, 0]
    (line,) = log.splitlines()
    assert "hipErrorLaunchFailure (719): kernel kernel: interrupted: SIGINT came while it ran" in line


def test_a_slice_of_slow_instructions_does_not_wait_for_its_end() -> None:
    """16 waves of 80,000 matrix instructions each take seconds."""
    lines, _ = said(
        """
        signal.signal(signal.SIGINT, lambda number, frame: None)
        after(0.3, interrupt)
        start = time.monotonic()
        say(launch(heavy, 2, 1024))
        say(time.monotonic() - start)
        """
    )
    status, seconds = lines
    assert status == 719 and seconds < 0.3 + 1 + 0.5, seconds


def test_a_second_signal_does_not_wait() -> None:
    lines, _ = said(
        """
        def twice():
            interrupt()
            time.sleep(0.05)
            interrupt()
        signal.signal(signal.SIGINT, lambda number, frame: None)
        after(0.3, twice)
        start = time.monotonic()
        say(launch(endless))
        say(time.monotonic() - start < 0.3 + 0.05 + 0.4)
        """
    )
    assert lines == [719, True]


def test_a_program_without_a_handler_dies_at_once() -> None:
    process = started("signal.signal(signal.SIGINT, signal.SIG_DFL)\nsay(1)\nlaunch(endless)")
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == -signal.SIGINT and time.monotonic() - start < 0.4
    process.communicate()


def test_a_program_that_ignores_it_is_not_interrupted() -> None:
    lines, log = said(
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        before = handler()
        after(0.1, interrupt)
        say(launch(endless))
        say(before == handler() == 1)
        """,
        AITER_PREBUILT_EMULATOR_LIMIT="300000000",
    )
    assert lines == [702, True] and "instruction limit" in log


def test_launches_that_end_do_not_notice() -> None:
    """A server that counts signals to stop after the batch at hand."""
    lines, log = said(
        """
        seen, sent, codes = [], [], set()
        signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
        def shoot():
            for _ in range(5):
                time.sleep(0.2)
                sent.append(1)
                interrupt()
        thread = threading.Thread(target=shoot)
        thread.start()
        while thread.is_alive():
            codes.add(launch(good))
        say([len(sent), len(seen), sorted(codes)])
        """
    )
    assert lines == [[5, 5, [0]]] and not log


def test_several_threads_and_the_handler_of_the_program() -> None:
    """Two on streams of their own, and one that waits for the first one's stream: a signal is for all that were asked before."""
    lines, _ = said(
        """
        before, codes = handler(), []
        def work(stream):
            codes.append(lib.hipModuleLaunchKernel(endless, 1, 1, 1, 64, 1, 1, 0, stream, parameters, None))
        streams = [ctypes.c_void_p() for _ in range(3)]
        for stream in streams:
            assert lib.hipStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
        threads = [threading.Thread(target=work, args=(streams[place],)) for place in (0, 1, 0)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        say(handler() != before)
        say(lib.hipModuleLaunchKernel(good, 1, 1, 1, 64, 1, 1, 0, streams[2], parameters, None))
        say(handler() != before)
        start = time.monotonic()
        try:
            interrupt()
            time.sleep(10)
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
        for thread in threads:
            thread.join()
        say([codes, time.monotonic() - start < 5])
        say(handler() == before)
        """
    )
    assert lines == [True, 0, True, "KeyboardInterrupt", [[719, 719, 719], True], True]


def test_a_graph_of_many_short_kernels() -> None:
    """No kernel of it runs long, and all of it for minutes."""
    lines, _ = said(
        """
        stream, graph, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        assert lib.hipStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
        assert lib.hipStreamBeginCapture(stream, 0) == 0
        for _ in range(1000):
            assert lib.hipModuleLaunchKernel(short, 64, 1, 1, 64, 1, 1, 0, stream, parameters, None) == 0
        assert lib.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0
        assert lib.hipGraphInstantiate(ctypes.byref(ready), graph, None, None, 0) == 0
        signal.signal(signal.SIGINT, lambda number, frame: None)
        after(0.1, interrupt)
        start = time.monotonic()
        code = lib.hipGraphLaunch(ready, stream)
        say([code, time.monotonic() - start])
        """
    )
    ((status, seconds),) = lines
    assert status == 719 and 0.5 < seconds < 4


def test_a_handler_that_is_put_there_meanwhile_stays() -> None:
    lines, _ = said(
        """
        seen = []
        thread = threading.Thread(target=lambda: launch(endless))
        thread.start()
        time.sleep(0.2)
        signal.signal(signal.SIGINT, lambda number, frame: seen.append("other"))
        mine = handler()
        thread.join()
        say(handler() == mine)
        interrupt()
        time.sleep(0.01)
        say(seen)
        """,
        AITER_PREBUILT_EMULATOR_LIMIT="300000000",
    )
    assert lines == [True, ["other"]]


def test_a_child_of_a_process_that_launches() -> None:
    """It has none of the launches, and its own handler at once."""
    lines, _ = said(
        """
        before = handler()
        thread = threading.Thread(target=lambda: launch(endless))
        thread.start()
        time.sleep(0.2)
        between = handler()
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, json.dumps([handler() == before, handler() == between]).encode())
            os._exit(0)
        os.wait()
        say(json.loads(os.read(reader, 100)))
        say([handler() == between, between == before])
        thread.join()
        say(handler() == before)
        """,
        AITER_PREBUILT_EMULATOR_LIMIT="300000000",
    )
    assert lines == [[True, False], [True, False], True]


OPERATOR = """
import sys
from pathlib import Path
from aiter_prebuilt import errors
from native.conftest import load_extension, raw
from native import synthetic
from native.synthetic import Op, R, S, T
extension, driver, folder, image = sys.argv[1:]
native = load_extension(Path(extension))
synthetic.code_object = lambda name: bytes.fromhex(image)
path = Path(folder, "endless.apb")
path.write_bytes(synthetic.bundle_bytes([Op("o", [T("x", "f32", ["N"])], recipes=[R(steps=[S("kernel", ["ptr x"])])])]))
native.open_driver("amd", driver)
bundle = native.Bundle(str(path))
print("ready", flush=True)
try:
    native.Operator("o", lambda vendor, ordinal: ((bundle,), 304))(raw(0x7F0000000100, "f32", (8,)))
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
"""


def test_an_operator_of_the_runtime_raises_keyboard_interrupt(extension_path: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT")}
    image = code_object("gfx942", ENDLESS)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            OPERATOR,
            str(extension_path),
            str(library_path()),
            str(tmp_path),
            image.hex(),
        ],
        env=kept | {"PYTHONPATH": os.pathsep.join(map(str, (root / "src", root / "tests", root)))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, log = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out == "KeyboardInterrupt\n", log

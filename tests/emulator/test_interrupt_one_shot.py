"""Ctrl-C where the program has a handler for a single signal, as LLVM has one in a process that compiles (Triton's), or one that
passes on to the emulator's: each signal is counted once, and each handler is called once for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulator.test_interrupt import said
from support.assembly import code_object
from support.one_shot_handler import one_shot_library

#: Waits for a number that nobody writes.
POLLS = """
s_load_dwordx2 s[0:1], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
again:
s_load_dword s6, s[0:1], 0x0 glc
s_waitcnt lgkmcnt(0)
s_sleep 1
s_cmp_eq_u32 s6, 77
s_cbranch_scc0 again
s_endpgm
"""
BEGIN = """
own = ctypes.CDLL({library!r})
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
before = handler()
"""
#: A call that computes, and one that waits for a kernel whose launch has gone on without it: what comes first, and the call.
CALLS = {
    "computes": ("", "launch(endless)"),
    "waits": ("assert launch(load({polls!r})) == 0", "lib.hipDeviceSynchronize()"),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_shot_library(tmp_path_factory.mktemp("handler"))


def _first(call: str) -> str:
    return CALLS[call][0].format(polls=code_object("gfx942", POLLS).hex())


def _said(library: Path, code: str, patience: int = 30) -> list[object]:
    lines, _ = said(
        BEGIN.format(library=str(library)) + code,
        AITER_PREBUILT_EMULATOR_LIMIT="1000000000",
        AITER_PREBUILT_EMULATOR_PATIENCE=str(patience),
    )
    return lines


@pytest.mark.parametrize("call", CALLS)
def test_one_signal_ends_the_kernel(library: Path, call: str) -> None:
    code = """
{first}
after(0.6, interrupt)
assert own.install_one_shot() == 0
start = time.monotonic()
say({call})
say(0.6 + 0.4 < time.monotonic() - start < 4)
say([own.calls_of_handler(), len(seen), handler() == before])
"""
    assert _said(
        library, code.format(first=_first(call), call=CALLS[call][1]), 1 if call == "waits" else 30
    ) == [719, True, [1, 1, True]]


def test_a_second_signal_is_counted_while_a_call_waits(library: Path) -> None:
    """At once, not after the half second that the first one leaves; Python calls its own once for both, afterwards."""
    code = """
times = []
def twice():
    interrupt()
    time.sleep(0.15)
    times.append(time.monotonic())
    interrupt()
{first}
after(0.6, twice)
assert own.install_one_shot() == 0
say({call})
say(time.monotonic() - times[0] < 0.25)
say([own.calls_of_handler(), len(seen), handler() == before])
"""
    assert _said(library, code.format(first=_first("waits"), call=CALLS["waits"][1]), 1) == [
        719,
        True,
        [1, 1, True],
    ]


def test_a_launch_that_ends_leaves_the_handler_for_its_signal(library: Path) -> None:
    code = """
assert own.install_one_shot() == 0
say([launch(good), own.calls_of_handler()])
interrupt()
say([own.calls_of_handler(), len(seen), handler() == before])
"""
    assert _said(library, code) == [[0, 0], [1, 1, True]]


@pytest.mark.parametrize("which", ["one_shot", "chained"])
def test_a_handler_that_comes_while_a_call_runs(library: Path, which: str) -> None:
    """What it calls or puts back is then the emulator's, which must not call it again."""
    code = f"""
stream = ctypes.c_void_p()
assert lib.hipStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
thread = threading.Thread(target=lambda: say(launch(endless)))
thread.start()
time.sleep(0.2)
assert own.install_{which}() == 0
between = []
other = threading.Thread(target=lambda: between.append(
    lib.hipModuleLaunchKernel(good, 1, 1, 1, 64, 1, 1, 0, stream, parameters, None)))
other.start()
other.join()
interrupt()
thread.join()
say([between, own.calls_of_handler(), len(seen)])
"""
    assert _said(library, code) == [719, [[0], 1, 1]]

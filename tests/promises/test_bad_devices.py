"""Bad devices: every failure is an exception with the driver's own code and name and what to type; nothing crashes."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from native.conftest import host_compiler

from promises import programs
from promises.test_devices import write


def _named(answer: list[object], kind: str, *words: str) -> None:
    """Is it ``kind`` with all words, and does its text end in something to type?"""
    assert answer[0] == kind, answer
    missing = [word for word in words if word not in str(answer[1])]
    assert not missing, (missing, answer[1])
    assert answer[2], f"{kind} is a DriverError"


CALL = "say(attempt(lambda: dispatch.operator('o')((4096, 'f32', (8,), None, ('amd', 0)), stream=0)))\n"


def test_no_driver(extension_path: Path, tmp_path: Path) -> None:
    first, second = programs.lines(
        CALL * 2,
        {
            "AITER_PREBUILT_HIP": str(tmp_path / "none.so"),
            "AITER_PREBUILT_BUNDLES": str(write(tmp_path, "gfx942")),
        },
    )
    for answer in (first, second):
        _named(answer, "DriverError", "open the amd driver", "none.so", "ROCm", "set AITER_PREBUILT_HIP")


def test_a_file_that_is_no_library(extension_path: Path, tmp_path: Path) -> None:
    (tmp_path / "libamdhip64.so").write_bytes(b"\x7fELF and no more")
    (answer,) = programs.lines(
        CALL,
        {
            "AITER_PREBUILT_HIP": str(tmp_path / "libamdhip64.so"),
            "AITER_PREBUILT_BUNDLES": str(write(tmp_path, "gfx942")),
        },
    )
    _named(answer, "DriverError", "libamdhip64.so", "set AITER_PREBUILT_HIP")


ENTRIES = (
    "hipGetDeviceCount", "hipRuntimeGetVersion", "hipGetDevicePropertiesR0600", "hipModuleLoadData",
    "hipModuleLaunchKernel", "hipStreamIsCapturing", "hipMallocAsync", "hipFreeAsync",
)  # fmt: skip


@pytest.mark.parametrize("missing", ["hipGetDevicePropertiesR0600", "hipMallocAsync"])
def test_a_driver_that_is_too_old(extension_path: Path, tmp_path: Path, missing: str) -> None:
    """HIP 5 has neither; the text names the symbol and says which release is the oldest."""
    names = ["hipInit", "hipGetDevice", "hipSetDevice", "hipGetErrorName", "hipModuleGetFunction", *ENTRIES]
    text = "".join(f"int {name}(void) {{ return 0; }}\n" for name in names if name != missing)
    (tmp_path / "old.c").write_text(text)
    library = tmp_path / "libold.so"
    command = [*host_compiler("C"), "-shared", "-fPIC", str(tmp_path / "old.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    variables = {"AITER_PREBUILT_HIP": str(library), "AITER_PREBUILT_BUNDLES": str(write(tmp_path, "gfx942"))}
    (answer,) = programs.lines(CALL, variables)
    _named(answer, "DriverError", str(library), f"has no {missing}", "older than HIP 6.0", "update ROCm")


STUB = """
import ctypes
stub = ctypes.CDLL(os.environ["AITER_PREBUILT_HIP"])
FAULTS = ("init", "load", "symbol", "launch", "malloc", "capture", "count", "device")
def fault(name, code):
    stub.stub_fault(FAULTS.index(name), code)
def call():
    dispatch.operator('o')((4096, 'f32', (8,), None, ('amd', 0)), stream=0)
"""


def stubbed(code: str, stub: Path, folder: Path) -> list[Any]:
    """``code`` in a process whose HIP is the stub, with one bundle."""
    variables = {"AITER_PREBUILT_HIP": str(stub), "AITER_PREBUILT_BUNDLES": str(write(folder, "gfx942"))}
    return programs.lines(STUB + textwrap.dedent(code), variables)


def test_no_permission(extension_path: Path, stub_path: Path, tmp_path: Path) -> None:
    """Who may not open /dev/kfd is told by HIP that there is no GPU: the text says where to look."""
    answers = stubbed(
        """
        fault("init", 100)
        fault("count", 100)
        say(attempt(call))
        say(attempt(lambda: device.facts("amd", 0)))
        import aiter_prebuilt
        say(attempt(lambda: aiter_prebuilt.preload("o", vendor="amd")))
        say(len(device.probe("amd").devices))
        """,
        stub_path,
        tmp_path,
    )
    for answer in answers[:3]:
        _named(answer, "NoDeviceError", "reports no GPU", "ls -l /dev/kfd /dev/dri", "id")
    assert answers[3] == 0


def test_a_driver_that_does_not_start(extension_path: Path, stub_path: Path, tmp_path: Path) -> None:
    """Its code, and a second attempt that works when the cause is gone."""
    first, second, third = stubbed(
        """
        fault("init", 3)
        say(attempt(call))
        fault("init", 0)
        fault("count", 304)
        say(attempt(call))
        fault("count", 0)
        say(attempt(call))
        """,
        stub_path,
        tmp_path,
    )
    _named(first, "DriverError", "hipInit answered hipErrorOfTheStub (3)", "aiter-prebuilt doctor")
    _named(
        second, "DriverError", "hipGetDeviceCount answered hipErrorOfTheStub (304)", "aiter-prebuilt doctor"
    )
    assert third[0] == "ran"


@pytest.mark.parametrize("code", [1, 2, 98, 700, 719, 999])
def test_a_launch_that_is_refused(extension_path: Path, stub_path: Path, tmp_path: Path, code: int) -> None:
    """At first use and at a call that the memo serves; afterwards all is as it was."""
    answers = stubbed(
        f"""
        fault("launch", {code})
        say(attempt(call))
        fault("launch", 0)
        say(attempt(call))
        fault("launch", {code})
        say(attempt(call))
        fault("launch", 0)
        say(attempt(call))
        """,
        stub_path,
        tmp_path,
    )
    for answer in answers[::2]:
        _named(
            answer,
            "LaunchError",
            "launch kernel",
            f"hipModuleLaunchKernel answered hipErrorOfTheStub ({code})",
        )
        wanted = {2: "rocm-smi", 700: "Restart it", 719: "AMD_SERIALIZE_KERNEL=3"}
        assert wanted.get(code, "aiter-prebuilt doctor") in str(answer[1])
    assert [answer[0] for answer in answers[1::2]] == ["ran", "ran"]


def test_no_memory_for_a_workspace(extension_path: Path) -> None:
    """A product that splits K on a device of 1 MiB: the driver's code and name; with memory it is right again."""
    filled, refused, again = programs.run(
        """
        m, n, k = 16, 64, 4096
        a, b = DeviceArray("bf16", (m, k), poison=0), DeviceArray("bf16", (n, k), poison=0)
        out = DeviceArray("bf16", (m, n))
        facts = device.facts("amd", 0)
        rows = dispatch.operator("gemm_a16w16").explain(
            dispatch.bundles_of(facts.arch, str(facts)), facts.compute_units, [a.raw, b.raw, None, out.raw], [])
        workspace = next(row["workspace"] for row in rows if row["chosen"])
        dispatch.operator("gemm_a16w16").preload("amd", 0, [a.raw, b.raw, None, out.raw], [])
        rest = []
        for size in (1 << 16, 1 << 12, 1 << 8):
            try:
                while True:
                    rest.append(DeviceArray("i8", (size,), poison=0))
            except memory.HipError:
                pass
        say([workspace > 0, len(rest) > 0])
        def call():
            dispatch.operator("gemm_a16w16")(a.raw, b.raw, None, out.raw, stream=0)
            return set(out.read()) == {0}
        say(attempt(call))
        for one in rest:
            one.free()
        say(attempt(call))
        """,
        "gfx942:memory=2M",
    )
    assert filled == [True, True], "it chose a kernel with a workspace, and the device was filled"
    _named(
        refused,
        "LaunchError",
        "bytes of workspace for gemm_a16w16",
        "hipMallocAsync answered hipErrorOutOfMemory (2)",
        "rocm-smi",
    )
    assert again == ["ran", True]


def test_no_memory_for_a_code_object(extension_path: Path, stub_path: Path, tmp_path: Path) -> None:
    """The device refuses a load: the call says so. With memory again the same call runs."""
    answers = stubbed(
        """
        fault("load", 2)
        say(attempt(call))
        fault("load", 0)
        say(attempt(call))
        say(stub.stub_load_attempts())
        """,
        stub_path,
        tmp_path,
    )
    _named(answers[0], "LoadError", "hipModuleLoadData answered hipErrorOfTheStub (2)", "rocm-smi")
    assert answers[1][0] == "ran" and answers[2] == 2


def test_a_fault_stays_and_says_so(extension_path: Path) -> None:
    """A kernel that reads freed memory: 700 at its launch and at every later call, of other operators too; nothing crashes."""
    before, fault, same, other, loaded, elsewhere, seen = programs.run(
        """
        say(softmax())
        x, out = DeviceArray("f32", (4, 64), poison=0), DeviceArray("f32", (4, 64), poison=0)
        freed = DeviceArray("f32", (4, 64), poison=0)
        gone = freed.raw
        freed.free()
        call = lambda name, *tensors: lambda: dispatch.operator(name)(*tensors, stream=0)
        say(attempt(call("softmax", gone, out.raw)))
        say(attempt(call("softmax", x.raw, out.raw)))
        narrow, wide = (out.address, "f16", (2, 8), None, ("amd", 0)), (x.address, "f16", (2, 16), None, ("amd", 0))
        say(attempt(call("silu_and_mul", narrow, wide)))
        import aiter_prebuilt
        say(attempt(lambda: aiter_prebuilt.preload("topk_softmax", vendor="amd")))
        say(softmax(1))
        say([device.facts("amd", 0).target, len(device.probe("amd").devices)])
        """,
        "gfx942,gfx942",
    )
    assert before == elsewhere == [0.125] * 16, "the other device is well"
    for answer in (fault, same, other):
        assert answer[0] in ("LaunchError", "LoadError"), answer
        assert re.search(r"hip\w+ answered hipErrorIllegalAddress \(700\)", answer[1]), answer
        assert "Restart it" in answer[1] and "AMD_SERIALIZE_KERNEL=3" in answer[1]
    assert loaded[0] in ("ran", "LoadError") and seen == ["gfx942", 2]

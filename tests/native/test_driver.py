"""Which driver library is opened, forks, and whose device is current: each in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from native.conftest import HERE, ROOT, host_compiler

Child = Callable[..., list[str]]

START = """
import ctypes, os, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from native import conftest, synthetic
from native.synthetic import Op, R, S, T
native = conftest.load_extension(Path({extension!r}))
from aiter_prebuilt import errors
stub_path = {stub!r}

def tensor(vendor="amd", ordinal=0):
    return conftest.raw(0x1000, "f32", (8,), device=(vendor, ordinal))

def serve(name, **facts):
    path = Path({folder!r}) / (name + ".apb")
    op = Op(name, [T("x", "f32", ["N"])], recipes=[R(steps=[S("k", ["ptr x"])], blob="b")])
    path.write_bytes(synthetic.bundle_bytes([op], **facts))
    bundle = native.Bundle(str(path))
    return bundle, native.Operator(name, lambda vendor, ordinal: ((bundle,), 304))

def attempt(work):
    try:
        work()
        return "ran"
    except errors.AiterPrebuiltError as error:
        return f"{{type(error).__name__}}: {{error}}"

def in_child(work):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, attempt(work).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 4000).decode()

bundle, op = serve("o")
"""


@pytest.fixture
def child(native: ModuleType, extension_path: Path, stub_path: Path, tmp_path: Path) -> Child:
    """child(code, **environment) -> the lines that ``code`` prints in a fresh process, after START."""

    def run(code: str, **environment: str) -> list[str]:
        facts = {"paths": [str(ROOT), str(ROOT / "src"), str(HERE.parent)], "extension": str(extension_path)}
        start = START.format(**facts, folder=str(tmp_path), stub=str(stub_path))
        clean = {k: v for k, v in os.environ.items() if not k.startswith("AITER_PREBUILT")}
        command = [sys.executable, "-c", start + textwrap.dedent(code)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**clean, **environment}, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_a_fork_before_the_driver_is_a_fresh_start(child: Child) -> None:
    lines = child("""
        def work():
            native.open_driver("amd", stub_path)
            op(tensor())

        print(in_child(work))
        print(attempt(work))
    """)
    assert lines == ["ran", "ran"]


def test_a_fork_after_the_driver_is_an_error_everywhere(child: Child) -> None:
    lines = child("""
        native.open_driver("amd", stub_path)
        op(tensor())
        print(in_child(lambda: op(tensor())))
        print(in_child(lambda: op.preload("amd", 0)))
        print(in_child(lambda: native.device("amd", 0)))
        print(in_child(lambda: native.open_driver("amd", None)))
        print(in_child(lambda: op.explain((bundle,), 304, [tensor()], [])))
        op(tensor())
        print(op.stats()["launches"])
    """)
    assert [line.split(":")[0] for line in lines[:4]] == ["ForkError"] * 4 and "spawn" in lines[0]
    assert lines[4:] == ["ran", "2"], "explaining needs no driver; the parent goes on"


def test_the_environment_names_the_driver(child: Child, stub_path: Path) -> None:
    lines = child(
        """
        info = native.open_driver("amd", None)
        print(info["path"], info["version"], info["devices"])
        op(tensor())
        print(native.device("amd", 0)["arch"])
        print(native.open_driver("nvidia", None)["version"])
        facts = native.device("nvidia", 0)
        print(facts["name"], facts["arch"], facts["compute_units"], facts["lds_bytes"])
        """,
        AITER_PREBUILT_HIP=str(stub_path),
        AITER_PREBUILT_CUDA=str(stub_path),
    )
    assert lines == [
        f"{stub_path} 70125424 1",
        "gfx942:sramecc+:xnack-",
        "13000",
        "Stub Hopper sm_90 132 232448",
    ]


def test_no_driver_at_all(child: Child) -> None:
    lines = child(
        """
        print(attempt(lambda: native.open_driver("amd", None)))
        print(attempt(lambda: op(tensor())))
        """,
        AITER_PREBUILT_HIP="/no/such/lib.so",
    )
    for line in lines:
        assert line.startswith("DriverError") and "/no/such/lib.so" in line and "AITER_PREBUILT_HIP" in line


def test_a_driver_that_is_a_named_pipe(child: Child, tmp_path: Path) -> None:
    """Opening one waits for its writer."""
    pipe = tmp_path / "libamdhip64.so"
    os.mkfifo(pipe)
    (line,) = child('print(attempt(lambda: native.open_driver("amd", None)))', AITER_PREBUILT_HIP=str(pipe))
    assert line.startswith("DriverError") and f"{pipe}: it is not a regular file" in line


def test_a_library_without_the_entry_points(child: Child, tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text("int hipInit(unsigned f) { return (int)f; }\n")
    library = tmp_path / "libold.so"
    command = [*host_compiler("C"), "-shared", "-fPIC", str(tmp_path / "old.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    (line,) = child(
        "print(attempt(lambda: native.open_driver('amd', None)))", AITER_PREBUILT_HIP=str(library)
    )
    assert "has no hipGetDeviceCount. It is older than HIP 6.0" in line


def test_the_library_in_the_process_goes_first_and_a_second_is_refused(
    child: Child, stub_path: Path, tmp_path: Path
) -> None:
    loaded = tmp_path / "torch" / "libamdhip64.so"
    loaded.parent.mkdir()
    shutil.copy(stub_path, loaded)
    lines = child(
        f"""
        ctypes.CDLL({str(loaded)!r})
        print(attempt(lambda: native.open_driver("amd", stub_path)))
        print(native.open_driver("amd", None)["path"])
        print(attempt(lambda: native.open_driver("amd", stub_path)))
        print(attempt(lambda: op(tensor())))
        """,
        AITER_PREBUILT_HIP=str(stub_path),
    )
    assert lines[1] == str(loaded) and lines[3] == "ran"
    assert all(
        line.startswith("DriverError") and f"already uses {loaded}" in line for line in (lines[0], lines[2])
    )


def test_of_two_runtimes_in_the_process_torchs_own_is_used(
    child: Child, stub_path: Path, tmp_path: Path
) -> None:
    """The one that libc10_hip is linked with, whichever was loaded first."""
    for folder in ("system", "torch"):
        (tmp_path / folder).mkdir()
        shutil.copy(stub_path, tmp_path / folder / "libamdhip64.so")
    (tmp_path / "user.c").write_text(
        "int hipInit(unsigned);\nint torch_begins(void) { return hipInit(0); }\n"
    )
    torchs, system = tmp_path / "torch" / "libamdhip64.so", tmp_path / "system" / "libamdhip64.so"
    user = tmp_path / "torch" / "libc10_hip.so"
    link = [*host_compiler("C"), "-shared", "-fPIC", str(tmp_path / "user.c"), "-o", str(user), str(torchs)]
    subprocess.run(link, check=True)
    for first, second in ((system, torchs), (torchs, system)):
        lines = child(
            f"""
            from aiter_prebuilt.devices import hip_library
            for path in ({str(first)!r}, {str(second)!r}):
                ctypes.CDLL(path)
            ctypes.CDLL({str(user)!r})
            print(native.open_driver("amd", None)["path"])
            print(sorted(hip_library.mapped()))
            """
        )
        assert lines == [str(torchs), str(sorted([str(system), str(torchs)]))]


@pytest.mark.parametrize("torchs", [None, b"\x7fELF, cut off"])
def test_a_runtime_that_pip_installed_is_opened_before_the_systems(
    child: Child, stub_path: Path, tmp_path: Path, torchs: bytes | None
) -> None:
    """A file in torch's package that cannot be opened is passed over."""
    site = tmp_path / "site"
    library = site / "_rocm_sdk_core" / "lib" / "libamdhip64.so.7"
    library.parent.mkdir(parents=True)
    shutil.copy(stub_path, library)
    if torchs is not None:
        (site / "torch" / "lib").mkdir(parents=True)
        (site / "torch" / "__init__.py").touch()
        (site / "torch" / "lib" / "libamdhip64.so").write_bytes(torchs)
    lines = child(
        f"""
        sys.path.append({str(site)!r})
        sys.modules["aiter_prebuilt._native"] = native
        import aiter_prebuilt
        aiter_prebuilt._native = native
        from aiter_prebuilt.devices import device
        facts = device.probe("amd")
        print(facts.path, len(facts.devices), facts.error)
        """
    )
    assert lines == [f"{library} 1 "]


def test_no_device_and_a_driver_that_does_not_start(child: Child) -> None:
    lines = child("""
        stub = conftest.Stub(Path(stub_path))
        stub.fault("init", 3)
        print(attempt(lambda: native.open_driver("amd", stub_path)))
        stub.fault("init", 100)
        stub.fault("count", 100)
        print(native.open_driver("amd", stub_path)["devices"])
        print(attempt(lambda: native.device("amd", 0)))
        print(attempt(lambda: op(tensor())))
    """)
    assert lines[0].startswith("DriverError") and "hipInit answered hipErrorOfTheStub (3)" in lines[0]
    assert lines[1] == "0" and "NoDeviceError" in lines[2] and "reports no GPU" in lines[2]
    assert lines[3].startswith("NoDeviceError") and "0 devices" in lines[3]


def test_the_callers_device_is_put_back(child: Child) -> None:
    lines = child("""
        stub = conftest.Stub(Path(stub_path))
        stub.set_devices(3)
        native.open_driver("amd", stub_path)
        stub.use_device(1)
        for device in (2, 1, 2):
            op(tensor(ordinal=device))
            print(stub.launch().device, stub.current_device())
        print(stub.loads())
        print(attempt(lambda: op(tensor(ordinal=3))))
        stub.fault("device", 101)
        print(attempt(lambda: op(tensor(ordinal=2))))
        print(stub.launches())
    """)
    assert lines[:3] == ["2 1", "1 1", "2 1"]
    assert lines[3] == "2", "one module per device"
    assert lines[4].startswith("NoDeviceError") and "3 devices" in lines[4]
    assert lines[5].startswith("DriverError") and "hipGetDevice answered" in lines[5]
    assert lines[6] == "3"


def test_cuda_contexts_of_the_caller_are_put_back(child: Child) -> None:
    lines = child("""
        stub = conftest.Stub(Path(stub_path))
        stub.set_devices(2)
        native.open_driver("nvidia", stub_path)
        _, cuda = serve("c", vendor=1, target="sm_90")
        now = ctypes.c_void_p()
        for device in (0, 1):
            cuda(tensor("nvidia", device))
            stub.library.cuCtxGetCurrent(ctypes.byref(now))
            print(stub.launch().device, now.value)
    """)
    # The stub's contexts are 100 + ordinal; what it gives back after a pop is 7.
    assert lines == ["0 100", "1 7"], "set where there was none; pushed and popped where there was another"


def test_explaining_opens_no_driver(child: Child) -> None:
    lines = child(
        """
        rows = op.explain((bundle,), 304, [tensor()], [])
        print(rows[0]["chosen"], stub_path in Path("/proc/self/maps").read_text())
        """,
        AITER_PREBUILT_HIP="/no/such/lib.so",
    )
    assert lines == ["True False"]

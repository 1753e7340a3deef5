"""The process around a call: threads, first failures, captures, forks, devices, and which driver library is opened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from aiter_prebuilt import errors
from native.conftest import HERE, ROOT, raw
from native.exchange import GpuTensor
from native.synthetic import Op, R, S, T

X = raw(0x7F0000000100, "f32", (8,))


def simple(blob: str, **more) -> Op:
    return Op("o", [T("x", "f32", ["N"])], recipes=[R(steps=[S("k", ["ptr x"])], blob=blob)], **more)


def test_eight_threads_load_one_module_once(serve, stub, blob):
    stub.set_load_delay(20_000)
    ops = [serve(simple(blob())) for _ in range(2)]
    start = threading.Barrier(8)
    failures: list[BaseException] = []

    def work(place: int) -> None:
        try:
            start.wait()
            for _ in range(50):
                ops[place % 2](GpuTensor(0x1000 * (place + 1), "f32", (8,)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and stub.load_attempts() == stub.loads() == 2 and stub.launches() == 400
    assert [op.stats()["memo_size"] for op in ops] == [1, 1]


def test_other_threads_run_while_a_module_loads(serve, stub, blob):
    stub.set_load_delay(300_000)
    op, ticks, done = serve(simple(blob())), [], threading.Event()

    def load() -> None:
        op(X)
        done.set()

    thread = threading.Thread(target=load)
    thread.start()
    while not done.wait(0.005):
        ticks.append(1)
    thread.join()
    assert len(ticks) > 5


def test_a_failed_load_stays_failed_with_its_first_cause(serve, stub, blob):
    op = serve(simple(blob()))
    stub.fault("load", 209)
    with pytest.raises(errors.LoadError, match=r"loading kernel o-k-v-k of o: hipModuleLoadData answered hipErrorNoBinaryForGpu \(209\).*for gfx942"):
        op(X)
    stub.fault("load", 0)
    with pytest.raises(errors.LoadError, match="209"):
        op(X)
    assert stub.load_attempts() == 1 and stub.launches() == 0


def test_a_missing_symbol(serve, stub, blob):
    op = serve(simple(blob()))
    stub.fault("symbol", 500)
    with pytest.raises(errors.LoadError, match=r"hipModuleGetFunction answered hipErrorOfTheStub \(500\) for the symbol k"):
        op(X)
    assert stub.launches() == 0


def test_what_is_no_code_object(native, stub, tmp_path):
    import hashlib

    from aiter_prebuilt.contract import bundle as contract
    from native import synthetic

    data = b"no ELF at all" * 50
    frame = contract.Frame(data, len(data), hashlib.sha256(data).digest(), "raw")
    op = synthetic.encode_operator(simple("b"), ["b"])
    entry = type(op.entries[0])(**{**{f: getattr(op.entries[0], f) for f in op.entries[0].__dataclass_fields__}, "sha256": frame.sha256})
    op = type(op)(**{**{f: getattr(op, f) for f in op.__dataclass_fields__}, "entries": (entry,)})
    path = tmp_path / "b.apb"
    path.write_bytes(contract.encode(synthetic.root(), (op,), (frame,)))
    bundle = native.Bundle(str(path))
    with pytest.raises(errors.LoadError, match=r"\(200\) for a code object of 650 bytes"):
        native.Operator("o", lambda vendor, ordinal: ((bundle,), 304))(X)


def test_a_capture_that_would_load_is_refused_and_preload_mends_it(serve, stub, blob):
    op = serve(simple(blob()))
    stub.set_capturing(1)
    for _ in range(2):
        with pytest.raises(errors.CaptureError, match=r"capturing a graph.*Call preload\(\) for o"):
            op(X)
    assert stub.load_attempts() == 0 and stub.launches() == 0
    stub.set_capturing(0)
    op.preload("amd", 0, [X], [])
    assert stub.loads() == 1 and stub.launches() == 0
    stub.set_capturing(1)
    op(X)
    assert stub.launches() == 1


def test_a_stream_that_cannot_be_asked_counts_as_capturing(serve, stub, blob):
    op = serve(simple(blob()))
    stub.fault("capture", 906)
    with pytest.raises(errors.CaptureError, match=r"\(906\)"):
        op(X)
    assert stub.load_attempts() == 0


def test_preload_of_everything_and_of_bad_arguments(serve, stub, blob):
    names = [blob() for _ in range(3)]
    op = serve(Op("o", [T("x", "f32", ["N"])], recipes=[R(variant=n, when=["N > 100"], blob=n) for n in names]))
    op.preload("amd", 0)
    assert stub.loads() == 3 and stub.launches() == 0
    with pytest.raises(errors.NoKernelError):
        op.preload("amd", 0, [X], [])
    with pytest.raises(errors.ArgumentDeviceError, match="another device"):
        op.preload("amd", 0, [raw(0x1000, "f32", (800,), device=("nvidia", 0))])
    with pytest.raises(errors.NoDeviceError):
        op.preload("amd", 7)
    with pytest.raises(TypeError, match="vendor"):
        op.preload("intel", 0)
    assert stub.launches() == 0


CHILD = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from native import conftest, synthetic
from native.synthetic import Op, R, S, T
native = conftest.load_extension(Path({extension!r}))
X = conftest.raw(0x1000, "f32", (8,))
def serve(op):
    path = Path({folder!r}) / (op.name + ".apb")
    path.write_bytes(synthetic.bundle_bytes([op]))
    global opened
    opened = native.Bundle(str(path))
    return native.Operator(op.name, lambda vendor, ordinal, bundle=opened: ((bundle,), 304))
op = serve(Op("o", [T("x", "f32", ["N"])], recipes=[R(steps=[S("k", ["ptr x"])], blob="b")]))
stub = {stub!r}
from aiter_prebuilt import errors
"""


@pytest.fixture
def child(native, extension_path, stub_path, tmp_path):
    """child(code, **environment) -> stdout of a fresh process with ``op``, ``X``, ``native``, ``errors``, ``stub``."""

    def run(code: str, **environment: str) -> str:
        paths = [str(ROOT), str(ROOT / "src"), str(HERE.parent)]
        text = CHILD.format(paths=paths, extension=str(extension_path), folder=str(tmp_path), stub=str(stub_path)) + code
        clean = {k: v for k, v in os.environ.items() if not k.startswith("AITER_PREBUILT")}
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env={**clean, **environment}, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


FORK = """
import os
def in_child(work):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            work()
            said = "ran"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.wait()
    return os.read(read, 4000).decode()
"""


def test_a_fork_before_the_driver_is_a_fresh_start(child):
    out = child(FORK + "def work():\n    native.open_driver('amd', stub)\n    op(X)\nprint(in_child(work))\nwork()\nprint('parent ran')")
    assert out.splitlines() == ["ran", "parent ran"]


def test_a_fork_after_the_driver_is_an_error_everywhere(child):
    code = FORK + (
        "native.open_driver('amd', stub)\nop(X)\n"
        "print(in_child(lambda: op(X)))\nprint(in_child(lambda: op.preload('amd', 0)))\n"
        "print(in_child(lambda: native.device('amd', 0)))\nprint(in_child(lambda: native.open_driver('amd', None)))\n"
        "print(in_child(lambda: op.explain((), 1, [X], [])))\nop(X)\nprint(op.stats()['launches'])"
    )
    lines = child(code).splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == ["ForkError"] * 4 and "spawn" in lines[0]
    assert lines[4].startswith("NoOperatorError"), "explain needs no driver and still works"
    assert lines[5] == "2"


def test_the_environment_names_the_driver(child, stub_path):
    code = "info = native.open_driver('amd', None)\nprint(info['path'], info['version'], info['devices'])\nop(X)\nprint(native.device('amd', 0)['arch'])"
    assert child(code, AITER_PREBUILT_HIP=str(stub_path)).split() == [str(stub_path), "70125424", "1", "gfx942:sramecc+:xnack-"]
    code = "print(native.open_driver('nvidia', None)['version'])\nfacts = native.device('nvidia', 0)\nprint(facts['arch'], facts['compute_units'], facts['lds_bytes'], facts['name'])"
    assert child(code, AITER_PREBUILT_CUDA=str(stub_path)).split("\n")[:2] == ["13000", "sm_90 132 232448 Stub Hopper"]


def test_no_driver_at_all(child):
    code = "try:\n    native.open_driver('amd', None)\nexcept errors.DriverError as error:\n    print(error)"
    out = child(code, AITER_PREBUILT_HIP="/no/such/lib.so")
    assert "/no/such/lib.so" in out and "AITER_PREBUILT_HIP" in out
    out = child("try:\n    op(X)\nexcept errors.DriverError as error:\n    print(error)", AITER_PREBUILT_HIP="/no/such/lib.so")
    assert "/no/such/lib.so" in out


def test_a_library_without_the_entry_points(child, tmp_path):
    from native.conftest import host_compiler

    (tmp_path / "old.c").write_text("int hipInit(unsigned f) { return (int)f; }\n")
    library = tmp_path / "libold.so"
    subprocess.run([*host_compiler("C"), "-shared", "-fPIC", str(tmp_path / "old.c"), "-o", str(library)], check=True)
    code = "try:\n    native.open_driver('amd', None)\nexcept errors.DriverError as error:\n    print(error)"
    assert "has no hipGetDeviceCount. It is older than HIP 6.0" in child(code, AITER_PREBUILT_HIP=str(library))


def test_the_library_in_the_process_goes_first_and_a_second_is_refused(child, stub_path, tmp_path):
    loaded = tmp_path / "torch" / "libamdhip64.so"
    loaded.parent.mkdir()
    shutil.copy(stub_path, loaded)
    code = (
        f"import ctypes\nctypes.CDLL({str(loaded)!r})\n"
        "try:\n    native.open_driver('amd', stub)\nexcept errors.DriverError as error:\n    print('already' in str(error))\n"
        "print(native.open_driver('amd', None)['path'])\n"
        "try:\n    native.open_driver('amd', stub)\nexcept errors.DriverError as error:\n    print('already' in str(error))\n"
        "op(X)\nprint(op.stats()['launches'])"
    )
    assert child(code, AITER_PREBUILT_HIP=str(stub_path)).split() == ["True", str(loaded), "True", "1"]


def test_no_device_and_a_driver_that_does_not_start(child, stub_path):
    code = (
        "from native.conftest import Stub\ns = Stub(Path(stub))\n"
        "s.fault('init', 3)\n"
        "try:\n    native.open_driver('amd', stub)\nexcept errors.DriverError as error:\n    print(type(error).__name__, '(3)' in str(error))\n"
        "s.fault('init', 100)\ns.fault('count', 100)\n"
        "print(native.open_driver('amd', stub)['devices'])\n"
        "try:\n    native.device('amd', 0)\nexcept errors.NoDeviceError as error:\n    print('reports no GPU' in str(error))\n"
        "try:\n    op(X)\nexcept errors.NoDeviceError as error:\n    print('0 devices' in str(error))\n"
    )
    assert child(code).split() == ["DriverError", "True", "0", "True", "True"]


def test_the_callers_device_is_put_back(child):
    code = (
        "from native.conftest import Stub, raw\ns = Stub(Path(stub))\ns.set_devices(3)\nnative.open_driver('amd', stub)\n"
        "s.use_device(1)\n"
        "for device in (2, 1, 2):\n"
        "    op(raw(0x1000, 'f32', (8,), device=('amd', device)))\n"
        "    print(s.launch().device, s.current_device())\n"
        "print(s.loads(), s.set_device_calls())\n"
        "try:\n    op(raw(0x1000, 'f32', (8,), device=('amd', 3)))\nexcept errors.NoDeviceError as error:\n    print('3 devices' in str(error))\n"
        "s.fault('device', 101)\n"
        "try:\n    op(raw(0x1000, 'f32', (8,), device=('amd', 2)))\nexcept errors.DriverError as error:\n    print('hipGetDevice answered' in str(error))\n"
    )
    lines = child(code).splitlines()
    assert lines[:3] == ["2 1", "1 1", "2 1"]
    assert lines[3].split()[0] == "2", "one module per device"
    assert lines[4:] == ["True", "True"]


def test_cuda_contexts_of_the_caller_are_put_back(child):
    code = (
        "import ctypes\nfrom native.conftest import Stub, raw\ns = Stub(Path(stub))\ns.set_devices(2)\nnative.open_driver('nvidia', stub)\n"
        "from native import synthetic\nimport tempfile\n"
        "file = Path(tempfile.mkdtemp()) / 'b.apb'\n"
        "file.write_bytes(synthetic.bundle_bytes([Op('c', [T('x', 'f32', ['N'])], recipes=[R(blob='b')])], vendor=1, target='sm_90'))\n"
        "bundle = native.Bundle(str(file))\n"
        "c = native.Operator('c', lambda vendor, ordinal: ((bundle,), 132))\n"
        "now = ctypes.c_void_p()\n"
        "c(raw(0x1000, 'f32', (8,), device=('nvidia', 0)))\n"
        "s.library.cuCtxGetCurrent(ctypes.byref(now))\nprint(now.value)\n"
        "c(raw(0x1000, 'f32', (8,), device=('nvidia', 1)))\n"
        "print(s.launch().device)\n"
        "s.library.cuCtxGetCurrent(ctypes.byref(now))\nprint(now.value)\n"
    )
    assert child(code).split() == ["100", "1", "7"], "set when there was none; pushed and popped when there was another"


def test_explaining_opens_no_driver(child):
    code = "rows = op.explain((opened,), 304, [X], [])\nprint(rows[0]['chosen'], stub in open('/proc/self/maps').read())"
    assert child(code, AITER_PREBUILT_HIP="/no/such/lib.so").split() == ["True", "False"]

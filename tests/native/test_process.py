"""What surrounds a call: threads, first failures, captures, preloading."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt import errors
from build_tools.pack import writer
from native import synthetic
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import GpuTensor
from native.synthetic import Op, R, S, T

X = raw(0x7F0000000100, "f32", (8,))


def simple(blob: str, **more: Any) -> Op:
    return Op("o", [T("x", "f32", ["N"])], recipes=[R(steps=[S("k", ["ptr x"])], blob=blob)], **more)


def test_eight_threads_load_one_module_once(serve: Serve, stub: Stub, blob: Blob) -> None:
    stub.set_load_delay(20_000)
    ops = [serve(simple(blob())) for _ in range(2)]
    start = threading.Barrier(8)
    failures: list[BaseException] = []

    def work(place: int) -> None:
        try:
            start.wait()
            for _ in range(50):
                ops[place % 2](GpuTensor(0x1000 * (place + 1), "f32", (8,)))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the main thread reports it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and stub.load_attempts() == stub.loads() == 2 and stub.launches() == 400
    assert [op.stats()["memo_size"] for op in ops] == [1, 1]


def test_other_threads_run_while_a_module_loads(serve: Serve, stub: Stub, blob: Blob) -> None:
    stub.set_load_delay(300_000)
    op, done = serve(simple(blob())), threading.Event()
    ticks: list[int] = []

    def load() -> None:
        op(X)
        done.set()

    thread = threading.Thread(target=load)
    thread.start()
    while not done.wait(0.005):
        ticks.append(1)
    thread.join()
    assert len(ticks) > 5


def test_a_failed_load_stays_failed_with_its_first_cause(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(simple(blob()))
    stub.fault("load", 209)
    with pytest.raises(
        errors.LoadError,
        match=r"load kernel o-k-v-k of o: hipModuleLoadData answered hipErrorNoBinaryForGpu \(209\).*for gfx942",
    ):
        op(X)
    stub.fault("load", 0)
    with pytest.raises(errors.LoadError, match="209"):
        op(X)
    assert stub.load_attempts() == 1 and stub.launches() == 0


@pytest.mark.parametrize("code", [2, 600, 900])
def test_a_load_that_failed_for_a_passing_cause_is_tried_again(
    serve: Serve, stub: Stub, blob: Blob, code: int
) -> None:
    """No memory, a device that is not ready, a capture: nothing is wrong with the code object."""
    op = serve(simple(blob()))
    stub.fault("load", code)
    for _ in range(2):
        with pytest.raises((errors.LoadError, errors.CaptureError)):
            op(X)
    stub.fault("load", 0)
    op(X)
    assert stub.load_attempts() == 3 and stub.launches() == 1


def test_a_missing_symbol(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(simple(blob()))
    stub.fault("symbol", 500)
    with pytest.raises(
        errors.LoadError, match=r"hipModuleGetFunction answered hipErrorOfTheStub \(500\) for the symbol k"
    ):
        op(X)
    assert stub.launches() == 0


def test_what_is_no_code_object(native: ModuleType, stub: Stub, tmp_path: Path) -> None:
    import hashlib

    from build_tools.pack import writer
    from native import synthetic

    data = b"no ELF at all" * 50
    frame = writer.Frame(data, len(data), hashlib.sha256(data).digest(), "raw")
    op = synthetic.encode_operator(simple("b"), ["b"])
    entry = type(op.entries[0])(
        **{
            **{f: getattr(op.entries[0], f) for f in op.entries[0].__dataclass_fields__},
            "sha256": frame.sha256,
        }
    )
    op = type(op)(**{**{f: getattr(op, f) for f in op.__dataclass_fields__}, "entries": (entry,)})
    path = tmp_path / "b.apb"
    path.write_bytes(writer.encode(synthetic.root(), (op,), (frame,)))
    bundle = native.Bundle(str(path))
    with pytest.raises(errors.LoadError, match=r"\(200\) for a code object of 650 bytes"):
        native.Operator("o", lambda vendor, ordinal: ((bundle,), 304))(X)


def test_a_capture_that_would_load_is_refused_and_preload_mends_it(
    serve: Serve, stub: Stub, blob: Blob
) -> None:
    op = serve(simple(blob()))
    stub.set_capturing(1)
    for _ in range(2):
        with pytest.raises(
            errors.CaptureError,
            match=r"capturing a graph.*call aiter_prebuilt\.preload\(ops=\['o'\], shapes=\[\{'N': 8\}\]\)",
        ):
            op(X)
    assert stub.load_attempts() == 0 and stub.launches() == 0
    stub.set_capturing(0)
    op.preload("amd", 0, [X], [])
    assert stub.loads() == 1 and stub.launches() == 0
    stub.set_capturing(1)
    op(X)
    assert stub.launches() == 1


def test_a_stream_that_cannot_be_asked_counts_as_capturing(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(simple(blob()))
    stub.fault("capture", 906)
    with pytest.raises(errors.CaptureError, match=r"\(906\)"):
        op(X)
    assert stub.load_attempts() == 0


def test_a_bundle_of_the_other_vendor(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(simple(blob()), vendor=1, target="sm_90")
    with pytest.raises(errors.BundleTargetError, match="is for sm_90"):
        op(X)
    assert stub.load_attempts() == 0


def test_preload_of_everything_and_of_bad_arguments(serve: Serve, stub: Stub, blob: Blob) -> None:
    names = [blob() for _ in range(3)]
    op = serve(
        Op("o", [T("x", "f32", ["N"])], recipes=[R(variant=n, when=["N > 100"], blob=n) for n in names])
    )
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


def test_the_public_preload_loads_whole_operators(
    serve: Serve, stub: Stub, blob: Blob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``aiter_prebuilt.preload`` names operators; it finds the device's bundles and loads everything they need."""
    import aiter_prebuilt
    from aiter_prebuilt.launch import dispatch

    op = serve(simple(blob()))
    monkeypatch.setattr(dispatch, "operator", lambda name: {"o": op}[name])
    monkeypatch.setattr(dispatch, "_resolve", lambda vendor, ordinal: ((), 304))
    assert aiter_prebuilt.preload("o", vendor="amd") == 1
    assert stub.loads() == 1 and stub.launches() == 0
    stub.set_capturing(1)
    op(X)
    assert stub.launches() == 1


@pytest.mark.parametrize("code", [900, 901, 906, 908])
def test_a_capture_elsewhere_does_not_spoil_a_code_object(
    serve: Serve, stub: Stub, blob: Blob, code: int
) -> None:
    """The driver refuses to load while another stream captures. When that is over, the same call runs."""
    op = serve(simple(blob()))
    stub.fault("load", code)
    for attempts in (1, 2):
        with pytest.raises(
            errors.CaptureError, match=rf"another stream is capturing a graph: hipErrorOfTheStub \({code}\)"
        ):
            op(X)
        assert stub.load_attempts() == attempts
    stub.fault("load", 0)
    op(X)
    assert (stub.loads(), stub.launches()) == (1, 1)


@pytest.mark.parametrize("code", [899, 909])
def test_other_errors_beside_those_are_remembered(serve: Serve, stub: Stub, blob: Blob, code: int) -> None:
    op = serve(simple(blob()))
    for fault in (code, 0):
        stub.fault("load", fault)
        with pytest.raises(errors.LoadError, match=rf"\({code}\)"):
            op(X)
    assert stub.load_attempts() == 1


def _anonymous_kib() -> int:
    """Memory of this process that is in no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def test_dictionaries_of_code_objects_do_not_pile_up(
    native: ModuleType, stub: Stub, blob: Blob, tmp_path: Path
) -> None:
    """Each code object of this bundle is stored against 2 MiB of its own; what was needed long ago is let go."""
    pytest.importorskip("zstandard")
    count, size = 24, 2 << 20
    names = [blob() for _ in range(count)]
    recipes = [
        R(variant=f"v{place}", when=[f"N == {place + 1}"], steps=[S("k", ["ptr x"])], blob=name)
        for place, name in enumerate(names)
    ]
    made = synthetic.encode_operator(Op("o", [T("x", "f32", ["N"])], recipes=recipes), names)
    images = [synthetic.code_object(name) for name in names]
    contents = [image.ljust(size, bytes([place])) for place, image in enumerate(images)]
    frames = tuple(
        replace(synthetic.zstd_frame(image, content), dictionary=place)
        for place, (image, content) in enumerate(zip(images, contents, strict=True))
    )
    dictionaries = tuple(synthetic.zstd_frame(content) for content in contents)
    path = tmp_path / "dictionaries.apb"
    path.write_bytes(writer.encode(synthetic.root(), (made,), frames, dictionaries))
    del contents
    bundle = native.Bundle(str(path))
    op = native.Operator("o", lambda vendor, ordinal: ((bundle,), 304))
    op(raw(0x7F0000000100, "f32", (1,)))
    before = _anonymous_kib()
    for length in range(2, count + 1):
        op(raw(0x7F0000000100, "f32", (length,)))
    assert stub.loads() == count
    grown = _anonymous_kib() - before
    assert grown < 4 * size // 1024, f"{grown} KiB stayed for {count - 1} dictionaries of {size >> 10} KiB"

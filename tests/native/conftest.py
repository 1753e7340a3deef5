"""Fixtures of the native tests: the extension (built when no built one is importable), the stub driver, operators."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from aiter_prebuilt import errors as runtime_errors
from native import synthetic

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator, RawTensor

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "native"
HERE = Path(__file__).resolve().parent

#: What the fixtures of the same names give.
Blob = Callable[[], str]
Run = Callable[[bytes], runtime_errors.AiterPrebuiltError | None]


class Serve(Protocol):
    """``serve(op, ...)``: an operator over bundles that are written for it; ``facts`` replace fields of their roots."""

    def __call__(
        self,
        *groups: list[synthetic.Op] | synthetic.Op,
        cus: int = 304,
        name: str | None = None,
        **facts: Any,
    ) -> Operator: ...


def host_compiler(language: str) -> list[str]:
    """zig's clang against glibc 2.28 when the package is there, else the system's compiler."""
    if importlib.util.find_spec("ziglang") is not None:
        return [
            sys.executable,
            "-m",
            "ziglang",
            {"C": "cc", "CXX": "c++"}[language],
            "-target",
            "x86_64-linux-gnu.2.28",
            "-s",  # as the wheels are made: zig keeps other libraries for programs with symbols, and makes them in a minute
        ]
    return {"C": ["cc"], "CXX": ["c++"]}[language]


SOURCE_SETTINGS = ("APB_ZSTD_SOURCE", "APB_DLPACK_INCLUDE")


def native_sources() -> dict[str, str]:
    """Where the sources of others lie that the extension is compiled with; cmake reads these variables."""
    given = {name: os.environ[name] for name in SOURCE_SETTINGS if os.environ.get(name)}
    if len(given) == len(SOURCE_SETTINGS):
        return given
    try:
        from build_tools import errors
        from build_tools.tools import fetch
    except ImportError:
        pytest.skip(f"{' and '.join(SOURCE_SETTINGS)} are not set, and there is no build_tools to fetch them")
    try:
        fetched = {name: str(place) for name, place in fetch.native_sources(ROOT).items()}
    except errors.BuildToolsError as error:  # no network and nothing cached: the reason goes into the skip
        pytest.skip(f"the extension's sources are not at hand: {error}")
    return fetched | given


def _build_extension() -> Path:
    tools = [f"-DCMAKE_{language}_COMPILER={';'.join(host_compiler(language))}" for language in ("C", "CXX")]
    configure = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", *tools]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": path, **native_sources()}
    commands = [["cmake", "--build", str(BUILD)]]
    if not (BUILD / "build.ninja").is_file():
        commands.insert(0, configure)
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return BUILD / "_native.abi3.so"


def load_extension(path: Path) -> ModuleType:
    """The extension at ``path``, under the name that the package imports."""
    spec = importlib.util.spec_from_file_location("aiter_prebuilt._native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["aiter_prebuilt._native"] = module
    spec.loader.exec_module(module)
    package: Any = importlib.import_module("aiter_prebuilt")
    package._native = module
    return module


@pytest.fixture(scope="session")
def extension_path() -> Path:
    """Where the extension lies. ``AITER_PREBUILT_NATIVE`` names one; else an installed one; else it is built."""
    named = os.environ.get("AITER_PREBUILT_NATIVE")
    if named:
        return Path(named)
    found = importlib.util.find_spec("aiter_prebuilt._native")
    return Path(found.origin) if found is not None and found.origin else _build_extension()


@pytest.fixture(scope="session")
def native(extension_path: Path) -> ModuleType:
    """The extension, imported."""
    return load_extension(extension_path)


@pytest.fixture(scope="session")
def stub_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub driver library, compiled. Its name is that of no real driver."""
    return compile_c("stub_hip.c", tmp_path_factory.mktemp("stub") / "libstub_driver.so")


def compile_c(source: str, output: Path, *flags: str) -> Path:
    """Compile one C file of this folder to a shared library."""
    command = [
        *host_compiler("C"),
        "-O2",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        str(HERE / source),
        "-o",
        str(output),
        *flags,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


class LaunchRecord(ctypes.Structure):
    """``Launch`` of stub_hip.c."""

    _fields_ = [
        ("symbol", ctypes.c_char * 1024),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("lds", ctypes.c_uint),
        ("kernarg_size", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_int),
        ("end_mark", ctypes.c_int),
        ("kernargs", ctypes.c_uint8 * 512),
    ]


FAULTS = ("init", "load", "symbol", "launch", "malloc", "capture", "count", "device")


class Stub:
    """The stub driver's other side: counters, records and faults."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.library = ctypes.CDLL(self.path)
        self.library.stub_launch.restype = ctypes.POINTER(LaunchRecord)

    def __getattr__(self, name: str) -> Callable[..., int]:
        function: Callable[..., int] = getattr(self.library, f"stub_{name}")
        return function

    def fault(self, which: str, code: int) -> None:
        self.library.stub_fault(FAULTS.index(which), code)

    def launch(self, index: int = -1) -> LaunchRecord:
        place = self.library.stub_launches() + index if index < 0 else index
        record: LaunchRecord = self.library.stub_launch(place).contents
        return record

    def kernargs(self, index: int = -1) -> bytes:
        record = self.launch(index)
        return bytes(record.kernargs[: record.kernarg_size])


@pytest.fixture
def stub(native: ModuleType, stub_path: Path) -> Iterator[Stub]:
    """The stub driver opened as both vendors' driver, with fresh counters."""
    made = Stub(stub_path)
    made.reset()
    for vendor in ("amd", "nvidia"):
        native.open_driver(vendor, str(stub_path))
    yield made
    made.reset()


_serial = itertools.count()


@pytest.fixture
def serve(native: ModuleType, tmp_path: Path) -> Serve:
    """serve(op, ...) -> an Operator over freshly written bundles; every code object is a new one for the process."""

    def make(
        *groups: list[synthetic.Op] | synthetic.Op, cus: int = 304, name: str | None = None, **facts: Any
    ) -> Operator:
        bundles = []
        for group in groups:
            ops = group if isinstance(group, list) else [group]
            path = tmp_path / f"{next(_serial)}.apb"
            path.write_bytes(synthetic.bundle_bytes(ops, **facts))
            bundles.append(native.Bundle(str(path)))
        first = groups[0][0] if isinstance(groups[0], list) else groups[0]
        made: Operator = native.Operator(name or first.name, lambda vendor, ordinal: (tuple(bundles), cus))
        return made

    return make


@pytest.fixture
def blob() -> Blob:
    """Names of code objects that no other test has loaded: modules stay loaded for the life of the process."""
    return lambda: f"blob-{next(_serial)}"


def raw(
    address: int,
    kind: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    device: tuple[str, int] = ("amd", 0),
) -> RawTensor:
    """A raw-pointer tensor."""
    return (address, kind, shape, strides, device)


@pytest.fixture
def run(native: ModuleType, stub: Stub, tmp_path: Path) -> Run:
    """For operators of (x, out): run(bytes) -> calls both operators of the file; returns what the first raised, if anything."""
    path = tmp_path / "damaged.apb"
    x, out = (raw(address, "f32", (8,)) for address in (0x7F0000000100, 0x7F0000200000))

    def call(data: bytes) -> runtime_errors.AiterPrebuiltError | None:
        path.write_bytes(data)
        failure: runtime_errors.AiterPrebuiltError | None = None
        try:
            bundle = native.Bundle(str(path))
            for name in bundle.names:
                try:
                    native.Operator(name, lambda vendor, ordinal: ((bundle,), 304))(x, out)
                except runtime_errors.AiterPrebuiltError as error:
                    failure = failure or error
        except runtime_errors.AiterPrebuiltError as error:
            failure = error
        return failure

    return call

"""The build backend of ``pip install .``: scikit-build-core, with the pinned sources that CMake asks for.

Beside a wheel it leaves nothing: sources that no cache has are unpacked into a temporary folder. What cannot be built ends in one
sentence, which pip and uv print, and never in a traceback. ``python -m build_tools wheels`` calls it too, with its own compiler
and sources. Only the standard library (tomli before Python 3.11), scikit-build-core and pip are imported.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from scikit_build_core import build as backend

from build_tools.errors import BuildToolsError, WheelError
from build_tools.tools import fetch, pins
from build_tools.tools.host import QUESTIONS, host_compiler

if TYPE_CHECKING:
    from typing import TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]
Settings: TypeAlias = "Mapping[str, list[str] | str] | None"
#: What CMake looks for when CXX is not set.
COMPILERS: Final = ("c++", "g++", "clang++")
_DEFINE: Final = "cmake.define."
_ASKED: Final = "build aiter-prebuilt from source"
_WITH_NOX: Final = (
    "Build it with the pinned compiler instead, in the checkout: "
    "python3 -m pip install -r build_tools/locks/nox.txt && python3 -m nox -s wheels"
)

build_sdist = backend.build_sdist
get_requires_for_build_sdist = backend.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = backend.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = backend.prepare_metadata_for_build_editable


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """List the packages that a build needs here: scikit-build-core's, pip to fetch sources, a compiler where there is none.

    Raises:
        SystemExit: with a sentence; this machine or Python cannot build the wheel.
    """
    with _said():
        refuse_foreign(sys.platform, platform.machine(), sys.implementation.name, sys.abiflags)
        return [
            *backend.get_requires_for_build_wheel(_plain(config_settings)),
            *requirements(config_settings),
        ]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """List what :func:`get_requires_for_build_wheel` does."""
    return get_requires_for_build_wheel(config_settings)


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the runtime wheel into ``wheel_directory``.

    Returns:
        The wheel's file name.

    Raises:
        SystemExit: with a sentence; the sources cannot be fetched, or the compile failed.
    """
    return _build(backend.build_wheel, wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel, as :func:`build_wheel` does."""
    return _build(backend.build_editable, wheel_directory, config_settings, metadata_directory)


def refuse_foreign(system: str, machine: str, implementation: str, flags: str) -> None:
    """Refuse a machine or Python that could not load the wheel.

    Args:
        system: ``sys.platform``.
        machine: ``platform.machine()``.
        implementation: ``sys.implementation.name``.
        flags: ``sys.abiflags``; ``t`` is a free-threaded Python.

    Raises:
        WheelError: names what was found.
    """
    if system != "linux" or machine not in ("x86_64", "AMD64"):
        raise WheelError(_ASKED, f"this machine is {system} {machine}", "Install it on x86-64 Linux")
    if implementation != "cpython" or "t" in flags:
        kind = "a free-threaded Python" if "t" in flags else implementation
        raise WheelError(
            _ASKED, f"this Python is {kind}, and the extension uses the stable ABI (abi3)",
            "Use CPython with a GIL, 3.10 or later",
        )  # fmt: skip


def requirements(config_settings: Settings) -> list[str]:
    """List the packages beside scikit-build-core's own: none where the caller names sources and a compiler is there."""
    missing = _missing_sources(config_settings)
    found = ["tomli; python_version < '3.11'"] if missing or not _has_compiler() else []
    if any(_cached(name) is None for name in missing.values()):
        found.append("pip>=23.1")
    if not _has_compiler():
        found.append(f"ziglang=={pins.load(ROOT).tools['ziglang'].version}")
    return found


def _build(
    work: Callable[..., str], wheel_directory: str, config_settings: Settings, metadata_directory: str | None
) -> str:
    with (
        _said(),
        tempfile.TemporaryDirectory(prefix="aiter-prebuilt-") as folder,
        _compiler(Path(folder)) as more,
    ):
        settings = _plain(config_settings) | more
        for setting, name in _missing_sources(config_settings).items():
            place = _cached(name) or _unpacked(name, Path(folder))
            settings[f"{_DEFINE}{setting}"] = str(place)
        try:
            return work(wheel_directory, settings, metadata_directory)
        except SystemExit as error:
            # scikit-build-core has printed what CMake or the compiler said.
            raise WheelError(
                _ASKED, "its native extension does not compile here; see above", _WITH_NOX
            ) from error


@contextmanager
def _said() -> Iterator[None]:
    """Turn errors of the build into an exit with their sentence."""
    try:
        yield
    except BuildToolsError as error:
        _leave(str(error))


def _leave(sentence: str) -> NoReturn:
    sys.stdout.flush()
    sys.exit(f"error: {sentence}")


def _plain(config_settings: Settings) -> dict[str, list[str] | str]:
    return dict(config_settings or {})


def _missing_sources(config_settings: Settings) -> dict[str, str]:
    """Return the sources that neither the caller's settings nor the environment name, by CMake's setting."""
    given = _plain(config_settings)
    return {
        setting: name
        for setting, name in fetch.NATIVE_SOURCES.items()
        if f"{_DEFINE}{setting}" not in given and not os.environ.get(setting)
    }


def _cached(name: str) -> Path | None:
    """Return the folder of a source that an earlier build has unpacked."""
    package, below = fetch.SOURCES[name]
    place = fetch.cache_folder() / "sources" / pins.load(ROOT).sources[package].folder / below
    return place if place.is_dir() else None


def _unpacked(name: str, folder: Path) -> Path:
    package, below = fetch.SOURCES[name]
    return fetch.source_folder(pins.load(ROOT).sources[package], folder) / below


def _has_compiler() -> bool:
    return bool(os.environ.get("CXX")) or any(shutil.which(name) for name in COMPILERS)


@contextmanager
def _compiler(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the settings of zig's compiler, with CC and CXX set to it, where this machine has no compiler; else none."""
    if _has_compiler():
        yield {}
        return
    import ziglang

    before = {name: os.environ.get(name) for name in ("CC", "CXX")}
    os.environ.update(host_compiler(Path(ziglang.__file__).with_name("zig"), folder))
    try:
        name, _, value = QUESTIONS.partition("=")
        yield {f"{_DEFINE}{name}": value}
    finally:
        for variable, old in before.items():
            os.environ.pop(variable, None)
            if old is not None:
                os.environ[variable] = old

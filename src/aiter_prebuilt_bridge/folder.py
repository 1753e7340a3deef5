"""Modules for ``AITER_JIT_DIR``: where no ``.pth`` may run, AITER's JIT itself finds plain Python modules in the folder that this
variable names, and calls their functions through its own wrapper.

Such a module is all or nothing: a function that it lacks is an error of AITER's, and no compile. So one is written only if ours
cover every stub that AITER's sources have of it. What cannot be written stays as it is: AITER compiles it, into that folder.
A file that we did not write is never touched: the folder may hold what AITER compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.errors import ArgumentError
from aiter_prebuilt_bridge import installed, lookup_log, semantic_changes, serving
from aiter_prebuilt_bridge.errors import ForeignFileError
from aiter_prebuilt_bridge.loader import CORE_MODULES
from aiter_prebuilt_bridge.sources import Stub, by_module

_OURS: Final = '"""A module of AITER\'s JIT with functions of aiter-prebuilt; `aiter-prebuilt bridge folder` wrote this."""'
_TEXT: Final = """{ours}
# For AITER {aiter}, by aiter-prebuilt {version}. After an upgrade of either, `bridge folder FOLDER --check` tells.

from aiter_prebuilt_bridge.{home} import fill

fill(globals(){names})
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """The selection of modules, by name or by operator.

    Every module is selected where both are empty.
    """

    modules: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """``texts``: module -> its file; ``left``: module -> why it cannot be served; ``whole``: was every module asked for?"""

    texts: Mapping[str, str]
    left: Mapping[str, str]
    whole: bool


def plan(package: Path, choice: Choice) -> Plan:
    """Plan the modules that the AITER in ``package`` can use.

    Its first modules, enumerations, are always there.

    Raises:
        ArgumentError: AITER has no such module, or no module with such an operator.
    """
    stubs = by_module(package)
    texts, left = {}, {}
    for name in sorted(_chosen(stubs, choice)):
        why = next((why for why in (_why(stub, package) for stub in stubs[name]) if why), "")
        if name in CORE_MODULES:
            texts[name] = _text("core", "")
        elif why:
            left[name] = why
        else:
            names = {stub.native: stub.name for stub in stubs[name]}
            texts[name] = _text("folder", f", {names!r}, {installed.description()!r}")
    return Plan(texts, left, choice == Choice())


def _text(home: str, names: str) -> str:
    return _TEXT.format(ours=_OURS, aiter=installed.description(), version=VERSION, home=home, names=names)


def _chosen(stubs: Mapping[str, list[Stub]], choice: Choice) -> set[str]:
    if choice == Choice():
        return {*stubs}
    found = {name for name in stubs if name in CORE_MODULES}
    for name in choice.modules:
        if name not in stubs:
            raise ArgumentError(
                f"bridge folder --module {name}",
                "AITER's JIT has no such module",
                f"its modules are {', '.join(sorted(stubs))}",
            )
        found.add(name)
    for operator in choice.operators:
        having = {
            name for name, rows in stubs.items() if any(operator in (row.name, row.native) for row in rows)
        }
        if not having:
            raise ArgumentError(
                f"bridge folder --operator {operator}",
                "no module of AITER's JIT has such a function",
                "For its names: aiter-prebuilt bridge status",
            )
        found |= having
    return found


def write(wanted: Plan, place: Path) -> None:
    """Write the modules; of a whole folder, files of ours that are not wanted any more go.

    Raises:
        ForeignFileError: a file of somebody else's has the name of one of ours, or comes before it. Then nothing was written.
    """
    for name in wanted.texts:
        other = _foreign(place, name)
        if other is not None:
            raise ForeignFileError(
                f"write {place / name}.py",
                f"{other} is there, and aiter-prebuilt did not write it",
                "Name an empty folder, or remove that file: AITER compiles it again where it needs it",
            )
    place.mkdir(parents=True, exist_ok=True)
    (place / "build").mkdir(exist_ok=True)  # AITER makes it otherwise
    for name in _stale(wanted, place):
        (place / f"{name}.py").unlink()
    for name, text in wanted.texts.items():
        (place / f"{name}.py").write_text(text, encoding="utf-8")


def problems(wanted: Plan, place: Path) -> list[str]:
    """List files in ``place`` that differ from what we would write.

    AITER, or our package, was upgraded, or somebody else wrote there.
    """
    found = [f"{name}.py is of a module that cannot be served now" for name in _stale(wanted, place)]
    for name, text in wanted.texts.items():
        path, other = place / f"{name}.py", _foreign(place, name)
        if other is not None:
            found.append(f"{other.name} is there, and aiter-prebuilt did not write it")
        elif not path.is_file():
            found.append(f"{path.name} is not there")
        elif path.read_text(encoding="utf-8") != text:
            found.append(f"{path.name} was written for another AITER, or by another aiter-prebuilt")
    return found


def _foreign(place: Path, name: str) -> Path | None:
    """Find a foreign file that Python would take for a module.

    Compiled ones come first.
    """
    compiled = [each for each in sorted(place.glob(f"{name}.*so")) if each.is_file()]
    package, own = place / name, place / f"{name}.py"
    others = [*([package] if package.is_dir() else []), *compiled]
    return next(iter(others), own if own.exists() and not _is_ours(own) else None)


def _is_ours(path: Path) -> bool:
    return path.is_file() and path.read_bytes().startswith(_OURS.encode())


def _stale(wanted: Plan, place: Path) -> list[str]:
    there = [path.stem for path in sorted(place.glob("module_*.py")) if _is_ours(path)]
    return [name for name in there if wanted.whole and name not in wanted.texts]


def _why(stub: Stub, package: Path) -> str:
    if stub.ctypes:
        return f"{stub.name} is called through ctypes, which takes no Python"
    if stub.varies:
        return f"AITER names another module for each kind of call of {stub.name}"
    other = semantic_changes.why_other(stub.name, package)
    if other:
        return f"{stub.name}: {other}"
    mine, cover = serving.decide("", (stub.name,), stub.signature)
    if mine is None:
        return f"{stub.name}: {cover.why}"
    if cover.omitted:
        # AITER's wrapper hands on what its caller gave.
        return f"{stub.name}: {cover.omitted[0].name} means something else in ours when it is left out"
    return ""


@cache
def _here() -> str:
    return installed.description()


def fill(names: dict[str, Any], functions: dict[str, str], made_for: str) -> None:
    """Put ``functions`` (AITER's name in the module -> ours) into a module, with the first line that AITER reads of each.
    ``made_for``: of which AITER the stubs were read.
    """
    here = _here()
    if here != made_for:
        lookup_log.once(
            "AITER_JIT_DIR",
            f"its modules were written for AITER {made_for}, and AITER {here} is here: "
            "aiter-prebuilt bridge folder writes them again",
        )
    for native, name in functions.items():
        function, why = serving.ours(name)
        if function is None:
            raise ImportError(f"{names['__name__']}: {name}: {why}")
        names[native] = _described(native, function)
    names["_set_current_hip_stream"] = lambda stream: None  # noqa: ARG005  # torch is asked, call by call


def _described(native: str, function: Any) -> Any:
    def described(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    words = []
    for each in inspect.signature(function).parameters.values():
        said = str(each.annotation).replace(" | None", "")
        optional = f"typing.Optional[{said}]" if said != str(each.annotation) else said
        kind = "object" if optional.startswith(("Any", "typing.Optional[Any")) else optional
        given = "" if each.default is Parameter.empty else f" = {each.default!r}"
        words.append(f"{each.name}: {kind}{given}")
    returns = inspect.signature(function).return_annotation
    described.__name__ = native
    described.__doc__ = f"{native}({', '.join(words)}) -> {returns}"
    return described

"""A child of ``peers.py``: runs one of AITER's ``op_tests`` files, and writes a line of JSON for each of its cases.

    python -m aiter_prebuilt_emulator.torch ci/peer_program.py RESULTS SECONDS FILE [pytest] ARGUMENTS...

No assertion of the file is changed. Its timer calls a function once; its ``checkAllclose`` is AITER's own, and its result is
written down; an exception ends one case. A case is one outermost call of a ``test_*``, ``run_*`` or ``bench_*`` function,
a comparison outside of them, or with the word ``pytest`` one of pytest's tests.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

CASE = "__peer_case__"
PREFIXES = ("test_", "run_", "bench_")
#: Longest reason that is written down, in characters.
LONGEST = 400


class TimeUp(BaseException):
    """A case took longer than a case may. No ``except Exception`` of a test stops it."""


class Gone(dict):  # type: ignore[type-arg]
    """What a case that raised returns, so that the file's summary goes on."""

    def __getitem__(self, key: object) -> float:
        """Any figure."""
        return float("nan")


class Cases:
    """The cases of one file."""

    def __init__(self, results: Path, seconds: float) -> None:
        self.file = results.open("a", encoding="utf-8")
        self.seconds = seconds
        self.depth = 0
        self.checks: list[float] = []

    def write(self, **row: Any) -> None:
        """Write one line, which survives a process that dies."""
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def case(self, name: str) -> Callable[..., Any]:
        """Decorate the file's function ``name``."""
        return lambda function: self._case(name, function)

    def run(self, name: str, arguments: str, function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Run one case and write its line. Return its result, and the exception that ended it."""
        self.depth, self.checks = 1, []
        began = time.monotonic()
        outcome, why, out, ended = "right", "", None, None
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            out = function()
        except (Exception, SystemExit, TimeUp) as error:  # noqa: BLE001 - whatever it is, it is this case's
            outcome, why = kind_of(error)
            ended = error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.depth = 0
        worst = max(self.checks, default=0.0)
        if outcome == "right" and worst > 0:
            outcome, why = "failed", f"checkAllclose: {worst:.2%} outside"
        self.write(
            case=name, outcome=outcome, why=why, checks=len(self.checks),
            seconds=round(time.monotonic() - began, 2), arguments=arguments,
        )  # fmt: skip
        return out, ended

    def _case(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if self.depth:
                return function(*args, **kwargs)
            out, ended = self.run(name, words(args, kwargs), lambda: function(*args, **kwargs))
            return out if ended is None else Gone()

        return called

    def check(self, own: Callable[..., Any], limit: float) -> Callable[..., Any]:
        """Decorate AITER's ``checkAllclose``: a ratio above its limit counts."""

        @wraps(own)
        def checked(*args: Any, **kwargs: Any) -> Any:
            ratio = own(*args, **kwargs)
            allowed = kwargs.get("tol_err_ratio", args[4] if len(args) > 4 else limit)
            outside = float(ratio) if float(ratio) > allowed else 0.0
            if self.depth:
                self.checks.append(outside)
            else:  # a file without functions, whose comparison is its case
                self.run(own.__name__, "", lambda: self.checks.append(outside))
            return ratio

        return checked


def words(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arguments of a case, short."""
    said = [str(getattr(each, "shape", each))[:40] for each in args]
    return ", ".join(
        [*said, *(f"{name}={str(getattr(each, 'shape', each))[:40]}" for name, each in kwargs.items())]
    )[:300]


def line_of(error: BaseException) -> str:
    """The name of an exception and its first line, with the second one behind `` / ``: there a refusal says why."""
    lines = f"{type(error).__name__}: {str(error).strip()}".splitlines()
    return " / ".join(line.strip() for line in lines[:2])[:LONGEST]


def kind_of(error: BaseException) -> tuple[str, str]:
    """The outcome that an exception means, and its first line with the place in the file."""
    from aiter_prebuilt.errors import AiterPrebuiltError
    from aiter_prebuilt_bridge.errors import CompileRefusedError

    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    text = line_of(error)
    for each in chain:
        if isinstance(each, CompileRefusedError):
            return ("triton" if "riton" in str(each) else "not replaced"), line_of(each)
    for each in chain:
        if isinstance(each, AiterPrebuiltError):
            return "refused", line_of(each)
    if isinstance(error, TimeUp):
        return "slow", text
    if isinstance(error, AssertionError):
        return "failed", text
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "other", f"{text} ({Path(last.filename).name}:{last.lineno})"


def once(func: Callable[..., Any]) -> Callable[..., Any]:
    """What the timer makes of a function: one call, and a time of one microsecond."""

    @wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs), 1.0

    return called


def instead_of_the_timer(common: Any, cases: Cases) -> None:
    """Replace AITER's timers, and watch its comparison."""
    import inspect

    def perftest(*_: Any, **__: Any) -> Callable[..., Any]:
        return once

    timing = {
        name
        for name in inspect.signature(common.run_perftest).parameters
        if name not in ("func", "args", "kwargs")
    }

    def run_perftest(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return once(func)(*args, **{name: value for name, value in kwargs.items() if name not in timing})

    common.perftest, common.run_perftest = perftest, run_perftest
    limit = inspect.signature(common.checkAllclose).parameters["tol_err_ratio"].default
    common.checkAllclose = cases.check(common.checkAllclose, limit)


def is_case(function: ast.stmt) -> bool:
    """Tell whether a statement of the file defines a case: no timed function, and none that pytest parametrizes."""
    marks = [ast.unparse(mark) for mark in getattr(function, "decorator_list", [])]
    timed = any(mark.startswith(("perftest", "pytest", "torch_compile")) for mark in marks)
    return (
        isinstance(function, ast.FunctionDef)
        and not timed
        and (function.name.startswith(PREFIXES) or any("benchmark" in mark for mark in marks))
    )


def drives(function: ast.FunctionDef, tests: set[str]) -> bool:
    """Tell whether a function calls tests of the file in a loop. Those are the cases then, and the function is none."""
    loops = [each for each in ast.walk(function) if isinstance(each, (ast.For, ast.ListComp, ast.While))]
    called = {
        each.func.id
        for loop in loops
        for each in ast.walk(loop)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }
    return bool(called & (tests - {function.name}))


def decorated(source: str) -> ast.Module:
    """The file with each function that is a case decorated, outside of its own decorators."""
    tree = ast.parse(source)
    cases = [each for each in tree.body if isinstance(each, ast.FunctionDef) and is_case(each)]
    tests = {each.name for each in cases if each.name.startswith("test_")}
    for each in cases:
        if not drives(each, tests):
            each.decorator_list.insert(0, ast.Call(ast.Name(CASE, ast.Load()), [ast.Constant(each.name)], []))
    return ast.fix_missing_locations(tree)


class Pytest:
    """A plugin that makes each test of a file a case."""

    def __init__(self, cases: Cases) -> None:
        self.cases = cases

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool:
        """Run the function of a test. One that skips itself is no case: pytest's exception passes through."""
        given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        _, error = self.cases.run(pyfuncitem.name, words((), given), lambda: pyfuncitem.obj(**given))
        if error is not None:
            raise error
        return True


def main() -> None:
    """Run the file as a program."""
    results, seconds, file, *rest = sys.argv[1:]
    cases = Cases(Path(results), float(seconds))

    def up(*_: Any) -> None:
        raise TimeUp(f"longer than {seconds} s")

    signal.signal(signal.SIGALRM, up)
    sys.modules["flydsl"] = None  # type: ignore[assignment]  # AITER knows how to do without
    sys.path[:0] = [os.environ["AITER_DIR"], str(Path(file).parent)]
    import aiter_prebuilt_bridge_hook

    aiter_prebuilt_bridge_hook.install()
    try:
        test_common = importlib.import_module("aiter.test_common")
        instead_of_the_timer(test_common, cases)
        if rest[:1] == ["pytest"]:
            import pytest

            pytest.main([file, "-q", "-p", "no:cacheprovider", *rest[1:]], plugins=[Pytest(cases)])
            cases.write(case="", outcome="ended", why="")
            return
        sys.argv = [file, *rest]
        module: Any = ModuleType("__main__")
        module.__file__ = file
        sys.modules["__main__"] = module
        vars(module)[CASE] = cases.case
        code = compile(decorated(Path(file).read_text(encoding="utf-8")), file, "exec")
        exec(code, vars(module))  # noqa: S102 - the file is the program
    except (Exception, SystemExit) as error:  # noqa: BLE001
        if not (isinstance(error, SystemExit) and error.code in (None, 0)):
            outcome, why = kind_of(error)
            cases.write(case="", outcome=outcome, why=why)
            return
    cases.write(case="", outcome="ended", why="")


if __name__ == "__main__":
    main()

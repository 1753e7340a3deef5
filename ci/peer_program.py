"""A child of ``peers.py``: runs one test file of AITER's or of another project's, and writes a line of JSON for each case.

    python -m aiter_prebuilt_emulator.torch ci/peer_program.py RESULTS SECONDS FILE [pytest] ARGUMENTS...

No assertion of the file is changed. Its timer calls a function once. An exception ends one case. A case is one outermost call
of a ``test_*``, ``run_*`` or ``bench_*`` function, or of one whose name begins with a word of ``PEER_CASES``. So is a comparison
outside of them, and with the word ``pytest`` each of pytest's tests. Right is a case that launched a kernel and then compared
something, and in which every comparison held: AITER's own ``checkAllclose`` within its tolerance, ``torch.allclose`` and
``torch.equal``, and each assertion.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Generator
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from peer_names import missing
from peer_setup import not_built, prepare

CASE = "__peer_case__"
COMPARE = "__peer_compare__"
PREFIXES = ("test_", "run_", "bench_", *os.environ.get("PEER_CASES", "").split())
#: Names of verdicts in the row that a test returns. Other bools say what a case is.
VERDICT = re.compile("close|match|pass|equal|same|correct|^ok$")
#: Longest reason that is written down, in characters.
LONGEST = 400


class TimeUp(BaseException):
    """A case took longer than a case may. No ``except Exception`` of a test stops it."""


class Gone(dict):  # type: ignore[type-arg]
    """The result of a case that raised.

    The file's summary goes on with it.
    """

    def __getitem__(self, key: object) -> float:
        """Any figure."""
        return float("nan")


class Cases:
    """The cases of one file."""

    def __init__(self, results: Path, seconds: float, device: Any) -> None:
        self.file = results.open("a", encoding="utf-8")
        self.seconds = seconds
        self.device = device
        self.depth = 0
        #: The results of ``checkAllclose``: the share of elements outside, where it is more than the test allows, else 0.
        self.checks: list[float] = []
        #: The comparisons that did not hold and raised nothing.
        self.unequal: list[str] = []
        self.compared = False
        #: Our errors since the case began, also those that the test catches.
        self.errors: list[BaseException] = []
        self.began = 0.0

    def write(self, **row: Any) -> None:
        """Write one line, which survives a process that dies."""
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def case(self, name: str, *given: str) -> Callable[..., Any]:
        """Decorate the file's function ``name``, whose parameters are ``given``."""
        return lambda function: self._case(name, function, given)

    def run(
        self, name: str, arguments: str, function: Callable[[], Any], given: Collection[str]
    ) -> tuple[Any, BaseException | None]:
        """Run one case and write its line. Return its result, and the exception that ended it.

        Args:
            name: the function of the test.
            arguments: its arguments, as the line shows them.
            function: calls it.
            given: names of its parameters.
        """
        out, ended = None, None
        self.begin()
        try:
            out = function()
        except (Exception, SystemExit, TimeUp) as error:  # noqa: BLE001 - whatever it is, it is this case's
            ended = error
        finally:
            self.stop()
        self.verdicts(out, given)
        self.end(name, arguments, ended)
        return out, ended

    def begin(self) -> None:
        """Start the clock of a case, and count its launches and comparisons from here on."""
        self.depth, self.checks, self.unequal, self.compared, self.errors = 1, [], [], False, []
        self.device.reset_counters()
        self.began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def stop(self) -> None:
        """Stop the clock of a case."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.depth = 0

    def end(self, name: str, arguments: str, ended: BaseException | None) -> None:
        """Write the line of a case."""
        outcome, why = ("right", "") if ended is None else kind_of(ended)
        if ended is None and (self.unequal or max(self.checks, default=0.0) > 0):
            outcome, why = "failed", (self.unequal or [f"checkAllclose: {max(self.checks):.2%} outside"])[0]
        elif ended is None and not self.launched():
            outcome, why = "no kernel", "the case launches no kernel"
        elif ended is None and not self.compared:
            outcome, why = "no comparison", "the case compares nothing"
        if outcome in ("no kernel", "no comparison") and self.errors:
            outcome, why = kind_of(self.errors[-1])  # the test caught it
        self.write(
            case=name, outcome=outcome, why=why, checks=len(self.checks),
            seconds=round(time.monotonic() - self.began, 2), arguments=arguments,
        )  # fmt: skip

    def verdicts(self, result: object, given: Collection[str]) -> None:
        """Read the verdicts that a test returns: a bool, or in a row the bools that are named so and are no parameters."""
        if isinstance(result, bool):
            self.compared = True
            if not result:
                self.unequal.append("returns False")
        if not isinstance(result, dict):
            return
        for name, value in result.items():
            is_bool = isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool")
            if is_bool and name not in given and VERDICT.search(str(name)):
                self.compared = True
                if not value:
                    self.unequal.append(f"{name}: False")

    def launched(self) -> bool:
        """Tell whether the device ran a kernel since the case began."""
        return any(kernel["launches"] for kernel in self.device.counters()["kernels"])

    def compare(self) -> None:
        """Note that a comparison comes now. One before the first launch is about the test's own arguments."""
        if self.depth and not self.compared:
            self.compared = self.launched()

    def watch(self, name: str, own: Callable[..., bool]) -> Callable[..., bool]:
        """Decorate a comparison that returns a bool, which a test may print and not assert."""

        @wraps(own)
        def watched(*args: Any, **kwargs: Any) -> bool:
            same = own(*args, **kwargs)
            self.compare()
            if self.depth and not same:
                self.unequal.append(f"{name}: False")
            return same

        return watched

    def count(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a comparison that raises."""

        @wraps(own)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.compare()
            return own(*args, **kwargs)

        return counted

    def _case(self, name: str, function: Callable[..., Any], given: Collection[str]) -> Callable[..., Any]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if self.depth:
                return function(*args, **kwargs)
            out, ended = self.run(name, words(args, kwargs), lambda: function(*args, **kwargs), given)
            return out if ended is None else Gone()

        return called

    def check(self, own: Callable[..., Any], limit: float) -> Callable[..., Any]:
        """Decorate AITER's ``checkAllclose``: a ratio above its limit counts."""

        @wraps(own)
        def checked(*args: Any, **kwargs: Any) -> Any:
            ratio = own(*args, **kwargs)
            allowed = kwargs.get("tol_err_ratio", args[4] if len(args) > 4 else limit)
            outside = 0.0 if ratio <= allowed else float(ratio) if ratio > allowed else 1.0  # 1: not a number
            if self.depth:
                self.compare()
                self.checks.append(outside)
            else:  # a file without functions, whose comparison is its case
                self.outside_a_case(own.__name__, outside)
            return ratio

        return checked

    def outside_a_case(self, name: str, outside: float) -> None:
        """Write the line of a comparison that no function of the file makes. Launches count since the case before it."""
        why = f"checkAllclose: {outside:.2%} outside" if outside else ""
        if not outside and not self.launched():
            self.write(case=name, outcome="no kernel", why="the case launches no kernel", checks=1)
        else:
            self.write(case=name, outcome="failed" if outside else "right", why=why, checks=1)
        self.device.reset_counters()


def words(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Write the arguments of a case in short."""
    said = [str(getattr(each, "shape", each))[:40] for each in args]
    return ", ".join(
        [*said, *(f"{name}={str(getattr(each, 'shape', each))[:40]}" for name, each in kwargs.items())]
    )[:300]


def line_of(error: BaseException) -> str:
    """Describe an exception in one line.

    Its name and its first line, with the second one behind `` / ``: there a refusal says why.
    """
    lines = f"{type(error).__name__}: {str(error).strip()}".splitlines()
    return " / ".join(line.strip() for line in lines[:2])[:LONGEST]


def kind_of(error: BaseException) -> tuple[str, str]:
    """Classify an exception as an outcome.

    The second value is its first line with the place in the file.
    """
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
    if any(not_built(line_of(each)) for each in chain):
        return "not built", text
    if isinstance(error, AssertionError):
        return "failed", text
    if is_own(error):
        return "own error", text
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "other", f"{text} ({Path(last.filename).name}:{last.lineno})"


def is_own(error: BaseException) -> bool:
    """Tell whether a test asks a module of AITER for a name that its own checkout does not have."""
    module = getattr(error, "obj", None)
    if not isinstance(error, AttributeError) or not isinstance(module, ModuleType):
        return False
    tree = Path(os.environ["AITER_DIR"])
    return module.__name__.partition(".")[0] == "aiter" and missing(tree, module.__name__, error.name)


def once(func: Callable[..., Any]) -> Callable[..., Any]:
    """Make the timer call a function once.

    It gives a time of one microsecond.
    """

    @wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs), 1.0

    return called


def instead_of_the_timer(common: Any, cases: Cases) -> None:
    """Replace AITER's timers, and watch its comparison."""

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


def watch_torch(cases: Cases) -> None:
    """Watch the comparisons of torch and of numpy."""
    import numpy as np
    import torch

    torch.allclose, torch.equal = (
        cases.watch("torch.allclose", torch.allclose),
        cases.watch("torch.equal", torch.equal),
    )
    torch.testing.assert_close = cases.count(torch.testing.assert_close)
    np.testing.assert_allclose = cases.count(np.testing.assert_allclose)


def watch_errors(cases: Cases) -> None:
    """Note each error of ours when it is made."""
    from aiter_prebuilt.errors import AiterPrebuiltError

    def noted(kind: type[AiterPrebuiltError], *args: Any, **_: Any) -> AiterPrebuiltError:
        error = super(AiterPrebuiltError, kind).__new__(kind, *args)
        cases.errors.append(error)
        return error

    AiterPrebuiltError.__new__ = staticmethod(noted)  # type: ignore[method-assign, assignment]


class Assertions(ast.NodeTransformer):
    """Puts a call before each assertion, and leaves the assertion as it is."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        """Note the assertion."""
        return [ast.Expr(ast.Call(ast.Name(COMPARE, ast.Load()), [], [])), node]


def is_case(function: ast.stmt) -> bool:
    """Tell whether a statement of the file defines a case: no timed function, and no fixture of pytest's."""
    marks = [ast.unparse(mark) for mark in getattr(function, "decorator_list", [])]
    timed = any(mark.startswith(("perftest", "pytest.fixture", "torch_compile")) for mark in marks)
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


def parameters(function: ast.FunctionDef) -> list[str]:
    """List the names of a function's parameters."""
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def decorated(source: str) -> ast.Module:
    """Decorate the cases of a file and count their assertions.

    The decorator stands outside of a function's own ones.
    """
    tree: ast.Module = Assertions().visit(ast.parse(source))
    cases = [each for each in tree.body if isinstance(each, ast.FunctionDef) and is_case(each)]
    tests = {each.name for each in cases if each.name.startswith("test_")}
    for each in cases:
        if not drives(each, tests):
            given = [ast.Constant(name) for name in (each.name, *parameters(each))]
            each.decorator_list.insert(0, ast.Call(ast.Name(CASE, ast.Load()), [*given], []))
    return ast.fix_missing_locations(tree)


def spread(cases: list[Any], most: int) -> list[Any]:
    """Choose at most ``most`` of the cases: the middles of as many equal parts."""
    number = min(most, len(cases))
    return [cases[(2 * part + 1) * len(cases) // (2 * number)] for part in range(number)]


class Pytest:
    """A plugin that makes each test of a file a case. A test that skips itself is none."""

    def __init__(self, cases: Cases) -> None:
        self.cases = cases
        self.problem = ""
        #: Largest number of cases of one test function; 0 for all.
        self.most = int(os.environ.get("PEER_MOST") or 0)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep at most ``PEER_MOST`` cases of each function, evenly over its parameters."""
        if not self.most:
            return
        functions: dict[str, list[Any]] = {}
        for item in items:
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
        items[:] = [each for cases in functions.values() for each in spread(cases, self.most)]

    def pytest_collectreport(self, report: Any) -> None:
        """Keep the last line of a file that cannot be imported."""
        if report.failed:
            self.problem = f": {str(report.longrepr).strip().splitlines()[-1]}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        """Time the test. Its assertions are pytest's, which are not counted: a test that launches is taken to compare."""
        self.cases.begin()
        try:
            return (yield)
        finally:
            self.cases.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        """Write the line of a test: of its call, and of a fixture that raises."""
        report = yield
        given = getattr(item, "callspec", None)
        arguments = words((), given.params) if given else ""
        if report.when == "call" and not report.skipped:
            self.cases.compared = True
            error = call.excinfo.value if call.excinfo else None
            if report.failed and not isinstance(error, (Exception, SystemExit, TimeUp)):
                error = AssertionError(str(error or report.longrepr))
            self.cases.end(item.name, arguments, error)
        elif report.failed:
            outcome, why = kind_of(call.excinfo.value)
            self.cases.write(case=item.name, outcome=outcome, why=why, checks=0, arguments=arguments)
        return report


def main() -> None:
    """Run the file as a program."""
    results, seconds, file, *rest = sys.argv[1:]
    from aiter_prebuilt_emulator import native

    cases = Cases(Path(results), float(seconds), native)

    def up(*_: Any) -> None:
        raise TimeUp(f"longer than {seconds} s")

    signal.signal(signal.SIGALRM, up)
    prepare(Path(file))
    import aiter_prebuilt_bridge_hook

    aiter_prebuilt_bridge_hook.install()
    try:
        if not os.environ.get("PEER_PROJECT"):
            instead_of_the_timer(importlib.import_module("aiter.test_common"), cases)
        watch_torch(cases)
        watch_errors(cases)
        if rest[:1] == ["pytest"]:
            plugin = Pytest(cases)
            exit_code = pytest.main([file, "-q", "-p", "no:cacheprovider", *rest[1:]], plugins=[plugin])
            known = exit_code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
            why = "" if known else f"pytest ended with {pytest.ExitCode(exit_code).name}{plugin.problem}"
            cases.write(case="", outcome="ended" if known else "other", why=why)
            return
        sys.argv = [file, *rest]
        module: Any = ModuleType("__main__")
        module.__file__ = file
        sys.modules["__main__"] = module
        vars(module).update({CASE: cases.case, COMPARE: cases.compare})
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

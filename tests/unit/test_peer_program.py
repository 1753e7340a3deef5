"""What the program that runs one of AITER's tests counts as a case, and what it makes of each."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import peer_names  # noqa: E402
import peer_program  # noqa: E402

from aiter_prebuilt.errors import UnsupportedError  # noqa: E402


class Device:
    """Counts launches as the embedded device does."""

    def __init__(self) -> None:
        self.launches = 0

    def reset_counters(self) -> None:
        self.launches = 0

    def counters(self) -> dict[str, Any]:
        return {"kernels": [{"launches": self.launches}]}


def each(*calls: Callable[[], object]) -> Callable[[], None]:
    """A function that makes calls in their order."""

    def case() -> None:
        for call in calls:
            call()

    return case


class File:
    """One test file under the program."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.device = Device()
        self.cases = peer_program.Cases(results, 60.0, self.device)
        self.compare = self.cases.check(lambda a, b, **_: abs(a - b), 0.05)

    def launch(self) -> None:
        self.device.launches += 1

    def run(self, function: Callable[[], Any], *given: str) -> tuple[str, str]:
        """The outcome of a case, and its reason."""
        self.cases.case("test_x", *given)(function)()
        line = json.loads(self.results.read_text(encoding="utf-8").splitlines()[-1])
        return line["outcome"], line["why"]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    found = File(tmp_path / "cases.jsonl")
    yield found
    found.cases.file.close()


def test_right_case_launches_and_then_compares(file: File) -> None:
    assert file.run(each(file.launch, lambda: file.compare(1.0, 1.01))) == ("right", "")


def test_case_outside_of_the_tolerance_fails(file: File) -> None:
    assert file.run(each(file.launch, lambda: file.compare(1.0, 1.5)))[0] == "failed"
    assert file.run(each(file.launch, lambda: file.compare(1.0, float("nan"))))[0] == "failed"
    assert file.run(each(file.launch, lambda: file.compare(1.0, 1.5, tol_err_ratio=0.6)))[0] == "right"


def test_case_without_a_launch_is_not_right(file: File) -> None:
    assert file.run(lambda: file.compare(1.0, 1.0))[0] == "no kernel"


def test_case_without_a_comparison_is_not_right(file: File) -> None:
    assert file.run(file.launch)[0] == "no comparison"


def test_assertion_before_the_first_launch_is_no_comparison(file: File) -> None:
    assert file.run(each(file.cases.compare, file.launch))[0] == "no comparison"
    assert file.run(each(file.launch, file.cases.compare))[0] == "right"


def test_comparison_that_is_only_printed_counts(file: File) -> None:
    same = file.cases.watch("torch.allclose", lambda a, b: bool(a == b))
    assert file.run(each(file.launch, lambda: same(1, 1)))[0] == "right"
    assert file.run(each(file.launch, lambda: same(1, 2))) == ("failed", "torch.allclose: False")


def test_verdict_in_the_returned_row_counts(file: File) -> None:
    def case(**row: object) -> Callable[[], object]:
        def returned() -> object:
            file.launch()
            return row

        return returned

    assert file.run(case(all_close=True, us=1.0))[0] == "right"
    assert file.run(case(all_close=False)) == ("failed", "all_close: False")
    assert file.run(case(match=False), "match")[0] == "no comparison"
    assert file.run(case(residual=False))[0] == "no comparison"


def test_returned_bool_is_the_verdict_of_a_case(file: File) -> None:
    def case(verdict: bool) -> Callable[[], bool]:
        def run() -> bool:
            file.launch()
            return verdict

        return run

    assert file.run(case(True)) == ("right", "")
    assert file.run(case(False)) == ("failed", "returns False")


def test_error_of_ours_that_the_test_catches_is_a_refusal(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiter_prebuilt.errors.AiterPrebuiltError.__new__", staticmethod(Exception.__new__))

    def case() -> None:
        try:
            raise UnsupportedError("f(x=1)", "no prebuilt kernel covers it", "use x=0")
        except RuntimeError:
            pass
        except Exception:  # noqa: BLE001 - as a test of AITER's does
            pass

    peer_program.watch_errors(file.cases)
    outcome, why = file.run(case)
    assert outcome == "refused" and "f(x=1)" in why


def test_what_a_case_that_raised_returns_compares_equal_to_nothing(file: File) -> None:
    def case() -> None:
        raise ValueError("no")

    gone = file.cases.case("test_x")(case)()
    assert not gone["err"] <= 1.0 and not gone["err"] > 1.0


def test_comparison_outside_of_functions_is_a_case(file: File) -> None:
    file.compare(1.0, 1.0)
    file.launch()
    file.compare(1.0, 1.0)
    file.launch()
    file.compare(1.0, 2.0)
    outcomes = [json.loads(line)["outcome"] for line in file.results.read_text(encoding="utf-8").splitlines()]
    assert outcomes == ["no kernel", "right", "failed"]


def checkout(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        place = folder / "aiter" / (name.replace("_dot_", "/") + ".py")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


def test_name_that_no_source_spells_is_missing(tmp_path: Path) -> None:
    tree = checkout(
        tmp_path,
        __init__="import importlib\nfrom .ops import norm\nfrom .ops.norm import *\n",
        ops_dot___init__="",
        ops_dot_norm="# def commented(): ...\ndef defined(): ...\nfor name in ['quoted']:\n    globals()[name] = 1\n",
        late="import aiter\naiter.attached = 1\n",
        sub="",
    )
    for present in ("defined", "quoted", "attached", "sub", "norm", "importlib"):
        assert not peer_names.missing(tree, "aiter", present), present
    assert peer_names.missing(tree, "aiter", "commented")
    assert not peer_names.missing(tree, "aiter.nothing", "commented")


def test_name_may_come_from_a_module_that_cannot_be_read(tmp_path: Path) -> None:
    tree = checkout(tmp_path, __init__="try:\n    from aiter_ import *\nexcept ImportError:\n    pass\n")
    assert not peer_names.missing(tree, "aiter", "anything")


def test_only_a_name_that_the_checkout_lacks_is_its_own_error(
    file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITER_DIR", str(checkout(tmp_path, __init__="def there(): ...\n")))
    aiter: Any = ModuleType("aiter")
    assert file.run(lambda: (aiter.nowhere(),))[0] == "own error"
    assert file.run(lambda: (aiter.there(),))[0] == "other"
    ours: Any = ModuleType("aiter_prebuilt")
    assert file.run(lambda: (ours.nowhere(),))[0] == "other"
    assert file.run(lambda: (file.nowhere(),))[0] == "other"  # type: ignore[attr-defined]


SOURCE = """
import pytest

@pytest.fixture
def test_data(): ...

@perftest()
def run_kernel(x): ...

@pytest.mark.parametrize("m", [1])
@benchmark()
def test_norm(m, *, fast=False):
    assert m > 0, "m"

def test_all():
    for m in (1, 2):
        test_norm(m)

def helper(): ...
"""


def test_further_functions_are_cases_where_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def check_rows(k): ...\ndef check_support(): ..."
    assert peer_program.CASE not in ast.unparse(peer_program.decorated(source))
    monkeypatch.setattr(peer_program, "PREFIXES", (*peer_program.PREFIXES, "check_rows"))
    marked = ast.unparse(peer_program.decorated(source))
    assert marked.count(peer_program.CASE) == 1 and f"{peer_program.CASE}('check_rows', 'k')" in marked


def test_cases_are_the_functions_that_a_file_calls_as_tests() -> None:
    tree = peer_program.decorated(SOURCE)
    found = {
        each.name: ast.unparse(each.decorator_list[0])
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and each.decorator_list
    }
    cases = {name: mark for name, mark in found.items() if mark.startswith(peer_program.CASE)}
    assert cases == {"test_norm": f"{peer_program.CASE}('test_norm', 'm', 'fast')"}
    assert f"{peer_program.COMPARE}()\n    assert m > 0, 'm'" in ast.unparse(tree)


PYTEST_FILE = """
import pytest

@pytest.fixture
def broken():
    raise ValueError("fixture")

@pytest.mark.parametrize("m", [1, 2])
def test_right(m): assert m

def test_wrong(): assert False
def test_said(): pytest.fail("as it says")
def test_skipped(): pytest.skip("not here")
@pytest.mark.skip
def test_marked(): assert False
@pytest.mark.xfail
def test_known(): assert False
def test_fixture(broken): ...
"""
RUN = """
import sys
sys.path[:0] = [{ci!r}, {here!r}]
import pytest, peer_program, test_peer_program
from pathlib import Path
device = test_peer_program.Device()
device.reset_counters = lambda: setattr(device, "launches", 1)
plugin = peer_program.Pytest(peer_program.Cases(Path(sys.argv[1]), 60.0, device))
pytest.main([sys.argv[2], "-q", "-p", "no:cacheprovider"], plugins=[plugin])
print("problem" + plugin.problem)
"""


def pytest_run(folder: Path, text: str) -> tuple[list[tuple[str, str]], str]:
    (folder / "test_file.py").write_text(text, encoding="utf-8")
    program = RUN.format(ci=str(ROOT / "ci"), here=str(Path(__file__).parent))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program, "cases.jsonl", "test_file.py"],
        cwd=folder, capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    rows = (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [(line["case"], line["outcome"]) for line in map(json.loads, rows)], done.stdout


def test_each_test_of_pytest_is_a_case_and_a_skipped_one_is_none(tmp_path: Path) -> None:
    found, _ = pytest_run(tmp_path, PYTEST_FILE)
    assert found == [
        ("test_right[1]", "right"),
        ("test_right[2]", "right"),
        ("test_wrong", "failed"),
        ("test_said", "failed"),
        ("test_fixture", "other"),
    ]


def test_file_that_pytest_cannot_import_says_why(tmp_path: Path) -> None:
    found, output = pytest_run(tmp_path, "import no_such_module")
    assert found == [] and "problem: " in output and "no_such_module" in output.splitlines()[-1]

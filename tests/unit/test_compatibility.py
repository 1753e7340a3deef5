"""With what this was run: what tests write down of themselves, how runs are joined, and the page that is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from support import ran

from build_tools.__main__ import cli
from build_tools.errors import ReleaseError
from build_tools.release import compatibility
from build_tools.verbs import options

ROOT = Path(__file__).resolve().parents[2]


def run(what: str = "tests/unit", versions: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "what": what, "with": {"python": "3.12.1", "torch": "2.13.0"} if versions is None else versions, "device": "",
        "passed": 5, "failed": 0, "skipped": 0, "files": 2, "of": 2, "commit": "c" * 40, "date": "2026-11-26", **more,
    }  # fmt: skip


def file(path: Path, *runs: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"edition": compatibility.EDITION, "runs": list(runs)}))
    return path


def test_the_page_is_what_the_data_say() -> None:
    runs = compatibility.read(ROOT / compatibility.DATA)
    assert runs and (ROOT / compatibility.PAGE).read_text() == compatibility.render(runs), (
        "python -m build_tools release compatibility FILE"
    )
    assert runs == compatibility.joined(runs, []), "sorted, each once"
    assert "may have been run" in compatibility.render(runs), (
        "not all that was run wrote of itself: README names more"
    )


def test_a_row_tells_all() -> None:
    told = run(
        device="embedded | device", failed=1, skipped=2, files=1, of=3, commit="a" * 40 + "-dirty",
        versions={"python": "3.12.1", "vllm": "0.33.0", "triton": "3.9.0"},
    )  # fmt: skip
    line = compatibility.render([told]).splitlines()[-1]
    assert line == (
        "| tests/unit | 3.12.1 |  | embedded \\| device |  | 0.33.0 |  | triton 3.9.0 "
        "| 5 passed, 1 FAILED, 2 skipped (of 1 of 3 files) | `aaaaaaaaaaaa-dirty`, 2026-11-26 |"
    )
    head = compatibility.render([told]).splitlines()[-3]
    assert head.count("|") == line.replace("\\|", "").count("|")


def test_a_later_run_takes_the_place_of_the_same_and_a_part_never_that_of_a_whole() -> None:
    newer, part, other = run(passed=7), run(passed=1, files=1), run(versions={"python": "3.13.0"})
    assert compatibility.joined([run()], [newer]) == [newer]
    assert compatibility.joined([run()], [part]) == [run()]
    assert compatibility.joined([part], [run()]) == [run()]
    assert compatibility.joined([run()], [run(failed=3)]) == [run(failed=3)], "what fails now is told"
    assert len(compatibility.joined([run()], [other, run(device="a card"), run("tests/gpu")])) == 4


@pytest.mark.parametrize(
    "broken",
    [
        {"passed": -1}, {"passed": "5"}, {"passed": 0}, {"more": 1}, {"with": {"python": 3}}, {"with": []},
    ],
)  # fmt: skip
def test_what_is_no_run_is_refused(broken: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="read the runs in"):
        compatibility.read(file(tmp_path / "ran.json", run(**broken)))


def test_what_is_no_file_of_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ran.json"
    assert compatibility.read(path) == []
    for text in ("{", "[]", '{"edition": 2, "runs": []}', '{"edition": 1}'):
        path.write_text(text)
        with pytest.raises(ReleaseError, match="AITER_PREBUILT_RAN=FILE"):
            compatibility.read(path)


def test_the_verb_joins_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(options, "ROOT", tmp_path)
    first, second = (
        file(tmp_path / "1.json", run()),
        file(tmp_path / "2.json", run("tests/gpu", device="a card")),
    )
    done = CliRunner().invoke(cli, ["release", "compatibility", str(first)], catch_exceptions=False)
    assert done.output.split() == ["docs/compatibility.json", "docs/compatibility.md"]
    CliRunner().invoke(cli, ["release", "compatibility", str(second)], catch_exceptions=False)
    shown = CliRunner().invoke(cli, ["release", "compatibility", "--json"]).output
    schema = Path(compatibility.__file__).with_name("schemas") / "compatibility.json"
    jsonschema.validate(json.loads(shown), json.loads(schema.read_text()))
    assert [each["what"] for each in json.loads(shown)["runs"]] == ["tests/gpu", "tests/unit"]
    page = (tmp_path / compatibility.PAGE).read_text()
    assert page == CliRunner().invoke(cli, ["release", "compatibility"]).output and "| tests/gpu |" in page


class Report:
    """Of a part of a test, as pytest tells it."""

    def __init__(self, nodeid: str, when: str, outcome: str) -> None:
        self.nodeid, self.when, self.outcome = nodeid, when, outcome
        self.failed, self.skipped = outcome == "failed", outcome == "skipped"


def test_a_run_writes_what_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = ran.Ran(tmp_path / "build" / "ran.json")
    parts = [
        ("tests/unit/test_site.py::one", "setup", "passed"), ("tests/unit/test_site.py::one", "call", "passed"),
        ("tests/unit/test_site.py::one", "teardown", "passed"), ("tests/unit/test_site.py::two", "call", "passed"),
        ("tests/unit/test_site.py::two", "teardown", "failed"), ("tests/unit/test_site.py::three", "setup", "skipped"),
        ("tests/unit/test_torch_compile.py::one", "call", "passed"), ("tests/unit/test_torch_library.py::one", "call", "passed"),
        ("tests/emulator/test_vllm.py::one", "setup", "skipped"), ("tests/emulator/test_sglang.py::one", "call", "failed"),
    ]  # fmt: skip
    for part in parts:
        plugin.pytest_runtest_logreport(Report(*part))  # type: ignore[arg-type]
    plugin.pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)
    assert not plugin.file.exists()
    plugin.pytest_sessionfinish(pytest.ExitCode.TESTS_FAILED)
    runs = {each["what"]: each for each in compatibility.read(plugin.file)}
    assert set(runs) == {
        "tests/unit",
        "torch.library and torch.compile",
        "wrappers of SGLang on stock AITER through the bridge",
    }
    unit = runs["tests/unit"]
    assert [unit[name] for name in ("passed", "failed", "skipped", "files")] == [1, 1, 1, 1] and unit[
        "of"
    ] > 100
    torch = runs["torch.library and torch.compile"]
    assert (torch["files"], torch["of"], torch["passed"]) == (2, 2, 2)
    served = runs["wrappers of SGLang on stock AITER through the bridge"]
    assert (served["of"], served["failed"], served["device"]) == (1, 1, ran.EMBEDDED)
    assert {"python", "sglang", "aiter"} <= set(served["with"]) and "vllm" not in served["with"]


def test_every_group_is_of_files_that_are_there() -> None:
    for group in ran.GROUPS:
        place = ROOT / group.path
        assert place.is_dir() or list(place.parent.glob(f"{place.name}*")), group.path

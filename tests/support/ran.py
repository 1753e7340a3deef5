"""Record a test run with its versions.

`python -m build_tools release compatibility` joins the files.

AITER_PREBUILT_RAN names the file. The controller of several processes sees the reports of all.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
VARIABLE: Final = "AITER_PREBUILT_RAN"
_SERVED: Final = ("aiter", "torch", "triton")
_SGLANG: Final = ("sglang", *_SERVED)
#: What a GPU's driver is where the emulator stands in for it.
EMBEDDED: Final = "none: the emulator"


#: Stands for the cards of the machine that runs the tests.
CARDS: Final = "cards"


class Group(NamedTuple):
    """Files that are told of as one: those whose path begins so. ``packages``: what they are run with."""

    path: str
    what: str
    packages: tuple[str, ...]
    device: str = ""


#: The first that fits; any other file is of its folder.
GROUPS: Final = (
    Group("tests/emulator/test_vllm.py", "wrappers of vLLM on stock AITER through the bridge", ("vllm", *_SERVED), EMBEDDED),
    Group("tests/emulator/test_sglang.py", "wrappers of SGLang on stock AITER through the bridge", _SGLANG, EMBEDDED),
    Group("tests/emulator/test_bridge", "stock AITER through the bridge", ("aiter", "torch", "triton", "flydsl"), EMBEDDED),
    Group("tests/emulator/test_clients.py", "other HIP programs on the emulator", ("triton", "hip-python"), EMBEDDED),
    Group("tests/unit/test_torch", "torch.library and torch.compile", ("torch",)),
    Group("tests/emulator/", "tests/emulator", ("torch",), EMBEDDED),
    Group("tests/promises/", "tests/promises", ("torch",), EMBEDDED),
    Group("tests/native/", "tests/native", ("torch",), "none: a stub of the driver"),
    Group("tests/gpu/", "tests/gpu", ("torch", "triton"), CARDS),
)  # fmt: skip


def group_of(path: str) -> Group:
    """Return the group of a test file.

    ``path`` is below the repository.
    """
    folder = "/".join(path.split("/")[:2])
    return next((each for each in GROUPS if path.startswith(each.path)), Group(folder + "/", folder, ()))


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """List the versions of Python and of installed packages among ``names``."""
    found = {"python": platform.python_version()}
    for name in names:
        version = _version(name)
        if version:
            found[name] = version
    return found


def _version(name: str) -> str:
    if name == "aiter":
        from build_tools.tools import pins

        return "a checkout" if os.environ.get("AITER_DIR") else pins.load(ROOT).trees["aiter"].version
    if name in ("vllm", "sglang"):
        if str(ROOT / "ci") not in sys.path:
            sys.path.append(str(ROOT / "ci"))
        from client_names import CLIENTS

        return CLIENTS[name]
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def cards() -> str:
    """The cards of this machine, with the versions of their drivers."""
    from aiter_prebuilt.devices import device

    drivers = [device.probe(vendor) for vendor in device.VENDORS]
    return "; ".join(
        dict.fromkeys(
            f"{card.name}, driver {driver.version}" for driver in drivers for card in driver.devices
        )
    )


class Ran:
    """A plugin of pytest that counts by group."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.outcomes: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test is what its worst part was: skipped before it began, failed in any part, or passed."""
        path = report.nodeid.partition("::")[0]
        mine = self.outcomes.setdefault(path, {})
        told = report.failed or report.skipped or report.when == "call"
        if told and mine.get(report.nodeid) != "failed":
            mine[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, but of a run that was broken off: what it had not reached is not known."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        from build_tools.release.compatibility import EDITION
        from build_tools.release.provenance import commit_of

        commit, date = commit_of(ROOT), dt.datetime.now(dt.timezone.utc).date().isoformat()
        runs = [{**run, "commit": commit, "date": date} for run in self.runs()]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({"edition": EDITION, "runs": runs}, indent=1) + "\n")

    def runs(self) -> list[dict[str, Any]]:
        """A run a group of which a test ran."""
        files: dict[Group, list[str]] = {}
        for path in self.outcomes:
            files.setdefault(group_of(path), []).append(path)
        return [run for group, mine in files.items() if (run := self._run(group, mine)) is not None]

    def _run(self, group: Group, mine: list[str]) -> dict[str, Any] | None:
        outcomes = [outcome for path in mine for outcome in self.outcomes[path].values()]
        ran = [path for path in mine if {"passed", "failed"} & set(self.outcomes[path].values())]
        if not ran:
            return None
        beside = (ROOT / group.path.rpartition("/")[0]).glob("**/test_*.py")
        every = [path for path in beside if group_of(path.relative_to(ROOT).as_posix()) == group]
        return {
            "what": group.what, "with": versions(group.packages), "device": cards() if group.device == CARDS else group.device,
            **{name: outcomes.count(name) for name in ("passed", "failed", "skipped")},
            "files": len(ran), "of": len(every),
        }  # fmt: skip

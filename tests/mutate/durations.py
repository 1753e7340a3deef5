"""A plugin of pytest: how long each test took, and which failed, as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_SECONDS: dict[str, float] = {}
_FAILED: dict[str, None] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Add up setup, call and teardown."""
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _FAILED[report.nodeid] = None


def pytest_sessionfinish(session: Any) -> None:
    """Write what was seen; of several processes the first one hears all reports."""
    if hasattr(session.config, "workerinput"):
        return
    Path(os.environ["MUTATE_DURATIONS"]).write_text(
        json.dumps({"seconds": _SECONDS, "failed": list(_FAILED)})
    )

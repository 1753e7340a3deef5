"""How many cores a process may use, on systems that say so and on those that do not."""

from __future__ import annotations

import os

import pytest

from build_tools.files.cores import cores


def test_how_many_cores_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda process: {0, 1, 2} if process == 0 else {5}, raising=False
    )
    assert cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for known, expected in ((5, 5), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda known=known: known)
        assert cores() == expected

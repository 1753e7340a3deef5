"""A fork waits for imports of other threads, and not for ever."""

from __future__ import annotations

import threading
import time

import pytest

from aiter_prebuilt import forks


def other(importing: forks.Importing, until: threading.Event) -> threading.Thread:
    """A thread that is inside an import until then."""
    inside = threading.Event()

    def work() -> None:
        with importing:
            inside.set()
            until.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(20)
    return thread


def test_a_fork_waits_until_the_other_thread_is_out() -> None:
    importing, until = forks.Importing(), threading.Event()
    thread = other(importing, until)
    threading.Timer(0.1, until.set).start()
    importing.before()
    assert until.is_set(), "it waited"
    thread.join()
    entered = threading.Event()

    def late() -> None:
        with importing:
            entered.set()

    begun = threading.Thread(target=late)
    begun.start()
    assert not entered.wait(0.05), "nobody begins an import while it forks"
    importing.after_in_parent()
    assert entered.wait(20)
    begun.join()


def test_a_fork_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other thread imports may wait for this one. The child is told, and the parent may import."""
    monkeypatch.setattr(forks, "PATIENCE", 0.05)
    importing, until = forks.Importing(), threading.Event()
    thread = other(importing, until)
    start = time.monotonic()
    importing.before()
    assert 0.04 < time.monotonic() - start < 10 and not until.is_set()
    importing.after_in_parent()
    with importing:
        until.set()
    thread.join()

"""Paths for tests that run from the repository: the sources of both halves. `tests/dist` does not use them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT, ROOT / "src", ROOT / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts its background jobs so, and children inherit it: what Ctrl-C does could not be seen.
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: Where the processes of a run keep what one of them made for all (support/proof.py).
SHARED = "AITER_PREBUILT_TEST_SHARED"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--record-seconds`` writes what each file took of a core, and shows the dearest (support/seconds.py)."""
    parser.addoption("--record-seconds", action="store_true", help="renew tests/data/seconds.json")


def pytest_configure(config: pytest.Config) -> None:
    """One seed and one folder for all processes of this run, which inherit them; what was run is told where that is wanted."""
    if not hasattr(config, "workerinput") and os.environ.get("AITER_PREBUILT_RAN"):
        from support.ran import Ran

        config.pluginmanager.register(Ran(Path(os.environ["AITER_PREBUILT_RAN"])))
    if config.getoption("--record-seconds"):
        from support import seconds

        config.pluginmanager.register(seconds.Cores())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(seconds.Seconds(seconds.FILE))
    if not hasattr(config, "workerinput") and SHARED not in os.environ:
        os.environ.setdefault("AITER_PREBUILT_TEST_SEED", str(random.randrange(1 << 31)))
        os.environ[SHARED] = tempfile.mkdtemp(prefix="apb-calls-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(SHARED), ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What has to do with the embedded device comes last: a process has one HIP library, and beside a real one the
    runtime rightly refuses a stub driver.
    """
    last = ("promises", "emulator")
    items.sort(
        key=lambda item: (
            last.index(name) if (name := item.path.relative_to(ROOT / "tests").parts[0]) in last else -1
        )
    )

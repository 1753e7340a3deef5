"""How many cores there are for this process: as many children work at once."""

from __future__ import annotations

import os


def cores() -> int:
    """Those that this process may use, where the system says; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

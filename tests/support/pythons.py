"""Interpreters of other versions that are on this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys


def other_pythons(oldest: int = 10) -> list[str]:
    """List those on PATH that start, from Python 3.``oldest`` on."""
    names = (f"python3.{minor}" for minor in range(oldest, 16) if minor != sys.version_info.minor)
    found = filter(None, map(shutil.which, names))
    return [
        name
        for name in found
        if subprocess.run([name, "-c", ""], capture_output=True, check=False).returncode == 0
    ]

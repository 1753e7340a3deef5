"""Try what the runtime wheel does alone, without a bundle or a GPU: cibuildwheel runs it where the wheel is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Load the extension, and ask ``doctor``, which must say what is missing and what to type.

    Raises:
        SystemExit: it does not.
    """
    from aiter_prebuilt import _native

    command = str(Path(sys.executable).with_name("aiter-prebuilt"))
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    asked = subprocess.run([command, "doctor", "--json"], capture_output=True, text=True, check=False)
    told = json.loads(asked.stdout)
    problems = " ".join(told["problems"])
    if asked.returncode != 1 or "bundle" not in problems or "pip install" not in problems:
        sys.exit(
            f"doctor ended with {asked.returncode} and told {problems!r}, not that no bundle is installed"
        )
    sys.stdout.write(f"{version.strip()}: {_native.__file__} loads, and doctor asks for a bundle\n")


if __name__ == "__main__":
    main()

"""Check the source of a release, ``URL@REF``, and print it in https. It needs Python alone: ci/provider.sh asks it first."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_tools.errors import SigningError
from build_tools.release.source import parse


def main(words: list[str]) -> int:
    """Print it; 2 where its form is wrong."""
    try:
        sys.stdout.write(f"{parse(words[0]).text}\n")
    except SigningError as error:
        sys.stderr.write(f"error: ci/provider.sh: SOURCE: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

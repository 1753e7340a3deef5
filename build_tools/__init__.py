"""The pipeline: manifests in, wheels out. ``python -m build_tools VERB``; never installed with the runtime."""

import sys
from pathlib import Path

# The pipeline runs from a checkout, where the contract that it shares with the runtime lies in src/. The checkout's own
# contract must win over an installed one: the two could be of different versions.
_SOURCES = str(Path(__file__).resolve().parent.parent / "src")
if _SOURCES not in sys.path:
    sys.path.insert(0, _SOURCES)

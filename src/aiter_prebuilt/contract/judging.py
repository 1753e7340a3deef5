"""What executes a call and decides whether it was right, by content.

A receipt is worth as much as what judged: when one of these files changes, what was right before has to be executed again. The
executor says which it is made of, so that an older one on another machine proves nothing for this tree.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

#: Below the package: what moves numbers to and from a device, names what was chosen, runs a call and compares.
FILES: Final = (
    "contract/judging.py", "device_memory.py", "execute/array.py", "execute/judge.py", "execute/layout.py",
    "execute/recipes.py", "execute/record.py", "execute/run.py", "execute/values.py",
)  # fmt: skip
#: Hexadecimal digits: enough to tell the states of one program apart.
_DIGITS: Final = 16


def judging(package: Path) -> str:
    """The digest of those files below ``package``, the folder ``aiter_prebuilt``.

    Raises:
        OSError: one is not there.
    """
    state = hashlib.sha256()
    for name in FILES:
        state.update(f"{name} {hashlib.sha256((package / name).read_bytes()).hexdigest()}\n".encode())
    return state.hexdigest()[:_DIGITS]

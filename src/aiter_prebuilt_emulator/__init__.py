"""The emulator: a ``libamdhip64`` that executes gfx942 and gfx950 code objects on the processor.

Importing this package loads nothing. :func:`library` names the file for any program that opens HIP by path
(``AITER_PREBUILT_HIP``, ``TRITON_LIBHIP_PATH``), :mod:`aiter_prebuilt_emulator.native` opens it here,
:mod:`aiter_prebuilt_emulator.memory` makes tensors on it without torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["LIBRARY", "VERSION", "library"]

VERSION: Final = "0.1.0"
LIBRARY: Final = Path(__file__).resolve().parent / "lib" / "libamdhip64.so"


def library() -> str:
    """Return the path of ``libamdhip64.so`` of this package.

    Raises:
        FileNotFoundError: the package lies in a checkout whose library was not built.
    """
    if not LIBRARY.is_file():
        raise FileNotFoundError(
            f"{LIBRARY} is not there: this is a checkout; run python -m build_tools emulator"
        )
    return str(LIBRARY)

"""The finder that waits for ``import aiter``. Each start of Python in this environment runs :func:`install` (a ``.pth`` file): it
imports nothing that the interpreter has not, and each import of anything else costs it a comparison. One file beside the package,
since a second one is a tenth of a millisecond of every start.
"""

import os
import sys

TYPE_CHECKING = False  # as typing has it, without importing it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

#: ``0``: AITER is left alone. ``strict``: a compile of AITER's JIT is an error that names the operator. Else: it is logged.
VARIABLE = "AITER_PREBUILT_BRIDGE"
#: Modules that are AITER's, or that AITER finds through folders of its own on the path.
_PREFIXES = ("aiter.", "module_aiter_")
_NAMES = (
    "aiter",
    "chip_info",
    "cpp_extension",
    "torch_guard",
    "csrc.cpp_itfs.utils",
    "csrc.cpp_itfs.torch_utils",
)


class Finder:
    """Hands AITER's modules to :mod:`aiter_prebuilt_bridge.loader`; all others are somebody else's."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """As the import system asks."""
        if name in _NAMES or name.startswith(_PREFIXES):
            from aiter_prebuilt_bridge.loader import spec_of

            return spec_of(self, name, path, target)
        return None


def installed() -> bool:
    """Is the finder on the path?"""
    return any(type(each) is Finder for each in sys.meta_path)


def install() -> bool:
    """Put the finder first on the path, unless the variable says 0; is it there now?"""
    if os.environ.get(VARIABLE) == "0":
        return False
    if not installed():
        finder: object = Finder()
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]  # a finder needs no base class
    return True

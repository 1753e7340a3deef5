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
_PREFIXES = ("aiter.", "module_aiter_", "csrc.cpp_itfs.")
_NAMES = ("aiter", "chip_info", "cpp_extension", "torch_guard")
#: Modules of FlyDSL's, which AITER has kernels in: looked at where AITER is.
_FLYDSL = ("flydsl.compiler.jit_function", "flydsl.runtime.device")


#: Why AITER is left alone in this process, once that was said.
_LEFT: "list[str]" = []


class Finder:
    """Hands AITER's modules to :mod:`aiter_prebuilt_bridge.loader`; all others are somebody else's."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Find the spec of a module, as the import system asks.

        Raises:
            ImportError: the bridge is strict, and the runtime is missing or of another version.
        """
        mine = name in _NAMES or name.startswith(_PREFIXES) or (name in _FLYDSL and "aiter" in sys.modules)
        if mine and ready():
            from aiter_prebuilt_bridge.loader import spec_of

            return spec_of(self, name, path, target)
        return None


def ready() -> bool:
    """Can the bridge serve AITER? If its runtime is missing AITER is left alone, which is logged once.

    Raises:
        ImportError: the bridge is strict, and the runtime is missing or of another version.
    """
    if _LEFT:
        return False
    try:
        import aiter_prebuilt_bridge.loader  # noqa: F401  # with all that it needs
    except ImportError as error:
        why = f"the bridge cannot load its runtime ({error}). {_mend()}"
        if os.environ.get(VARIABLE) == "strict":
            raise ImportError(f"Cannot import aiter: {why}") from error
        _LEFT.append(why)
        import logging

        logging.getLogger("aiter_prebuilt_bridge").warning("aiter: it is left as it is, because %s", why)
        return False
    return True


def _mend() -> str:
    from importlib import metadata

    try:
        version = f"=={metadata.version('aiter-prebuilt-bridge')}"
    except metadata.PackageNotFoundError:
        version = ""
    return f"Type: pip install aiter-prebuilt{version}, or pip uninstall aiter-prebuilt-bridge"


def is_finder(each: object) -> bool:
    """Is ``each`` a finder of the bridge? Also one of this module's earlier or other copies (a reload, a purge)."""
    kind = type(each)
    return kind.__module__ == __name__ and kind.__qualname__ == Finder.__qualname__


def installed() -> bool:
    """Is the finder on the path?"""
    return any(is_finder(each) for each in sys.meta_path)


def install() -> bool:
    """Put the finder first on the path, unless the variable says 0; is it there now?"""
    if os.environ.get(VARIABLE) == "0":
        return False
    if not installed():
        finder: object = Finder()
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]  # a finder needs no base class
    return True

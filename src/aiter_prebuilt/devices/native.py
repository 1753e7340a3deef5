"""The native extension: found, checked against this package's contract numbers, imported once."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from aiter_prebuilt.contract.version import BUNDLE_FORMAT, NATIVE_ABI, RECIPE
from aiter_prebuilt.errors import NativeError
from aiter_prebuilt.forks import importing

#: In a checkout, which pip has not installed, the extension is compiled beside the sources.
_DEVELOP = "This is a checkout. Run: python -m build_tools develop"


def _remedy() -> str:
    """Return the command that repairs this installation."""
    root = Path(__file__).resolve().parents[3]
    if (root / "build_tools" / "verbs" / "develop.py").is_file():
        return _DEVELOP
    from aiter_prebuilt.bundles.extras import pip_line  # late: only an error needs it

    return f"Run: {pip_line(reinstall=True)}"


def module() -> ModuleType:
    """``aiter_prebuilt._native``.

    Raises:
        NativeError: it is missing, cannot be loaded, or was built for other contract numbers.
        ForkError: this process was forked in the middle of another thread's import.
    """
    try:
        with importing:
            from aiter_prebuilt import _native
    except ImportError as error:
        raise NativeError(
            "load the native extension aiter_prebuilt._native", str(error), _remedy()
        ) from error
    built = _native.contract()
    wanted = (BUNDLE_FORMAT, RECIPE, NATIVE_ABI)
    if built != wanted:
        raise NativeError(
            "load the native extension aiter_prebuilt._native",
            f"it has the contract numbers {built} (bundle format, recipe, ABI), this package has {wanted}",
            _remedy(),
        )
    return _native

"""Own bundles: kernels of a user's own tree beside the product's. One that cannot be used is refused alone, by name."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.version import SUFFIX, TREE_MARK

#: Names of trees whose bundles are left out, separated by commas.
WITHOUT: Final = "AITER_PREBUILT_WITHOUT"


#: Where the header's own hash is, which covers all of the bundle.
_DIGEST: Final = slice(96, 128)
#: Characters of a reason.
_MOST: Final = 2000


class OwnBundleWarning(UserWarning):
    """An own bundle is not used. The text says which, why, and what to type."""


class Refusal:
    """An own bundle that is not used; ``operator`` is empty where it is the whole bundle."""

    # No dataclass: each import of the package pays for what this module makes.
    __slots__ = ("operator", "path", "reason", "tree")

    def __init__(self, path: str, tree: str, operator: str, reason: str) -> None:
        self.path, self.tree, self.operator, self.reason = path, tree, operator, reason

    @property
    def facts(self) -> dict[str, str]:
        """The refusal as plain data."""
        return {"path": self.path, "tree": self.tree, "operator": self.operator, "reason": self.reason}

    @property
    def text(self) -> str:
        """The refusal as a sentence with the reason behind it."""
        what = f"the operator {self.operator} of " if self.operator else ""
        return f"{what}the own bundle {self.path} is not used: {self.reason}"


_refused: dict[tuple[str, str], Refusal] = {}


def tree_of(name: str) -> str:
    """Return the tree that a bundle's file name or path names; "" for a bundle of the product.

    Args:
        name: such as ``gfx942-ck-free.acme.apb``.
    """
    return Path(name).name.removesuffix(SUFFIX).partition(TREE_MARK)[2]


def is_own(name: str) -> bool:
    """Return whether a bundle's file name or path is one of an own bundle, be the tree's name empty (``gfx942-ck-free..apb``)."""
    return TREE_MARK in Path(name).name.removesuffix(SUFFIX)


def refuse(path: str, reason: object, operator: str = "") -> Refusal:
    """Note that an own bundle is not used, and warn once for each bundle and operator.

    Args:
        path: the bundle's file.
        reason: an error or a text.
        operator: the operator to which it adds nothing; all when empty.
    """
    found = Refusal(path, tree_of(path), operator, str(reason))
    known = _refused.setdefault((path, operator), found)
    if known is found:
        text = f"aiter-prebuilt: {found.text}"
        try:
            warnings.warn(text, OwnBundleWarning, stacklevel=2)
        except OwnBundleWarning:  # warnings are errors here: the product serves on all the same
            sys.stderr.write(f"{text}\n")
    return known


@contextmanager
def quiet() -> Iterator[None]:
    """Refuse without warnings: what follows prints :func:`refusals` itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OwnBundleWarning)
        yield


def refuse_operator(path: str, operator: str, error: Exception) -> None:
    """Note that an own bundle adds nothing to an operator. The native side calls it."""
    refuse(path, error, operator)


def _mark_of(header: bytes) -> Path:
    """Return the file that says that a bundle was refused for its golden calls."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (
        (Path(cache) if cache else Path.home() / ".cache")
        / "aiter-prebuilt"
        / "refused"
        / header[_DIGEST].hex()
    )


def marked(header: bytes) -> str:
    """Return what was wrong with the golden calls of the bundle with this header; "" when nothing was."""
    try:
        with _mark_of(header).open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except (OSError, RuntimeError):  # no file, or no home
        return ""


def mark(header: bytes, problem: str) -> None:
    """Note what is wrong with the golden calls of a bundle, for all processes of this user; "" forgets it.

    Where nothing can be written, nothing is noted.
    """
    with suppress(OSError, RuntimeError):
        path = _mark_of(header)
        if problem:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(problem[:_MOST], encoding="utf-8")
        else:
            path.unlink(missing_ok=True)


def refusals() -> tuple[Refusal, ...]:
    """Return the own bundles that this process refused, in that order."""
    return tuple(_refused.values())

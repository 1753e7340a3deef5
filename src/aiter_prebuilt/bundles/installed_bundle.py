"""A bundle that is installed, as its file's name says it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from aiter_prebuilt.bundles.extras import extra_of
from aiter_prebuilt.contract.version import CALLS_SUFFIX, SUFFIX, TREE_MARK


@dataclass(frozen=True, slots=True)
class InstalledBundle:
    """A bundle file, or a link to one; target and profile as its own name says, checked against its content when opened.

    The profile of an own bundle has the tree's name behind it: ``ck-free.acme``.
    """

    path: str
    target: str
    profile: str

    @property
    def tree(self) -> str:
        """The name of the tree of an own bundle; "" for one of the product."""
        return self.profile.partition(TREE_MARK)[2]

    @property
    def extra(self) -> str:
        """The pip extra that installs it: ``gfx950``, ``gfx950-ck``."""
        return extra_of(self.target, self.profile)

    @property
    def calls(self) -> str:
        """The file of its golden calls, which its wheel puts beside it (``execute/golden.py``): beside a link, or else beside
        what it leads to.
        """
        beside = self.path.removesuffix(SUFFIX) + CALLS_SUFFIX
        if os.path.lexists(beside) or not Path(self.path).is_symlink():
            return beside
        return os.path.realpath(self.path).removesuffix(SUFFIX) + CALLS_SUFFIX

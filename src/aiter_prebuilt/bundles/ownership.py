"""Find users besides the owner who may change a bundle.

Kernels of a bundle run with the rights of its user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """A way in which others can change a bundle, with its remedy. ``anybody``: every user of the machine can."""

    text: str
    anybody: bool


def findings(path: str) -> tuple[Finding, ...]:
    """List ways in which others can change a bundle, with remedies.

    It looks at the file, its folder, and the folders that a link to it leads to. The group root counts as root: container images
    give it write access (``chgrp 0; chmod g=u``), because their processes run under any user of that group.
    """
    named, real = Path(path), Path(path).resolve()
    places = dict.fromkeys((real, real.parent, named.parent))
    return tuple(finding for place in places for finding in _of(place))


def _of(place: Path) -> Iterator[Finding]:
    try:
        facts = place.stat()
    except OSError as error:
        yield Finding(f"cannot find out who may write {place}: {error.strerror}", anybody=False)
        return
    what = "the folder" if stat.S_ISDIR(facts.st_mode) else "the bundle"
    mode = stat.S_IMODE(facts.st_mode)
    who = [word for word, bit in (("its group", stat.S_IWGRP), ("everybody", stat.S_IWOTH)) if mode & bit]
    if who == ["its group"] and (facts.st_gid == 0 or _private(facts)):
        who = []
    if who:
        letters = "go" if len(who) == 2 else "g" if mode & stat.S_IWGRP else "o"
        text = f"{what} {place} may be written by {' and '.join(who)} (mode {mode:o}). Run: chmod {letters}-w {place}"
        yield Finding(text, anybody=bool(mode & stat.S_IWOTH))
    if facts.st_uid not in (0, os.geteuid()):
        owner = _user(facts.st_uid)
        text = f"{what} {place} may be written by its owner {owner}, neither root nor you. Run: sudo chown root {place}"
        yield Finding(text, anybody=False)


def _user(number: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def _private(facts: os.stat_result) -> bool:
    """Is its group nobody's but its owner's? Many systems give each user one, and make new files writable for it."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(facts.st_uid), grp.getgrgid(facts.st_gid)
    except KeyError:
        return False
    own = facts.st_gid != 0 and group.gr_gid == owner.pw_gid and group.gr_name == owner.pw_name
    return own and set(group.gr_mem) <= {owner.pw_name}

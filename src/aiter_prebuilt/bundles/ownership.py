"""Find users besides the owner who may change a bundle.

Kernels of a bundle run with the rights of its user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def problems(path: str) -> tuple[str, ...]:
    """List ways in which others can change a bundle, with remedies.

    It looks at the file, its folder, and the folders that a link to it leads to.
    """
    named, real = Path(path), Path(path).resolve()
    places = dict.fromkeys((real, real.parent, named.parent))
    return tuple(problem for place in places for problem in _of(place))


def _of(place: Path) -> Iterator[str]:
    try:
        facts = place.stat()
    except OSError as error:
        yield f"who may change {place} cannot be found out: {error.strerror}"
        return
    what = "the folder" if stat.S_ISDIR(facts.st_mode) else "the bundle"
    mode = stat.S_IMODE(facts.st_mode)
    who = [word for word, bit in (("its group", stat.S_IWGRP), ("everybody", stat.S_IWOTH)) if mode & bit]
    if who == ["its group"] and _private(facts):
        who = []
    if who:
        letters = "go" if len(who) == 2 else "g" if mode & stat.S_IWGRP else "o"
        yield f"{what} {place} may be written by {' and '.join(who)} (mode {mode:o}): run: chmod {letters}-w {place}"
    if facts.st_uid not in (0, os.geteuid()):
        owner = _user(facts.st_uid)
        yield f"{what} {place} belongs to {owner}, neither root nor you, who may write it: run: sudo chown root {place}"


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

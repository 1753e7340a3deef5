"""The pip extra that installs a bundle, and the line to type: every message about a bundle that is missing has it from here."""

from __future__ import annotations

from typing import Final

#: The pip extras of bundles by their targets, as ``pyproject.toml`` has them.
EXTRAS: Final = ("gfx942", "gfx950", "sm90")


def extra_of(target: str, profile: str = "ck-free") -> str:
    """The pip extra of a target's bundle of this profile."""
    return target.partition(":")[0].replace("_", "") + ("-ck" if profile == "ck-full" else "")


def pip_line(*extras: str, upgrade: bool = False) -> str:
    """What installs the bundles of these extras beside this runtime, in one line: every message about one that is missing has it
    from here.
    """
    return f"pip install {'--upgrade ' if upgrade else ''}'aiter-prebuilt[{','.join(extras)}]'"


def nothing_installed() -> str:
    """What to type where nothing says which bundle would serve."""
    return f"{pip_line('gfx942')} or {pip_line('gfx950').removeprefix('pip install ')}"


def to_install(target: str) -> str:
    """What to type for a target that no installed bundle serves."""
    extra = extra_of(target)
    if extra in EXTRAS:
        return f"run: {pip_line(extra)}"
    return f"no wheel serves {target}: there are wheels for {', '.join(EXTRAS)}"

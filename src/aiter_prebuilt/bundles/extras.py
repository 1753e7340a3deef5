"""The pip extra that installs a bundle, and the line to type: every message about a bundle that is missing has it from here."""

from __future__ import annotations

from typing import Final

from aiter_prebuilt.contract import products
from aiter_prebuilt.contract.targets import TARGETS

#: The pip extras of bundles by their targets, as ``pyproject.toml`` has them.
EXTRAS: Final = tuple(facts.extra for facts in TARGETS.values())


def extra_of(target: str, profile: str = "ck-free") -> str:
    """Return the pip extra of a target's bundle of this profile."""
    return target.partition(":")[0].replace("_", "") + ("-ck" if profile == "ck-full" else "")


def pip_line(*extras: str, upgrade: bool = False, reinstall: bool = False, version: str = "") -> str:
    """Return the command that installs the package with these extras, from where this installation came, by what installed it.

    Every message about a missing or damaged wheel has the command from here.

    Args:
        *extras: extras of the package; none names the runtime alone.
        upgrade: take the newest version.
        reinstall: write files again that are there.
        version: of the package; any when empty.
    """
    wanted = (
        f"aiter-prebuilt{'[' + ','.join(extras) + ']' if extras else ''}{'==' + version if version else ''}"
    )
    from shlex import quote  # late: each import of the package reads this file

    from aiter_prebuilt.bundles.wheel_source import installation

    program, again, options = installation()
    flags = f"{'--upgrade ' if upgrade else ''}{again + ' ' if reinstall else ''}"
    return f"{program} {options}{flags}{quote(wanted)}"


def emulated(words: str) -> str:
    """Return the command that runs ``words`` on the emulator. Where that is not installed, what installs it stands first."""
    from importlib.util import find_spec  # late, as above

    command = f"aiter-prebuilt-emulator run -- {words}"
    return command if find_spec("aiter_prebuilt_emulator") else f"{pip_line('emulator')} && {command}"


def nothing_installed() -> str:
    """Return the pip commands to suggest when the target is unknown."""
    first, *others = (facts.extra for facts in TARGETS.values() if facts.vendor == "amd")
    return " or ".join([pip_line(first), *(pip_line(extra).rpartition(" ")[2] for extra in others)])


def to_install(target: str) -> str:
    """Return the remedy for a target that no installed bundle serves."""
    extra = extra_of(target)
    if extra in EXTRAS:
        return f"run: {pip_line(extra)}"
    return f"{products.unsupported(target)}. {products.supported()}"

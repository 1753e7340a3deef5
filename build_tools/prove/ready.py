"""What a proof needs: the bundles of a target as the sources are now, the embedded device, the native extension beside ``src``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.bundle import SUFFIX, FormatError
from build_tools.errors import NotReadyError
from build_tools.manifest.model import Manifest
from build_tools.objects.entries import BuiltEntry, entries_of, tools_of
from build_tools.objects.unpack import open_bundle
from build_tools.pack import notes
from build_tools.pack.emulator_wheel import LIBRARY
from build_tools.pack.runtime_wheel import EXTENSION

_BUILD: Final = "Run python -m build_tools build, and then this command again"
_DEVELOP: Final = "Run python -m build_tools develop, and then this command again"


@dataclass(frozen=True, slots=True)
class Built:
    """The bundles of one target. ``bundles``: profile -> file, a profile after the one that it adds to; ``tools``: SHA-256 of each
    code object -> what compiled it.
    """

    target: str
    bundles: Mapping[str, Path]
    entries: tuple[BuiltEntry, ...]
    tools: Mapping[str, Mapping[str, str]]

    def serving(self, profile: str) -> tuple[Path, ...]:
        """The files that are installed together for ``profile``."""
        names = list(self.bundles)
        return tuple(self.bundles[name] for name in names[: names.index(profile) + 1])


def profiles_of(manifest: Manifest, target: str) -> list[str]:
    """The profiles with a bundle for ``target``, each after the one that it includes."""
    mine = [name for name, profile in manifest.profiles.items() if target in profile.targets]
    return sorted(mine, key=lambda name: manifest.profiles[name].includes is not None)


def open_target(manifest: Manifest, root: Path, folder: Path, target: str) -> Built:
    """The bundles of ``target``.

    Raises:
        NotReadyError: one is missing, damaged, or older than its sources.
    """
    bundles: dict[str, Path] = {}
    entries: list[BuiltEntry] = []
    tools: dict[str, Mapping[str, str]] = {}
    for profile in profiles_of(manifest, target):
        path = folder / f"{target}-{profile}{SUFFIX}"
        asked = f"prove what was built for {target}"
        try:
            bundle = open_bundle(path)
            mine = entries_of(bundle)
        except FileNotFoundError:
            raise NotReadyError(asked, f"there is no {path.name} in {folder}", _BUILD) from None
        except (OSError, FormatError) as error:
            raise NotReadyError(asked, f"{path.name}: {error}", _BUILD) from error
        if reason := notes.stale(root, path, but=notes.proofs(root)):
            raise NotReadyError(asked, f"{path.name}: {reason}", _BUILD)
        bundles[profile] = path
        entries += mine
        tools |= dict.fromkeys((entry.sha256 for entry in mine), tools_of(bundle))
    return Built(target, bundles, tuple(entries), tools)


def native_parts(root: Path) -> Path:
    """The embedded device's library below ``root``, when the native extension is there, too.

    Raises:
        NotReadyError: one of them is not beside its package in ``src``.
    """
    missing = [name for name in (EXTENSION, LIBRARY) if not (root / "src" / name).is_file()]
    if missing:
        raise NotReadyError(
            "execute kernels on the embedded device", f"src/{', src/'.join(missing)} is not there", _DEVELOP
        )
    return root / "src" / LIBRARY

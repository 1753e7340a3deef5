"""Find the installed bundles. Reads folder listings and file names; opens nothing until a bundle is asked for.

A bundle wheel puts ``aiter_prebuilt_bundles/<target>-<profile>.apb`` beside this package, and the wheel of a user's tree
``<target>-<profile>.<tree>.apb``: an own bundle. ``AITER_PREBUILT_BUNDLES`` (folders or files, separated like ``PATH``) replaces
that search, for air-gapped layouts and tests. An own bundle that cannot be used is refused alone (:mod:`.own_bundles`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiter_prebuilt.bundles import own_bundles
from aiter_prebuilt.bundles.extras import to_install
from aiter_prebuilt.bundles.files import is_folder, not_a_file
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.version import SUFFIX, TREE_MARK
from aiter_prebuilt.errors import (
    BundleConflictError,
    BundleDamagedError,
    BundleTargetError,
    NoBundleError,
)

VARIABLE: Final = "AITER_PREBUILT_BUNDLES"
FOLDER: Final = "aiter_prebuilt_bundles"
_PROFILES: Final = ("ck-free", "ck-full")


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A bundle that is not used: ``by`` is for the same target and profile, and comes first on ``sys.path``."""

    bundle: InstalledBundle
    by: InstalledBundle


def installed(
    environment: str | None = None, folders: Sequence[str] | None = None
) -> tuple[InstalledBundle, ...]:
    """All bundles, by target and profile. Of two on ``sys.path`` the first is used, as of two modules. Own bundles of trees that
    ``AITER_PREBUILT_WITHOUT`` names are left out.

    Raises:
        BundleConflictError: two files that ``AITER_PREBUILT_BUNDLES`` names are for the same target and profile.
        BundleTargetError: a file's name is not ``<target>-<profile>.apb``.
        BundleDamagedError: what has such a name is no file, or a link to none.
        NoBundleError: a folder or file of the setting is not there, or a folder cannot be listed.
    """
    used, _ = _search(environment, folders)
    return used


def shadowed(environment: str | None = None, folders: Sequence[str] | None = None) -> tuple[Shadowed, ...]:
    """Bundles on ``sys.path`` that an earlier one of the same target and profile hides. Raises what :func:`installed` does."""
    _, hidden = _search(environment, folders)
    return hidden


def _search(
    environment: str | None, folders: Sequence[str] | None
) -> tuple[tuple[InstalledBundle, ...], tuple[Shadowed, ...]]:
    setting = os.environ.get(VARIABLE, "") if environment is None else environment
    files = _from_setting(setting) if setting else _from_folders(sys.path if folders is None else folders)
    found: dict[tuple[str, str], InstalledBundle] = {}
    hidden: list[Shadowed] = []
    for bundle in _all_named(files):
        known = found.setdefault((bundle.target, bundle.profile), bundle)
        if known is bundle:
            continue
        if setting and bundle.tree:
            own_bundles.refuse(bundle.path, f"{known.path} is of the same tree, target and profile")
        elif setting:
            raise BundleConflictError(
                f"find the bundle of {bundle.target} ({bundle.profile})",
                f"two files claim it: {known.path} and {bundle.path}",
                f"name one of them in {VARIABLE}",
            )
        else:
            hidden.append(Shadowed(bundle, known))
    return tuple(found[key] for key in sorted(found)), tuple(hidden)


def _from_setting(setting: str) -> list[Path]:
    found: list[Path] = []
    for part in filter(None, setting.split(os.pathsep)):
        if not os.path.lexists(part):
            raise NoBundleError(
                f"find bundles in {VARIABLE}={setting}",
                f"{part} does not exist",
                f"correct {VARIABLE} or unset it",
            )
        named = part.endswith(SUFFIX) or not is_folder(Path(part))
        found += [Path(part)] if named else _listed(Path(part))
    return _once(found)


def _from_folders(folders: Sequence[str]) -> list[Path]:
    # As Python finds modules: the order of sys.path. The runtime's own folder comes last, where it is not on it.
    places = [*(Path(folder or ".") for folder in folders), Path(__file__).resolve().parents[2]]
    present = (place / FOLDER for place in places if is_folder(place / FOLDER))
    return _once([file for folder in present for file in _listed(folder)])


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIX))
    except OSError as error:
        raise NoBundleError(
            f"find bundles in {folder}", f"it cannot be listed: {error.strerror}", f"run: chmod a+rx {folder}"
        ) from error


def _once(files: Sequence[Path]) -> list[Path]:
    """Absolute, each once: a folder is often there twice, by a link. A link to a bundle keeps its own name and place, because the
    name says what it is for; what it leads to may be called anything.
    """
    found: dict[tuple[str, str], Path] = {}
    for file in files:
        refused = not_a_file(file)
        if refused and own_bundles.is_own(file.name):
            own_bundles.refuse(str(file), refused)
            continue
        if refused:
            raise BundleDamagedError(
                f"use {file} as a bundle",
                refused,
                f"put the file of a bundle wheel there, or move it away: mv {file} {file}.away",
            )
        found.setdefault((file.name, os.path.realpath(file)), file.absolute())
    return list(found.values())


def _all_named(files: Sequence[Path]) -> Iterator[InstalledBundle]:
    """Read the names of files, without own bundles that are left out, or have no name that a build gives."""
    without = left_out()
    for file in files:
        tree = own_bundles.tree_of(file.name)
        if tree and tree in without:
            continue
        try:
            yield _named(file)
        except BundleTargetError as error:
            if not own_bundles.is_own(file.name):
                raise
            own_bundles.refuse(str(file), error)


def _named(path: Path) -> InstalledBundle:
    named, mark, tree = path.stem.partition(TREE_MARK)
    if mark and not tree:
        raise BundleTargetError(
            f"use {path} as a bundle",
            f"no name of a tree stands behind {named}{mark} in its name",
            "give the file the name that its wheel gave it",
        )
    for profile in _PROFILES:
        if named.endswith("-" + profile):
            return InstalledBundle(str(path), named[: -len(profile) - 1], profile + mark + tree)
    raise BundleTargetError(
        f"use {path} as a bundle",
        f"its name does not end in {' or '.join('-' + profile + SUFFIX for profile in _PROFILES)}",
        "give the file the name that its wheel gave it",
    )


def left_out() -> frozenset[str]:
    """Return the names of trees whose own bundles ``AITER_PREBUILT_WITHOUT`` leaves out."""
    return frozenset(filter(None, map(str.strip, os.environ.get(own_bundles.WITHOUT, "").split(","))))


def served_targets(bundles: Sequence[InstalledBundle]) -> frozenset[str]:
    """Return the targets that some bundles serve: that have the product's ck-free one, or an own one."""
    return frozenset(bundle.target for bundle in bundles if bundle.tree or bundle.profile == "ck-free")


def serves(bundle: str, arch: str) -> bool:
    """Do code objects built for ``bundle`` run on ``arch``, the driver's word? As the loader decides: the same processor, and
    every feature that they were built with is set so on the device. What names no feature was built for either setting.
    """
    processor, *features = bundle.split(":")
    found, *have = arch.split(":")
    return processor == found and set(features) <= set(have)


def for_target(target: str, bundles: Sequence[InstalledBundle], device: str) -> tuple[InstalledBundle, ...]:
    """Select the bundles that serve a target: those of the product, then own ones by tree.

    ``target`` may have features behind it (``gfx942:sramecc+:xnack-``); messages call the device ``device``.

    Raises:
        NoBundleError: none does; the text says what is installed and what to type.
    """
    found = (bundle for bundle in bundles if serves(bundle.target, target))
    serving = tuple(sorted(found, key=lambda bundle: bundle.tree))
    # Own bundles may be all that is here; what Composable Kernel adds to the product may not.
    if not any(bundle.tree or bundle.profile == "ck-free" for bundle in serving):
        have = ", ".join(sorted({f"{bundle.target} ({bundle.profile})" for bundle in bundles})) or "none"
        raise NoBundleError(
            f"serve {device}",
            f"no bundle for {target} is installed; installed: {have}",
            to_install(target),
        )
    return serving

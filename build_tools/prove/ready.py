"""Prepare a proof.

It needs a target's bundles as the sources are now, the emulator and the native extension in ``src``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.bundle import SUFFIX, Bundle, FormatError
from aiter_prebuilt.contract.judging import judging
from build_tools.cases.receipt_state import PACKAGE, State, meanings
from build_tools.errors import NotReadyError
from build_tools.judge.receipts import Provable
from build_tools.manifest.model import SAMPLE, TUNED, Manifest
from build_tools.manifest.tree import load_tree
from build_tools.objects.entries import BuiltEntry, entries_of, recipes_of, tools_of
from build_tools.objects.unpack import open_bundle
from build_tools.pack import notes
from build_tools.pack.emulator_wheel import LIBRARY
from build_tools.pack.runtime_wheel import EXTENSION
from build_tools.records import in_tree

_BUILD: Final = "Run python -m build_tools build, and then this command again"
_DEVELOP: Final = "Run python -m build_tools develop, and then this command again"


@dataclass(frozen=True, slots=True)
class Built:
    """The bundles of one target. ``bundles``: profile -> file, a profile after the one that it adds to; ``recipes``: by their
    digests; ``sets``: which sets of Composable Kernel's instances are in them, as their notes say; ``trees``: the source trees
    whose files are in them.
    """

    target: str
    bundles: Mapping[str, Path]
    entries: tuple[BuiltEntry, ...]
    recipes: Mapping[str, Provable]
    sets: frozenset[str] = frozenset()
    trees: frozenset[str] = frozenset()

    def serving(self, profile: str) -> tuple[Path, ...]:
        """Return the files that are installed together for ``profile``."""
        names = list(self.bundles)
        return tuple(self.bundles[name] for name in names[: names.index(profile) + 1])


def open_target(
    manifest: Manifest, root: Path, folders: Sequence[Path], target: str, operators: Collection[str]
) -> Built:
    """Open the bundles of ``target`` that are current.

    They are in the first of ``folders`` that has all of ``operators`` as they are now.

    Raises:
        NotReadyError: none has; the reason is the last one's.
    """
    *earlier, last = folders
    for folder in earlier:
        with suppress(NotReadyError):
            return _open(manifest, root, folder, target, operators)
    return _open(manifest, root, last, target, operators)


def _open(manifest: Manifest, root: Path, folder: Path, target: str, operators: Collection[str]) -> Built:
    bundles: dict[str, Path] = {}
    entries: list[BuiltEntry] = []
    opened: list[tuple[Path, Bundle]] = []
    sets: set[str] = set()
    trees: set[str] = set()
    asked, tree = f"prove what was built for {target}", load_tree(root)
    for profile, needed in _needed(manifest, target, operators, tree=tree is not None).items():
        path = folder / f"{target}-{tree.profile(profile) if tree else profile}{SUFFIX}"
        try:
            bundle = open_bundle(path)
            mine = entries_of(bundle)
        except FileNotFoundError:
            raise NotReadyError(asked, f"there is no {path.name} in {folder}", _BUILD) from None
        except (OSError, FormatError) as error:
            raise NotReadyError(asked, f"{path.name}: {error}", _BUILD) from error
        if reason := notes.stale(root, path, proofs=False):
            raise NotReadyError(asked, f"{path.name}: {reason}", _BUILD)
        told = notes.read(path)
        chosen = told.get("ck", TUNED)
        trees |= {name.partition(":")[0] for name in told.get("sources", ()) if in_tree(name)}
        # An instance of a sample may be another target's.
        elsewhere = _with_sets(manifest, profile) if chosen == SAMPLE else set()
        if missing := sorted(needed - elsewhere - set(bundle.names)):
            raise NotReadyError(asked, f"{path.name} has no {', '.join(missing)}", _BUILD)
        sets |= {chosen} if "ck" in manifest.profiles[profile].backends else set()
        bundles[profile] = path
        entries += mine
        opened.append((path, bundle))
    # Seconds of a core, for bundles that are current.
    states = meanings(root / "manifests")
    recipes: dict[str, Provable] = {}
    for path, bundle in opened:
        try:
            recipes |= provable(bundle, manifest, states)
        except (OSError, FormatError) as error:
            raise NotReadyError(asked, f"{path.name}: {error}", _BUILD) from error
    return Built(target, bundles, tuple(entries), recipes, frozenset(sets), frozenset(trees))


def _with_sets(manifest: Manifest, profile: str) -> set[str]:
    """Operators whose kernels of ``profile`` are all instances that sets choose."""
    own = {
        (operator.name, kernel.name)
        for family in manifest.families.values()
        for operator in family.operators
        for kernel in operator.kernels
        if kernel.profile == profile
    }
    always = {operator for operator, _ in own - manifest.of_sets()}
    return {operator for operator, _ in own} - always


def provable(bundle: Bundle, manifest: Manifest, meanings: Mapping[State, str]) -> dict[str, Provable]:
    """Return the recipes of a bundle by digest.

    ``meanings``: the state of all that is asked.

    Raises:
        FormatError: a block of the bundle is damaged.
    """
    families = {
        operator.name: family.family for family in manifest.families.values() for operator in family.operators
    }
    tools, judge = tools_of(bundle), judging(PACKAGE)
    return {
        digest: Provable(
            families[recipe.operator], f"{recipe.operator}.{recipe.kernel}", recipe.variant, bundle.root.target,
            recipe.code_objects,
            meanings.get((families[recipe.operator], recipe.operator, bundle.root.target), ""), judge, tools, recipe.open,
            recipe.ranged, recipe.sized, recipe.built,
        )
        for digest, recipe in recipes_of(bundle).items()
        if recipe.operator in families
    }  # fmt: skip


def _needed(
    manifest: Manifest, target: str, operators: Collection[str], *, tree: bool = False
) -> dict[str, set[str]]:
    """Profile -> those of ``operators`` that have kernels in it for ``target``; a profile after the one that it adds to.

    A ``tree`` has no bundle without kernels, and what it adds to is installed beside it.
    """
    found: dict[str, set[str]] = {}
    for name in sorted(manifest.profiles, key=lambda name: manifest.profiles[name].includes is not None):
        mine = {
            operator.name
            for family in manifest.families.values()
            for operator in family.operators
            if operator.name in operators
            and any(kernel.profile == name and target in kernel.targets for kernel in operator.kernels)
        }
        # Of the product nothing is served without what a profile adds to.
        if mine or (manifest.profiles[name].includes is None and not tree):
            found[name] = mine
    return found


def native_parts(root: Path) -> Path:
    """Find the emulator's library and the native extension.

    Both lie below ``root``.

    Raises:
        NotReadyError: one of them is not beside its package in ``src``.
    """
    missing = [name for name in (EXTENSION, LIBRARY) if not (root / "src" / name).is_file()]
    if missing:
        raise NotReadyError(
            "execute kernels on the emulator", f"src/{', src/'.join(missing)} is not there", _DEVELOP
        )
    return root / "src" / LIBRARY

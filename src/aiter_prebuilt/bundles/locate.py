"""Find the installed bundles. Reads folder listings and file names; opens nothing until a bundle is asked for.

A bundle wheel puts ``aiter_prebuilt_bundles/<target>-<profile>.apb`` beside this package. ``AITER_PREBUILT_BUNDLES``
(folders or files, separated like ``PATH``) replaces that search, for air-gapped layouts and tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiter_prebuilt.bundles.files import contents, is_folder, not_a_file
from aiter_prebuilt.contract.version import CALLS_SUFFIX, SUFFIX
from aiter_prebuilt.devices import native
from aiter_prebuilt.errors import (
    BundleConflictError,
    BundleDamagedError,
    BundleTargetError,
    BundleVersionError,
    NoBundleError,
)

if TYPE_CHECKING:
    from aiter_prebuilt._native import Bundle
    from aiter_prebuilt.contract.bundle import Bundle as FormatBundle

VARIABLE: Final = "AITER_PREBUILT_BUNDLES"
FOLDER: Final = "aiter_prebuilt_bundles"
#: Set: only signed bundles are opened (``trust.py``).
KEYS: Final = "AITER_PREBUILT_KEYS"
_PROFILES: Final = ("ck-free", "ck-full")


@dataclass(frozen=True, slots=True)
class InstalledBundle:
    """A bundle file, or a link to one; target and profile as its own name says, checked against its content when opened."""

    path: str
    target: str
    profile: str

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


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A bundle that is not used: ``by`` is for the same target and profile, and comes first on ``sys.path``."""

    bundle: InstalledBundle
    by: InstalledBundle


def installed(
    environment: str | None = None, folders: Sequence[str] | None = None
) -> tuple[InstalledBundle, ...]:
    """All bundles, by target and profile. Of two on ``sys.path`` the first is used, as of two modules.

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
    for file in files:
        bundle = _named(file)
        known = found.setdefault((bundle.target, bundle.profile), bundle)
        if known is bundle:
            continue
        if setting:
            raise BundleConflictError(
                f"find the bundle of {bundle.target} ({bundle.profile})",
                f"two files claim it: {known.path} and {bundle.path}",
                f"name one of them in {VARIABLE}",
            )
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
        if refused:
            raise BundleDamagedError(
                f"use {file} as a bundle",
                refused,
                f"put the file of a bundle wheel there, or move it away: mv {file} {file}.away",
            )
        found.setdefault((file.name, os.path.realpath(file)), file.absolute())
    return list(found.values())


def _named(path: Path) -> InstalledBundle:
    for profile in _PROFILES:
        if path.stem.endswith("-" + profile):
            return InstalledBundle(str(path), path.stem[: -len(profile) - 1], profile)
    raise BundleTargetError(
        f"use {path} as a bundle",
        f"its name does not end in {' or '.join('-' + profile + SUFFIX for profile in _PROFILES)}",
        "give the file the name that its wheel gave it",
    )


def read_bundle(bundle: InstalledBundle) -> FormatBundle:
    """Read a bundle's index with the Python reader, for listing and explaining. Operator blocks need the native extension
    to be decoded, when they are asked for.

    Raises:
        BundleDamagedError, BundleVersionError: the file is not a bundle that this runtime reads.
        KeyFileError, UnsignedError, WrongKeyError, SignatureError: keys are set, and none vouches for it.
    """
    # Not needed for a launch, and hashlib's OpenSSL alone is 4 MB of memory and 10 ms.
    from aiter_prebuilt.contract.bundle import Bundle as FormatBundle
    from aiter_prebuilt.contract.bundle import FormatError
    from aiter_prebuilt.contract.header import HEADER_SIZE

    try:
        data = contents(bundle.path)
        if KEYS in os.environ:
            _check_signer(bundle, data[:HEADER_SIZE])
        read = FormatBundle(data, decompress)
    except (OSError, FormatError) as error:
        raise damaged(bundle, error) from error
    _check_name(bundle, read.root.target, read.root.profile)
    return read


def decompress(frame: bytes, raw_size: int, dictionary: bytes | None) -> bytes:
    """The decoder of the Python reader: the extension's zstd."""
    decoded: bytes = native.module().zstd_decompress(frame, raw_size, dictionary)
    return decoded


def damaged(bundle: InstalledBundle, error: Exception) -> BundleDamagedError | BundleVersionError:
    """The error for a bundle that does not read, with the command that mends it."""
    from aiter_prebuilt.contract.header import VersionError

    if isinstance(error, VersionError):
        return BundleVersionError(f"read {bundle.path}", str(error), _match(bundle))
    return BundleDamagedError(f"read {bundle.path}", str(error), _mend(bundle))


def _mend(bundle: InstalledBundle) -> str:
    return f"run: pip install --force-reinstall 'aiter-prebuilt[{bundle.extra}]'"


def _match(bundle: InstalledBundle) -> str:
    return f"run: {pip_line(bundle.extra, upgrade=True)}, which installs a runtime and a bundle that match"


def open_bundle(bundle: InstalledBundle) -> Bundle:
    """Open the file and check its header and root, and with ``AITER_PREBUILT_KEYS`` set who signed it.

    Raises:
        BundleDamagedError, BundleVersionError: the file is not a bundle that this runtime reads.
        KeyFileError, UnsignedError, WrongKeyError, SignatureError: keys are set, and none vouches for it.
        BundleTargetError: its content is for another target or profile than its name says.
    """
    try:
        opened: Bundle = native.module().Bundle(bundle.path)
    except BundleDamagedError as error:
        # The native reader sees a file; which wheel owns it is known here.
        raise BundleDamagedError(error.asked, error.found, _mend(bundle)) from error
    except BundleVersionError as error:
        raise BundleVersionError(error.asked, error.found, _match(bundle)) from error
    if KEYS in os.environ:
        # What the reader itself read: the file may be another by now.
        _check_signer(bundle, opened.header)
    _check_name(bundle, opened.target, opened.profile)
    return opened


def _check_signer(bundle: InstalledBundle, header: bytes) -> None:
    from aiter_prebuilt.bundles import trust  # hashlib is for those who ask

    trust.check_header(bundle.path, header, trust.keys_from(os.environ[KEYS].split(os.pathsep)))


def _check_name(bundle: InstalledBundle, target: str, profile: str) -> None:
    if (target, profile) != (bundle.target, bundle.profile):
        raise BundleTargetError(
            f"open {bundle.path}",
            f"its content is for {target} ({profile}), its name says {bundle.target} ({bundle.profile})",
            _mend(bundle),
        )


def serves(bundle: str, arch: str) -> bool:
    """Do code objects built for ``bundle`` run on ``arch``, the driver's word? As the loader decides: the same processor, and
    every feature that they were built with is set so on the device. What names no feature was built for either setting.
    """
    processor, *features = bundle.split(":")
    found, *have = arch.split(":")
    return processor == found and set(features) <= set(have)


def for_target(target: str, bundles: Sequence[InstalledBundle], device: str) -> tuple[InstalledBundle, ...]:
    """Those of ``bundles`` that serve ``target``, which may have features behind it (``gfx942:sramecc+:xnack-``); ``device`` is
    how messages call it.

    Raises:
        NoBundleError: none does; the text says what is installed and what to type.
    """
    serving = tuple(bundle for bundle in bundles if serves(bundle.target, target))
    if not any(bundle.profile == "ck-free" for bundle in serving):
        have = ", ".join(sorted({f"{bundle.target} ({bundle.profile})" for bundle in bundles})) or "none"
        raise NoBundleError(
            f"serve {device}",
            f"its target is {target}; installed bundles: {have}",
            to_install(target),
        )
    return serving

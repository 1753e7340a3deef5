"""Open an installed bundle: check its bytes, its name, and with ``AITER_PREBUILT_KEYS`` set who signed it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

from aiter_prebuilt.bundles import own_bundles
from aiter_prebuilt.bundles.extras import pip_line
from aiter_prebuilt.bundles.files import contents
from aiter_prebuilt.bundles.installed_bundle import InstalledBundle
from aiter_prebuilt.contract.targets import TARGETS
from aiter_prebuilt.devices import native
from aiter_prebuilt.errors import (
    AiterPrebuiltError,
    BundleDamagedError,
    BundleTargetError,
    BundleVersionError,
    KeyFileError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aiter_prebuilt._native import Bundle
    from aiter_prebuilt.contract.bundle import Bundle as FormatBundle

T = TypeVar("T")
#: Set: only signed bundles are opened (``trust.py``).
KEYS: Final = "AITER_PREBUILT_KEYS"


def read_bundle(bundle: InstalledBundle) -> FormatBundle:
    """Read a bundle's index with the Python reader, for listing and explaining. Operator blocks need the native extension
    to be decoded, when they are asked for.

    Raises:
        BundleDamagedError, BundleVersionError: the file is not a bundle that this runtime reads.
        KeyFileError, UnsignedError, WrongKeyError, SignatureError: keys are set, and none vouches for it.
        OldBundleError: one does, for an older release.
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
    _check_version(bundle, read.root.version)
    _check_name(bundle, read.root.target, read.root.profile)
    return read


def decompress(frame: bytes, raw_size: int, dictionary: bytes | None) -> bytes:
    """Return the decoder of the Python reader.

    The extension's zstd.
    """
    decoded: bytes = native.module().zstd_decompress(frame, raw_size, dictionary)
    return decoded


def damaged(bundle: InstalledBundle, error: Exception) -> BundleDamagedError | BundleVersionError:
    """Build the error for a bundle that does not read.

    It has the command that mends it.
    """
    from aiter_prebuilt.contract.header import VersionError

    if isinstance(error, VersionError):
        return BundleVersionError(f"read {bundle.path}", str(error), _match(bundle))
    return BundleDamagedError(f"read {bundle.path}", str(error), _mend(bundle))


def usable(bundles: Iterable[InstalledBundle], use: Callable[[InstalledBundle], T]) -> tuple[T, ...]:
    """Return ``use`` of each bundle. An own bundle for which it raises is refused alone, and passed over.

    Raises:
        AiterPrebuiltError: what ``use`` raises for a bundle of the product. KeyFileError: the keys themselves cannot be read.
    """
    found = []
    for bundle in bundles:
        try:
            found.append(use(bundle))
        except KeyFileError:
            raise
        except AiterPrebuiltError as error:
            if not bundle.tree:
                raise
            own_bundles.refuse(bundle.path, error)
    return tuple(found)


def _mend(bundle: InstalledBundle) -> str:
    if bundle.tree:
        return f"Install {bundle.tree} again, or uninstall it"
    return f"Run: {pip_line(bundle.extra, reinstall=True)}"


def _match(bundle: InstalledBundle) -> str:
    if bundle.tree:
        return f"Build {bundle.tree} with the tools of this release and install it again, or uninstall it"
    return f"Install a runtime and a bundle that match: {pip_line(bundle.extra, upgrade=True)}"


def open_bundle(bundle: InstalledBundle, *, unmarked: bool = False) -> Bundle:
    """Open the file and check its header and root, and with ``AITER_PREBUILT_KEYS`` set who signed it.

    Args:
        bundle: its file.
        unmarked: open an own bundle, too, whose golden calls ``verify --execute`` found wrong.

    Raises:
        BundleDamagedError, BundleVersionError: the file is not a bundle that this runtime reads.
        KeyFileError, UnsignedError, WrongKeyError, SignatureError: keys are set, and none vouches for it.
        OldBundleError: one does, for an older release.
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
    _check_version(bundle, opened.version)
    _check_name(bundle, opened.target, opened.profile)
    problem = own_bundles.marked(opened.header) if bundle.tree and not unmarked else ""
    if problem:
        raise BundleDamagedError(
            f"open {bundle.path}",
            problem,
            f"Mend {bundle.tree} and install it again. To execute its golden calls again: aiter-prebuilt verify --execute",
        )
    facts = TARGETS.get(opened.target)
    if bundle.tree and facts is not None and facts.vendor != opened.vendor:
        raise BundleTargetError(
            f"open {bundle.path}", f"it says that {opened.target} is of {opened.vendor}", _mend(bundle)
        )
    return opened


def _check_signer(bundle: InstalledBundle, header: bytes) -> None:
    from aiter_prebuilt.bundles import trust  # hashlib is for those who ask

    keys = trust.keys_from(os.environ[KEYS].split(os.pathsep))
    trust.check_header(bundle.path, header, keys, own=bool(bundle.tree))


def _check_version(bundle: InstalledBundle, version: str) -> None:
    """Refuse a bundle of an older release where only signed ones are opened: see ``trust.py``."""
    if KEYS in os.environ and not bundle.tree:
        from aiter_prebuilt.bundles import trust

        trust.check_version(bundle.path, version)


def _check_name(bundle: InstalledBundle, target: str, profile: str) -> None:
    if (target, profile) != (bundle.target, bundle.profile):
        raise BundleTargetError(
            f"open {bundle.path}",
            f"its content is for {target} ({profile}), its name says {bundle.target} ({bundle.profile})",
            _mend(bundle),
        )

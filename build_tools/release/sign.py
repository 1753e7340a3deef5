"""Sign a folder of wheels: each bundle's header inside of its wheel, and the list of all files.

What is signed of a bundle is its header, whose hashes cover all else of it, so that a runtime can check it where it lies; of its
golden calls, which have no such header, their file. Wheels
are written again with the signatures in them; the same keys give the same bytes. Then the list, ``SHA256SUMS``, is written and
signed. The first key signs as ``NAME.minisig``, which minisign looks for; each further one as ``NAME.<its number>.minisig``:
while keys change, users trust the old or the new one.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile, ZipFile

from aiter_prebuilt.contract.bundle import SUFFIX
from aiter_prebuilt.contract.header import HEADER_SIZE, FormatError, check
from aiter_prebuilt.contract.signature import SUFFIX as SIGNATURE
from aiter_prebuilt.contract.signature import SUMS, is_version, name_of, order_of, release_of
from aiter_prebuilt.contract.version import CALLS_SUFFIX, VERSION
from build_tools.errors import SigningError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import epoch, write_atomic
from build_tools.pack.archive import write_members
from build_tools.release import built, contents, provenance, source

if TYPE_CHECKING:
    from minisign import PublicKey, SecretKey

_UNTRUSTED: Final = "signature of aiter-prebuilt; check it with: aiter-prebuilt verify --key FILE"


@dataclass(frozen=True, slots=True)
class Signer:
    """A secret key that can be used. ``number``: how its public key is called."""

    number: str
    key: SecretKey

    def sign(self, data: bytes, name: str, version: str = VERSION) -> bytes:
        """Sign ``data``, which was in the file ``name`` of release ``version``."""
        # A fixed time: the same keys give the same bytes. Readers compare the version, and not the time.
        comment = f"timestamp:{epoch()}\tfile:{name}\tversion:{version}"
        return bytes(self.key.sign(data, untrusted_comment=_UNTRUSTED, trusted_comment=comment)) + b"\n"


def new_key(folder: Path, name: str, password: str) -> tuple[Path, Path]:
    """Make a new pair of keys in ``folder``.

    The secret one, encrypted unless ``password`` is empty, and the public one.

    Raises:
        SigningError: one of the files is there already, or ``name`` is no name of a file in ``folder``.
    """
    from minisign import KeyPair

    if name in {"", ".", ".."} or Path(name).name != name:
        raise SigningError(
            f"make a key with --name {name!r}", "it is no name of a file", "Name a word: the folder is FOLDER"
        )
    secret, public = folder / f"{name}.key", folder / f"{name}.pub"
    pair = KeyPair.generate()
    if password:
        pair.secret_key.encrypt(password)
    pair.public_key.untrusted_comment = f"minisign public key {_number(pair.public_key)}"
    for path, data, mode in (
        (secret, bytes(pair.secret_key), 0o600),
        (public, bytes(pair.public_key), 0o644),
    ):
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            raise SigningError(f"make the key {path}", str(error), "Choose another name or folder") from error
        with os.fdopen(handle, "wb") as file:
            file.write(data + b"\n")
    return secret, public


def signers(stack: ExitStack, paths: Sequence[Path], password: str) -> list[Signer]:
    """Return the secret keys of these files.

    ``stack`` wipes them from memory.

    Raises:
        SigningError: a file is no secret key of minisign's, or the password is another.
    """
    from minisign import Error, SecretKey

    found = []
    for path in paths:
        try:
            contents.check_key_file(path)
            key = stack.enter_context(SecretKey.from_file(path))
            if key.is_encrypted():
                key.decrypt(password)
            number = _number(key.get_public_key())
        except (OSError, ValueError, Error) as error:
            raise SigningError(
                f"read the secret key {path}",
                str(error) or "it is none of minisign's",
                "Name a file that minisign -G or release keygen wrote, and its password in AITER_PREBUILT_KEY_PASSWORD",
            ) from error
        found.append(Signer(number, key))
    if len({each.number for each in found}) < len(found):
        raise SigningError("sign with several keys", "one of them is named twice", "Name each once")
    return found


def _number(key: PublicKey) -> str:
    """Write a key's eight bytes as minisign prints them."""
    return base64.b64decode(key.to_base64())[2:10][::-1].hex().upper()


def sign_folder(root: Path, folder: Path, keys: Sequence[Signer], made: provenance.Run) -> list[Path]:
    """Sign what is in ``folder``; the files that were written. What was signed before is signed anew.

    Raises:
        SigningError: there is no wheel, a secret key or what is no part of a release; or ``made`` has another commit's source.
        WheelError: a wheel is none. ManifestError: the checkout's pins cannot be read.
    """
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise SigningError(f"sign {folder}", "there is no wheel in it", "Run python -m build_tools wheels")
    contents.check(folder)
    taken, here, known = provenance.dependencies(root), provenance.commit_of(root), built.known(wheels)
    rows = {wheel.name: known.get(wheel.name, built.Built("", "")) for wheel in wheels}
    if made.repository is not None:
        source.refuse_other(root, made.repository, rows)
    written = [wheel for wheel in wheels if _sign_bundles(wheel, keys)]
    for path in folder.glob(f"*{provenance.SUFFIX}"):  # of a wheel that is gone, perhaps
        path.unlink()
    for wheel in wheels:
        path = wheel.with_name(wheel.name + provenance.SUFFIX)
        told = provenance.statement(wheel, rows[wheel.name], here, taken, made)
        write_atomic(path, provenance.text(told))
        written.append(path)
    return written + write_sums(folder, keys)


def write_sums(folder: Path, keys: Sequence[Signer]) -> list[Path]:
    """Write the list of all files in ``folder``, those of its folders too, and a signature of it with each key.

    Raises:
        SigningError: a secret key lies in it.
    """
    contents.refuse_secrets(folder)
    for path in folder.glob(f"{SUMS}*"):
        path.unlink()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    data = "".join(f"{sha256_file(folder / name)}  {name}\n" for name in names).encode()
    write_atomic(folder / SUMS, data)
    releases = [found for name in names if is_version(found := release_of(name))]
    version = max(releases, key=order_of, default=VERSION)
    return [folder / SUMS, *_signatures(folder / SUMS, data, keys, version)]


def _signatures(file: Path, data: bytes, keys: Sequence[Signer], version: str) -> list[Path]:
    written = []
    for name, signature in _named(file.name, data, keys, version).items():
        write_atomic(file.with_name(name), signature)
        written.append(file.with_name(name))
    return written


def _named(name: str, data: bytes, keys: Sequence[Signer], version: str) -> dict[str, bytes]:
    """Signature files by their names."""
    return {
        name_of(name, signer.number if place else ""): signer.sign(data, name, version)
        for place, signer in enumerate(keys)
    }


def _sign_bundles(wheel: Path, keys: Sequence[Signer]) -> bool:
    """Write a wheel again with signatures beside its bundles; False: it has none."""
    try:
        with ZipFile(wheel) as archive:
            members = {
                name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")
            }
    except (OSError, BadZipFile) as error:
        raise SigningError(
            f"sign {wheel}", f"it is no wheel: {error}", "Run python -m build_tools wheels"
        ) from error
    bundles = [name for name in members if name.endswith(SUFFIX)]
    if not bundles:
        return False
    kept = {name: data for name, data in members.items() if not name.endswith(SIGNATURE)}
    version = _version_of(wheel)
    for name in bundles:
        try:
            check(memoryview(members[name]))
        except FormatError as error:
            raise SigningError(
                f"sign {name} of {wheel.name}", str(error), "Run python -m build_tools wheels"
            ) from error
        kept |= _beside(name, members[name][:HEADER_SIZE], keys, version)
    for name in members:
        if name.endswith(CALLS_SUFFIX):
            kept |= _beside(name, members[name], keys, version)
    write_members(wheel, kept)
    return True


def _version_of(wheel: Path) -> str:
    """Return the version in a wheel's name. Not this checkout's: an older release that is signed again stays an older one."""
    parts = wheel.stem.split("-")
    if len(parts) not in (5, 6):  # PEP 427
        raise SigningError(
            f"sign {wheel}", "its name is not that of a wheel", "Name it as python -m build_tools wheels did"
        )
    return parts[1]


def _beside(name: str, data: bytes, keys: Sequence[Signer], version: str) -> dict[str, bytes]:
    """Signatures of the member ``name``, of which ``data`` is signed, as members."""
    place, _, file = name.rpartition("/")
    return {f"{place}/{signature}": signed for signature, signed in _named(file, data, keys, version).items()}

"""The trusted writers of a shared store, by their minisign keys.

A key signs each entry (``compile/shared.py``), as a key signs a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from build_tools.compile.place import place_at
from build_tools.compile.shared import Counts, SharedStore, damage
from build_tools.compile.store import Store
from build_tools.errors import SigningError, UsageError
from build_tools.release.sign import Signer


class Writers:
    """The trusted writers of a shared store.

    Called with the signed bytes and a signature, it tells whether one of them made it.
    """

    def __init__(self, paths: Sequence[Path], signers: Sequence[Signer] = ()) -> None:
        """``paths``: public keys. ``signers``: secret ones, whose own entries are believed, too.

        Raises:
            SigningError: a file is no public key of minisign's.
        """
        from minisign import Error, PublicKey

        keys = [signer.key.get_public_key() for signer in signers]
        for path in paths:
            try:
                keys.append(PublicKey.from_file(path))
            except (OSError, ValueError, Error) as error:
                raise SigningError(
                    f"read the public key {path}",
                    str(error) or "it is none of minisign's",
                    "Name a file that minisign -G or release keygen wrote",
                ) from error
        self._keys = keys

    def __call__(self, signed: bytes, signature: str) -> bool:
        """See the class.

        Raises:
            ValueError: a trusted key is named in the signature, but did not make it of these bytes; or it is no signature.
        """
        from minisign import Error, Signature, VerifyError

        try:
            found = Signature.from_bytes(signature.encode())
        except (ValueError, Error) as error:
            raise ValueError(f"what stands there as its signature is none: {error}") from error
        refused = False
        for key in self._keys:
            try:
                key.verify(signed, found)
            except VerifyError as error:
                # Said of a key of another name, which may be right about another writer.
                refused = refused or "identifiers" not in str(error)
            else:
                return True
        if refused:
            raise ValueError("it is not what its writer signed: the entry or its signature was changed")
        return False


class EntrySigner:
    """Signs what an entry says, as text."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def __call__(self, signed: bytes, name: str) -> str:
        """Return the signature file's text."""
        return self._signer.sign(signed, name).decode()


class Behind:
    """A shared store behind a build's own store.

    It is the store at ``url``, trusted as its writers are.
    """

    def __init__(
        self, url: str, trusted: Sequence[Path], signers: Sequence[Signer], *, farm: bool = False
    ) -> None:
        """Without ``trusted`` and ``signers`` all that lies there is believed, and nothing is written but by a ``farm``.

        Raises:
            SigningError: see :class:`Writers`. UsageError: no address, but keys. SharedStoreError: it is no such address.
        """
        if not url:
            raise UsageError(
                "trust or sign entries",
                "no store is named that others write, too",
                "Name one with --shared URL",
            )
        self._place = place_at(url, make=farm or bool(signers))
        self._verify = Writers(trusted, signers) if trusted or signers else None
        # Of several keys one signs: while keys change, readers trust the old and the new one.
        self._sign = EntrySigner(signers[0]) if signers else None
        self.counts = Counts()

    def __call__(self, local: Store) -> SharedStore:
        """``local`` before it."""
        return SharedStore(local, self._place, self._verify, self._sign, self.counts)

    def describe(self) -> str:
        """Describe a build's use of the shared store, for people."""
        counts = self.counts
        words = [f"{counts.taken} results taken"]
        if self._sign is not None:
            words.append(f"{counts.written} signed and written")
        if counts.strange:
            words.append(f"{counts.strange} of writers that --trust does not name were left there")
        how = (
            "" if self._verify is not None else " (unsigned: believed as far as you know who may write there)"
        )
        lines = [f"{self._place.name}: {', '.join(words)}{how}", damage(self._place.name, self.counts)]
        return "\n".join(line for line in lines if line)

"""Shared storage of a store: named bytes, written once.

Several machines share it.

A place is a folder (``file:///mnt/store``), the memory of this process (``memory:///``) or a bucket (``s3://bucket/folder``; what
it needs is in ``AWS_*``), through obstore, which nothing imports that asks for no such place.

    objects/<first two digits>/<sha256>     code objects, named by their own hash
    inputs/<first two digits>/<sha256>      sources that workers of a farm compile, named alike
    entries/<first two digits>/<key>.json   what the job of that key gave: see ``store.py``
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from build_tools.errors import SharedStoreError

SCHEMES: Final = ("file", "memory", "s3")


class Place(Protocol):
    """Shared storage of named bytes."""

    @property
    def name(self) -> str:
        """The name of the place, for people."""

    def read(self, name: str) -> bytes | None:
        """Read the bytes of ``name``; None when there are none.

        Raises:
            SharedStoreError: the place cannot be reached.
        """

    def create(self, name: str, data: bytes) -> bool:
        """Write ``name``, whole or not at all; False when it is there already, and stays what it is.

        Raises:
            SharedStoreError: the place cannot be reached, or may not be written.
        """


def object_name(digest: str) -> str:
    """Name the code object with a SHA-256."""
    return f"objects/{digest[:2]}/{digest}"


def input_name(digest: str) -> str:
    """Name the source with a SHA-256."""
    return f"inputs/{digest[:2]}/{digest}"


def entry_name(key: str) -> str:
    """Name the entry of a key."""
    return f"entries/{key[:2]}/{key}.json"


def checked(place: Place, name: str) -> bytes | None:
    """Read bytes and check them against their name.

    Its last part is their SHA-256; None when there are none, or others.
    """
    data = place.read(name)
    wanted = name.rpartition("/")[2]
    return data if data is not None and hashlib.sha256(data).hexdigest() == wanted else None


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A place that obstore reaches. ``folder``: where it lies on this machine; None for memory and buckets."""

    name: str
    store: Any
    folder: Path | None = None

    def read(self, name: str) -> bytes | None:
        """See :class:`Place`."""
        import obstore
        from obstore.exceptions import BaseError

        if self.folder is not None and (self.folder / name).exists() and not (self.folder / name).is_file():
            return None  # opening a named pipe waits for a writer who never comes
        try:
            return bytes(obstore.get(self.store, name).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._trouble(f"read {name}", error) from error

    def create(self, name: str, data: bytes) -> bool:
        """See :class:`Place`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            obstore.put(self.store, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._trouble(f"write {name}", error) from error
        return True

    def _trouble(self, asked: str, error: Exception) -> SharedStoreError:
        return SharedStoreError(
            f"{asked} in the shared store {self.name}",
            str(error).strip().partition("\n")[0],
            "See whether it can be reached and who may write it; a bucket's settings are in AWS_*",
        )


def place_at(url: str, *, make: bool = True) -> ObjectPlace:
    """Open the place of a URL.

    A folder that does not exist is made, unless ``make`` is false: a reader has misspelt its name.

    Raises:
        SharedStoreError: it is no such URL, or there is no such folder.
    """
    asked, fix = f"use the shared store {url}", f"Write one of {', '.join(f'{name}://' for name in SCHEMES)}"
    scheme, found, _ = url.partition("://")
    if not found or scheme not in SCHEMES:
        raise SharedStoreError(asked, "it is no such address", fix)
    folder = url.removeprefix("file://")
    if scheme == "file" and not folder.startswith("/"):
        raise SharedStoreError(
            asked, "its folder is not named from the root", "Write three slashes: file:///FOLDER"
        )
    if scheme == "file" and not make and not Path(folder).is_dir():
        raise SharedStoreError(
            asked, "there is no such folder, and this build only reads", "Name the one that others write"
        )
    from obstore.exceptions import BaseError
    from obstore.store import LocalStore, from_url

    try:
        # Without a percent sign's meaning in it: a folder's name is what it is.
        store = LocalStore(folder, mkdir=make) if scheme == "file" else from_url(url)
    except (BaseError, OSError, ValueError) as error:
        raise SharedStoreError(asked, str(error).strip().partition("\n")[0], fix) from error
    return ObjectPlace(url, store, Path(folder) if scheme == "file" else None)

"""A source tree of a few made-up files: a wheel with its RECORD, and a repository that pins it."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

NAME = "amd_thing-1.0-py3-none-any.whl"

PIN = """
edition = 1
[[trees]]
name = "thing"
distribution = "amd-thing"
version = "1.0"
gives = "a test"
file = "{file}"
sha256 = "{sha256}"
override = "THING_DIR"
[trees.roots]
hsa = "meta/hsa"
csrc = "meta/csrc"
configs = "thing/configs"
[trees.checkout]
hsa = "hsa"
csrc = "csrc"
configs = "thing/configs"
"""


def wheel(path: Path, files: Mapping[str, bytes], record: Mapping[str, bytes] | None = None) -> str:
    """Write a wheel of ``files``, whose RECORD is about ``record`` (the same files); its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, data in (record or files).items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(data)}")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(
            "amd_thing-1.0.dist-info/RECORD", "\n".join([*lines, "amd_thing-1.0.dist-info/RECORD,,"])
        )
    return hashlib.sha256(path.read_bytes()).hexdigest()


def repository(
    root: Path, shelf: Path, files: Mapping[str, bytes], record: Mapping[str, bytes] | None = None
) -> Path:
    """A repository at ``root`` that pins a wheel of ``files``, which lies in ``shelf`` (``AITER_PREBUILT_SDISTS``)."""
    digest = wheel(shelf / NAME, files, record)
    (root / "manifests").mkdir(parents=True, exist_ok=True)
    (root / "manifests/toolchains.toml").write_text(PIN.format(file=NAME, sha256=digest))
    return root

"""Write a wheel's provenance for machines.

An in-toto statement with SLSA's provenance, beside each wheel.

It says what the build knows: the commit (``built.py``), all that it may take from outside by the hashes that are pinned, and
the bills of materials inside of the wheel. Who ran the build is what its caller says (``--builder``): this program cannot know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from aiter_prebuilt.contract.version import VERSION
from build_tools.errors import WheelError
from build_tools.files.filehash import sha256_file
from build_tools.files.reproducible import timestamp
from build_tools.files.run import run
from build_tools.tools.pins import Pins

SUFFIX: Final = ".provenance.json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "https://pypi.org/project/aiter-prebuilt/#build-v1"
_BILL: Final = "/sboms/"


def commit_of(root: Path) -> str:
    """Return the commit of the checkout at ``root``.

    ``-dirty`` stands behind it where files are another's; "" where there is none.
    """
    head = run(["git", "-C", str(root), "rev-parse", "HEAD"], timeout=60)
    if not head.ok:
        return ""
    changed = run(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"], timeout=60)
    return head.output.strip() + ("-dirty" if changed.output.strip() else "")


def statement(wheel: Path, commit: str, signed_at: str, pinned: Pins, builder: str) -> dict[str, Any]:
    """Return the statement about one wheel.

    ``commit``: at which it was built, nothing where nobody noted it; ``signed_at``: of the checkout that signs it, which has the
    pins.

    Raises:
        WheelError: it is no wheel.
    """
    return {
        "_type": STATEMENT,
        "subject": [{"name": wheel.name, "digest": {"sha256": sha256_file(wheel)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "version": VERSION},
                "internalParameters": {"bills": _bills(wheel), "signed_at": signed_at},
                "resolvedDependencies": _dependencies(pinned),
            },
            "runDetails": {"builder": {"id": builder}, "metadata": {"finishedOn": timestamp()}},
        },
    }  # fmt: skip


def text(told: Mapping[str, Any]) -> bytes:
    """Return a statement as a file.

    The same for the same statement.
    """
    return (json.dumps(told, indent=1, sort_keys=True) + "\n").encode()


def _bills(wheel: Path) -> dict[str, str]:
    """Return a wheel's bills of materials with their SHA-256.

    They list its parts, file by file.
    """
    try:
        with ZipFile(wheel) as archive:
            names = sorted(name for name in archive.namelist() if _BILL in name)
            return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}
    except (OSError, BadZipFile) as error:
        raise WheelError(
            f"read {wheel}", f"it is no wheel: {error}", "Run python -m build_tools wheels"
        ) from error


def _dependencies(pinned: Pins) -> list[dict[str, Any]]:
    """Every file that a build may take from outside, by the hash that it is pinned with."""
    tools = [
        (f"pkg:pypi/{pin.name}@{pin.version}", name, digest)
        for pin in pinned.tools.values()
        for name, digest in sorted(pin.wheels.items())
    ]
    archives = [*pinned.sources.values(), *(tree.archive for tree in pinned.trees.values())]
    sources = [(f"pkg:pypi/{pin.name}@{pin.version}", pin.file, pin.sha256) for pin in archives]
    return [
        {"uri": uri, "name": name, "digest": {"sha256": digest}} for uri, name, digest in (*tools, *sources)
    ]

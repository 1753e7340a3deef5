"""Write a statement of provenance beside each wheel: in-toto's Statement v1 with SLSA's provenance v1.

It says what the build knows: the commit (``built.py``), every file that the build may take from outside, by the hashes that are
pinned and locked, and the bills of materials inside of the wheel. Who ran the build, where, and from which repository is what its
caller says: this program cannot know. There are no times: the bytes of a release do not depend on when it was signed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from build_tools.errors import SigningError, WheelError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.release import address
from build_tools.release import source as sources
from build_tools.release.built import Built
from build_tools.tools import locks, pins

SUFFIX: Final = ".provenance.json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
#: What docs/provenance.md describes under these names.
BUILD_TYPE: Final = "https://pypi.org/project/aiter-prebuilt/#build-v1"
#: Whoever signs on a machine of one's own. Nobody else vouches for it: SLSA Build L1, and no more.
OWN_MACHINE: Final = "https://pypi.org/project/aiter-prebuilt/#own-machine-v1"
#: Groups of ``build_tools/locks`` that ``nox -s wheels`` installs: the one that starts it, the one that builds, and what torch
#: needs, with which the bridge's data wheels are filled.
LOCKED: Final = ("nox", "build", "torch")
_BILL: Final = "/sboms/"
_BILL_TYPE: Final = "application/vnd.cyclonedx+json"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the build, as its caller describes it.

    ``builder``: URI of the service and the workflow that ran, or :data:`OWN_MACHINE`; ``invocation``: URI of this run;
    ``source``: ``URL@REF`` of the repository, as :func:`build_tools.release.source.parse` takes it. The last two may be empty.
    """

    builder: str = OWN_MACHINE
    invocation: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        """Check the form of each field. Raises SigningError."""
        for option, value in (("builder", self.builder), ("invocation", self.invocation)):
            if not address.is_uri(value) and (value or option == "builder"):
                raise SigningError(
                    f"sign with --{option} {address.shown(value)!r}",
                    "it is not a URI, or has a login",
                    f"Type --{option} https://HOST/PLACE, or leave it out",
                )
        if self.source:
            sources.parse(self.source)

    @property
    def repository(self) -> sources.Source | None:
        """The source, parsed; None without one."""
        return sources.parse(self.source) if self.source else None


def commit_of(root: Path) -> str:
    """Return the commit of the checkout at ``root``.

    ``-dirty`` stands behind it where files are another's; "" where there is none.
    """
    head = run(["git", "-C", str(root), "rev-parse", "HEAD"], timeout=60)
    if not head.ok:
        return ""
    changed = run(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"], timeout=60)
    return head.output.strip() + ("-dirty" if changed.output.strip() else "")


def statement(
    wheel: Path, row: Built, signed_at: str, taken: list[dict[str, Any]], made: Run
) -> dict[str, Any]:
    """Return the statement about one wheel.

    Args:
        wheel: the file.
        row: the commits at which it and its bundle were built.
        signed_at: commit of the checkout that signs it.
        taken: what that checkout takes from outside (:func:`dependencies`). It is not told of a wheel of another commit.
        made: who built it.

    Raises:
        WheelError: it is no wheel.
    """
    repository = made.repository
    commit, one = row.commit, row.one
    source = _source(one, repository)
    other = {} if row.bundle == commit else {"bundleCommit": row.bundle}
    parameters = {"repository": repository.url, "ref": repository.ref} if repository else {}
    parameters |= {"ck": row.ck} if row.ck else {}
    metadata = {"metadata": {"invocationId": made.invocation}} if made.invocation else {}
    return {
        "_type": STATEMENT,
        "subject": [{"name": wheel.name, "digest": {"sha256": sha256_file(wheel)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": parameters,
                "internalParameters": {"commit": commit, **other, "signedAt": signed_at},
                "resolvedDependencies": [*source, *(taken if one and one == signed_at else ())],
            },
            "runDetails": {"builder": {"id": made.builder}, **metadata, "byproducts": _bills(wheel)},
        },
    }  # fmt: skip


def text(told: Mapping[str, Any]) -> bytes:
    """Return a statement as a file.

    The same for the same statement.
    """
    return (json.dumps(told, indent=1, sort_keys=True) + "\n").encode()


def dependencies(root: Path) -> list[dict[str, Any]]:
    """List every file that a build of the checkout at ``root`` may take from outside, by its hash, and torch by its version.

    A lock allows several files of a package, for several Pythons and machines, and pip takes one of them: all are listed.

    Raises:
        ManifestError: the pins or a lock cannot be read.
    """
    pinned = pins.load(root)
    archives = [*pinned.sources.values(), *(tree.archive for tree in pinned.trees.values())]
    files = [
        (pin.name, pin.version, name, digest)
        for pin in pinned.tools.values()
        for name, digest in sorted(pin.wheels.items())
    ]
    files += [(pin.name, pin.version, pin.file, pin.sha256) for pin in archives]
    return [
        {"uri": f"pkg:pypi/{name}@{version}", "name": file, "digest": {"sha256": digest}}
        for name, version, file, digest in files
    ] + [*_editions(pinned), *_locked(root), *_torch(root)]


def _editions(pinned: pins.Pins) -> list[dict[str, Any]]:
    return [
        {"uri": f"git+{pin.repository}@{pin.commit}", "name": pin.name, "digest": {"gitCommit": pin.commit}}
        for pin in pinned.editions.values()
    ]


def _locked(root: Path) -> Iterator[dict[str, Any]]:
    for group in LOCKED:
        path = locks.path_of(group)
        for name, version, digests in locks.entries(locks.read(root, group)):
            for digest in digests:
                yield {
                    "uri": f"pkg:pypi/{name}@{version}", "digest": {"sha256": digest},
                    "annotations": {"lock": path.as_posix()},
                }  # fmt: skip


def _torch(root: Path) -> Iterator[dict[str, Any]]:
    """Name torch by its version: mirrors serve other bytes of its CPU build, so that no lock has its digest (docs/pins.md)."""
    for name, version in locks.asked_for(root, "torch").items():
        yield {"uri": f"pkg:pypi/{name}@{version}", "annotations": {"digest": "not pinned: mirrors differ"}}


def _source(commit: str, source: sources.Source | None) -> list[dict[str, Any]]:
    """Describe the repository. A commit with changes that nobody committed names no source: it has no digest."""
    told: dict[str, Any] = {"uri": f"git+{source.text}"} if source is not None else {}
    if _COMMIT.fullmatch(commit):
        told["digest"] = {"gitCommit": commit}
    return [{"name": "source", **told}] if told else []


def _bills(wheel: Path) -> list[dict[str, Any]]:
    """Return a wheel's bills of materials with their SHA-256.

    They list its parts, file by file.
    """
    try:
        with ZipFile(wheel) as archive:
            return [
                {
                    "name": name, "digest": {"sha256": hashlib.sha256(archive.read(name)).hexdigest()},
                    "mediaType": _BILL_TYPE,
                }
                for name in sorted(name for name in archive.namelist() if _BILL in name)
            ]  # fmt: skip
    except (OSError, BadZipFile) as error:
        raise WheelError(
            f"read {wheel}", f"it is no wheel: {error}", "Run python -m build_tools wheels"
        ) from error

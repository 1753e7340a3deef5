"""The wheel of a user's tree: its bundles and golden calls, and a package with the functions of its operators.

One wheel for all targets, since its package may be in no second one. Its bundles lie where the product's do, under names that no
other tree has; uninstalling it leaves the product's files as they were.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract.bundle import SUFFIX
from aiter_prebuilt.contract.version import CALLS_SUFFIX, TREE_MARK, VERSION
from build_tools.errors import WheelError
from build_tools.manifest.tree import Tree
from build_tools.pack import dist_info, licences, notes, sbom
from build_tools.pack.archive import RUNTIME, write_members
from build_tools.pack.unproved import refuse_unproved
from build_tools.pack.wheel import (
    FOLDER,
    TAG,
    Payload,
    read_payload,
    refuse_failed_build,
    refuse_partial,
    refuse_stale,
)
from build_tools.tools import pins

#: Files of a tree that go into the licences of its wheel.
_LICENCES: Final = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")


def write_own_wheel(
    root: Path,
    tree: Tree,
    bundles: Path,
    output: Path,
    package: Mapping[str, bytes],
    *,
    unproved: Collection[str] = (),
) -> Path:
    """Write the wheel of the tree ``root`` into ``output`` and return its path.

    Args:
        root: the tree's folder.
        tree: its ``tree.toml``.
        bundles: the folder of its bundles.
        output: the folder of wheels.
        package: files of the Python package with the functions, by their names in the wheel.
        unproved: targets whose entries need no receipt.

    Raises:
        UnprovedError: an entry has no receipt.
        WheelError: the last build failed; there is no bundle; one is another tree's, or older than its sources.
    """
    refuse_failed_build(bundles.parent)
    found = sorted(bundles.glob(f"*{TREE_MARK}{tree.name}{SUFFIX}"))
    if not found:
        raise WheelError(
            f"pack the tree {tree.name}",
            f"no bundle of it is in {bundles}",
            f"Run python -m build_tools build --root {root} first",
        )
    payloads = [read_payload(path, tree.version) for path in found]
    refuse_partial(found)
    refuse_stale(root, found)
    refuse_unproved([entry for payload in payloads for entry in payload.entries], unproved)
    bill = _bill(tree, payloads, [notes.read(path) for path in found])
    inside = _bundle_files(payloads) | dict(package) | _dist_info(root, tree, payloads, bill)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=output) as folder:
        path = Path(folder) / f"{dist_info.stem(bill)}-{TAG}.whl"
        write_members(path, inside)
        return Path(shutil.move(path, output / path.name))


def _bundle_files(payloads: Sequence[Payload]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for payload in payloads:
        name = f"{FOLDER}/{payload.target}-{payload.profile}"
        files[name + SUFFIX] = payload.data
        if payload.calls is not None:
            files[name + CALLS_SUFFIX] = payload.calls
    return files


def _bill(tree: Tree, payloads: Sequence[Payload], told: Sequence[Mapping[str, Any]]) -> sbom.Bill:
    content = hashlib.sha256(b"".join(hashlib.sha256(payload.data).digest() for payload in payloads)).digest()
    tools = {name: version for payload in payloads for name, version in payload.tools.items()}
    sources = {name: digest for note in told for name, digest in note.get("sources", {}).items()}
    backends = dict.fromkeys(backend for payload in payloads for backend in payload.backends)
    return sbom.Bill(tree.name, tree.version, content, tuple(backends), tools, tuple(sources.items()))


def _dist_info(root: Path, tree: Tree, payloads: Sequence[Payload], bill: sbom.Bill) -> dict[str, bytes]:
    """Return the files of ``.dist-info``: the tree's own licence, and what the compilers bring."""
    pinned = pins.load(root)
    mine = {
        path.name: path.read_bytes()
        for word in _LICENCES
        for path in sorted(root.glob(word))
        if path.is_file()
    }
    texts = mine | {"THIRD_PARTY.txt": licences.notices(bill.backends).encode()}
    mine_spdx = f"({tree.licence})" if " " in tree.licence else tree.licence
    spdx = f"{mine_spdx} AND {licences.expression(bill.backends)}"
    return dist_info.members(_about(tree, payloads), bill, root, pinned, texts=texts, licence=spdx)


def _about(tree: Tree, payloads: Sequence[Payload]) -> dist_info.About:
    targets = ", ".join(sorted({payload.target for payload in payloads}))
    warnings = [line for payload in payloads for line in (payload.unproved, payload.unpinned) if line]
    return dist_info.About(
        summary=". ".join((tree.summary, *dict.fromkeys(warnings))),
        description=f"Kernels beside [{RUNTIME}](https://pypi.org/project/{RUNTIME}/) for {targets}: an own bundle, which the "
        f"runtime finds, and the package `{tree.package}` with the functions of its operators.\n",
        requires=(f"{RUNTIME}>={VERSION}",),
        tag=TAG,
        pure=True,
    )

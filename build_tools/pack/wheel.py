"""Bundles to data wheels, and all wheels of a build in one step: all of them or none.

A data wheel is ``py3-none-any`` and holds a bundle and its golden calls, ``aiter_prebuilt_bundles/<target>-<profile>.apb`` and
``.calls``, in a folder without ``__init__.py`` that all data wheels share; the name of the files is what keeps two wheels from
owning one path. The runtime lists that folder beside its own package and imports nothing to find it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from aiter_prebuilt.contract.bundle import SUFFIX, Bundle, FormatError
from aiter_prebuilt.contract.provenance import UNPINNED
from aiter_prebuilt.contract.records import BACKENDS, VENDORS
from aiter_prebuilt.contract.version import CALLS_SUFFIX, VERSION
from build_tools.errors import WheelError
from build_tools.files.progress import step
from build_tools.objects.entries import BuiltEntry, entries_of
from build_tools.objects.unpack import decompress
from build_tools.pack import dist_info, licences, notes, sbom
from build_tools.pack.archive import RUNTIME, write_members
from build_tools.pack.bridge_wheel import build_bridge_wheel
from build_tools.pack.cache_wheel import Seeds, write_cache_wheel
from build_tools.pack.emulator_wheel import build_emulator_wheel
from build_tools.pack.runtime_wheel import build_runtime_wheel
from build_tools.pack.unproved import refuse_unproved, said
from build_tools.tools import pins
from build_tools.tools.pins import Pins

FOLDER: Final = "aiter_prebuilt_bundles"
TAG: Final = "py3-none-any"
CK_SUFFIX: Final = "-ck"
_AGAIN: Final = "Run python -m build_tools build, mend what it says, and pack again"


@dataclass(frozen=True, slots=True)
class Payload:
    """A bundle that goes into a wheel: its bytes and what it says about itself. ``calls``: its golden ones, None when its note
    tells of none (a bundle made by hand). ``backends``: as the table of licences has them.
    """

    data: bytes
    calls: bytes | None
    target: str
    profile: str
    distribution: str
    version: str
    tools: Mapping[str, str]
    backends: tuple[str, ...]
    entries: tuple[BuiltEntry, ...]

    @property
    def unproved(self) -> str:
        """Describe the wheel's entries without a receipt, or ""."""
        return said(sum(not entry.executed for entry in self.entries), len(self.entries))

    @property
    def unpinned(self) -> str:
        """Describe the wheel's unpinned source trees, or ""."""
        names = [name for name, version in sorted(self.tools.items()) if version.startswith(UNPINNED)]
        return f"It was made of files of {', '.join(names)} that are not the pinned ones." if names else ""


def read_payload(path: Path, version: str = VERSION) -> Payload:
    """Open a bundle and check all of it: that it is whole, and one that ``version`` may pack.

    Raises:
        WheelError: not a bundle, damaged, of another version, or under a name that is not its target and profile.
    """
    asked = f"pack {path}"
    again = "Run python -m build_tools build and then this command again"
    try:
        data = path.read_bytes()
        bundle = Bundle(data, decompress)
        operators = [bundle.operator(name) for name in bundle.names]
        for operator in operators:
            for entry in operator.entries:
                bundle.code_object(entry)
    except (OSError, FormatError) as error:
        raise WheelError(asked, str(error), again) from error
    root = bundle.root
    if root.version != version:
        raise WheelError(asked, f"the bundle was built for version {root.version}, this is {version}", again)
    if path.name != f"{root.target}-{root.profile}{SUFFIX}":
        raise WheelError(
            asked,
            f"the bundle says that it is {root.target} {root.profile}",
            "Rename it back, or build it again",
        )
    if canonicalize_name(root.distribution) != root.distribution:
        raise WheelError(
            asked, f"{root.distribution!r} is no normalised distribution name", "Mend manifests/targets.toml"
        )
    used = {BACKENDS.index(entry.backend) for entry in entries_of(bundle) if entry.backend}
    note = notes.read(path)
    provenance = json.loads(root.provenance)
    return Payload(
        data=data,
        calls=_golden_calls(path),
        target=root.target,
        profile=root.profile,
        distribution=root.distribution,
        version=root.version,
        tools={**provenance["tools"], **provenance.get("trees", {})},
        backends=(
            *(_licensed(BACKENDS[number], VENDORS[root.vendor]) for number in sorted(used)),
            *note.get("upstream", ()),
        ),
        entries=entries_of(bundle),
    )


def _licensed(backend: str, vendor: str) -> str:
    """Return the backend as the table of licences knows it."""
    if vendor != "nvidia":
        return backend
    return {"triton": licences.TRITON_NVIDIA, "hip": licences.HIP_NVIDIA}.get(backend, backend)


def _golden_calls(bundle: Path) -> bytes | None:
    told = notes.read(bundle).get("calls")
    if told is None:
        return None
    path = bundle.with_suffix(CALLS_SUFFIX)
    data = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise WheelError(f"pack {path}", "it is missing, or not what the build wrote", _AGAIN)
    return data


def pack(payload: Payload, note: Mapping[str, Any], output: Path, root: Path, pinned: Pins) -> Path:
    """Write the wheel of one bundle into ``output``; the same arguments give the same bytes.

    Args:
        payload: the bundle, checked.
        note: what the build wrote beside it; its sources stand in the bill of materials.
        output: the folder of wheels.
        root: the repository, which has the licence.
        pinned: the pinned source trees.

    Raises:
        WheelError: the wheel is larger than an index takes.
    """
    bill = sbom.Bill(
        payload.distribution,
        payload.version,
        payload.data,
        payload.backends,
        payload.tools,
        tuple(note.get("sources", {}).items()),
        {
            entry: sbom.upstream_name(file, pinned, payload.tools)
            for entry, file in note.get("files", {}).items()
        },
    )
    file = f"{FOLDER}/{payload.target}-{payload.profile}"
    inside = {
        f"{file}{SUFFIX}": payload.data,
        **({} if payload.calls is None else {f"{file}{CALLS_SUFFIX}": payload.calls}),
    }
    path = output / f"{dist_info.stem(bill)}-{TAG}.whl"
    write_members(path, inside | dist_info.members(about(payload), bill, root, pinned))
    return path


def about(payload: Payload) -> dist_info.About:
    """Build the metadata of a data wheel.

    A CK wheel needs the CK-free wheel of its target; every bundle needs this runtime.
    """
    needs = [f"{RUNTIME}=={payload.version}"]
    if payload.distribution.endswith(CK_SUFFIX):
        needs.append(f"{payload.distribution.removesuffix(CK_SUFFIX)}=={payload.version}")
    summary = f"Code objects of {RUNTIME} for {payload.target}, profile {payload.profile}"
    warnings = [line for line in (payload.unproved, payload.unpinned) if line]
    return dist_info.About(
        summary=". ".join((summary, " ".join(warnings))) if warnings else summary,
        description=f"Data of [{RUNTIME}](https://pypi.org/project/{RUNTIME}/): one bundle of ready GPU code objects for "
        f"`{payload.target}`\n(profile `{payload.profile}`). Nothing here is imported; the runtime finds the file.\n"
        + "".join(f"{line}\n" for line in warnings),
        requires=tuple(needs),
        tag=TAG,
        pure=True,
    )


def write_wheels(
    root: Path,
    bundles: Path,
    output: Path,
    *,
    runtime: bool = True,
    unproved: Collection[str] = (),
    caches: Mapping[str, Sequence[Seeds]] | None = None,
) -> tuple[Path, ...]:
    """All wheels of the last build: every bundle in ``bundles`` and, unless told otherwise, the runtime and the emulator.

    ``unproved``: targets whose entries need no receipt, :data:`build_tools.pack.unproved.ALL` for all; ``caches``: target -> what
    a data wheel of the bridge holds.

    They are written beside ``output`` first and moved when the last one is done, so a failure leaves no new wheel.

    Raises:
        UnprovedError: an entry has no receipt.
        WheelError: the last build had a failing job; there is no bundle; one is older than its sources or cannot be packed.
    """
    refuse_failed_build(bundles.parent)
    found = sorted(bundles.glob(f"*{SUFFIX}"))
    if not found:
        raise WheelError("pack wheels", f"no bundle in {bundles}", "Run python -m build_tools build first")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheels-", dir=output) as folder:
        with step("check the bundles and their receipts"):
            payloads = [read_payload(path) for path in found]
            refuse_partial(found)
            refuse_stale(root, found)
            refuse_unproved([entry for payload in payloads for entry in payload.entries], unproved)
        pinned = pins.load(root)
        staged = []
        for path, payload in zip(found, payloads, strict=True):
            with step(f"pack {path.name}"):
                staged.append(pack(payload, notes.read(path), Path(folder), root, pinned))
        if runtime:
            # Side by side: while one cmake asks its questions, or zig makes its C library, the other keeps the cores busy.
            with ThreadPoolExecutor(2) as pool:
                makers = {"runtime": build_runtime_wheel, "emulator": build_emulator_wheel}
                staged += pool.map(lambda name: _compiled(name, makers[name], root, Path(folder)), makers)
            staged.append(build_bridge_wheel(root, Path(folder)))
        staged += [
            write_cache_wheel(root, Path(folder), target, seeds)
            for target, seeds in sorted((caches or {}).items())
        ]
        return tuple(Path(shutil.move(path, output / path.name)) for path in staged)


def _compiled(name: str, make: Callable[[Path, Path], Path], root: Path, folder: Path) -> Path:
    with step(f"compile and pack the {name}"):
        return make(root, folder)


def refuse_failed_build(reports: Path) -> None:
    """Raise WheelError unless the last build ended well; no report at all means bundles from elsewhere, which may be packed.

    ``compile.json`` is written by every build, whatever happens; ``report.json`` after it, when everything was right.
    """
    compiled, finished = reports / "compile.json", reports / "report.json"
    if not compiled.is_file():
        return
    try:
        table = json.loads(compiled.read_text(encoding="utf-8"))
        done, planned = len(table["jobs"]), int(table["planned"])
        left = _left_out(finished) if finished.is_file() else set()
        failed = [job["id"] for job in table["jobs"] if not job["ok"] and job["id"] not in left]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WheelError("pack wheels", f"{compiled} cannot be read ({error})", _AGAIN) from error
    if failed:
        found = f"{len(failed)} jobs of the last build failed, {failed[0]} first"
    elif done < planned:
        found = f"the last build was interrupted after {done} of {planned} jobs"
    elif not finished.is_file() or finished.stat().st_mtime_ns < compiled.stat().st_mtime_ns:
        found = "the last build compiled everything and then refused a code object"
    else:
        return
    raise WheelError("pack wheels", found, _AGAIN)


def _left_out(report: Path) -> set[str]:
    """Jobs without which the last build that ended went on, since their files are of a tree that is not pinned."""
    told = json.loads(report.read_text(encoding="utf-8"))
    return {str(row["entry"]) for row in told.get("left_out", ())}


def refuse_partial(bundles: Iterable[Path]) -> None:
    """Raise WheelError when a bundle has but the operators that its build was asked for: its wheel would pass for the whole."""
    chosen = {path.name: notes.read(path).get("operators") for path in bundles}
    found = "; ".join(
        f"{name} was built for {', '.join(only)} alone" for name, only in chosen.items() if only
    )
    if found:
        raise WheelError(
            "pack bundles of all operators", found, "Run python -m build_tools build without --operator"
        )


def refuse_stale(root: Path, bundles: Iterable[Path]) -> None:
    """Raise WheelError, naming each, when bundles are not what the sources below ``root`` give now."""
    reasons = {path.name: notes.stale(root, path) for path in bundles}
    found = "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)
    if found:
        raise WheelError("pack bundles that are as the sources are now", found, _AGAIN)

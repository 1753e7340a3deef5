"""Bundles to data wheels, and all wheels of a build in one step: all of them or none.

A data wheel is ``py3-none-any`` and holds one file, ``aiter_prebuilt_bundles/<target>-<profile>.apb``, in a folder without
``__init__.py`` that all data wheels share; the name of the file is what keeps two wheels from owning one path. The
runtime lists that folder beside its own package and imports nothing to find it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from aiter_prebuilt.contract.bundle import SUFFIX, Bundle, FormatError
from aiter_prebuilt.contract.records import BACKENDS
from aiter_prebuilt.contract.version import VERSION
from build_tools import licences, sbom
from build_tools.archive import RUNTIME, write_members
from build_tools.bundle import decompress
from build_tools.errors import WheelError
from build_tools.inputs import inputs_of
from build_tools.manifest.parse import load
from build_tools.plan import make_plan
from build_tools.runtime_wheel import build_runtime_wheel

FOLDER: Final = "aiter_prebuilt_bundles"
GENERATOR: Final = f"{RUNTIME} build_tools"
CK_SUFFIX: Final = "-ck"


@dataclass(frozen=True, slots=True)
class Payload:
    """A bundle that goes into a wheel: its bytes and what it says about itself."""

    data: bytes
    target: str
    profile: str
    distribution: str
    version: str
    tools: Mapping[str, str]
    backends: tuple[str, ...]


def read_payload(path: Path) -> Payload:
    """Open a bundle and check all of it: that it is whole, and one that this version may pack.

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
    if root.version != VERSION:
        raise WheelError(asked, f"the bundle was built for version {root.version}, this is {VERSION}", again)
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
    used = {operator.kernels[recipe.kernel].backend for operator in operators for recipe in operator.recipes}
    return Payload(
        data=data,
        target=root.target,
        profile=root.profile,
        distribution=root.distribution,
        version=root.version,
        tools=json.loads(root.provenance)["tools"],
        backends=tuple(BACKENDS[number] for number in sorted(used)),
    )


def write_data_wheel(bundle: Path, output: Path, root: Path, sources: Iterable[str] = ()) -> Path:
    """Write the data wheel of one bundle into ``output``; the same arguments give the same bytes.

    ``root`` is the repository (licence and ``sources``, which go into the bill of materials, are read there).

    Raises:
        WheelError: see :func:`read_payload`; or the wheel is larger than an index takes.
    """
    payload = read_payload(bundle)
    stem = f"{payload.distribution.replace('-', '_')}-{payload.version}"
    info = f"{stem}.dist-info"
    licence = licences.expression(payload.backends)
    members = {
        f"{FOLDER}/{payload.target}-{payload.profile}{SUFFIX}": payload.data,
        f"{info}/METADATA": metadata(payload, licence).encode(),
        f"{info}/WHEEL": _wheel_text("true", ["py3-none-any"]).encode(),
        f"{info}/licenses/LICENSE": (root / "LICENSE").read_bytes(),
        f"{info}/licenses/THIRD_PARTY.txt": licences.notices(payload.backends).encode(),
        f"{info}/sboms/{sbom.FILE_NAME}": sbom.write(
            payload.distribution,
            payload.version,
            licence,
            payload.data,
            payload.tools,
            payload.backends,
            sbom.file_hashes(root, sources),
        ),
    }
    path = output / f"{stem}-py3-none-any.whl"
    write_members(path, members)
    return path


def metadata(payload: Payload, licence: str) -> str:
    """METADATA of a data wheel. What CK adds needs the CK-free wheel of its target; every bundle needs this runtime."""
    needs = [f"{RUNTIME}=={payload.version}"]
    if payload.distribution.endswith(CK_SUFFIX):
        needs.append(f"{payload.distribution.removesuffix(CK_SUFFIX)}=={payload.version}")
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {payload.distribution}",
        f"Version: {payload.version}",
        f"Summary: Code objects of {RUNTIME} for {payload.target}, profile {payload.profile}",
        f"License-Expression: {licence}",
        "License-File: LICENSE",
        "License-File: THIRD_PARTY.txt",
        "Requires-Python: >=3.10",
        *(f"Requires-Dist: {need}" for need in needs),
        "Description-Content-Type: text/markdown",
        "",
        f"Data of [{RUNTIME}](https://pypi.org/project/{RUNTIME}/): one bundle of ready GPU code objects for `{payload.target}`",
        f"(profile `{payload.profile}`). Nothing here is imported; the runtime finds the file.",
        "",
    ]
    return "\n".join(lines)


def _wheel_text(pure: str, tags: list[str]) -> str:
    return "\n".join(
        [
            "Wheel-Version: 1.0",
            f"Generator: {GENERATOR} {VERSION}",
            f"Root-Is-Purelib: {pure}",
            *(f"Tag: {tag}" for tag in tags),
            "",
        ]
    )


def write_wheels(root: Path, bundles: Path, output: Path, *, runtime: bool = True) -> tuple[Path, ...]:
    """All wheels of the last build: every bundle in ``bundles`` and, unless told otherwise, the runtime.

    They are written beside ``output`` first and moved when the last one is done, so a failure leaves no new wheel.

    Raises:
        WheelError: the last build had a failing job, there is no bundle, or one cannot be packed.
    """
    refuse_failed_build(bundles.parent)
    found = sorted(bundles.glob(f"*{SUFFIX}"))
    if not found:
        raise WheelError("pack wheels", f"no bundle in {bundles}", "Run python -m build_tools build first")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheels-", dir=output) as folder:
        staged = [write_data_wheel(path, Path(folder), root, sources_of(root, path)) for path in found]
        if runtime:
            staged.append(build_runtime_wheel(root, Path(folder)))
        return tuple(Path(shutil.move(path, output / path.name)) for path in staged)


def refuse_failed_build(reports: Path) -> None:
    """Raise WheelError unless the last build ended well; no report at all means bundles from elsewhere, which may be packed.

    ``compile.json`` is written by every build, whatever happens; ``report.json`` after it, when everything was right.
    """
    compiled, finished = reports / "compile.json", reports / "report.json"
    if not compiled.is_file():
        return
    table = json.loads(compiled.read_text(encoding="utf-8"))
    failed = [job["id"] for job in table["jobs"] if not job["ok"]]
    if failed:
        found = f"{len(failed)} jobs of the last build failed, {failed[0]} first"
    elif len(table["jobs"]) < table["planned"]:
        found = f"the last build was interrupted after {len(table['jobs'])} of {table['planned']} jobs"
    elif not finished.is_file() or finished.stat().st_mtime_ns < compiled.stat().st_mtime_ns:
        found = "the last build compiled everything and then refused a code object"
    else:
        return
    raise WheelError(
        "pack wheels", found, "Run python -m build_tools build, mend what it says, and pack again"
    )


def sources_of(root: Path, bundle: Path) -> tuple[str, ...]:
    """The repository's files that the jobs of a bundle read, and the manifests; empty when the manifests lack its target."""
    target, _, profile = bundle.stem.partition("-")
    manifest = load(root / "manifests")
    if profile not in manifest.profiles or target not in manifest.profiles[profile].targets:
        return ()
    plan = make_plan(manifest, root, inputs_of(root), (profile,), (target,), prove=False)
    names = {name for job in plan.jobs for name in job.inputs if (root / name).is_file()}
    return tuple(sorted(names | set(manifest.files.values())))

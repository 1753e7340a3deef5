"""The bill of materials inside a wheel (PEP 770): CycloneDX 1.6 JSON, written by cyclonedx-python-lib.

Three kinds of components, told apart by scope and by the property ``aiter-prebuilt:use``: what the wheel contains of others
(``contained``), the files of this repository that it was made from (``source``), and the tools that made it (``build tool``,
scope ``excluded``: nothing of theirs is in the wheel). On one line, since members are stored and programs read it.
Deterministic: the serial number is derived from the content, the time is the pinned one.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Final

from cyclonedx.contrib.this.builders import this_component
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from aiter_prebuilt.contract.version import VERSION
from build_tools.files.reproducible import epoch
from build_tools.pack import licences
from build_tools.records import in_tree
from build_tools.tools.pins import EditionPin, Pins, SourcePin, ToolPin

FILE_NAME: Final = "aiter-prebuilt.cdx.json"
#: The one row among the tools that is no tool: "hermetic" or "rocm".
TOOLCHAIN: Final = "toolchain"
ROCM: Final = "ROCm"
#: Build tools that pyproject.toml pins and manifests/toolchains.toml does not, with their licences.
BUILDERS: Final = {
    "cmake": "Apache-2.0 AND BSD-3-Clause",
    "ninja": "Apache-2.0",
    "scikit-build-core": "Apache-2.0",
}
_USE: Final = "aiter-prebuilt:use"
_NAMESPACE: Final = uuid.UUID("6e1d3c52-3c0f-5f6b-9d0e-2f7f0c1a9b47")


@dataclass(frozen=True, slots=True)
class Bill:
    """The subject of a wheel's bill of materials.

    ``content`` is the wheel's payload (its hash is the component's), ``backends`` those whose parts are in it (see
    :mod:`build_tools.pack.licences`), ``tools`` name -> version, ``sources`` (path in the repository or a source tree, SHA-256),
    ``upstream``: entry -> the file of a source tree that it was made from, as the tree's package has it.
    """

    distribution: str
    version: str
    content: bytes
    backends: tuple[str, ...]
    tools: Mapping[str, str]
    sources: tuple[tuple[str, str], ...]
    upstream: Mapping[str, str] = field(default_factory=dict)


def write(bill: Bill, pinned: Pins) -> bytes:
    """Return the document of one wheel.

    ``pinned`` knows the hashes of what it was made with.
    """
    subject = _subject(bill)
    parts = [_part(part, bill, pinned) for part in licences.parts(bill.backends)]
    sources = [_source(path, digest, bill, pinned) for path, digest in sorted(bill.sources)]
    tools = [_tool(name, bill, pinned) for name in _tools_used(bill, pinned)]
    bom = Bom(
        serial_number=uuid.UUID(int=0),
        metadata=BomMetaData(
            timestamp=datetime.fromtimestamp(epoch(), tz=timezone.utc),
            component=subject,
            tools=ToolRepository(components=_writers()),
            properties=[
                Property(name=f"aiter-prebuilt:{TOOLCHAIN}", value=bill.tools.get(TOOLCHAIN, "hermetic"))
            ],
        ),
        components=[*parts, *sources, *tools],
    )
    bom.register_dependency(subject, [*parts, *sources])
    bom.serial_number = uuid.uuid5(_NAMESPACE, _text(bom))
    return _text(bom).encode()


def file_hashes(root: Path, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(path, SHA-256) of repository files, sorted and unique."""
    return tuple(
        (path, hashlib.sha256((root / path).read_bytes()).hexdigest()) for path in sorted(set(paths))
    )


def builders(*names: str) -> dict[str, str]:
    """Return the installed versions of :data:`BUILDERS` of these names."""
    return {name: metadata.version(name) for name in names}


def _text(bom: Bom) -> str:
    return JsonV1Dot6(bom).output_as_string() + "\n"


def _subject(bill: Bill) -> Component:
    purl = PackageURL("pypi", None, bill.distribution, bill.version)
    return Component(
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        name=bill.distribution,
        version=bill.version,
        purl=purl,
        hashes=_sha256(hashlib.sha256(bill.content).hexdigest()),
        licenses=[LicenseExpression(licences.expression(bill.backends))],
    )


def _writers() -> list[Component]:
    """List the programs that wrote the document."""
    library = this_component()
    library.bom_ref.value = f"writer:{library.name}"
    own = Component(
        type=ComponentType.APPLICATION, bom_ref="writer:build_tools", name="build_tools", version=VERSION
    )
    return [library, own]


def _part(part: licences.Part, bill: Bill, pinned: Pins) -> Component:
    """Work of others that the wheel contains, at the version that the build had."""
    pin = (
        pinned.tools.get(part.carrier)
        or pinned.sources.get(part.carrier)
        or pinned.editions.get(part.carrier)
        or pinned.trees[part.carrier].archive
    )
    version, purl = part.version.format(version=pin.version), part.purl.format(version=pin.version)
    told = bill.tools.get(part.name) or bill.tools.get(part.carrier) or pin.version
    files = [*part.files] if isinstance(pin, ToolPin) else []
    references = _distributions(pin)
    if part.rocm and bill.tools.get(TOOLCHAIN) == "rocm":
        told = bill.tools.get(ROCM, "unknown")
    if told != pin.version:  # an installed ROCm, CK_DIR, or other pins than today's: no hash is known here
        version, files, references = told, [], []
        purl = str(PackageURL("generic", None, part.name, version))
    return Component(
        type=ComponentType.LIBRARY,
        bom_ref=f"part:{part.name}",
        name=part.name,
        version=version,
        description=part.title,
        scope=ComponentScope.REQUIRED,
        supplier=OrganizationalEntity(name=part.holder),
        purl=PackageURL.from_string(purl),
        licenses=[LicenseExpression(part.spdx)],
        external_references=[
            ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(part.url)),
            *references,
        ],
        components=[_file(f"part:{part.name}:", name, pin.installed[name]) for name in files]
        if isinstance(pin, ToolPin)
        else [],
        properties=[Property(name=_USE, value="contained")],
    )


def _source(path: str, digest: str, bill: Bill, pinned: Pins) -> Component:
    source = _file("source:", path, digest)
    source.scope = ComponentScope.REQUIRED
    source.properties.add(Property(name=_USE, value="source"))
    if in_tree(path):
        package = upstream_name(path, pinned, bill.tools)
        source.properties.add(Property(name="aiter-prebuilt:upstream", value=package))
        for entry in (entry for entry, file in bill.upstream.items() if file == package):
            source.properties.add(Property(name="aiter-prebuilt:entry", value=entry))
    return source


def upstream_name(path: str, pinned: Pins, used: Mapping[str, str]) -> str:
    """Name a file of a source tree as its package does.

    ``amd-aiter 1.0: aiter_meta/hsa/...``. ``used``: the versions that a build took; a checkout is no package.
    """
    name, _, rest = path.partition(":")
    root, _, below = rest.partition("/")
    if name in pinned.editions:
        edition = pinned.editions[name]
        return f"{name} {edition.commit}: {edition.roots[root]}/{below}"
    pin = pinned.trees[name]
    if used.get(name, pin.version) != pin.version:
        return f"{name} {used[name]}: {pin.checkout[root]}/{below}"
    return f"{pin.distribution} {pin.version}: {pin.roots[root]}/{below}"


def _tools_used(bill: Bill, pinned: Pins) -> list[str]:
    """Names in ``bill.tools`` that had a hand in this wheel, sorted."""
    own = {TOOLCHAIN, *(part.name for part in licences.table() if part.name not in pinned.tools)}
    return [
        name
        for name in sorted(bill.tools.keys() - own)
        if name not in pinned.tools or set(pinned.tools[name].backends) & set(bill.backends)
    ]


def _tool(name: str, bill: Bill, pinned: Pins) -> Component:
    version, pin = bill.tools[name], pinned.tools.get(name)
    spdx = BUILDERS.get(name) if pin is None else pin.spdx
    pinned_bytes = pin is not None and pin.version == version
    return Component(
        type=ComponentType.APPLICATION,
        bom_ref=f"tool:{name}",
        name=name,
        version=version,
        description=None if pin is None else pin.gives,
        scope=ComponentScope.EXCLUDED,
        purl=PackageURL("generic" if spdx is None else "pypi", None, name, version),
        licenses=[] if spdx is None else [LicenseExpression(spdx)],
        external_references=_distributions(pin) if pin is not None and pinned_bytes else [],
        properties=[Property(name=_USE, value="build tool")],
    )


def _distributions(pin: ToolPin | SourcePin | EditionPin) -> list[ExternalReference]:
    """Return the pinned files of a package, each with its hash.

    A tool has one for each Python. An edition has its repository: the hashes of its files stand with the sources.
    """
    if isinstance(pin, EditionPin):
        return [ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(pin.repository))]
    files = pin.wheels if isinstance(pin, ToolPin) else {pin.file: pin.sha256}
    return [
        ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(str(PackageURL("pypi", None, pin.name, pin.version, {"file_name": name}))),
            hashes=_sha256(digest),
        )
        for name, digest in sorted(files.items())
    ]


def _file(prefix: str, path: str, digest: str) -> Component:
    return Component(
        type=ComponentType.FILE, bom_ref=BomRef(prefix + path), name=path, hashes=_sha256(digest)
    )


def _sha256(digest: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=digest)]

"""An experiment: one distribution, ``aiter-prebuilt-auto``, of which an installer that knows variants takes the wheel for the GPU
that it found. Of PEP 817 and 825 there are drafts only, no released pip reads variants, and nothing of the default path knows
of it.

Such a wheel holds no file: it requires the bundle of its target. So a bundle is in one wheel, whoever installs it, and what runs
is the same as with ``aiter-prebuilt[gfx950]``. The null variant, for a machine without a card of AMD's, brings the runtime alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiter_prebuilt.contract.version import VERSION
from build_tools.files.reproducible import write_atomic
from build_tools.pack import dist_info, sbom
from build_tools.pack.archive import RUNTIME, write_members
from build_tools.tools import pins

if TYPE_CHECKING:
    from variantlib.models.variant_info import VariantInfo

DISTRIBUTION: Final = f"{RUNTIME}-auto"
TAG: Final = "py3-none-any"
#: The folder below that of the wheels: an installer that knows no variants must not meet them.
FOLDER: Final = "variants"
NULL: Final = "null"
#: Who tells an installer which card is here, and how it calls that: ``amd :: gfx_arch :: gfx950``.
NAMESPACE: Final = "amd"
FEATURE: Final = "gfx_arch"
PROVIDER: Final = "rocm-bootstrap==0.3.0"
PLUGIN: Final = "rocm_bootstrap.variant_provider:AMDVariantPlugin"


def write_variants(root: Path, targets: Iterable[str], output: Path) -> list[Path]:
    """A wheel for each of ``targets`` and the null one, and the list of variants that an index serves beside them."""
    from variantlib.api import VariantDescription, VariantProperty, make_variant_dist_info
    from variantlib.variant_dist_info import VariantDistInfo
    from variantlib.variants_json import VariantsJson

    folder = output / FOLDER
    info = _info()
    listed = VariantsJson(info)
    written = []
    for label in (*sorted(targets), NULL):
        properties = [] if label == NULL else [VariantProperty(NAMESPACE, FEATURE, label)]
        description = VariantDescription(properties, label=label)
        text = make_variant_dist_info(description, info, expand_aot_plugin_properties=False)
        listed.merge(VariantDistInfo(text, label))
        extra = "" if label == NULL else f"[{label}]"
        written.append(_wheel(root, folder, label, f"{RUNTIME}{extra}=={VERSION}", text))
    path = folder / f"{DISTRIBUTION.replace('-', '_')}-{VERSION}-variants.json"
    write_atomic(path, f"{listed.to_str()}\n".encode())
    return [*written, path]


def _info() -> VariantInfo:
    from variantlib.models.variant_info import ProviderInfo, VariantInfo

    provider = ProviderInfo(requires=[PROVIDER], plugin_api=PLUGIN)
    return VariantInfo(namespace_priorities=[NAMESPACE], providers={NAMESPACE: provider})


def _wheel(root: Path, folder: Path, label: str, requires: str, text: str) -> Path:
    from variantlib.constants import VARIANT_DIST_INFO_FILENAME

    about = dist_info.About(
        summary="An experiment: the prebuilt operators of aiter-prebuilt for the GPU that is here",
        description="Wheel variants (PEP 817, a draft): an installer that knows them takes the one for the GPU that it found.\n",
        requires=(requires,),
        tag=TAG,
        pure=True,
    )
    bill = sbom.Bill(DISTRIBUTION, VERSION, text.encode(), (), {}, ())
    stem = dist_info.stem(bill)
    members = dist_info.members(about, bill, root, pins.load(root))
    members[f"{stem}.dist-info/{VARIANT_DIST_INFO_FILENAME}"] = f"{text}\n".encode()
    path = folder / f"{stem}-{TAG}-{label}.whl"
    write_members(path, members)
    return path

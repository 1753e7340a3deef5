"""Options that several verbs share, and the repository's place."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aiter_prebuilt.contract.products import target_of
from aiter_prebuilt.contract.targets import NAMES

if TYPE_CHECKING:
    from build_tools.release.sign import Signer
    from build_tools.release.trusted import Behind

ROOT: Final = Path(__file__).resolve().parents[2]

BUNDLES: Final = ROOT / "build" / "bundles"
#: Of `build --operator`: a bundle of a few operators is never taken for the whole.
OPERATOR_BUNDLES: Final = ROOT / "build" / "operators" / "bundles"
#: Held by what reads all receipts, executes and writes them again.
RECEIPTS_LOCK: Final = ROOT / "build" / "receipts.lock"

root = click.option(
    "--root", type=click.Path(exists=True, file_okay=False, path_type=Path), show_default="this repository",
    callback=lambda _context, _option, given: given or ROOT,
    help="A tree of kernels of one's own, as new-tree makes it: its manifests, bundles below its build, its receipts.",
)  # fmt: skip
profiles = click.option("--profile", "profiles", multiple=True, help="ck-free or ck-full; all when left out.")


class TargetType(click.ParamType[str]):
    """A target as people type it: the name of a product stands for its target."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the target of a product, and any other word as it is: the verb knows the manifests' targets."""
        del param, ctx
        return target_of(value)


TARGET: Final = TargetType()
targets = click.option(
    "--target", "targets", type=TARGET, multiple=True, help=f"One of {NAMES}; all when left out."
)
json = click.option("--json", "as_json", is_flag=True, help="Machine output with a version.")
toolchain = click.option(
    "--toolchain", type=click.Choice(["hermetic", "rocm"]), default="hermetic", show_default=True,
    help="From PyPI packages, or an installed ROCm.",
)  # fmt: skip
store = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=ROOT / "build" / "store",
    show_default="build/store",
    help="Folder of compiled results.",
)
ck = click.option(
    "--ck", type=click.Choice(["sample", "curated", "tuned"]), default="curated", show_default=True,
    help="Composable Kernel's instances: one a family, a few, or all that AITER's tables name.",
)  # fmt: skip
bundles = click.option(
    "--bundles",
    type=click.Path(path_type=Path),
    default=BUNDLES,
    show_default="build/bundles",
    help="Folder of the bundles.",
)
tls = click.option(
    "--tls", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with ca.pem, cert.pem and key.pem: of this side, and of whom it trusts.",
)  # fmt: skip
#: The password of secret keys: of no option, since all users of a machine may see those.
KEY_VARIABLE: Final = "AITER_PREBUILT_KEY_PASSWORD"
signing_keys = click.option(
    "--key", "keys", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A secret minisign key; twice, while keys change: users may trust either.",
)  # fmt: skip

shared = click.option(
    "--shared", default="", metavar="URL",
    help="A store that several machines share, read through: file:///FOLDER or s3://BUCKET/FOLDER (docs/farm.md).",
)  # fmt: skip
trust = click.option(
    "--trust", "trusted", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A public minisign key: of the shared store only what this one signed is taken; may be repeated.",
)  # fmt: skip
sign = click.option(
    "--sign", "sign", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A secret minisign key: what is compiled is signed and written to the shared store.",
)  # fmt: skip


def behind(
    stack: ExitStack, url: str, trusted: tuple[Path, ...], sign: Path | None, *, farm: bool
) -> Behind | None:
    """Return the shared store of these options, until ``stack`` ends.

    None without any. ``farm``: others write there for this build.
    """
    if not (url or trusted or sign):
        return None
    from build_tools.release.trusted import Behind

    return Behind(url, trusted, signers_of(stack, (sign,) if sign else ()), farm=farm)


def own_tree(root: Path) -> bool:
    """Is ``root`` a tree of somebody's own? Then it is one that these tools can build.

    Raises:
        UsageError: it lacks what a tree has of this repository.
    """
    if root == ROOT:
        return False
    from build_tools.generate import own_tree

    own_tree.check(root, ROOT)
    if root.resolve() == ROOT:
        return False
    own_tree.check_signatures(root.resolve(), ROOT)
    return True


def functions_of(root: Path) -> Path:
    """Write the functions of the tree ``root`` if they are stale.

    It returns their folder.

    Raises:
        ManifestError, UsageError: its manifests have problems, or functions that are written by hand.
    """
    from build_tools.generate import own_tree
    from build_tools.manifest.parse import load

    return own_tree.write_functions(load(root.resolve() / "manifests"), root.resolve())


def signers_of(stack: ExitStack, keys: tuple[Path, ...]) -> list[Signer]:
    """Return the keys that can sign, until ``stack`` ends."""
    if not keys:
        return []
    from build_tools.release.sign import signers

    return signers(stack, keys, os.environ.get(KEY_VARIABLE, ""))

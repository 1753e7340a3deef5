"""The repository of a release, as its caller names it: ``URL@REF``.

The form is checked before any work, and the ref is compared with the commits at which the wheels were built. Standard library
only: ``ci/release_source.py`` asks it before anything is installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from build_tools.errors import SigningError
from build_tools.files.run import run
from build_tools.release import address

if TYPE_CHECKING:
    from build_tools.release.built import Built

#: What a caller types, as an error shows it.
FORM: Final = "https://HOST/OWNER/REPOSITORY@refs/tags/TAG"
_HTTP: Final = re.compile(r"(?P<url>https?://(?P<host>[^\s@/]+)/(?P<path>[^\s@]+))@(?P<ref>\S+)")
_SSH: Final = re.compile(r"ssh://git@(?P<host>[^\s@/:]+)(?::22)?/(?P<path>[^\s@:]+)@(?P<ref>\S+)")
#: git's short form of an SSH address: git@HOST:OWNER/REPOSITORY.
_SCP: Final = re.compile(r"git@(?P<host>[^\s@/:]+):(?P<path>[^\s@:/~][^\s@:]*)@(?P<ref>\S+)")
#: A host with a dot is a name on the network. Hosts of services that answer SSH alone have another name for https.
_HOST: Final = re.compile(r"(?!([a-z-]*-)?(alt)?ssh\.)[a-z0-9-]+(\.[a-z0-9-]+)+", re.IGNORECASE)
#: git's rule for names of refs, without the rare letters that it allows beside these.
#: HEAD and the refs of remotes are this checkout's alone.
_REF: Final = re.compile(
    r"(?!([A-Z]+_)?HEAD$|refs/remotes/)[A-Za-z0-9_](?!.*(\.\.|//|@\{|\.lock(/|$)))[A-Za-z0-9_./@+-]*(?<![/.])"
)
_FIX: Final = (
    "Build the wheels in a clean checkout of that ref, name the ref of their commit, or leave --source out"
)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Source:
    """A repository and its branch, tag or commit. ``url`` is http or https and has no login."""

    url: str
    ref: str

    @property
    def text(self) -> str:
        """The source as ``URL@REF``."""
        return f"{self.url}@{self.ref}"


def parse(text: str) -> Source:
    """Parse what follows ``--source``.

    git's SSH addresses become https ones, if the user is ``git``, the port is 22 and the host is a name on the network: forges
    serve one path by both.

    Args:
        text: ``URL@REF``.

    Returns:
        The source.

    Raises:
        SigningError: it has another form, a login, a query, letters that RFC 3986 does not allow, or no ref.
    """
    found = _HTTP.fullmatch(text) or _SSH.fullmatch(text) or _SCP.fullmatch(text)
    if found is None or address.has_login(text) or not address.is_address(found["host"], found["path"]):
        raise _refusal(text)
    web = "url" in found.re.groupindex
    if not _REF.fullmatch(found["ref"]) or not (web or _HOST.fullmatch(found["host"])):
        raise _refusal(text)
    return Source(found["url"] if web else f"https://{found['host']}/{found['path']}", found["ref"])


def _refusal(text: str) -> SigningError:
    """Say what is wrong with a source. A login in it may be a token, which nobody shall read in a log."""
    form = _HTTP.fullmatch(text) or _SSH.fullmatch(text) or _SCP.fullmatch(text)
    web = bool(re.match(r"https?://", text, re.IGNORECASE))
    if web and address.has_login(text):
        found = "it has a login, which a statement of provenance must not have"
    elif re.search(r"[?#]", text):
        found = "it has a query or a fragment, which a statement of provenance must not have"
    elif form is not None and not address.is_address(form["host"], form["path"]):
        found = (
            "its address has letters that no address has: quotes, brackets, others than ASCII's, or a % alone"
        )
    elif form is not None:
        known = _REF.fullmatch(text.rpartition("@")[2])
        found = (
            "its host answers SSH alone, or is no name on the network"
            if known
            else "its ref is no ref of git"
        )
    elif text.startswith("ssh://"):
        found = "only ssh://git@HOST/PATH@REF at port 22 has a known https address"
    elif web or re.match(r"\S+@\S+:", text):
        found = "it is not URL@REF with an https address and a branch, tag or commit"
    else:
        found = "it is not the address of a repository"
    return SigningError(f"sign with --source {address.shown(text)!r}", found, f"Type --source {FORM}")


def refuse_other(root: Path, source: Source, wheels: Mapping[str, Built]) -> None:
    """Refuse a source whose ref is not the commit of every wheel.

    Args:
        root: the checkout that signs. It must have the ref.
        source: the repository and its ref.
        wheels: file name of each wheel -> what its note says of it.

    Raises:
        SigningError: the checkout lacks the ref, or a wheel is of another commit, of uncommitted changes or of none.
    """
    asked = f"sign with --source {source.text}"
    commit = source.ref if _COMMIT.fullmatch(source.ref) else _resolved(root, source.ref)
    if not commit:
        whole = source.ref.startswith("refs/")
        raise SigningError(
            asked,
            f"{root} has no {source.ref}, so that it cannot be compared with the commits of the wheels",
            f"Run git -C {root} fetch {source.url} {source.ref}:{source.ref}"
            if whole
            else f"Name the whole ref or the commit: --source {source.url}@refs/tags/{source.ref}",
        )
    for name, row in wheels.items():
        for part, found in ((name, row.commit), (f"the bundle of {name}", row.bundle)):
            if found != commit:
                raise SigningError(
                    asked, f"it is commit {commit}, and {part} was built {_place(found)}", _FIX
                )


def _place(commit: str) -> str:
    if not commit:
        return "at a commit that no note tells"
    clean = commit.removesuffix("-dirty")
    return f"at {commit}" if clean == commit else f"at {clean} with changes that nobody committed"


def _resolved(root: Path, ref: str) -> str:
    """Return the commit of a ref of the checkout, or "" if it has no such ref."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    found = run(["git", "-C", str(root), *words], timeout=60)
    return found.output.strip() if found.ok else ""

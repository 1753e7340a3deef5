"""Take out of texts what names a site: hosts, users, paths, addresses. A certificate is sent to strangers."""

from __future__ import annotations

import getpass
import os
import re
import socket
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

#: Fields that the bundle or the driver fills, and no site can: their values must stay as they are.
FACTS: Final = frozenset((
    "arch", "backend", "call", "device", "digest", "judge", "kernel", "label", "launched", "name", "operator", "profile",
    "python", "recipes", "reference", "runtime", "target", "torch", "variant", "verb", "verdict", "date", "state",
))  # fmt: skip
#: Behind a name of such a kind: the rest of the path, and the domain.
_MORE: Final = {"(path)": r"[^\s'\",;:()]*", "(host)": r"(?:\.[\w-]+)*"}
#: Shorter words are no names that anybody recognises, and stand within others.
_SHORTEST: Final = 3
_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        (r"\b\w+://\S+", "(address)"),
        (r"[\w.+-]+@[\w.-]+\w", "(address)"),
        (r"'[^'\n]*[/\\][^'\n]*'|\"[^\"\n]*[/\\][^\"\n]*\"", "(path)"),
        (r"(?<![\w.])(?:~|\.{1,2}|[a-z]:)?[/\\]{1,2}[^\s'\",;:()/\\][^\s'\",;:()]*", "(path)"),
        (r"[^\s'\",;:()=]*[/\\][^\s'\",;:()]*\.(?:apb|calls|co|csv|html|json|log|py|so[.\d]*|toml|txt|whl)\b", "(path)"),
        (r"\b(?:GPU-|MIG-)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "(number)"),
        (r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", "(address)"),
        (r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", "(address)"),
        (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)", "(address)"),
        (r"\b(?:[a-z0-9-]+\.)+(?:com|net|org|edu|gov|mil|int|io|ai|eu|local|lan|internal|intra|corp|home)\b", "(host)"),
    )
)  # fmt: skip


def site_words() -> dict[str, str]:
    """Return names of this machine, its user and its folders -> the word that stands for each."""
    found: dict[str, str] = {}
    for text in (str(Path.home()), str(Path.cwd()), sys.prefix, *_values(os.environ)):
        found[text] = "(path)"
    host = socket.gethostname()
    for text in (host, host.partition(".")[0]):
        found[text] = "(host)"
    for text in (
        _user(),
        *(os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")),
    ):
        found[text] = "(user)"
    return {text: word for text, word in found.items() if len(text) >= _SHORTEST}


def _values(environment: Mapping[str, str]) -> list[str]:
    """Paths that settings of this package name, with spaces in them or not."""
    mine = [value for name, value in environment.items() if name.startswith("AITER_")]
    return [part for value in mine for part in value.split(os.pathsep) if "/" in part or "\\" in part]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return ""


def anonymous(text: str, words: Mapping[str, str]) -> str:
    """Return a text without names of the site.

    Args:
        text: any.
        words: as :func:`site_words` returns them.
    """
    for name in sorted(words, key=len, reverse=True):
        more = _MORE.get(words[name], "")
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-]){more}", words[name], text, flags=re.IGNORECASE)
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text


def without_site(value: Any, words: Mapping[str, str], facts: Collection[str] = FACTS) -> Any:
    """Return plain data without names of the site, but for the fields in ``facts``."""
    if isinstance(value, str):
        return anonymous(value, words)
    if isinstance(value, Mapping):
        return {
            key: each if key in facts else without_site(each, words, facts) for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_site(each, words, facts) for each in value]
    return value


def public_version(version: str) -> str:
    """Return a version without a local part, which a site may have named; ``+rocm7.0`` and ``+cu128`` stay."""
    public, _, local = version.partition("+")
    return version if re.fullmatch(r"(?:rocm|cu|cpu)[\d.]*", local) else public

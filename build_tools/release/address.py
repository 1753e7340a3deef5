"""Addresses in a statement of provenance: their letters, and how one with a login is shown. Standard library only."""

from __future__ import annotations

import re
from typing import Final

#: Letters of a path by RFC 3986, less those that a shell reads: an error prints a command with the address.
_LETTER: Final = r"(?:[A-Za-z0-9._~+,=:-]|%[0-9A-Fa-f]{2})"
_PATH: Final = re.compile(rf"{_LETTER}+(?:/{_LETTER}*)*")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
#: Any URI by RFC 3986, less the apostrophe.
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=-]|%[0-9A-Fa-f]{2})+")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)?(.*)", re.DOTALL)
#: A login ends before the last host. A password may have @ and / in it, and the first part of refs/tags/x is no host.
_LOGIN: Final = re.compile(r".*@(?=[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]*)?(?:[/:]|$))", re.DOTALL)
_USER: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")


def is_address(host: str, path: str) -> bool:
    """Have the host, with its port, and the path, without its first slash, the letters of RFC 3986?"""
    return bool(_HOST.fullmatch(host) and _PATH.fullmatch(path))


def is_uri(text: str) -> bool:
    """Has it the form of a URI, and no login?"""
    return bool(_URI.fullmatch(text)) and not ("://" in text and has_login(text))


def has_login(text: str) -> bool:
    """Is there a login in it, perhaps? A name alone, before an SSH address, is none."""
    found = _SCHEME.fullmatch(text)
    scheme, rest = (found[1] or "", found[2]) if found is not None else ("", text)
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, _ = rest.partition("@")
    if scheme.lower() in {"http://", "https://"}:
        # A password with a slash: what stands after the colon is no port. A token with one: what is before it is no host's name.
        named = "." in authority or ":" in authority or authority == "localhost"
        late = bool(_LOGIN.match(rest)) and not named and rest.count("@") > 1
        return (
            "@" in authority or late or not re.fullmatch(r"[^:\[]*(:[0-9]*)?|\[[^\]]*\](:[0-9]*)?", authority)
        )
    if scheme:
        return (
            bool(at) and "@" in rest and not _USER.fullmatch(user) and ("@" in authority or ":" in authority)
        )
    return bool(at) and ":" in user


def shown(text: str) -> str:
    """Return an address as an error shows it: without a login, a query and a fragment, where a token may stand."""
    found = _SCHEME.fullmatch(text)
    scheme, rest = (found[1] or "", found[2]) if found is not None else ("", text)
    if has_login(text):
        login = _LOGIN.match(rest)
        rest = f"...@{rest[login.end() :]}" if login else "..."
    return scheme + re.sub(r"[?#].*", "...", rest, flags=re.DOTALL)

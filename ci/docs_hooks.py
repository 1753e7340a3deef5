"""Hooks of the documentation site (``mkdocs.yml``): pages from outside ``docs``, and links to files that are no page.

README.md becomes the home page. A link to a file of the repository that has no page becomes plain words: the site does not know
where the repository is hosted.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "ci"))

import pages

#: File of the repository -> its page on the site.
OUTSIDE: Final = {
    "README.md": "index.md",
    "AGENTS.md": "project/agents.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "csrc/emulator/README.md": "project/emulator.md",
    "examples/README.md": "project/examples.md",
    "manifests/README.md": "project/manifests.md",
}
#: Folder of the site that the status page copies as its ``docs`` (``nox -s site``): its menu ends with a link to that page.
BELOW_STATUS_PAGE: Final = "site-docs"
_FENCES: Final = re.compile(r"(^```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside ``docs``."""
    from mkdocs.structure.files import File

    for name, uri in OUTSIDE.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_nav(nav: Any, config: Any, **_: Any) -> Any:
    """Link the status page, if the site will lie below it."""
    from mkdocs.structure.nav import Link

    if Path(config.site_dir).name == BELOW_STATUS_PAGE:
        nav.items.append(Link("What is served", "../index.html"))
    return nav


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make the links of a page those of the site."""
    return rewritten(markdown, page.file.src_uri)


def rewritten(markdown: str, uri: str) -> str:
    """Return the text of the page ``uri`` with links to pages of the site, outside of code blocks."""
    source = {page: name for name, page in OUTSIDE.items()}.get(uri, f"docs/{uri}")
    parts = _FENCES.split(markdown)
    for at in range(0, len(parts), 2):
        parts[at] = pages.LINK.sub(lambda link: _link(link, source, uri), parts[at])
    return "".join(parts)


def _link(link: re.Match[str], source: str, uri: str) -> str:
    words, target = link.group(1), link.group(2)
    path, _, anchor = target.partition("#")
    if not path or pages.is_elsewhere(target):
        return link.group(0)
    name = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    page = OUTSIDE.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else "")
    if page:
        relative = posixpath.relpath(page, posixpath.dirname(uri) or ".")
        return link.group(0).replace(f"({target})", f"({relative}{'#' + anchor if anchor else ''})")
    return words if (ROOT / name).exists() else link.group(0)

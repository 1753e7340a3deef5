"""Write the pages and the status site, and look at the site in a browser."""

from __future__ import annotations

import nox

from sessions.environment import (
    BUILD,
    DIST,
    build_tools,
    install,
    locks,
    run,
    shared,
)


@shared
def site(session: nox.Session) -> None:
    """Write the status page of a build to ``build/site``, with the documentation below it.

    ``-- --record FILE``: with earlier releases. It asks the live choice.
    """
    install(session, *locks("docs"))
    pages = BUILD / "site-docs"
    words = ("build", "--strict", "--site-dir", str(pages))
    run(session, "python", "-m", "mkdocs", *words, env={"NO_MKDOCS_2_WARNING": "1"})
    build_tools(session, "develop")
    wheels = ("--wheels", str(DIST)) if DIST.is_dir() else ()
    build_tools(session, "site", str(BUILD / "site"), "--docs", str(pages), *wheels, *session.posargs)


@shared
def docs(session: nox.Session) -> None:
    """Build the pages as a site in ``build/docs``. Every page must be in its menu, and every link and anchor is checked."""
    install(session, *locks("docs"))
    run(session, "python", "ci/pages.py")
    run(session, "python", "-m", "mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@shared
def browser(session: nox.Session) -> None:
    """Open the page of ``site`` in a headless browser.

    npm's packages bring it; its screenshots are kept below ``build``.
    """
    install(session, *locks("test", "browser"))
    folder = BUILD / "browser"
    run(session, "python", "ci/browser.py", str(folder))
    environment = {
        "AITER_PREBUILT_BROWSER": str(folder),
        "AITER_PREBUILT_SCREENSHOTS": str(BUILD / "screenshots"),
    }
    run(session, "python", "-m", "pytest", "-q", "tests/browser", *session.posargs, env=environment)

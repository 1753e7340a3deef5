"""Sign wheels, publish them, and build without a network."""

from __future__ import annotations

import nox

from sessions.environment import (
    ENVIRONMENT,
    build_python,
    install,
    locks,
    run,
    shared,
)


@nox.session(python=build_python(), default=False)
def release(session: nox.Session) -> None:
    """Sign the wheels in ``dist``: ``-- --key FILE``; AITER_PREBUILT_KEY_PASSWORD has the password of the secret key.

    Its environment is its own, without a compiler. A CI service makes it before it has the key: ``--install-only``, then ``-R``.
    """
    session.install("--no-compile", *locks("release"))
    session.run("python", "-m", "build_tools", "release", "sign", *session.posargs, env=ENVIRONMENT)


@nox.session(python=build_python(), default=False)
def mirror(session: nox.Session) -> None:
    """Write a folder to install from, with a package index, of the wheels in ``dist``: ``-- FOLDER --key FILE``."""
    session.install("--no-compile", *locks("release"))
    session.run("python", "-m", "build_tools", "mirror", "deploy", *session.posargs, env=ENVIRONMENT)


@shared
def airgap(session: nox.Session) -> None:
    """Fill a mirror to build from, and compile a job of each backend from it without a network, with an empty home."""
    install(session, *locks("test", "release"))
    run(session, "python", "-m", "pytest", "-q", "-m", "airgap", "tests/dist/test_offline.py")

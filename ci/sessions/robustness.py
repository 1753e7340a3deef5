"""Search for bugs: fuzzing, mutations and sanitizers."""

from __future__ import annotations

import nox

from sessions.environment import (
    build_tools,
    install,
    install_torch,
    locks,
    run,
    shared,
)


@shared
def fuzz(session: nox.Session) -> None:
    """Both readers of a bundle under libFuzzer, every damage sealed again (``-- --minutes 10``)."""
    install(session, *locks("test", "fuzz"))
    build_tools(session, "develop")
    run(session, "python", "-m", "fuzz", *session.posargs, env={"PYTHONPATH": "src:tests"})


@shared
def mutate(session: nox.Session) -> None:
    """Small changes of the sources, one at a time: do the tests notice? (``-- --sample 20 --folder build_tools/plan``)."""
    install(session, *locks("test", "clients", "mutate"))
    install_torch(session)
    build_tools(session, "build")
    build_tools(session, "develop")
    run(session, "python", "-m", "mutate", *session.posargs, env={"PYTHONPATH": "tests:src"})


@shared
def sanitize(session: nox.Session) -> None:
    """Test the native parts under sanitizers.

    ThreadSanitizer, then AddressSanitizer and UndefinedBehaviorSanitizer: ``-- thread`` for one kind.

    Needs the system gcc's sanitizer runtimes.
    """
    install(session, *locks("test"))
    install_torch(session)
    build_tools(session, "build")
    run(session, "python", "tests/sanitize/sanitize.py", *session.posargs)

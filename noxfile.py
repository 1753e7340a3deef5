"""The commands of this repository. A fresh machine needs Python and pip, nothing else: no apt, no root, no ROCm.

    python3 -m pip install -r build_tools/locks/nox.txt
    python3 -m nox -s demo      from manifests to installed wheels, and every operator executed on the emulator
    python3 -m nox -s tests     all tests
    python3 -m nox -s examples  whole decoder layers of four models from installed wheels, on the emulator
    python3 -m nox -s servers   wrappers of vLLM and SGLang on stock AITER through the bridge
    python3 -m nox -s peers     AITER's own op_tests under the bridge, on the checkout that AITER_DIR names; other projects' tests
    python3 -m nox -s prove     execute what has no receipt on the emulator and write the receipts
    python3 -m nox -s edition   build with AITER of August 2026 beside the pinned one, and execute what has no receipt
    python3 -m nox -s reproduce compile the host's wheels twice, in two folders: the same bytes; pip builds a commit's wheel
    python3 -m nox -s airgap    fill a mirror with all that a build needs, and build from it without a network
    python3 -m nox -s rehearse  the jobs of the workflow of a CI service, run here from its own file
    python3 -m nox -s pythons   the wheels with each Python that they serve
    python3 -m nox -s images    the lines of a Dockerfile in a root of Debian's packages
    python3 -m nox -s sanitize  the native parts under the sanitizers of the system's gcc
    python3 -m nox -s docs      the pages of docs as a site: build/docs/index.html
    python3 -m nox -s site      what is built and proved, with the documentation: build/site/index.html
    python3 -m nox -s browser   the page of `python -m build_tools site` in a headless browser from npm, with screenshots
    python3 -m nox -s fuzz      the readers of a bundle under libFuzzer
    python3 -m nox -s mutate    would the tests notice a wrong program?
    python3 -m nox              lint and tests

CI calls the same sessions (``.ci/run``, ``.github/workflows/wheels.yml``).
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = (
    "virtualenv"  # uv does not read pip's configuration (find-links, extra indexes)
)
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

sys.path.insert(0, str(Path(__file__).resolve().parent / "ci"))
#: Modules of ``ci/sessions``. Importing one registers its sessions, so this is the order of ``nox -l``.
for purpose in (
    "environment",
    "testing",
    "building",
    "releasing",
    "site",
    "robustness",
    "demos",
    "clients",
    "upkeep",
):
    import_module(f"sessions.{purpose}")

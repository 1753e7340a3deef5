"""``nox -s rehearse``: run the jobs of the workflow here, each in a clean clone and an empty home, and say what was not seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from rehearsal import judged
from rehearsal.actions import ACTIONS, Machine, StepFailedError, link
from rehearsal.image import cibuildwheel
from rehearsal.settings import pairs
from rehearsal.workflow import Context, Job, Step, UnknownWordError, Workflow, holds, read, value

ROOT: Final = Path(__file__).resolve().parents[2]
WORKFLOW: Final = ROOT / ".github" / "workflows" / "wheels.yml"
SESSIONS: Final = judged.SESSIONS
#: How this machine reaches a network; nothing else of its environment is a runner's.
_NETWORK: Final = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "UV_CACHE_DIR",
)  # fmt: skip
#: The step that starts a container; ``image.py`` runs what cibuildwheel would run in it.
_RUNTIME: Final = "ci/provider.sh runtime"
_GH: Final = """#!/bin/sh
printf 'gh %s\\n' "$*"
for word; do case $word in dist/*) test -e "$word" || { echo "no such file: $word"; exit 1; };; esac; done
"""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line's words. ``rows``: how many of a matrix run, 0 for all; ``store``: stands for the others' artifacts."""

    folder: Path
    python: str
    jobs: tuple[str, ...]
    rows: int
    store: Path | None
    indexes: dict[str, str]
    settings: dict[str, str]
    tag: str


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "build" / "rehearsal"
)
@click.option("--workflow", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=WORKFLOW)
@click.option("--python", default="", help="Run with this Python where the workflow names another one.")
@click.option(
    "--job",
    "jobs",
    multiple=True,
    help="Only these; what they need must have run before, in the same folder.",
)
@click.option(
    "--rows", default=0, help="Run only so many rows of a matrix; --store stands for the others' artifacts."
)
@click.option(
    "--store", type=click.Path(exists=True, file_okay=False, path_type=Path), help="For example build/store."
)
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="URL=FOLDER",
    callback=pairs,
    help="A folder of wheels for an index out of reach.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs,
    help="Another value for a variable of the workflow.",
)
@click.option("--tag", default="v0.0.0", help="The tag that is pushed.")
def main(workflow: Path, **words: object) -> None:
    """Run the jobs of the workflow here."""
    options = Options(**words)  # type: ignore[arg-type]  # click gives each its type
    try:
        jobs = read(workflow)
        _check_names(jobs, options)
        sys.exit(rehearse(jobs, options))
    except UnknownWordError as error:
        sys.exit(f"error: {workflow}: {error}")


def _check_names(workflow: Workflow, options: Options) -> None:
    """Refuse a job or a variable that the workflow does not have: nothing would run, or change.

    Raises:
        UnknownWordError: there is one.
    """
    jobs = [job.name for job in workflow.jobs]
    variables = sorted({*workflow.environment, *(name for job in workflow.jobs for name in job.environment)})
    for what, asked, known in (("--job", options.jobs, jobs), ("--set", options.settings, variables)):
        for name in asked:
            if name not in known:
                raise UnknownWordError(
                    f"{what} {name}: the workflow has no such name. It has {', '.join(known)}"
                )


def rehearse(workflow: Workflow, options: Options) -> int:
    """Run the jobs in order. Returns 1 where one failed or could not start."""
    unseen: dict[str, None] = {}
    lines, failed = [], set[str]()
    options.folder.mkdir(parents=True, exist_ok=True)
    secrets = _secrets(options.folder)
    before = set(options.folder.glob("*.log"))
    if _output("git", "status", "--porcelain"):
        unseen["what is not committed: each job clones the commit"] = None
    for job in workflow.jobs:
        if options.jobs and job.name not in options.jobs:
            unseen[f"job {job.name}: not asked for"] = None
            continue
        if failed & set(job.needs):
            failed.add(job.name)
            lines.append(f"{job.name}: not started, it needs {', '.join(sorted(failed & set(job.needs)))}")
            continue
        context = _context(options.tag, secrets)
        if not holds(job.condition, context):
            lines.append(f"{job.name}: passed over, {job.condition} is false")
            continue
        for number, row in enumerate(job.rows, start=1):
            name = job.name if len(job.rows) == 1 else f"{job.name} {number}/{len(job.rows)}"
            if options.rows and number > options.rows:
                if number == options.rows + 1:
                    _stand_in(job, {**context, "matrix": row}, options, unseen)
                continue
            started = time.monotonic()
            told = _run_job(workflow, job, {**context, "matrix": row}, options, unseen)
            seconds = time.monotonic() - started
            late = f", over its limit of {job.minutes:.0f} minutes" if seconds > 60 * job.minutes else ""
            lines.append(f"{name}: {'failed' if told else 'passed'} in {seconds:.0f} s{late}")
            click.echo(lines[-1])
            if told:
                failed.add(job.name)
                click.echo(told)
    if not options.jobs and not failed:
        logs = set(options.folder.glob("*.log")) - before
        for name in judged.missing_sessions(logs, SESSIONS):
            failed.add(name)
            lines.append(f"failed: no job ran the session {name}")
    click.echo("\n".join(["", "Jobs:", *lines, "", "Not seen here:", *(unseen or ["nothing"])]))
    return 1 if failed else 0


def _run_job(
    workflow: Workflow, job: Job, context: Context, options: Options, unseen: dict[str, None]
) -> str:
    """Run one job on a machine of its own. Returns what its failing step said, or nothing."""
    folder = Path(tempfile.mkdtemp(prefix=f"{job.name}-", dir=options.folder))
    artifacts = options.folder / "artifacts"
    artifacts.mkdir(exist_ok=True)
    log = options.folder / f"{folder.name}.log"
    machine = Machine(folder, ROOT, artifacts, {}, options.python, unseen, log)
    try:
        machine.environment = _environment(folder, workflow, job, context, options, unseen)
        for step in job.steps:
            _run_step(machine, step, context)
        floating = judged.unlocked(folder, machine.work)
        if floating:
            raise StepFailedError(f"packages that no lock has were installed: {', '.join(floating)}")
    except StepFailedError as error:
        return f"{error}\nThe whole log: {log}; the folder stays: {folder}"
    shutil.rmtree(folder, ignore_errors=True)
    return ""


def _run_step(machine: Machine, step: Step, context: Context) -> None:
    given = {key: value(text, context) for key, text in step.given.items()}
    step = Step(value(step.run, context), step.uses, given, step.environment)
    title = step.uses or step.run.splitlines()[0]
    click.echo(f"  {title}")
    with machine.log.open("a", encoding="utf-8") as log:
        log.write(f"\n== {title}\n")
    if step.run.strip() == _RUNTIME:
        cibuildwheel(machine, step)
    elif step.uses:
        if step.uses not in ACTIONS:
            raise UnknownWordError(f"the action {step.uses} is not known to a rehearsal")
        ACTIONS[step.uses](machine, step)
    else:
        own = {key: value(text, context) for key, text in step.environment.items()}
        machine.run(["bash", "-e", "-c", step.run], {**machine.environment, **own})


def _environment(
    folder: Path, workflow: Workflow, job: Job, context: Context, options: Options, unseen: dict[str, None]
) -> dict[str, str]:
    """Return a runner's environment: an empty home, no settings of this machine's pip, and what the workflow sets."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "gh").write_text(_GH, encoding="utf-8")
    (tools / "gh").chmod(0o755)
    if any("gh release" in step.run for step in job.steps):
        unseen["the draft on GitHub: a program that looks for the files stood for gh"] = None
    found = {name: os.environ[name] for name in _NETWORK if name in os.environ}
    found |= {
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "temp"), "RUNNER_TEMP": str(folder / "temp"), "CI": "true",
        "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "GITHUB_ACTIONS": "true",
        "PIP_CONFIG_FILE": os.devnull, "GITHUB_REF": value("${{ github.ref }}", context),
    }  # fmt: skip
    found |= {key: value(text, context) for key, text in {**workflow.environment, **job.environment}.items()}
    for name, text in options.settings.items():
        if name in found and found[name] != text:
            unseen[f"{name}={found[name]}: {text} stood for it"] = None
            found[name] = text
    for name, url in [(key, text) for key, text in found.items() if text.startswith("https://")]:
        if not _is_reachable(url):
            place = options.indexes.get(url, "")
            unseen[f"{name}={url}: out of reach; {place or 'nothing'} stood for it"] = None
            del found[name]
            found |= {"PIP_FIND_LINKS": place} if place else {}
    return found


def _stand_in(job: Job, context: Context, options: Options, unseen: dict[str, None]) -> None:
    """Make the artifacts of a row of a matrix that does not run from the store that stands for it."""
    if options.store is None:
        raise UnknownWordError(
            f"--rows leaves rows of job {job.name} out: name the --store that stands for them"
        )
    unseen[f"the other rows of job {job.name}: {options.store} stood for what they make"] = None
    for step in job.steps:
        if step.uses != "actions/upload-artifact":
            continue
        place = options.folder / "artifacts" / value(step.given["name"], context)
        for path in (
            [each for each in options.store.rglob("*") if each.is_file()] if not place.exists() else ()
        ):
            target = place / path.relative_to(options.store)
            target.parent.mkdir(parents=True, exist_ok=True)
            link(path, target)
        return


def _context(tag: str, secrets: Mapping[str, str]) -> Context:
    return {
        "github": {
            "ref": f"refs/tags/{tag}", "ref_type": "tag", "ref_name": tag, "server_url": "https://github.com",
            "repository": "a-rehearsal/aiter-prebuilt", "run_id": "1", "run_attempt": "1", "token": "no token",
            "workflow_ref": f"a-rehearsal/aiter-prebuilt/.github/workflows/wheels.yml@refs/tags/{tag}",
        },
        "vars": {"PUBLISH": "pypi"},
        "secrets": secrets,
    }  # fmt: skip


def _secrets(folder: Path) -> dict[str, str]:
    """Return a key that is thrown away, and its password."""
    keys = folder / "key"
    shutil.rmtree(keys, ignore_errors=True)
    keys.mkdir()
    password = os.urandom(16).hex()
    words = [sys.executable, "-m", "build_tools", "release", "keygen", str(keys)]
    environment = {**os.environ, "AITER_PREBUILT_KEY_PASSWORD": password}
    # It says where to publish the key. This one is thrown away.
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    secret = (keys / "aiter-prebuilt.key").read_text(encoding="utf-8").rstrip("\n")
    return {"MINISIGN_KEY": secret, "MINISIGN_PASSWORD": password}


def _is_reachable(url: str) -> bool:
    """Return whether an index answers from here."""
    try:
        with urllib.request.urlopen(url, timeout=20):  # noqa: S310  # the workflow's own, and https
            return True
    except OSError:
        return False


def _output(*words: str) -> str:
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()

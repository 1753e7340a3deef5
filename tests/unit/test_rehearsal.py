"""The rehearsal of the workflow: what it reads, and what its machines do, on a small workflow of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

from rehearsal import __main__ as program  # noqa: E402
from rehearsal import judged  # noqa: E402
from rehearsal import workflow as words  # noqa: E402
from rehearsal.actions import ACTIONS, Machine, StepFailedError, download_artifact, upload_artifact  # noqa: E402
from rehearsal.workflow import Step, UnknownWordError  # noqa: E402

CONTEXT = {"github": {"ref": "refs/tags/v1", "ref_type": "tag", "ref_name": "v1"}, "vars": {"PUBLISH": ""}}
SMALL = r"""
on: push
env: { WORD: "a word" }
jobs:
  second:
    needs: first
    runs-on: any
    steps:
      - uses: actions/checkout@0123
      - uses: actions/download-artifact@0123
        with: { pattern: "made-*", path: got, merge-multiple: true }
      - run: |
          test "$(cat got/1 got/2)" = "$(printf 'a word 1\na word 2')"
          test "$(git rev-parse refs/tags/v0.0.0)" = "$(git rev-parse HEAD)"
          test -f file && test -z "$(ls -A "$HOME")"
  first:
    runs-on: any
    strategy:
      matrix:
        include:
          - { number: 1 }
          - { number: 2 }
    steps:
      - run: mkdir out && echo "$WORD $NUMBER" > "out/$NUMBER"
        env: { NUMBER: "${{ matrix.number }}" }
      - uses: actions/upload-artifact@0123
        with: { name: "made-${{ matrix.number }}", path: out, if-no-files-found: error }
  third:
    if: vars.PUBLISH == 'elsewhere'
    needs: second
    runs-on: any
    steps: [{ run: "exit 1" }]
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, which the rehearsal takes for this one."""
    place = tmp_path / "repository"
    place.mkdir()
    (place / "file").write_text("", encoding="utf-8")
    for line in ("init -q", "add file", "-c user.name=a -c user.email=b commit -qm first"):
        subprocess.run(["git", *line.split()], cwd=place, check=True)
    monkeypatch.setattr(program, "ROOT", place)
    monkeypatch.setattr(program, "_secrets", lambda folder: {})
    monkeypatch.setattr(program, "SESSIONS", ())
    return place


def rehearsed(repository: Path, text: str, *more: str) -> tuple[int, str]:
    path = repository.parent / "workflow.yml"
    path.write_text(text, encoding="utf-8")
    folder = str(repository.parent / "folder")
    told = CliRunner().invoke(program.main, ["--workflow", str(path), "--folder", folder, *more])
    return told.exit_code, told.output


def test_jobs_run_in_the_order_of_their_needs_and_hand_files_on(repository: Path) -> None:
    code, told = rehearsed(repository, SMALL)
    assert code == 0, told
    assert told.index("first 1/2: passed") < told.index("first 2/2: passed") < told.index("second: passed")
    assert "third: passed over, vars.PUBLISH == 'elsewhere' is false" in told


def test_a_failing_step_fails_the_rehearsal_and_what_needs_it_does_not_start(repository: Path) -> None:
    code, told = rehearsed(repository, SMALL.replace("mkdir out &&", "echo why; exit 3;"))
    assert code == 1
    assert "exit code 3\nwhy" in told
    assert "second: not started, it needs first" in told


def test_rows_that_do_not_run_are_named_and_a_store_stands_for_them(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "2").write_text("a word 2\n", encoding="utf-8")
    assert rehearsed(repository, SMALL, "--rows", "1")[1].startswith("error: ") is False
    code, told = rehearsed(repository, SMALL, "--rows", "1", "--store", str(tmp_path / "store"))
    assert code == 0, told
    assert "the other rows of job first" in told.partition("Not seen here:")[2]


def test_an_index_out_of_reach_is_named_and_nothing_of_this_machine_stands_for_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/a/folder")
    monkeypatch.setattr(program, "_is_reachable", lambda url: False)
    text = SMALL.replace('"a word" }', '"a word", INDEX: "https://index.invalid/cpu" }')
    seen = text.replace(
        "mkdir out", 'test -z "$INDEX$PIP_FIND_LINKS" && test "$PIP_CONFIG_FILE" = /dev/null && mkdir out'
    )
    code, told = rehearsed(repository, seen)
    assert code == 0, told
    assert "INDEX=https://index.invalid/cpu: out of reach; nothing stood for it" in told
    named = text.replace("mkdir out", 'test "$PIP_FIND_LINKS" = /wheels && mkdir out')
    assert rehearsed(repository, named, "--index", "https://index.invalid/cpu=/wheels")[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("runs-on: any", "runs-on: any\n    container: image", "job second has container"),
        ("needs: first", "needs: absent", "wait for jobs that there are not"),
        ("vars.PUBLISH == 'elsewhere'", "always()", "only == and && are known"),
        ("matrix.number }}\"", "matrix.absent }}\"", "there is no such value here"),
        ("matrix.number }}\"", "hashFiles('a') }}\"", "only names with dots"),
        ("actions/checkout@", "somebody/else@", "the action somebody/else is not known"),
    ],
)  # fmt: skip
def test_a_word_that_is_not_known_ends_the_rehearsal(repository: Path, old: str, new: str, why: str) -> None:
    assert old in SMALL
    code, told = rehearsed(repository, SMALL.replace(old, new))
    assert code == 1 and why in told


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--job", "frist"), "--job frist: the workflow has no such name. It has first, second, third"),
        (("--set", "WROD=a"), "--set WROD: the workflow has no such name. It has WORD"),
        (("--set", "WORD"), "'WORD' is not NAME=VALUE."),
        (("--set", "=a"), "'=a' is not NAME=VALUE."),
        (("--index", "/wheels"), "'/wheels' is not URL=FOLDER."),
    ],
)  # fmt: skip
def test_an_option_that_changes_nothing_is_an_error(
    repository: Path, words: tuple[str, str], why: str
) -> None:
    code, told = rehearsed(repository, SMALL, *words)
    assert code and why in told
    assert "passed" not in told


def test_a_value_has_all_behind_the_first_equals_sign_and_an_index_all_before_the_last(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_is_reachable", lambda url: False)
    text = SMALL.replace('"a word" }', '"a word", INDEX: "https://index.invalid/?a=b" }')
    seen = text.replace("mkdir out", 'test "$WORD $PIP_FIND_LINKS" = "b=c /wheels" && mkdir out')
    words = ("--job", "first", "--set", "WORD=b=c", "--index", "https://index.invalid/?a=b=/wheels")
    code, told = rehearsed(repository, seen, *words)
    assert code == 0, told


def test_nobody_is_asked_to_publish_the_key_that_is_thrown_away(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("minisign")
    assert set(program._secrets(tmp_path)) == {"MINISIGN_KEY", "MINISIGN_PASSWORD"}
    assert "".join(capfd.readouterr()) == ""


def machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "machine"
    return Machine(folder, tmp_path, tmp_path / "artifacts", {}, "", {}, tmp_path / "log")


def test_hidden_files_stay_behind_as_on_the_real_runner(tmp_path: Path) -> None:
    one = machine(tmp_path)
    for name in ("out/.hidden/a", "out/b"):
        (one.work / name).parent.mkdir(parents=True, exist_ok=True)
        (one.work / name).write_text("", encoding="utf-8")
    upload_artifact(one, Step("", "", {"name": "plain", "path": "out"}, {}))
    upload_artifact(one, Step("", "", {"name": "all", "path": "out", "include-hidden-files": "true"}, {}))
    upload_artifact(one, Step("", "", {"name": "chosen", "path": "out/*b"}, {}))
    found = {str(path.relative_to(one.artifacts)) for path in one.artifacts.rglob("*") if path.is_file()}
    assert found == {"plain/b", "all/b", "all/.hidden/a", "chosen/b"}


def test_an_artifact_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    one = machine(tmp_path)
    with pytest.raises(StepFailedError, match="no file matches out"):
        upload_artifact(one, Step("", "", {"name": "a", "path": "out", "if-no-files-found": "error"}, {}))
    with pytest.raises(StepFailedError, match="no artifact matches a"):
        download_artifact(one, Step("", "", {"name": "a", "path": "got"}, {}))


def test_the_project_s_own_workflow_has_nothing_that_a_rehearsal_does_not_know() -> None:
    read = words.read(program.WORKFLOW)
    names = [job.name for job in read.jobs]
    assert names.index("pack") > names.index("compile") and names[-2:] == ["release", "publish"]
    assert {step.uses for job in read.jobs for step in job.steps} <= {*ACTIONS, ""}
    scripts = [step.run for job in read.jobs for step in job.steps]
    assert "ci/provider.sh plan" in scripts and program._RUNTIME in scripts
    assert not [each for each in scripts if "pip install" in each]
    assert "PIP_EXTRA_INDEX_URL" in read.environment


def test_the_key_is_there_only_where_nothing_is_installed() -> None:
    (release,) = (job for job in words.read(program.WORKFLOW).jobs if job.name == "release")
    with_key = [step for step in release.steps if "secrets" in str(step.environment)]
    assert len(with_key) == 1
    before = release.steps[: release.steps.index(with_key[0])]
    assert any(step.run == "ci/provider.sh publish --install-only" for step in before)
    assert with_key[0].run == "ci/provider.sh publish"


def test_values_and_conditions() -> None:
    assert words.value("x ${{ github.ref_name }} ${{github.ref_type}}", CONTEXT) == "x v1 tag"
    assert words.holds("", CONTEXT)
    assert words.holds("github.ref_type == 'tag'", CONTEXT)
    assert not words.holds("github.ref_type == 'tag' && vars.PUBLISH == 'pypi'", CONTEXT)
    with pytest.raises(UnknownWordError):
        words.value("${{ github.actor }}", CONTEXT)


def test_it_starts_as_its_session_starts_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal", "--help"], cwd=ROOT, env={"PYTHONPATH": "src:ci"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "--rows" in done.stdout


LINTS = """
on: push
jobs:
  only:
    runs-on: any
    steps: [{ run: "echo 'nox > Session lint was successful in 3 seconds.'" }]
"""


def test_a_release_without_the_lint_session_fails(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "SESSIONS", ("lint",))
    code, told = rehearsed(repository, LINTS)
    assert code == 0, told
    code, told = rehearsed(repository, LINTS.replace("lint", "tests"))
    assert code == 1 and "failed: no job ran the session lint" in told
    code, told = rehearsed(repository, LINTS.replace("lint", "tests"), "--job", "only")
    assert code == 0, told  # one job alone is no release


def test_a_package_that_no_lock_has_fails_its_job(repository: Path) -> None:
    place = ".nox/lint/lib/python3.11/site-packages/A_b-2.dist-info"
    install = f"mkdir -p {place} && printf 'Name: A_b\\nVersion: 2\\n' > {place}/METADATA"
    lock = "mkdir -p build_tools/locks && echo 'a-b==2 --hash=sha256:00' > build_tools/locks/lint.txt"
    text = "on: push\njobs:\n  only:\n    runs-on: any\n    steps:\n"
    code, told = rehearsed(repository, f"{text}      - run: {json.dumps(install)}\n")
    assert code == 1 and "packages that no lock has were installed: a-b==2" in told
    code, told = rehearsed(repository, f"{text}      - run: {json.dumps(f'{install} && {lock}')}\n")
    assert code == 0, told


def test_the_sessions_that_a_release_needs_are_those_of_its_script() -> None:
    script = (ROOT / "ci" / "provider.sh").read_text(encoding="utf-8")
    for name in judged.SESSIONS:
        assert re.search(rf"nox (-R )?-s {name}\b", script), name

"""``ci/provider.sh``: the five steps that every CI service calls, and the pipelines that call them."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

from matrix_units import units_of  # noqa: E402

from build_tools.generate import matrix  # noqa: E402

PLAIN = {"PATH": "/usr/bin:/bin"}
#: The first of the two lines of a key's file.
COMMENT = "untrusted comment: minisign secret key"
#: The second: of a key that nobody has.
KEY = base64.b64encode(b"EdScB2" + bytes(range(152))).decode()
TABLE = {
    "units": [
        {"unit": number, "target": "gfx942", "profile": "ck-free", "shard": f"{number}/5"}
        for number in range(1, 6)
    ]
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script and its table in a folder of their own, where a stand-in for nox writes down how it is called."""
    (tmp_path / "ci").mkdir()
    for name in ("provider.sh", "matrix_units.py", "matrix.json", "release_key.py"):
        shutil.copy(ROOT / "ci" / name, tmp_path / "ci" / name)
    shutil.copytree(ROOT / "build_tools" / "locks", tmp_path / "build_tools" / "locks")
    for name in ("__init__.py", "release"):
        (tmp_path / "build_tools" / name).symlink_to(ROOT / "build_tools" / name)
    programs = tmp_path / "build" / "provider" / "bin"
    programs.mkdir(parents=True)
    (programs.parent / "made").write_text(made_of("nox"), encoding="utf-8")
    (programs / "nox").touch(mode=0o755)
    (programs / "python").write_text(
        f'#!/bin/sh\necho "$@" >> "{tmp_path}/calls"\nenv > "{tmp_path}/environment"\n'
        'for each; do case "$each" in */MINISIGN_KEY) cat "$each" >> '
        f'"{tmp_path}/keys"; stat -c %a "$each" >> "{tmp_path}/modes";; esac; done\n'
        'exit "${FAILS:-0}"\n',
        encoding="utf-8",
    )
    (programs / "python").chmod(0o755)
    return tmp_path


def made_of(*names: str) -> str:
    """What the script writes into an environment: the Python, and its locks."""
    done = subprocess.run(["python3", "--version"], env=PLAIN, capture_output=True, text=True, check=True)
    locks = [(ROOT / "build_tools" / "locks" / f"{name}.txt").read_text(encoding="utf-8") for name in names]
    return "".join([done.stdout, *locks])


def step(checkout: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **PLAIN,
        "HOME": str(checkout / "home"),
        "TMPDIR": str(checkout),
        **variables,
    }
    return subprocess.run(
        [str(checkout / "ci" / "provider.sh"), *words],
        cwd="/", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def calls(checkout: Path) -> list[str]:
    place = checkout / "calls"
    return place.read_text(encoding="utf-8").splitlines() if place.exists() else []


@pytest.mark.parametrize("jobs", [1, 2, 3, 5, 7])
def test_every_unit_is_one_job_s(jobs: int) -> None:
    parts = [units_of(TABLE, f"{index}/{jobs}") for index in range(1, jobs + 1)]
    assert sorted(line for part in parts for line in part) == units_of(TABLE, "")
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_refuses_a_part_that_is_none(part: str, checkout: Path) -> None:
    with pytest.raises(ValueError, match="is not I/N with 1 <= I <= N"):
        units_of(TABLE, part)
    done = step(checkout, "compile", part)
    assert done.returncode == 2 and "is not I/N" in done.stderr and not calls(checkout)


def test_plan_lints_and_prints_the_units(checkout: Path) -> None:
    done = step(checkout, "plan")
    assert done.returncode == 0, done.stderr
    assert calls(checkout) == ["-m nox -s lint"]
    units = json.loads((ROOT / matrix.MATRIX).read_text(encoding="utf-8"))["units"]
    assert len(done.stdout.splitlines()) == len(units)


def test_plan_refuses_a_source_that_publish_would_refuse(checkout: Path) -> None:
    shutil.copy(ROOT / "ci" / "release_source.py", checkout / "ci")
    for name in ("build_tools", "src"):
        (checkout / name / "link").parent.mkdir(parents=True, exist_ok=True)
    for name in ("errors.py", "files"):
        (checkout / "build_tools" / name).symlink_to(ROOT / "build_tools" / name)
    (checkout / "src" / "aiter_prebuilt").symlink_to(ROOT / "src" / "aiter_prebuilt")
    for words in (("plan",), ("publish", "--install-only")):
        done = step(checkout, *words, SOURCE="/srv/r@v1")
        assert done.returncode == 2 and "Type --source https://" in done.stderr and not calls(checkout)
    assert step(checkout, "plan", SOURCE="git@github.com:o/r@v1").returncode == 0


def test_compile_takes_each_unit_of_its_job_from_the_table(checkout: Path) -> None:
    units = json.loads((ROOT / matrix.MATRIX).read_text(encoding="utf-8"))["units"]
    done = step(checkout, "compile", "2/5", CK="sample")
    assert done.returncode == 0, done.stderr
    wanted = [row for row in units if row["unit"] % 5 == 2]
    assert calls(checkout) == [
        f"-m nox -s compile -- --target {row['target']} --profile {row['profile']} --shard {row['shard']} --ck sample"
        for row in wanted
    ]


def test_pack_compiles_nothing_and_compares_with_the_wheel_of_the_container(checkout: Path) -> None:
    assert "needs the build/store" in step(checkout, "pack").stderr
    (checkout / "build" / "store").mkdir()
    assert "needs the wheelhouse" in step(checkout, "pack").stderr and not calls(checkout)
    (checkout / "wheelhouse").mkdir()
    assert step(checkout, "pack").returncode == 0
    assert calls(checkout)[:4] == [
        "-m nox -s wheels -- --ck curated --stored-only --recheck 1/10",
        "-m nox -s reproduce",
        "-m nox -s same_runtime -- dist wheelhouse",
        "-m nox -s site",
    ]


def test_without_a_container_the_runtime_step_says_so(checkout: Path) -> None:
    (checkout / "programs").mkdir()
    for name in ("sh", "dirname", "python3"):
        found = shutil.which(name)
        assert found is not None
        (checkout / "programs" / name).symlink_to(found)
    alone = str(checkout / "programs")
    done = step(checkout, "runtime", PATH=alone)
    assert done.returncode == 2 and "needs docker or podman, and neither is here" in done.stderr
    done = step(checkout, "runtime", PATH=alone, RUNTIME="none")
    assert done.returncode == 0 and "no wheel of cibuildwheel's container is made" in done.stdout


def test_publish_signs_with_a_key_that_only_its_commands_see_and_no_file_stays(checkout: Path) -> None:
    assert "set MINISIGN_KEY" in step(checkout, "publish").stderr
    (checkout / "dist").mkdir()
    assert "publish --install-only first" in step(checkout, "publish", MINISIGN_KEY=KEY).stderr
    assert not calls(checkout)
    (checkout / ".nox" / "release").mkdir(parents=True)
    named = {"BUILDER": "https://builder", "SOURCE": "https://source@refs/tags/v1"}
    done = step(
        checkout, "publish", MINISIGN_KEY=f"{COMMENT}\n{KEY}", AITER_PREBUILT_KEY_PASSWORD="p", **named
    )
    assert done.returncode == 0, done.stderr
    signing, index = calls(checkout)
    key = re.search(r"--key (\S+)", signing)
    assert key is not None and not Path(key[1]).exists() and not Path(key[1]).parent.exists()
    assert signing.startswith("-m nox -R -s release -- dist --key ")
    assert signing.endswith("--builder https://builder --source https://source@refs/tags/v1")
    assert index == f"-m nox -R -s mirror -- build/mirror --key {key[1]}"
    assert (checkout / "keys").read_text(encoding="utf-8") == f"{COMMENT}\n{KEY}\n" * 2
    assert set((checkout / "modes").read_text(encoding="utf-8").split()) == {"600"}
    assert "MINISIGN_KEY" not in (checkout / "environment").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [("publish",), ("publish", "--install-only"), ("plan",)])
def test_a_trace_of_the_script_has_no_key(checkout: Path, words: tuple[str, ...]) -> None:
    for name in ("dist", ".nox/release"):
        (checkout / name).mkdir(parents=True)
    done = subprocess.run(
        ["sh", "-x", str(checkout / "ci" / "provider.sh"), *words],
        env={**PLAIN, "TMPDIR": str(checkout), "MINISIGN_KEY": KEY, "AITER_PREBUILT_KEY_PASSWORD": "p4ssw0rd"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "+ " in done.stderr and KEY not in done.stderr and "p4ssw0rd" not in done.stderr


def test_no_file_with_the_key_stays_where_signing_fails(checkout: Path) -> None:
    for name in ("dist", ".nox/release"):
        (checkout / name).mkdir(parents=True)
    done = step(checkout, "publish", MINISIGN_KEY=KEY, FAILS="1")
    assert done.returncode == 1 and (checkout / "keys").read_text() == f"{COMMENT}\n{KEY}\n"
    assert not [*checkout.rglob("MINISIGN_KEY")]


def test_publish_takes_a_key_file_as_gitlab_and_jenkins_give_it(checkout: Path) -> None:
    (checkout / "dist").mkdir()
    (checkout / ".nox" / "release").mkdir(parents=True)
    (checkout / "file").write_text(f"{COMMENT}\n{KEY}\n", encoding="utf-8")
    assert step(checkout, "publish", MINISIGN_KEY=str(checkout / "file")).returncode == 0
    assert (checkout / "keys").read_text(encoding="utf-8") == f"{COMMENT}\n{KEY}\n" * 2


@pytest.mark.parametrize("in_file", [False, True], ids=["text", "file"])
@pytest.mark.parametrize(
    "text",
    [
        "{0}\n{1}\n",
        "\n\n{0}\n\n{1}\n\n",
        "{0}\r\n{1}\r\n",
        "{1}\n",
        " {1} ",
        "\r\n\t{1}\r\n\r\n",
        "  {0}\n  {1}\n",
    ],
)
def test_blank_lines_and_spaces_around_a_key_do_no_harm(checkout: Path, text: str, in_file: bool) -> None:
    for name in ("dist", ".nox/release"):
        (checkout / name).mkdir(parents=True)
    value = text.format(COMMENT, KEY)
    if in_file:
        (checkout / "file").write_bytes(value.encode())
        value = f"{checkout / 'file'}\n"
    done = step(checkout, "publish", MINISIGN_KEY=value)
    assert done.returncode == 0, done.stderr
    assert (checkout / "keys").read_text(encoding="utf-8") == f"{COMMENT}\n{KEY}\n" * 2


@pytest.mark.parametrize("words", [("plan",), ("publish", "--install-only"), ("publish",)])
@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("/srv/no/release.key", "there is no file /srv/no/release.key"),
        ("{0}/ci", "/ci is no regular file"),
        ("{0}/pipe", "/pipe is no regular file"),
        ("{0}/ci/provider.sh", "has more than 4096 bytes"),
        (COMMENT, "it has one line,"),
        (f"{COMMENT}\n{KEY}\n{KEY}", "it has 3 lines"),
        (KEY[:-8], "it is no minisign secret key"),
        ("a secret", "it is no minisign secret key"),
        (" \n", "it has 0 lines"),
    ],
)
def test_what_is_no_key_is_refused_before_any_work(
    checkout: Path, words: tuple[str, ...], value: str, found: str
) -> None:
    os.mkfifo(checkout / "pipe")
    done = step(checkout, *words, MINISIGN_KEY=value.format(checkout))
    assert done.returncode == 2 and not calls(checkout)
    assert done.stderr.startswith("error: ci/provider.sh: MINISIGN_KEY: ") and found in done.stderr
    assert "Set it to the secret key" in done.stderr and KEY[:50] not in done.stderr


def test_plan_installs_nothing_beside_the_key(checkout: Path) -> None:
    assert step(checkout, "plan", MINISIGN_KEY=KEY, AITER_PREBUILT_KEY_PASSWORD="p").returncode == 0
    seen = (checkout / "environment").read_text(encoding="utf-8")
    assert "MINISIGN_KEY" not in seen and "KEY_PASSWORD" not in seen


def test_the_line_of_the_key_that_a_service_can_mask_is_a_key(checkout: Path, tmp_path: Path) -> None:
    from build_tools.release.sign import new_key, signers

    for name in ("dist", ".nox/release"):
        (checkout / name).mkdir(parents=True)
    secret, _ = new_key(tmp_path, "one", "a password")
    _, line = secret.read_text(encoding="utf-8").splitlines()
    assert step(checkout, "publish", MINISIGN_KEY=line).returncode == 0
    (tmp_path / "again.key").write_text(
        (checkout / "keys").read_text(encoding="utf-8")[: len(COMMENT) + len(line) + 2], encoding="utf-8"
    )
    with ExitStack() as stack:
        assert [each.number for each in signers(stack, [tmp_path / "again.key"], "a password")]


def test_what_an_earlier_build_left_is_not_used(checkout: Path) -> None:
    old = {"pack": "dist/old.whl", "publish": "build/mirror/files/old.whl"}
    for name in (*old.values(), "build/store/x", "wheelhouse/x", ".nox/release/x", "dist/new.whl"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch()
    assert step(checkout, "publish", MINISIGN_KEY=KEY).returncode == 0
    assert not (checkout / old["publish"]).exists() and (checkout / "dist" / "new.whl").exists()
    assert step(checkout, "pack").returncode == 0 and not (checkout / old["pack"]).exists()


def test_an_environment_of_other_locks_is_made_again(checkout: Path) -> None:
    programs = checkout / "programs"
    programs.mkdir()
    (programs / "python3").write_text(
        '#!/bin/sh\n[ "$1" = -m ] || exec /usr/bin/python3 "$@"\necho "python3 $*" >> '
        f'"{checkout}/calls"\n[ "$2" != venv ] || rm "{checkout}/build/provider/made"\n',
        encoding="utf-8",
    )
    (programs / "python3").chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    assert step(checkout, "compile", "99/99", PATH=path).returncode == 0 and not calls(checkout)
    with (checkout / "build_tools" / "locks" / "nox.txt").open("a", encoding="utf-8") as lock:
        lock.write("# another commit\n")
    for _ in range(2):
        assert step(checkout, "compile", "99/99", PATH=path).returncode == 0
    assert calls(checkout) == [
        "python3 -m venv --clear build/provider",
        "-m pip install --quiet --no-deps --require-hashes -r build_tools/locks/nox.txt",
    ]


@pytest.mark.parametrize("name", ["gitlab-ci.yml", "buildkite.yml"])
def test_a_job_that_has_the_key_from_its_start_installs_without_it(name: str) -> None:
    without = "env -u MINISIGN_KEY -u AITER_PREBUILT_KEY_PASSWORD ci/provider.sh publish --install-only"
    text = (ROOT / "ci" / name).read_text(encoding="utf-8")
    assert text.count("publish --install-only") == text.count(without) == 1


def test_jenkins_cleans_each_workspace() -> None:
    text = (ROOT / "ci" / "Jenkinsfile").read_text(encoding="utf-8")
    assert text.count("sh 'git clean -ffdxq'") == text.count("checkout scm") + text.count("agent any")


def test_environments_are_made_before_the_key_is_there(checkout: Path) -> None:
    done = step(checkout, "publish", "--install-only")
    assert done.returncode == 0 and not done.stderr
    assert calls(checkout) == ["-m nox -s release mirror --install-only"]
    assert "the key is there" in step(checkout, "publish", "--install-only", MINISIGN_KEY=KEY).stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("publish", "--instal-only"), "publish takes --install-only or no word, not '--instal-only'"),
        (("publish", "--install-only", "dist"), "publish takes fewer words. It got: --install-only dist"),
        (("plan", "1/4"), "plan takes fewer words. It got: 1/4"),
        (("pack", ""), "pack takes fewer words."),
    ],
)
def test_a_word_that_a_step_does_not_take_is_an_error(
    checkout: Path, words: tuple[str, ...], why: str
) -> None:
    (checkout / "dist").mkdir()
    done = step(checkout, *words, MINISIGN_KEY="any")
    assert done.returncode == 2 and why in done.stderr
    assert calls(checkout) == []


def test_a_step_that_is_none_is_an_error(checkout: Path) -> None:
    for words in ((), ("deploy",), ("compile",)):
        done = step(checkout, *words)
        assert done.returncode == 2 and "error: ci/provider.sh: " in done.stderr


@pytest.mark.parametrize("path", matrix.PIPELINES, ids=str)
def test_every_pipeline_calls_every_step(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    called = set(re.findall(r"ci/provider\.sh (\w+)", text))
    assert called == {"plan", "compile", "runtime", "pack", "publish"}
    assert ".ci/run" in text and "publish --install-only" in text
    count = len(json.loads((ROOT / matrix.MATRIX).read_text(encoding="utf-8"))["units"])
    assert re.search(rf"\b{count}\b", text) and not re.search("@[A-Z]+@", text)


@pytest.mark.parametrize("path", matrix.PIPELINES, ids=str)
def test_the_first_job_of_every_pipeline_knows_the_source(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    job = re.search(r"SOURCE=\S+ ci/provider\.sh plan|ci/provider\.sh plan\n +env:\n +SOURCE: ", text)
    assert job is not None
    last = text.rindex("SOURCE")
    assert last > job.end(), "publish's"


def test_what_floats_is_on_the_page_of_pins() -> None:
    page = (ROOT / "docs" / "pins.md").read_text(encoding="utf-8")
    floats = page.partition("\n## What floats\n")[2].partition("\n## ")[0]
    files = [ROOT / path for path in matrix.PIPELINES] + sorted((ROOT / "ci").glob("*.Dockerfile"))
    words = r"(?:image: |name: |ARG BASE=)([a-z./]+:[0-9][\w.-]*)|runs-on: (\S+)|(apt)-get"
    found = {
        word for path in files for row in re.findall(words, path.read_text("utf-8")) for word in row if word
    }
    assert {"docker:28-dind", "apt"} < found and all(f"`{word}`" in floats for word in found), found


def test_the_script_is_executable_and_posix() -> None:
    path = ROOT / "ci" / "provider.sh"
    assert os.access(path, os.X_OK)
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0


@pytest.mark.parametrize("value", ["None", "no", "docker"])
def test_another_value_of_runtime_is_refused(checkout: Path, value: str) -> None:
    done = step(checkout, "runtime", RUNTIME=value)
    assert done.returncode == 2 and not calls(checkout)
    assert f"RUNTIME is none or not set, and it is '{value}'" in done.stderr

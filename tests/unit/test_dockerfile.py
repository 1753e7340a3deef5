"""The Dockerfiles, and the reader that runs their lines without a container engine."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

from rehearsal import dockerfile  # noqa: E402
from rehearsal.dockerfile import DockerfileError, Image, Line  # noqa: E402

FILES = sorted((ROOT / "ci").glob("*.Dockerfile"))


def test_continued_lines_are_one_and_comments_none() -> None:
    text = "# a comment\nFROM x\nRUN a && \\\n    # between\n    b\n"
    assert dockerfile.lines_of(text) == [Line("FROM", "x"), Line("RUN", "a &&      b")]


def test_refuses_an_instruction_that_it_does_not_know() -> None:
    with pytest.raises(DockerfileError, match="the instruction 'VOLUME' is not known here"):
        dockerfile.lines_of("FROM x\nVOLUME /data\n")


def test_settings_copies_and_places_are_those_of_the_lines(tmp_path: Path) -> None:
    (tmp_path / "context" / "folder").mkdir(parents=True)
    for name in ("a", "folder/b"):
        (tmp_path / "context" / name).write_text(name, encoding="utf-8")
    text = 'FROM x\nARG WORD=one\nENV A=${WORD} PATH=/opt:$PATH\nWORKDIR /place\nCOPY a ./\nCOPY folder to\nCMD ["x", "y"]\n'
    image = Image(tmp_path / "image")
    dockerfile.build(dockerfile.lines_of(text), image, tmp_path / "context", {"WORD": "two"})
    assert image.variables["A"] == "two" and image.variables["PATH"].startswith("/opt:/usr/local")
    assert (image.place, image.command) == ("/place", ("x", "y"))
    found = {str(path.relative_to(image.folder)) for path in image.folder.rglob("*") if path.is_file()}
    assert found == {"place/a", "place/to/b"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_is_read_and_leaves_root_at_its_end(path: Path) -> None:
    lines = dockerfile.lines_of(path.read_text(encoding="utf-8"))
    users = [line.rest for line in lines if line.word == "USER"]
    assert users and re.fullmatch(r"[1-9]\d*:\d+", users[-1])
    assert all(
        (ROOT / name).exists() for line in lines if line.word == "COPY" for name in line.rest.split()[:-1]
    )


def test_the_server_s_wheels_come_from_dist_alone() -> None:
    (run,) = (
        line.rest
        for line in dockerfile.lines_of((ROOT / "ci" / "server.Dockerfile").read_text(encoding="utf-8"))
        if line.word == "RUN"
    )
    assert "--isolated" in run and "--no-index" in run and "source=dist" in run


def test_a_build_image_has_folders_that_any_user_id_can_write_and_no_other() -> None:
    """``docker run --user 1000``: what a build writes lies in them, its home and cache too."""
    lines = dockerfile.lines_of((ROOT / "ci" / "build.Dockerfile").read_text(encoding="utf-8"))
    (opened,) = (number for number, line in enumerate(lines) if "chmod" in line.rest)
    assert lines[opened].rest == "mkdir -p build/home dist && chmod 777 build build/home dist"
    later = [line.word for line in lines[opened + 1 :]]
    assert later == ["USER", "CMD"], "a later line of root's could add files that others cannot write"
    (settings,) = (line.rest for line in lines if line.word == "ENV")
    assert "HOME=/project/build/home" in settings and "AITER_PREBUILT_CACHE=/project/build/cache" in settings


def test_the_build_s_packages_come_by_hash() -> None:
    text = (ROOT / "ci" / "build.Dockerfile").read_text(encoding="utf-8")
    installs = [line.rest for line in dockerfile.lines_of(text) if "pip install" in line.rest]
    assert installs and all("--require-hashes" in each for each in installs)

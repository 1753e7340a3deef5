"""The statement beside each wheel: SLSA's form, and that what it says is so."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from support import sessions

from build_tools.errors import ManifestError, SigningError
from build_tools.pack.archive import write_members
from build_tools.release import built, provenance
from build_tools.release.built import Built
from build_tools.release.provenance import OWN_MACHINE, Run
from build_tools.release.sign import new_key
from build_tools.tools import locks, pins
from build_tools.verbs.release import release

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "tests" / "data" / "provenance.schema.json").read_text())
COMMIT = "a" * 40
ALL = Built(COMMIT, COMMIT)
SERVICE = Run(
    "https://github.com/o/r/.github/workflows/wheels.yml@refs/tags/v1",
    "https://github.com/o/r/actions/runs/7/attempts/1",
    "https://github.com/o/r@refs/tags/v1",
)
BILL = "aiter_prebuilt-1.dist-info/sboms/a.cdx.json"
HASH = "--hash=sha256:" + "0" * 64


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "dist" / "aiter_prebuilt-1-py3-none-any.whl"
    write_members(path, {"aiter_prebuilt/__init__.py": b"", BILL: b"{}"})
    return path


@pytest.fixture(scope="module")
def taken() -> list[dict[str, Any]]:
    return provenance.dependencies(ROOT)


def _checked(told: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check a statement against the schema. Returns its definition of the build and its details of the run."""
    jsonschema.validate(told, SCHEMA, cls=jsonschema.Draft202012Validator)
    predicate = json.loads(provenance.text(told))["predicate"]
    return predicate["buildDefinition"], predicate["runDetails"]


def test_a_statement_of_a_service_names_builder_run_and_commit(
    wheel: Path, taken: list[dict[str, Any]]
) -> None:
    told = provenance.statement(wheel, ALL, COMMIT, taken, SERVICE)
    definition, details = _checked(told)
    assert told["subject"] == [
        {"name": wheel.name, "digest": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}}
    ]
    assert definition["externalParameters"] == {"repository": "https://github.com/o/r", "ref": "refs/tags/v1"}
    assert definition["resolvedDependencies"][0] == {
        "name": "source", "uri": "git+https://github.com/o/r@refs/tags/v1", "digest": {"gitCommit": COMMIT}
    }  # fmt: skip
    assert definition["resolvedDependencies"][1:] == taken
    assert details == {
        "builder": {"id": SERVICE.builder},
        "metadata": {"invocationId": SERVICE.invocation},
        "byproducts": [
            {
                "name": BILL,
                "digest": {"sha256": hashlib.sha256(b"{}").hexdigest()},
                "mediaType": "application/vnd.cyclonedx+json",
            }
        ],
    }
    # SLSA: no name twice, once under a user's control and once not.
    assert definition["externalParameters"].keys().isdisjoint(definition["internalParameters"])


def test_a_machine_of_ones_own_says_so_and_invents_no_run(wheel: Path) -> None:
    told = provenance.statement(wheel, ALL, COMMIT, [], Run())
    definition, details = _checked(told)
    assert details["builder"] == {"id": OWN_MACHINE} and "metadata" not in details
    assert definition["externalParameters"] == {}
    assert definition["resolvedDependencies"] == [{"name": "source", "digest": {"gitCommit": COMMIT}}]
    assert not re.search(r"\d{4}-\d\d-\d\dT", provenance.text(told).decode()), "no time is true of a release"
    assert OWN_MACHINE.rpartition("#")[2] in (ROOT / "docs" / "provenance.md").read_text()
    assert provenance.BUILD_TYPE.rpartition("#")[2] in (ROOT / "docs" / "provenance.md").read_text()


@pytest.mark.parametrize(
    ("commit", "source"),
    [
        ("", []),
        (f"{COMMIT}-dirty", [{"name": "source", "uri": "git+https://github.com/o/r@refs/tags/v1"}]),
        ("b" * 40, [{"name": "source", "uri": "git+https://github.com/o/r@refs/tags/v1",
                     "digest": {"gitCommit": "b" * 40}}]),
    ],
)  # fmt: skip
def test_pins_of_another_commit_and_changes_without_one_are_not_told(
    wheel: Path, taken: list[dict[str, Any]], commit: str, source: list[dict[str, Any]]
) -> None:
    made = SERVICE if source else Run()
    definition, _ = _checked(provenance.statement(wheel, Built(commit, commit), COMMIT, taken, made))
    assert definition["resolvedDependencies"] == source
    assert definition["internalParameters"] == {"commit": commit, "signedAt": COMMIT}


def test_a_bundle_of_another_commit_is_told(wheel: Path, taken: list[dict[str, Any]]) -> None:
    definition, _ = _checked(provenance.statement(wheel, Built(COMMIT, "b" * 40), COMMIT, taken, Run()))
    assert definition["internalParameters"] == {
        "commit": COMMIT, "bundleCommit": "b" * 40, "signedAt": COMMIT
    }  # fmt: skip
    assert definition["resolvedDependencies"] == [], "neither commit is the source of the whole wheel"


def test_every_package_of_the_build_is_a_dependency_with_all_of_its_digests(
    taken: list[dict[str, Any]],
) -> None:
    seen: dict[str, set[str]] = {}
    for row in taken:
        seen.setdefault(row["uri"], set()).update(row.get("digest", {}).values())
    (torch,) = locks.asked_for(ROOT, "torch").values()
    assert [uri for uri, digests in seen.items() if not digests] == [f"pkg:pypi/torch@{torch}"]
    for group in ("build", "nox", "torch"):
        text = (ROOT / "build_tools" / "locks" / f"{group}.txt").read_text()
        wanted: dict[str, set[str]] = {}
        for line in text.splitlines():
            if match := re.match(r"([a-z0-9.-]+)==([^ ]+)", line):
                uri = f"pkg:pypi/{match[1]}@{match[2]}"
            elif digest := re.search(r"sha256:([0-9a-f]{64})", line):
                wanted.setdefault(uri, set()).add(digest[1])
        assert wanted and wanted.keys() <= seen.keys()
        assert all(digests <= seen[uri] for uri, digests in wanted.items())
    pinned = pins.load(ROOT)
    assert {digest for pin in pinned.tools.values() for digest in pin.wheels.values()} <= set().union(
        *seen.values()
    )
    archives = [*pinned.sources.values(), *(tree.archive for tree in pinned.trees.values())]
    assert {pin.sha256 for pin in archives} <= set().union(*seen.values())
    source = sessions.text()
    assert '*locks("build"), "-r", "build_tools/requirements.txt"' in source, "what nox -s wheels installs"
    assert "def wheels(session: nox.Session)" in source and 'install(session, *locks("torch"))' in source


def test_the_schema_refuses_what_slsa_does_not_allow(wheel: Path) -> None:
    told = provenance.statement(wheel, ALL, COMMIT, [], SERVICE)
    for place, value in (
        (("runDetails", "builder", "id"), ""),
        (("runDetails", "builder", "id"), "a machine"),
        (("runDetails", "metadata", "finishedOn"), "yesterday"),
        (("buildDefinition", "buildType"), "build"),
        (("buildDefinition", "resolvedDependencies"), [{"name": "nothing else"}]),
        (("buildDefinition", "resolvedDependencies"), [{"digest": {"gitCommit": f"{COMMIT}-dirty"}}]),
        (("buildDefinition", "resolvedDependencies"), [{"digest": {"sha256": ""}}]),
    ):
        changed = json.loads(provenance.text(told))
        inner = changed["predicate"]
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(changed, SCHEMA, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("builder", "my machine"),
        ("builder", "github.com/o/r"),
        ("invocation", "7"),
    ],
)
def test_refuses_words_that_identify_nothing(option: str, value: str) -> None:
    with pytest.raises(SigningError, match=re.escape(f"--{option} {value!r}")):
        Run(**{option: value})


@pytest.mark.parametrize("option", ["builder", "invocation"])
def test_an_address_of_a_builder_or_a_run_is_a_uri_without_a_login(option: str) -> None:
    for value in (
        "https://u:secret@site/x",
        "https://u:secret/x@git.site/x",
        'https://site/"x"',
        "https://s\xefte/x",
        "https://site/%x",
    ):
        with pytest.raises(SigningError, match=f"sign with --{option}") as error:
            Run(**{option: value})
        assert "secret" not in str(error.value)
    for value in (
        "https://site/o/r/w.yml@refs/tags/v1",
        "https://site/x?a=1&b=%20#c",
        "urn:x:a@b",
        "https://site:80/a@b.org/c",
    ):
        Run(**{option: value})


def test_the_command_writes_statements_that_are_in_order(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = new_key(tmp_path, "one", "")
    built.write(wheel.parent, [wheel], COMMIT)
    monkeypatch.setattr(provenance, "commit_of", lambda _root: COMMIT)
    words = ["--builder", SERVICE.builder, "--invocation", SERVICE.invocation]
    words += ["--source", f"git@github.com:o/r@{COMMIT}"]
    done = CliRunner().invoke(
        release, ["sign", str(wheel.parent), "--key", str(secret), *words], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    definition, details = _checked(json.loads((wheel.parent / f"{wheel.name}.provenance.json").read_text()))
    assert details["builder"]["id"] == SERVICE.builder
    uris = {row["uri"].partition("@")[0] for row in definition["resolvedDependencies"]}
    assert {
        "git+https://github.com/o/r",
        "pkg:pypi/triton",
        "pkg:pypi/amd-aiter",
        "pkg:pypi/pydantic-core",
    } <= uris


def test_the_workflow_says_who_it_is() -> None:
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    assert "run: ci/provider.sh publish" in text
    said = (ROOT / "ci" / "provider.sh").read_text()
    for option, variable in (("builder", "BUILDER"), ("invocation", "RUN"), ("source", "SOURCE")):
        assert f'${{{variable}:+--{option} "${variable}"}}' in said
    assert "BUILDER: ${{ github.server_url }}/${{ github.workflow_ref }}" in text
    assert "SOURCE: ${{ github.server_url }}/${{ github.repository }}@${{ github.ref }}" in text


def test_a_lock_without_a_hash_or_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"x==1 has no sha256"):
        locks.entries("x==1\n")
    assert locks.entries(f"X_y==1 \\\n    {HASH} \\\n    {HASH[:-1]}1\n") == [
        ("x-y", "1", ("0" * 64, "0" * 63 + "1"))
    ]
    with pytest.raises(ManifestError, match=r"build\.txt"):
        locks.read(tmp_path, "build")

"""Finding bundles, with no native extension and no GPU."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest
from support.bundles import small_bundle

from aiter_prebuilt.bundles import extras, locate, wheel_source
from aiter_prebuilt.errors import BundleConflictError, BundleTargetError, NoBundleError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def _install(folder: Path, *names: str) -> str:
    place = folder / locate.FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        (place / name).write_bytes(small_bundle()[0])
    return str(folder)


def test_bundles_are_found_beside_the_package(tmp_path: Path) -> None:
    folder = _install(tmp_path, "gfx950-ck-full.apb", "gfx942-ck-free.apb", "gfx950-ck-free.apb")
    found = locate.installed("", [folder])
    assert [(b.target, b.profile, b.extra) for b in found] == [
        ("gfx942", "ck-free", "gfx942"),
        ("gfx950", "ck-free", "gfx950"),
        ("gfx950", "ck-full", "gfx950-ck"),
    ]


def test_one_folder_listed_twice_is_one_bundle(tmp_path: Path) -> None:
    folder = _install(tmp_path, "gfx942-ck-free.apb")
    assert len(locate.installed("", [folder, folder])) == 1


def test_a_folder_and_a_link_to_it_hold_one_bundle(tmp_path: Path) -> None:
    """Where lib64 is a link to lib, both stand in sys.path; so it is with what the variable names."""
    folder = _install(tmp_path / "lib", "gfx942-ck-free.apb")
    (tmp_path / "lib64").symlink_to("lib")
    linked = str(tmp_path / "lib64")
    for order in ([folder, linked], [linked, folder]):
        (found,) = locate.installed("", order)
        assert Path(found.path).samefile(tmp_path / "lib" / locate.FOLDER / "gfx942-ck-free.apb")
        (found,) = locate.installed(os.pathsep.join(f"{place}/{locate.FOLDER}" for place in order), [])
        assert found.target == "gfx942"


def test_of_two_bundles_on_the_path_the_first_is_used(tmp_path: Path) -> None:
    """A user's folder over the image's site-packages, as of two modules."""
    folders = [_install(tmp_path / name, "gfx942-ck-free.apb") for name in ("a", "b")]
    for order in (folders, folders[::-1]):
        (found,) = locate.installed("", order)
        (hidden,) = locate.shadowed("", order)
        first, second = (f"{place}/{locate.FOLDER}/gfx942-ck-free.apb" for place in order)
        assert (found.path, hidden.bundle.path, hidden.by.path) == (first, second, first)
    assert locate.shadowed("", folders[:1]) == ()


def test_a_users_folder_goes_before_the_runtimes_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the order of sys.path, as modules. Not on it, the runtime's own folder is still searched."""
    own, users = (_install(tmp_path / name, "gfx942-ck-free.apb") for name in ("site", "user"))
    monkeypatch.setattr(locate, "__file__", f"{own}/aiter_prebuilt/bundles/locate.py")
    for order in ([users, own], [users], []):
        (found,) = locate.installed("", order)
        assert found.path.startswith(order[0] if order else own)


def test_two_bundles_that_the_variable_names_are_a_conflict(tmp_path: Path) -> None:
    folders = [_install(tmp_path / name, "gfx942-ck-free.apb") for name in ("a", "b")]
    with pytest.raises(BundleConflictError, match="two files claim it") as caught:
        locate.installed(os.pathsep.join(f"{place}/{locate.FOLDER}" for place in folders), [])
    assert str(tmp_path / "a") in caught.value.found and str(tmp_path / "b") in caught.value.found


def test_a_stray_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleTargetError, match="name does not end"):
        locate.installed("", [_install(tmp_path, "gfx942.apb")])


def test_the_variable_replaces_the_search(tmp_path: Path) -> None:
    folder = _install(tmp_path / "installed", "gfx942-ck-free.apb")
    other = tmp_path / "gfx950-ck-free.apb"
    other.write_bytes(small_bundle()[0])
    found = locate.installed(str(other), [folder])
    assert [bundle.target for bundle in found] == ["gfx950"]
    with pytest.raises(NoBundleError, match="does not exist"):
        locate.installed(str(tmp_path / "nowhere"), [])


def test_no_bundle_says_what_is_there_and_what_to_type(tmp_path: Path) -> None:
    found = locate.installed("", [_install(tmp_path, "gfx942-ck-free.apb")])
    with pytest.raises(NoBundleError) as caught:
        locate.for_target("gfx950", found, "device 3 (MI355X)")
    assert str(caught.value) == (
        "Cannot serve device 3 (MI355X): no bundle for gfx950 is installed; installed: gfx942 (ck-free). "
        "Run: pip install 'aiter-prebuilt[gfx950]'"
    )


def test_what_ck_adds_does_not_serve_alone(tmp_path: Path) -> None:
    found = locate.installed("", [_install(tmp_path, "gfx942-ck-full.apb")])
    with pytest.raises(NoBundleError):
        locate.for_target("gfx942", found, "device 0")


def test_extra_of_sm_90_has_no_underscore() -> None:
    assert extras.extra_of("sm_90") == "sm90"


def test_no_extra_is_named_that_is_not_there() -> None:
    have = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dynamic-metadata"][-1]["result"]
    assert set(extras.EXTRAS) == {name for name in have if name.startswith(("gfx", "sm"))} - {
        "gfx942-ck",
        "gfx950-ck",
    }
    with pytest.raises(NoBundleError) as caught:
        locate.for_target("gfx90a", (), "calls on gfx90a")
    assert "pip install" not in caught.value.fix and "gfx90a (MI200) is not supported" in caught.value.fix
    assert extras.to_install("gfx942:xnack-") == "run: pip install 'aiter-prebuilt[gfx942]'"


@pytest.mark.parametrize(
    ("record", "options"),
    [
        (None, "--no-index --find-links dist "),
        ("{", "--no-index --find-links dist "),
        ('{"url": "file:///a/checkout", "dir_info": {"editable": true}}', "--no-index --find-links dist "),
        ('{"url": "file://HERE/my%20checkout", "dir_info": {}}', "--no-index --find-links 'HERE/my checkout/dist' "),
        ('{"url": "https://example.org/o/r", "vcs_info": {"vcs": "git", "commit_id": "a"}}', "--no-index --find-links dist "),
        ('{"url": "file://HERE/o/r", "vcs_info": {"vcs": "git", "commit_id": "a"}}', "--no-index --find-links dist "),
        ('{"url": "file:///gone/aiter_prebuilt-0.1.0.whl", "archive_info": {}}', "--no-index --find-links dist "),
        ('{"url": "file://HERE/my%20dist/aiter_prebuilt-0.1.0.whl"}', "--no-index --find-links 'HERE/my dist' "),
        ('{"url": "https://me:secret@mirror.example/w/aiter_prebuilt-0.1.0.whl"}',
         "--no-index --find-links https://mirror.example/w/ "),
    ],
)  # fmt: skip
def test_a_remedy_names_the_place_that_this_installation_came_from(
    record: str | None, options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my dist").mkdir()
    (tmp_path / "my checkout" / "dist").mkdir(parents=True)
    info = tmp_path / "site" / "aiter_prebuilt-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: aiter-prebuilt\nVersion: 0.1.0\n")
    if record is not None:
        (info / "direct_url.json").write_text(record.replace("HERE", str(tmp_path)))
    monkeypatch.syspath_prepend(tmp_path / "site")
    _no_variables(monkeypatch)
    line = extras.pip_line("gfx942", upgrade=True)
    assert line == f"pip install {options.replace('HERE', str(tmp_path))}--upgrade 'aiter-prebuilt[gfx942]'"
    assert extras.nothing_installed().endswith("or 'aiter-prebuilt[gfx950]'")


def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for links, indexes, _ in wheel_source._VARIABLES.values():
        for name in (*links, *indexes):
            monkeypatch.delenv(name, raising=False)


def _installed_from_links(site: Path, monkeypatch: pytest.MonkeyPatch, installer: str = "") -> None:
    info = site / "aiter_prebuilt-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: aiter-prebuilt\nVersion: 0.1.0\n")
    if installer:
        (info / "INSTALLER").write_text(installer)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    _no_variables(monkeypatch)


@pytest.mark.parametrize(
    "variable", ["PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE"]
)
@pytest.mark.parametrize("value", ["https://download.pytorch.org/whl/cpu", "/nowhere"])
def test_a_remedy_asks_no_index_that_a_variable_of_pip_names(
    variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed_from_links(tmp_path, monkeypatch)
    monkeypatch.setenv(variable, value)
    assert extras.pip_line("gfx942") == "pip install --no-index --find-links dist 'aiter-prebuilt[gfx942]'"


@pytest.mark.parametrize("variable", ["PIP_FIND_LINKS", "UV_FIND_LINKS"])
@pytest.mark.parametrize("form", ["folder", "page"])
def test_a_remedy_names_the_links_of_a_variable_that_have_the_wheels(
    variable: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer = variable.partition("_")[0].lower()
    _installed_from_links(tmp_path / "site", monkeypatch, installer)
    (tmp_path / "aiter_prebuilt-0.1.0-py3-none-any.whl").touch()
    (tmp_path / "links.html").touch()
    place = str(tmp_path) if form == "folder" else (tmp_path / "links.html").as_uri()
    monkeypatch.setenv(variable, {"pip": " ", "uv": ","}[installer].join(["/nowhere", place]))
    program = {"pip": "pip install", "uv": "uv pip install"}[installer]
    assert extras.pip_line("gfx942") == f"{program} --no-index --find-links {place} 'aiter-prebuilt[gfx942]'"


@pytest.mark.parametrize("variable", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_DEFAULT_INDEX"])
def test_a_remedy_names_the_links_of_an_index_of_files_that_has_the_wheels(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed_from_links(tmp_path / "site", monkeypatch, variable.partition("_")[0].lower())
    for name in ("mirror/simple/aiter-prebuilt/index.html", "mirror/links.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv(variable, (tmp_path / "mirror" / "simple").as_uri())
    place = (tmp_path / "mirror" / "links.html").as_uri()
    assert f"install --no-index --find-links {place} 'aiter" in extras.pip_line("gfx942")


@pytest.mark.parametrize("variable", ["", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_FIND_LINKS"])
def test_a_remedy_is_uvs_where_uv_installed(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed_from_links(tmp_path, monkeypatch, "uv")
    monkeypatch.setenv("PIP_FIND_LINKS", "of pip, which uv does not read")
    if variable:
        monkeypatch.setenv(variable, "https://me:secret@mirror.example/links.html")
    links = "https://mirror.example/links.html" if variable == "UV_FIND_LINKS" else "dist"
    place = f"--no-index --find-links {links} "
    line = extras.pip_line("gfx942", reinstall=True)
    # uv links what it installs to its cache: a file that is damaged in one is damaged in the other.
    assert line == f"uv pip install {place}--reinstall --no-cache 'aiter-prebuilt[gfx942]'"


def test_a_remedy_for_uv_names_an_environment_that_is_not_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed_from_links(tmp_path, monkeypatch, "uv")
    for value in ("", "/another"):
        monkeypatch.setenv("VIRTUAL_ENV", value)
        assert extras.pip_line("gfx942").startswith(f"uv pip install --python {sys.executable} --no-index ")


def test_the_metadata_of_the_installation_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def distribution(name: str) -> None:
        asked.append(name)
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "distribution", distribution)
    assert extras.pip_line("gfx942", reinstall=True) and asked == ["aiter-prebuilt"]


@pytest.mark.parametrize("here", [True, False])
def test_the_emulator_is_installed_only_where_it_is_not(here: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remedy must work as printed: no index need have a wheel that is installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if here else None)
    first, *others = extras.emulated("aiter-prebuilt verify --execute").split(" && ")
    assert [first, *others][-1] == "aiter-prebuilt-emulator run -- aiter-prebuilt verify --execute"
    assert bool(others) is not here and ("aiter-prebuilt[emulator]" in first) is not here

"""The bridge's wheel, installed with the runtime in a clean environment that has no AITER."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.installed import Environment, make_environment

FINDERS = (
    "import sys; print([type(each).__name__ for each in sys.meta_path if 'Finder' == type(each).__name__])"
)
#: What a program imports that never hears of AITER.
SILENT = "import sys; print(sorted(name for name in sys.modules if name.startswith('aiter')))"
ENTRIES = (
    "from importlib.metadata import entry_points; groups = ('vllm.general_plugins', 'sglang.srt.plugins'); "
    "[each.load()() for group in groups for each in entry_points(group=group)]; import sys; "
    "print(sum(type(each).__name__ == 'Finder' for each in sys.meta_path))"
)


@pytest.fixture(scope="module")
def bridged(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    if not list(dist.glob("aiter_prebuilt_bridge-*.whl")):
        pytest.skip(f"no wheel of the bridge in {dist}: run python -m build_tools wheels")
    made = make_environment(tmp_path_factory.mktemp("bridged"))
    made.install("aiter-prebuilt[bridge]", places=(dist,))
    return made


def test_each_start_of_python_installs_the_finder(bridged: Environment) -> None:
    assert bridged.python(FINDERS).stdout.strip() == "['Finder']"
    assert bridged.python(FINDERS, AITER_PREBUILT_BRIDGE="0").stdout.strip() == "[]"


def test_a_start_of_python_loads_the_hook_alone(bridged: Environment) -> None:
    done = bridged.python(SILENT)
    assert done.stdout.strip() == "['aiter_prebuilt_bridge_hook']" and not done.stderr


def test_servers_find_their_plugins(bridged: Environment) -> None:
    """Loading them twice, once for each server, leaves one finder."""
    done = bridged.python(ENTRIES)
    assert done.stdout.strip() == "1", done.stderr


def test_there_is_no_package_of_aiters_name(bridged: Environment) -> None:
    done = bridged.python("import aiter")
    assert (
        done.returncode == 1
        and done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'aiter'"
    )
    assert not list(bridged.site.glob("aiter/*"))


def test_doctor_and_status_say_that_there_is_no_aiter(bridged: Environment) -> None:
    told = json.loads(bridged.command("doctor", "--json").stdout)["bridge"]
    assert (told["mode"], told["active"], told["aiter"]) == ("on", True, "not installed") and not told[
        "problems"
    ]
    done = bridged.command("bridge", "status")
    assert (
        done.returncode == 39 and "NoAiterError: Cannot import aiter: there is no such package" in done.stderr
    )


def test_without_the_bridge_the_command_says_how_to_get_it(dist: Path, tmp_path: Path) -> None:
    made = make_environment(tmp_path / "plain")
    made.install("aiter-prebuilt", places=(dist,))
    done = made.command("bridge", "status")
    assert done.returncode == 25 and "pip install --no-index --find-links dist 'aiter-prebuilt[bridge]'" in done.stderr
    assert json.loads(made.command("doctor", "--json").stdout)["bridge"] is None


def test_it_is_gone_without_a_trace(dist: Path, tmp_path: Path) -> None:
    made = make_environment(tmp_path / "once")
    made.install("aiter-prebuilt[bridge]", places=(dist,))
    assert made.pip("uninstall", "-y", "aiter-prebuilt-bridge").returncode == 0
    done = made.python(FINDERS)
    assert (done.stdout.strip(), done.stderr) == ("[]", "") and not list(
        made.site.glob("aiter_prebuilt_bridge*")
    )


#: Every file of every entry, compared with the index.
CHECKED = (
    "from aiter_prebuilt_bridge import cache_data; (data,) = cache_data.installed(); "
    "print(sum(len(data.files(entry)) == 2 for entry in data.index.entries), len(data.index.entries))"
)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_extra_of_a_target_brings_kernels_inside_aiter(dist: Path, tmp_path: Path, target: str) -> None:
    if not list(dist.glob(f"aiter_prebuilt_bridge_{target}-*.whl")):
        pytest.skip(
            f"no data wheel of the bridge in {dist}: run python -m build_tools wheels with torch installed"
        )
    made = make_environment(tmp_path / "data")
    made.install(f"aiter-prebuilt[bridge-{target}]", places=(dist,))
    assert made.python(FINDERS).stdout.strip() == "['Finder']"
    (row,) = json.loads(made.command("doctor", "--json").stdout)["bridge"]["caches"]
    assert row["target"] == target and not row["problem"] and row["trees"][0].startswith("amd-aiter ")
    assert {row["entries"]} == {build["entries"] for build in row["compilers"]} and row["entries"] > 50
    right, entries = map(int, made.python(CHECKED).stdout.split())
    assert right == entries == row["entries"]

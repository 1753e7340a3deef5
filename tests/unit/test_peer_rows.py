"""Rows of other projects' tests: which run, from which checkout, and what their program stands in for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import peer_program  # noqa: E402
import peer_rows  # noqa: E402
import peer_setup  # noqa: E402
import peers  # noqa: E402


@pytest.fixture
def checkouts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Path]:
    """A checkout of each project, with a commit, that no variable names yet."""
    found = {}
    for key, project in peer_rows.projects().items():
        monkeypatch.delenv(project.variable, raising=False)
        monkeypatch.setenv(project.variable.replace("_DIR", "_COMMIT"), f"commit{key}")
        found[project.variable] = tmp_path / project.name
        (found[project.variable] / project.folder).mkdir(parents=True)
    return found


def test_each_project_has_rows_with_files_in_its_folder() -> None:
    known = peer_rows.rows()
    projects = peer_rows.projects()
    assert {peer_rows.project_of(row).key for row in known} == projects.keys()
    for row in known:
        file = peer_rows.file_of(row, known)
        assert file.startswith(f"{peer_rows.project_of(row).folder}/") and file.endswith(".py"), row


def test_limits_and_targets_are_of_rows() -> None:
    for key, each in peer_rows.others()["project"].items():
        named = each.get("most", {}).keys() | each.get("targets", {}).keys()
        assert named <= each["rows"].keys(), key


def test_without_names_the_rows_of_named_checkouts_run(
    checkouts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = peer_rows.rows()
    with pytest.raises(SystemExit, match="set AITER_DIR to a checkout of AITER"):
        peer_rows.chosen([], known)
    monkeypatch.setenv("AITER_DIR", str(checkouts["AITER_DIR"]))
    assert {peer_rows.project_of(row).key for row in peer_rows.chosen([], known)} == {""}
    monkeypatch.setenv("TRITON_DIR", str(checkouts["TRITON_DIR"]))
    assert {peer_rows.project_of(row).key for row in peer_rows.chosen([], known)} == {"", "triton"}
    assert peer_rows.chosen(["vllm:aiter_ops"], known) == ["vllm:aiter_ops.gfx942", "vllm:aiter_ops.gfx950"]


def test_a_folder_without_the_tests_is_named(
    checkouts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_DIR", str(checkouts["TRITON_DIR"]))
    with pytest.raises(SystemExit, match="has no folder tests/kernels; set VLLM_DIR to a checkout of vLLM"):
        peer_rows.projects()["vllm"].checkout()


def test_table_says_project_commit_and_the_aiter_that_is_called(
    checkouts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, folder in checkouts.items():
        monkeypatch.setenv(variable, str(folder))
    projects = peer_rows.projects()
    assert projects["vllm"].title() == "vLLM commitvllm" and projects[""].title() == "commit"
    assert projects["vllm"].source() == {"project": "vLLM", "commit": "commitvllm", "aiter": "commit"}
    assert projects["triton"].source() == {"project": "Triton", "commit": "committriton"}


def test_another_projects_file_runs_with_the_conftest_of_its_folder_alone(
    checkouts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_DIR", str(checkouts["TRITON_DIR"]))
    words = peer_rows.arguments_of(
        "triton:core.gfx942", "", {"triton:core.gfx942": "a/test_b.py -k 'c or d'"}
    )
    folder = checkouts["TRITON_DIR"].resolve()
    assert words[0] == "pytest" and words[-2:] == ["-k", "c or d"]
    assert words[words.index("--confcutdir") + 1] == str(folder / "python/test")


@pytest.mark.parametrize(("number", "most", "kept"), [(1, 2, [0]), (4, 2, [1, 3]), (10, 3, [1, 5, 8])])
def test_a_limit_keeps_cases_from_all_over(number: int, most: int, kept: list[int]) -> None:
    assert peer_program.spread(list(range(number)), most) == kept


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'", True),
        ("ModuleNotFoundError: No module named 'vllm._rocm_C'", True),
        ("AttributeError: '_OpNamespace' 'aiter' object has no attribute 'rms_norm'", False),
        ("ModuleNotFoundError: No module named 'vllm.entrypoints'", False),
    ],
)
def test_a_compiled_part_of_the_project_is_not_built(
    monkeypatch: pytest.MonkeyPatch, text: str, missing: bool
) -> None:
    monkeypatch.setenv("PEER_PROJECT", "vllm")
    assert peer_setup.not_built(text) is missing
    monkeypatch.setenv("PEER_PROJECT", "")
    assert not peer_setup.not_built(text)


def test_outcome_of_a_missing_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_PROJECT", "vllm")
    error = AttributeError("'_OpNamespace' '_C' object has no attribute 'rms_norm'")
    assert peer_program.kind_of(error)[0] == "not built"


def test_amdsmi_describes_the_embedded_device() -> None:
    module: Any = peer_setup.amdsmi("gfx950")
    (handle,) = module.amdsmi_get_processor_handles()
    assert module.amdsmi_get_gpu_asic_info(handle)["target_graphics_version"] == "gfx950"


def test_packages_are_named_without_their_folder() -> None:
    text = "at /home/x/venv/lib/python3.11/site-packages/torch/library.py: no"
    assert peers.named_shortly(text, Path("/some")) == "at torch/library.py: no"


def test_configurations_lie_where_the_hubs_client_looks_without_a_network(tmp_path: Path) -> None:
    peer_setup.keep_configs(tmp_path)
    for name, config in peer_setup.MODELS.items():
        folder = tmp_path / f"models--{name.replace('/', '--')}"
        commit = (folder / "refs" / "main").read_text(encoding="utf-8")
        assert json.loads((folder / "snapshots" / commit / "config.json").read_text()) == config

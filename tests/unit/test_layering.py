"""The house's directions, walked import by import (function-level ones too)."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STDLIB_ONLY = "src/aiter_prebuilt"


def _modules() -> dict[str, Path]:
    found = {}
    for base, top in (
        (ROOT / "src", "aiter_prebuilt"),
        (ROOT / "src", "aiter_prebuilt_emulator"),
        (ROOT / "src", "aiter_prebuilt_bridge"),
        (ROOT, "build_tools"),
    ):
        for path in sorted((base / top).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found["aiter_prebuilt_bridge_hook"] = ROOT / "src" / "aiter_prebuilt_bridge_hook.py"
    return found


MODULES = _modules()


@cache
def _imports(path: Path, *, typing_only: bool) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    guarded: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            guarded.update(child for stmt in node.body for child in ast.walk(stmt))
    names: set[str] = set()
    for node in ast.walk(tree):
        if not typing_only and node in guarded:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            texts = (part.value for part in node.args if isinstance(part, ast.Constant))
            names.update(text for text in texts if isinstance(text, str))
    return frozenset(names)


def test_there_is_something_to_walk() -> None:
    assert {"aiter_prebuilt", "aiter_prebuilt.contract.bundle", "build_tools.plan.plan"} <= set(MODULES)


def test_the_runtime_never_sees_the_build_tools() -> None:
    for name, path in MODULES.items():
        if name.startswith("aiter_prebuilt"):
            assert not [i for i in _imports(path, typing_only=True) if i.split(".")[0] == "build_tools"], name


def test_the_build_tools_see_only_the_contract() -> None:
    for name, path in MODULES.items():
        if name.startswith("build_tools"):
            seen = {i for i in _imports(path, typing_only=True) if i.split(".")[0] == "aiter_prebuilt"}
            assert all(i.startswith("aiter_prebuilt.contract") for i in seen), (name, seen)


def test_the_contract_sees_only_itself_and_the_standard_library() -> None:
    import sys

    for name, path in MODULES.items():
        if name.startswith("aiter_prebuilt.contract"):
            for seen in _imports(path, typing_only=True):
                top = seen.split(".")[0]
                assert top in sys.stdlib_module_names or seen.startswith("aiter_prebuilt.contract"), (
                    name,
                    seen,
                )


def test_the_runtime_imports_nothing_outside_the_standard_library() -> None:
    import sys

    for name, path in MODULES.items():
        if name.startswith("aiter_prebuilt"):
            # A function that was handed a torch tensor may import torch: it is loaded already. Tracing is for torch: only a
            # trace or a user imports it (test_torch_library.py).
            torch_side = name.startswith(
                (
                    "aiter_prebuilt.ops.",
                    "aiter_prebuilt.tracing.",
                    "aiter_prebuilt_bridge.adapted",
                    "aiter_prebuilt_emulator.torch",
                )
            )
            allowed = {"torch"} if torch_side else set()
            # The bridge stands on the runtime, never the other way round, and one of its commands imports AITER.
            bridge = {"aiter_prebuilt", "aiter_prebuilt_bridge", "aiter_prebuilt_bridge_hook", "aiter"}
            allowed |= bridge if name.startswith("aiter_prebuilt_bridge") else set()
            for seen in _imports(path, typing_only=False):
                assert seen.split(".")[0] in {*sys.stdlib_module_names, name.split(".")[0], *allowed}, (
                    name,
                    seen,
                )


def test_what_each_start_of_python_runs_imports_what_is_there_already() -> None:
    """A ``.pth`` file executes the hook, for programs that never hear of AITER, too."""
    assert not _imports(MODULES["aiter_prebuilt_bridge"], typing_only=True)
    hook = _imports(MODULES["aiter_prebuilt_bridge_hook"], typing_only=False)
    late = {"aiter_prebuilt_bridge.loader", "aiter_prebuilt_bridge.loader.spec_of"}
    late |= {"importlib", "importlib.metadata", "logging"}  # where the runtime is missing
    assert hook == {"os", "sys", *late}  # __future__ is a file, too


def test_subprocesses_start_in_one_place() -> None:
    # A debugger's program is the user's own, and outlives a call.
    starts = {"build_tools.files.run", "aiter_prebuilt_emulator.debug_program"}
    for name, path in MODULES.items():
        if name not in starts:
            assert "subprocess" not in _imports(path, typing_only=False), name


def test_no_backend_imports_another() -> None:
    folder = "build_tools.compile.backends."
    backends = {name for name in MODULES if name.startswith(folder)} - {folder + "table"}
    assert len(backends) > 1
    for name in backends:
        for seen in _imports(MODULES[name], typing_only=False) & backends:
            family = seen.rsplit(".", 1)[1].split("_")[0]
            same = name.rsplit(".", 1)[1].split("_")[0] == family
            assert same or seen.endswith((".built", ".device", ".prelude", ".many", ".child", ".heap")), (
                name,
                seen,
            )


#: Folder of build_tools -> folders that it may import. All of them may import the records and the errors; the pipeline and
#: the verbs call the stages and may import any. A stage is listed after those that it imports.
STAGES: dict[str, set[str]] = {
    "files": set(),
    "manifest": {"files"},
    "cases": {"manifest"},
    "tools": {"files"},
    "modules": {"tools"},
    "plan": {"manifest", "tools"},
    "objects": set(),
    "compile": {"files", "tools", "objects"},
    "judge": {"files", "objects"},
    "pack": {"files", "manifest", "tools", "objects", "judge"},
    "report": {"manifest", "modules", "plan", "objects", "tools"},
    "shapes": {"manifest", "report"},
    "generate": {"files", "manifest", "tools", "plan", "compile", "shapes"},
    "release": {"files", "objects", "pack", "tools", "compile"},
    "farm": {"files", "tools", "compile"},
    "site": {"files"},
    "timing": {"files", "manifest", "shapes", "tools"},
    "prove": {"files", "manifest", "cases", "objects", "judge", "pack"},
    "seed": {"files", "tools", "compile", "report", "shapes", "pack"},
}
COMMON = {"records", "errors"}
CALLERS = {"pipeline", "verbs", "__main__"}


def _room(name: str) -> str:
    """``plan`` for ``build_tools.plan.slots``; nothing for the package itself."""
    return name.split(".")[1] if "." in name else ""


@cache
def _rooms_seen() -> dict[str, set[str]]:
    seen: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        if name.startswith("build_tools."):
            imports = {i for i in _imports(path, typing_only=True) if i in MODULES}
            rooms = {_room(i) for i in imports if i.startswith("build_tools.")}
            seen.setdefault(_room(name), set()).update(rooms - {_room(name)})
    return seen


def test_every_folder_of_the_build_is_a_stage() -> None:
    assert set(_rooms_seen()) == {*STAGES, *COMMON, *CALLERS}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_only_what_the_table_allows(stage: str) -> None:
    """Exactly that: an arrow of the table that nobody needs any more goes, too."""
    assert _rooms_seen()[stage] - COMMON == STAGES[stage]


def test_the_stages_form_no_circle() -> None:
    order = list(STAGES)
    for stage, allowed in STAGES.items():
        assert all(order.index(other) < order.index(stage) for other in allowed), stage


def test_what_all_stages_share_imports_none_of_them() -> None:
    for name in COMMON:
        assert _rooms_seen()[name] <= COMMON, name


def test_packages_of_the_build_hold_no_code() -> None:
    """No second name for anything: what a file defines is imported from that file."""
    for path in sorted((ROOT / "build_tools").rglob("*/__init__.py")):
        (only,) = ast.parse(path.read_text()).body
        assert isinstance(only, ast.Expr) and isinstance(only.value, ast.Constant), path


def _included(path: Path, root: Path) -> list[Path]:
    """The project's own headers that a file includes: beside it, or from the root of its tree."""
    names = re.findall(r'#include "([^"]+)"', path.read_text())
    found = [path.parent / name if (path.parent / name).is_file() else root / name for name in names]
    return [each for each in found if each.is_file()]


def test_the_machine_s_folders_include_nothing_of_its_root() -> None:
    """The files at its root put the folders together; headers of settings, which all of them read, name none of them."""
    root = ROOT / "csrc" / "emulator"
    machine = root / "machine"
    assert not [path.name for path in machine.glob("*.h")]
    seen = 0
    for path in [path for path in sorted(machine.rglob("*")) if path.suffix in (".cpp", ".h")]:
        for included in _included(path, root):
            assert included.parent != machine, (path.name, included.name)
            if path.parent.name == "settings" and path.suffix == ".h" and machine in included.parents:
                assert included.parent == path.parent, (path.name, included.name)
            seen += 1
    assert seen > 100


@pytest.mark.parametrize(
    ("tree", "layers"),
    [
        ("emulator", ["isa", "execute", "machine", "hip"]),
        ("runtime", ["expressions", "bundle", "driver", "tensors", "choice", "call", "python"]),
    ],
)
def test_sources_in_cpp_include_in_one_direction(tree: str, layers: list[str]) -> None:
    """A folder includes from itself, from those before it, and from the root of the tree; the root from no folder."""
    root = ROOT / "csrc" / tree
    assert {each.name for each in root.iterdir() if each.is_dir()} - {"generate"} == set(layers)
    seen = 0
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".cpp", ".h", ".inc"):
            continue
        own = path.relative_to(root).parts[0] if path.parent != root else ""
        for included in _included(path, root):
            other = included.relative_to(root).parts[0] if included.parent != root else ""
            allowed = ["", *layers[: layers.index(own) + 1]] if own else [""]
            assert other in allowed, (path.relative_to(root).as_posix(), included.name)
            seen += 1
    assert seen > 100


@pytest.mark.parametrize(
    "top", ["aiter_prebuilt", "aiter_prebuilt_emulator", "aiter_prebuilt_bridge", "build_tools"]
)
def test_no_cycle(top: str) -> None:
    graph = {
        name: {seen for seen in _imports(path, typing_only=False) if seen in MODULES and seen != name}
        for name, path in MODULES.items()
        if name.split(".")[0] == top
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for seen in graph.get(name, ()):
                visit(seen, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_map_names_files_that_exist() -> None:
    import re

    text = (ROOT / "AGENTS.md").read_text()
    paths = re.findall(r"`((?:build_tools|src|csrc|manifests|tests|hsa|ci)/[\w./-]+)`", text)
    assert len(paths) > 15
    for path in paths:
        assert (ROOT / path).exists(), path


#: Too wide for one rule: naming such a folder in the map says nothing of a file in it.
WIDE = ("build_tools/", "src/", "src/aiter_prebuilt/", "csrc/", "tests/")
SOURCES = frozenset((".py", ".pyi", ".cpp", ".c", ".h", ".hpp", ".inc", ".hip", ".S"))


def test_the_map_names_every_source_file_or_its_folder() -> None:
    named = set(re.findall(r"`([\w./-]+)`", (ROOT / "AGENTS.md").read_text())) - set(WIDE)
    folders = tuple(path for path in named if path.endswith("/"))
    sources = [
        path.relative_to(ROOT).as_posix()
        for top in ("build_tools", "src", "csrc", "benchmarks", "ci", "hsa", "examples")
        for path in sorted((ROOT / top).rglob("*"))
        if path.suffix in SOURCES
    ]
    assert len(sources) > 200
    missing = [path for path in sources if path not in named and not path.startswith(folders)]
    assert not missing, f"name these files, or their folder, in AGENTS.md: {', '.join(missing)}"


def test_the_map_names_files_of_its_folders() -> None:
    """A bare file name stands behind its folder: `build_tools/plan/`: `slots.py`."""
    for line in (ROOT / "AGENTS.md").read_text().splitlines():
        folder = ROOT
        for path in re.findall(r"`([\w./-]+)`", line):
            if path.endswith("/") and (ROOT / path).is_dir():
                folder = ROOT / path
            elif line.startswith("|") and re.fullmatch(r"\w+\.py", path):
                assert (folder / path).is_file(), (line.split("|")[1].strip(), path)


def test_every_folder_of_tests_is_collected(request: pytest.FixtureRequest) -> None:
    """A folder's name must not be one that pytest passes over: its tests would be missing without a word."""
    import fnmatch

    passed_over = request.config.getini("norecursedirs")
    for folder in (ROOT / "tests").iterdir():
        if any(folder.rglob("test_*.py")):
            assert not [pattern for pattern in passed_over if fnmatch.fnmatch(folder.name, pattern)], (
                folder.name
            )


def test_files_stay_small() -> None:
    """Of those that people write: a generated one grows with the operators."""
    for name, path in MODULES.items():
        text = path.read_text()
        assert text.startswith("# Generated by") or len(text.splitlines()) <= 460, name

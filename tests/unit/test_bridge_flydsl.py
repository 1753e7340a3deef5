"""FlyDSL's cache through the bridge, with a FlyDSL of a few lines: what reaches it, what does not, and what is said of a miss."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiter_prebuilt.contract import flydsl_key
from aiter_prebuilt.contract.kernel_cache import INDEX, differences, folder_of
from aiter_prebuilt_bridge import cache_data, flydsl_cache, lookup_log
from aiter_prebuilt_bridge.errors import CacheDamagedError, CompileRefusedError
from aiter_prebuilt_bridge_hook import VARIABLE
from build_tools.pack.cache_wheel import Seed, Seeds, contents

#: What FlyDSL does with its cache, as far as the bridge sees it. A user's folder is a dictionary here.
FLYDSL = """
import hashlib

USERS = {}
COMPILED = []


class JitCacheManager:
    def __init__(self, cache_dir):
        self.cache_dir, self.memory_cache = cache_dir, {}

    def get(self, cache_key):
        return self.memory_cache.get(cache_key) or USERS.get(cache_key)

    def load_all(self):
        raise AssertionError("all that lies there is unpickled")

    def compile_lock(self, cache_key, *, accept_cached=None):
        return "locked"


class MlirCompiler:
    @classmethod
    def compile(cls, module, *, arch="", func_name=""):
        COMPILED.append(func_name)
        return f"made {module}"


class JitFunction:
    def __init__(self, func, cached=True):
        self.func, self._manager_owner_cls = func, None
        self.manager = JitCacheManager(FOLDER / f"{func.__name__}_0123") if cached else None
        self.there = self.manager.load_all() if cached else 0

    def __call__(self, width):
        cache_key = (("_env_", (("FLYDSL_COMPILE_OPT_LEVEL", LEVEL),)), ("_target_", "gfx942"), ("width", width))
        if self.manager is not None:
            found = self.manager.get(str(cache_key))
            if found is not None:
                return found
            self.manager.compile_lock(str(cache_key))
        return self.trace()

    def trace(self):
        return MlirCompiler.compile("module", func_name=self.func.__name__)


def _flydsl_key():
    return f"flydsl:{VERSION}:GPUTarget(arch='gfx942')-compiler/a.py:00-11ff-external_binary_codegen=False"


def _get_func_source(func):
    return func.__name__


def _collect_dependency_sources(func, file, owner_cls=None):
    return ["helper:def helper(): pass,closure:['n=3']"]


def _collect_closure_scalar_vals(func):
    return ["n=3", "name='a=b'"]
"""
TEXT = "module { gpu.binary }"


class Artifact:
    """As FlyDSL's: it can be made of its state."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state


def launch() -> None:
    """A launcher; the bridge looks at its module."""


@pytest.fixture
def jit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A FlyDSL that the bridge has looked at, in a process without data wheels."""
    made: Any = ModuleType(flydsl_cache.MODULE)
    vars(made).update(FOLDER=tmp_path, LEVEL="", VERSION="1.2.3")
    exec(FLYDSL, vars(made))
    executor: Any = ModuleType("flydsl.compiler.jit_executor")
    executor.CompiledArtifact = Artifact
    monkeypatch.setitem(sys.modules, flydsl_cache.MODULE, made)
    monkeypatch.setitem(sys.modules, executor.__name__, executor)
    monkeypatch.setattr(launch, "__module__", "aiter.ops.flydsl.kernels.small")
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(cache_data.VARIABLE, raising=False)
    _forget()
    flydsl_cache.wrap(made)
    yield made
    _forget()


def _forget() -> None:
    cache_data.forget()
    flydsl_cache.forget()
    flydsl_cache.HITS.clear()
    flydsl_cache.MISSES.clear()
    lookup_log._LOGGED.clear()


def parts(jit: Any, **other: Any) -> dict[str, Any]:
    key = (("_env_", (("FLYDSL_COMPILE_OPT_LEVEL", ""),)), ("_target_", "gfx942"), ("width", 8))
    return flydsl_key.parts_of(flydsl_key.CompileInputs(jit.JitFunction(launch), key), jit) | other


@pytest.fixture
def wheel(jit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data wheel's folder with one kernel, for a width of 8."""
    call = str((("_env_", (("FLYDSL_COMPILE_OPT_LEVEL", ""),)), ("_target_", "gfx942"), ("width", 8)))
    known = parts(jit)
    seed = Seed(
        flydsl_key.cache_key("launch_0123", call),
        known["function"],
        {flydsl_cache.TEXT: zlib.compress(TEXT.encode())},
        known,
    )
    build = {"version": "1.2.3", "key": known["flydsl"]}
    seeds = Seeds("flydsl", "gfx942", (build,), ("head",), (seed,), (), {}, ())
    for name, data in contents("gfx942", [seeds]).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.write_bytes(data)
        path.chmod(0o644)
    folder = tmp_path / folder_of("gfx942")
    monkeypatch.setenv(cache_data.VARIABLE, str(folder))
    return folder


def test_a_kernel_of_a_data_wheel_is_found_and_nothing_is_compiled(jit: Any, wheel: Path) -> None:
    found = jit.JitFunction(launch)(8)
    assert found.state == {"ir_text": TEXT, "entry": "launch", "source_ir": None}
    assert jit.COMPILED == [] and flydsl_cache.report() == {
        "active": True, "why": "", "hits": {"aiter.ops.flydsl.kernels.small.launch": 1}, "misses": {},
    }  # fmt: skip


def test_a_wheels_kernel_comes_before_what_lies_in_the_users_cache(jit: Any, wheel: Path) -> None:
    call = str((("_env_", (("FLYDSL_COMPILE_OPT_LEVEL", ""),)), ("_target_", "gfx942"), ("width", 8)))
    jit.USERS[call] = "the user's"
    assert isinstance(jit.JitFunction(launch)(8), Artifact)


def test_what_lies_in_the_users_cache_is_counted_and_not_read(jit: Any, wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "launch_0123").mkdir()
    (tmp_path / "launch_0123" / "0.pkl").write_bytes(b"anything")
    launcher = jit.JitFunction(launch)
    assert launcher.there == 1 and isinstance(launcher(8), Artifact)


def test_what_no_wheel_has_is_looked_up_in_the_users_cache(
    jit: Any, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "strict")
    call = str((("_env_", (("FLYDSL_COMPILE_OPT_LEVEL", ""),)), ("_target_", "gfx942"), ("width", 9)))
    jit.USERS[call] = "the user's"
    assert jit.JitFunction(launch)(9) == "the user's"


def test_a_miss_is_told_once_with_the_parts_that_differ(
    jit: Any, wheel: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert jit.JitFunction(launch)(16) == "made module"
    (told,) = [each.message for each in caplog.records]
    assert told == (
        "aiter.ops.flydsl.kernels.small.launch: FlyDSL compiles it, because the nearest of 1 entries of it differs: "
        "arguments width: 16, there 8"
    )
    assert jit.COMPILED == ["launch"] * 2 and flydsl_cache.report()["misses"] == {
        "aiter.ops.flydsl.kernels.small.launch": 2
    }


def test_strict_names_the_kernel_before_the_compiler_starts(
    jit: Any, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "strict")
    jit.LEVEL = "1"
    with pytest.raises(CompileRefusedError) as refused:
        jit.JitFunction(launch)(8)
    assert refused.value.asked == "launch aiter.ops.flydsl.kernels.small.launch"
    assert "environment FLYDSL_COMPILE_OPT_LEVEL: 1, there none" in refused.value.found
    assert jit.COMPILED == []


def test_strict_names_the_kernel_where_flydsls_cache_is_off(
    jit: Any, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "strict")
    with pytest.raises(CompileRefusedError, match=r"FlyDSL's cache is off"):
        jit.JitFunction(launch, cached=False)(8)
    assert jit.COMPILED == []


@pytest.mark.parametrize("strict", ["", "strict"])
def test_kernels_of_other_packages_are_left_alone(
    jit: Any, wheel: Path, strict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, strict)
    monkeypatch.setattr(launch, "__module__", "vllm.v1.attention")
    assert jit.JitFunction(launch)(8) == "made module"
    assert jit.JitFunction(launch, cached=False)(8) == "made module"
    assert not flydsl_cache.HITS and not flydsl_cache.MISSES


def test_a_changed_byte_never_reaches_flydsl(jit: Any, wheel: Path) -> None:
    (path,) = (wheel / "flydsl").iterdir()
    data = bytearray(path.read_bytes())
    for place in range(len(data)):
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(CacheDamagedError, match="another SHA-256"):
            jit.JitFunction(launch)(8)
        data[place] ^= 1
    path.write_bytes(data)
    assert isinstance(jit.JitFunction(launch)(8), Artifact)


def test_a_file_that_is_gone_or_a_link_is_an_error(jit: Any, wheel: Path, tmp_path: Path) -> None:
    (path,) = (wheel / "flydsl").iterdir()
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(CacheDamagedError, match="not readable"):
        jit.JitFunction(launch)(8)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CacheDamagedError, match="a link"):
        jit.JitFunction(launch)(8)


def test_a_wheel_without_its_index_is_an_error(jit: Any, wheel: Path) -> None:
    (wheel / INDEX).unlink()
    with pytest.raises(CacheDamagedError, match=r"index\.json"):
        jit.JitFunction(launch)(8)
    assert "index.json" in flydsl_cache.report()["why"]


def test_what_the_index_does_not_name_is_never_opened(jit: Any, wheel: Path) -> None:
    """A file under the name that FlyDSL's own cache would have: it lies there, and is compiled all the same."""
    document = json.loads((wheel / INDEX).read_text())
    document["entries"] = []
    (wheel / INDEX).write_text(json.dumps(document))
    (wheel / "flydsl" / "launch_0123").mkdir()
    (wheel / "flydsl" / "launch_0123" / "0.pkl").write_bytes(b"not a pickle")
    assert jit.JitFunction(launch)(8) == "made module"


@pytest.mark.parametrize("name", ["", INDEX])
def test_a_wheel_that_others_may_write_is_not_read(
    jit: Any, wheel: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = wheel / name
    place.chmod(place.stat().st_mode | 0o002)
    assert jit.JitFunction(launch)(8) == "made module"
    says = f"the {'folder' if not name else 'bundle'} {place} may be written by everybody"
    assert f"its data wheel is not read: {says}" in caplog.text
    assert flydsl_cache.report()["why"].startswith("its data wheel is not read")
    assert says in cache_data.summary()[0]["problem"]
    place.chmod(place.stat().st_mode & ~0o002)
    flydsl_cache.forget()
    assert cache_data.summary()[0]["problem"] == ""
    assert isinstance(jit.JitFunction(launch)(8), Artifact)


def test_another_build_of_flydsl_is_named(jit: Any, wheel: Path, caplog: pytest.LogCaptureFixture) -> None:
    jit.VERSION = "1.2.4"
    assert jit.JitFunction(launch)(8) == "made module"
    assert "FlyDSL 1.2.4 (" in caplog.text and "compiled with: 1.2.3 (" in caplog.text


def test_a_flydsl_whose_compiles_cannot_be_noticed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lookup_log._LOGGED.clear()
    monkeypatch.delenv(VARIABLE, raising=False)
    flydsl_cache.wrap(ModuleType(flydsl_cache.MODULE))
    assert "this FlyDSL has no JitFunction, MlirCompiler" in caplog.text
    monkeypatch.setenv(VARIABLE, "strict")
    with pytest.raises(CompileRefusedError, match="import FlyDSL"):
        flydsl_cache.wrap(ModuleType(flydsl_cache.MODULE))


def test_parts_of_a_key(jit: Any) -> None:
    found = parts(jit)
    assert found["function"] == "aiter.ops.flydsl.kernels.small.launch"
    assert found["version"] == "1.2.3" and found["target"] == "gfx942"
    assert found["closure"] == {"n": "3", "name": "'a=b'"} and found["arguments"] == {"width": "8"}
    assert found["environment"] == {}  # what is not set is no part
    # A number of the closure is no change of the source.
    jit._collect_dependency_sources = lambda *_, **__: ["helper:def helper(): pass,closure:['n=4']"]
    assert parts(jit)["source"] == found["source"]
    jit._collect_dependency_sources = lambda *_, **__: ["helper:def helper(): return,closure:['n=3']"]
    assert differences(flydsl_key.PARTS, parts(jit), found)[0].startswith("source: ")


def test_globals_that_are_known_by_name_are_one_number() -> None:
    class Jit:
        _flydsl_key = staticmethod(lambda: "flydsl:1:T-a.py:0")
        _get_func_source = staticmethod(lambda _: "")
        _collect_closure_scalar_vals: Any = staticmethod(lambda _: [])
        _collect_dependency_sources = staticmethod(lambda *_, **__: [])

    class Launcher:
        func = staticmethod(launch)

    def of(*values: Any) -> dict[str, Any]:
        asked = flydsl_key.CompileInputs(Launcher(), (("_globals_", values),))
        return flydsl_key.parts_of(asked, Jit)

    one = of((("WIDE", "m"), ("scalar", 4)), (("helper", "m"), ("callable", "m", "helper")))
    assert one["globals"] == {"m.WIDE": "('scalar', 4)"}
    other = of((("WIDE", "m"), ("scalar", 5)), (("helper", "m"), ("callable", "m", "helpers")))
    told = differences(flydsl_key.PARTS, other, one)
    assert told[0] == "globals m.WIDE: ('scalar', 5), there ('scalar', 4)" and told[1].startswith("named: ")

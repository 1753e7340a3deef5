"""Functions of AITER that ask the machine by starting a program, with code of ours in their place.

The code is exchanged before the module is executed: some are called while it is, and torch's registrations take what they find.
Decorators, defaults and annotations stay AITER's. A body here sees the globals of AITER's module, so it imports what it needs.
A function of another shape, or one that starts no program any more, keeps its own code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from aiter_prebuilt_bridge import lookup_log


def _detect_native() -> Any:
    """The targets here."""
    from aiter_prebuilt_bridge.machine import architecture

    return [architecture()]


def get_gfx_custom_op_core() -> Any:
    """AITER's number of the target."""
    from aiter_prebuilt_bridge.machine import chosen

    return chosen({name: number for number, name in GFX_MAP.items()})  # type: ignore[name-defined]  # noqa: F821


def get_cu_num_custom_op() -> Any:
    """How many compute units a GPU has."""
    from aiter_prebuilt_bridge.machine import compute_units

    return compute_units()


def get_hip_version() -> Any:
    """The version of HIP."""
    from aiter_prebuilt_bridge.machine import hip_version

    return hip_version()


def get_user_jit_dir() -> Any:
    """Where the JIT would work."""
    from aiter_prebuilt_bridge.machine import jit_folder

    return jit_folder(this_dir)  # type: ignore[name-defined]  # noqa: F821


def check_numa_custom_op() -> Any:
    """Say once where NUMA balancing is on."""
    from aiter_prebuilt_bridge.machine import balances_numa

    if balances_numa():
        told = "NUMA balancing is on: kernels may be slow or wrong; echo 0 > /proc/sys/kernel/numa_balancing"
        logger.warning(told)  # type: ignore[name-defined]  # noqa: F821


def get_git_commit_id_short() -> Any:
    """Of a checkout's sources, for names of what is compiled of them."""
    return None


def _arch_from_rocm_agent_enumerator() -> Any:
    """The target of the first GPU; None: there is none."""
    from aiter_prebuilt_bridge.machine import gpus

    return gpus()[0].target if gpus() else None


def get_rocm_device_count() -> Any:
    """How many GPUs."""
    from aiter_prebuilt_bridge.machine import gpus

    return len(gpus())


#: Module -> function -> (what takes its place, the word in its code without which it keeps its own).
_ANSWERS: Final[Mapping[str, Mapping[str, tuple[Any, str]]]] = {
    "chip_info": {
        "_detect_native": (_detect_native, "rocminfo"),
        "get_gfx_custom_op_core": (get_gfx_custom_op_core, "rocminfo"),
        "get_cu_num_custom_op": (get_cu_num_custom_op, "rocminfo"),
    },
    "cpp_extension": {"get_hip_version": (get_hip_version, "hipconfig")},
    "aiter.jit.core": {
        "get_user_jit_dir": (get_user_jit_dir, "AITER_JIT_DIR"),
        "check_numa_custom_op": (check_numa_custom_op, "cat /proc/sys/kernel/numa_balancing"),
    },
    "flydsl.runtime.device": {
        "_arch_from_rocm_agent_enumerator": (_arch_from_rocm_agent_enumerator, "rocm_agent_enumerator"),
        "get_rocm_device_count": (get_rocm_device_count, "rocm_agent_enumerator"),
    },
    "csrc.cpp_itfs.utils": {"get_git_commit_id_short": (get_git_commit_id_short, "git")},
}
#: Functions that write where all users of a machine do, the constants that say it, and what says where instead.
_PLACES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "aiter.jit.core": {"update_config_files": ("/tmp/", "/tmp/aiter_configs/")}  # noqa: S108  # AITER's
}
#: It makes a folder below this one, or below the user's home, when it is imported.
_TEMPLATES: Final = "csrc.cpp_itfs.utils"
_ROOT: Final = "AITER_ROOT_DIR"


@contextmanager
def surroundings(module: str) -> Iterator[None]:
    """While ``module`` is executed: a folder that is there already, where the one that it would make cannot be made."""
    instead = ""
    if module == _TEMPLATES and _ROOT not in os.environ:
        from aiter_prebuilt_bridge.machine import unwritten

        instead = unwritten(Path(os.environ.get("HOME", "None")) / ".aiter" / "build")
    if instead:
        os.environ[_ROOT] = instead
    try:
        yield
    finally:
        if instead:
            del os.environ[_ROOT]


def of(module: str) -> Mapping[str, FunctionType]:
    """The answers for ``module``, by the name of the function whose place they take."""
    return {name: answer for name, (answer, _) in _ANSWERS.get(module, {}).items()}


def answered(code: CodeType, answers: Mapping[str, FunctionType]) -> CodeType:
    """The code of a module whose functions named in ``probe_overrides`` do what those do."""
    words = {name: word for functions in _ANSWERS.values() for name, (_, word) in functions.items()}
    return code.replace(co_consts=tuple(_exchanged(each, answers, words) for each in code.co_consts))


def placed(code: CodeType, module: str) -> CodeType:
    """The code of a module whose tables of tuned rows are merged where this user may write, and another user's are not."""
    places = _PLACES.get(module, {})
    return _placed(code, places) if places else code


def _placed(code: CodeType, places: Mapping[str, tuple[str, ...]], here: tuple[str, ...] = ()) -> CodeType:
    from aiter_prebuilt_bridge.machine import tables_folder

    made: list[Any] = []
    for each in code.co_consts:
        if isinstance(each, CodeType):
            made.append(_placed(each, places, places.get(each.co_name, ())))
        else:
            made.append(tables_folder(each) if isinstance(each, str) and each in here else each)
    return code.replace(co_consts=tuple(made))


def _exchanged(found: object, answers: Mapping[str, FunctionType], words: Mapping[str, str]) -> object:
    if not isinstance(found, CodeType) or found.co_name not in answers:
        return found
    shape = found.co_argcount + found.co_kwonlyargcount + len(found.co_freevars)
    if shape or not _says(found, words[found.co_name]):
        return found
    lookup_log.answered(found.co_name)
    return answers[found.co_name].__code__.replace(co_name=found.co_name)


def _says(code: CodeType, word: str) -> bool:
    return any(
        word == each
        or (isinstance(each, tuple) and word in each)  # a long list of constants is one
        or (isinstance(each, CodeType) and _says(each, word))
        for each in code.co_consts
    )

"""The program that executes a call and judges its result, by meaning.

A receipt is worth as much as its judge. When the judge's code changes what it does, calls have to be executed again. The executor
says which judge it is, so that an older one on another machine proves nothing for this tree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aiter_prebuilt.contract.code_graph import CodeGraph

#: Executes one call.
ENTRY: Final = ("aiter_prebuilt.execute.run", "run")
#: Modules that the judge uses and that are no part of its verdict: the runtime under test, the words of errors, and what names
#: recipes, which are named anew in each build.
NOT_JUDGING: Final = frozenset(
    {
        "aiter_prebuilt",
        "aiter_prebuilt._native",
        "aiter_prebuilt.bundles.locate",
        "aiter_prebuilt.bundles.opening",
        "aiter_prebuilt.contract.judging",
        "aiter_prebuilt.contract.receipt",
        "aiter_prebuilt.contract.version",
        "aiter_prebuilt.devices.device",
        "aiter_prebuilt.devices.native",
        "aiter_prebuilt.errors",
        "aiter_prebuilt.launch.dispatch",
    }
)


def judge_graph(package: Path) -> CodeGraph:
    """Open the code of the judge.

    Args:
        package: the folder ``aiter_prebuilt``.
    """
    return CodeGraph({"aiter_prebuilt": package}, NOT_JUDGING)


def judging(package: Path) -> str:
    """Hash the code of the judge.

    Args:
        package: the folder ``aiter_prebuilt``.

    Raises:
        OSError: a file cannot be read.
        LookupError: the entry is not there.
    """
    return judge_graph(package).digest([ENTRY])

"""A line that includes much, precompiled once for all sources of a process that start with it.

Nine tenths of a CK instance's compile read the same headers. What is made lies in a temporary folder and goes with the process: a
precompiled header is 30 MB, names folders of this machine, and is made in the time that it saves its first user. Code objects are
the same bytes with it and without.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from build_tools.files.run import Outcome, run

_ONE = threading.Lock()


def precompiled(command: Sequence[str], line: str, env: Mapping[str, str]) -> Path | Outcome:
    """``line`` as ``command`` sees it, which has no source and no output yet; what clang said when it could not be read.

    Files that it includes must not change while the process runs.
    """
    with _ONE:  # two jobs that start together: the second waits for the first, and has it
        return _made(tuple(command), line, tuple(sorted(env.items())))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is removed when the process ends.

    The cache holds it.
    """
    return tempfile.TemporaryDirectory(prefix="aiter-prebuilt-prelude-")


@cache
def _made(command: tuple[str, ...], line: str, env: tuple[tuple[str, str], ...]) -> Path | Outcome:
    folder = Path(_folder().name)
    source = folder / f"{len(list(folder.iterdir()))}.hip"
    source.write_text(f"{line}\n", encoding="utf-8")
    made = source.with_suffix(".pch")
    # -S: emit-pch replaces what the driver asks for, and the driver still names the output.
    outcome = run([*command, "-S", "-Xclang", "-emit-pch", source, "-o", made], cwd=folder, env=dict(env))
    return made if outcome.ok else outcome

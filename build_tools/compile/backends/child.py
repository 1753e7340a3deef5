"""What a child process that compiles several jobs does with each: the other side of :mod:`build_tools.compile.backends.many`."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

#: Characters of a traceback that are kept, from its end.
KEPT: Final = 8000


def answer_each(
    jobs: Sequence[dict[str, Any]],
    answers: Path,
    compile_job: Callable[[dict[str, Any]], dict[str, Any]],
    refusal: type[Exception],
) -> None:
    """Append one line of JSON to ``answers`` for each of ``jobs`` as it is done: what ``compile_job`` says of it, or its error.
    ``refusal``: an exception whose message is all there is to say.
    """
    with answers.open("w", encoding="utf-8") as file:
        for job in jobs:
            started = time.monotonic()
            try:
                answer = {"ok": True, **compile_job(job)}
            except refusal as error:
                answer = {"ok": False, "error": str(error)}
            except Exception:  # noqa: BLE001 - whatever the compiler raises is this job's failure, not the batch's
                answer = {"ok": False, "error": traceback.format_exc()[-KEPT:]}
            answer["seconds"] = round(time.monotonic() - started, 4)
            file.write(json.dumps(answer) + "\n")
            file.flush()

"""Run whole engines on the emulator: ``python -m engines run``, ``python -m engines serve MODEL`` (``nox -s engines``)."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from engines import models, server, surroundings, table, vllm_run, vllm_tree
from engines.errors import EngineError
from engines.runs import OPTIONS, RUNS, TARGETS

JSON_VERSION: Final = 1


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m engines", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="has vLLM's wheel; models are made here")
    parser.add_argument("--aiter", type=Path, help="a checkout of AITER, in place of the installed package")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verb = verbs.add_parser("run", help="answer prompts offline, and compare with float64")
    verb.add_argument(
        "models", nargs="*", type=_model, metavar="MODEL", help=f"{', '.join(models.CONFIGS)}; default: all"
    )
    verb.add_argument("--target", choices=TARGETS, help="default: both")
    verb.add_argument("--option", choices=OPTIONS, help="only runs with this option; default: all")
    verb.add_argument(
        "--record",
        type=Path,
        metavar="FOLDER",
        help="write each run's calls of AITER's functions to a file here",
    )
    verb.add_argument("--json", action="store_true", help="machine output with a version")
    verb.set_defaults(execute=_run)
    verb = verbs.add_parser("serve", help="start vLLM's server, and ask it once")
    verb.add_argument("model", type=_model, metavar="MODEL", help=", ".join(models.CONFIGS))
    verb.add_argument("--target", choices=TARGETS, default=TARGETS[0])
    verb.add_argument("--port", type=int, default=8000)
    verb.add_argument("--prompt", default="Hello", help="what it is asked")
    verb.add_argument("--stay", action="store_true", help="serve until Ctrl-C")
    verb.set_defaults(execute=_serve)
    return parser


def _model(name: str) -> str:
    if name not in models.CONFIGS:
        raise argparse.ArgumentTypeError(f"no model {name!r}. Choose one of: {', '.join(models.CONFIGS)}")
    return name


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 all answers are right; 1 some are not, or an engine gave none; 2 wrong usage."""
    words = build_parser().parse_args(arguments)
    # A service or a shell in the background ends it with SIGTERM: an engine's processes must go with it, too.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        folder = words.folder.resolve()
        place = surroundings.Place(folder, vllm_tree.unpacked(folder), _checkout(words.aiter))
        return int(words.execute(words, place))
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ended by a signal", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def _checkout(folder: Path | None) -> Path | None:
    """Return a checkout's whole path. From one that is none Python would pass on to the installed package."""
    if folder is not None and not (folder / "aiter" / "__init__.py").is_file():
        raise EngineError(
            f"{folder} is no checkout of AITER: it has no aiter/__init__.py. Set AITER_DIR to one"
        )
    return folder and folder.resolve()


def _chosen(words: argparse.Namespace, place: surroundings.Place) -> list[vllm_run.Run]:
    runs = [each for each in RUNS if each.model in words.models] if words.models else list(RUNS)
    chosen = [
        each for each in runs if words.target in (None, each.target) and words.option in (None, each.option)
    ]
    if place.aiter is not None:
        return chosen
    for model in sorted({each.model for each in chosen} & models.AUGUST.keys()):
        print(
            f"left out: {model} needs {models.AUGUST[model]} of AITER of August 2026. Set AITER_DIR to a checkout",
            file=sys.stderr,
        )
    return [each for each in chosen if each.model not in models.AUGUST]


def _run(words: argparse.Namespace, place: surroundings.Place) -> int:
    outcomes, problems = [], []
    if words.record is not None:
        words.record.mkdir(parents=True, exist_ok=True)
    for run in _chosen(words, place):
        record = words.record and words.record.resolve() / f"{run.model}-{run.target}-{run.option}.json"
        try:
            outcome = vllm_run.execute(run, place, record)
        except EngineError as error:
            problems.append((run, str(error)))
            print(f"{run.model} on {run.target} ({run.option}): {error}", file=sys.stderr)
            continue
        outcomes.append(outcome)
        if not words.json:
            print(table.line(outcome), flush=True)
    if words.json:
        told: dict[str, Any] = {
            "version": JSON_VERSION,
            "runs": [vllm_run.as_json(each) for each in outcomes],
            "problems": [
                {"model": run.model, "target": run.target, "options": run.option, "error": text}
                for run, text in problems
            ],
        }
        print(json.dumps(told, indent=1))
    else:
        print(table.closing(outcomes, len(problems)))
    return 0 if outcomes and not problems and all(each.right for each in outcomes) else 1


def _serve(words: argparse.Namespace, place: surroundings.Place) -> int:
    lacks = models.AUGUST.get(words.model) if place.aiter is None else None
    if lacks is not None:
        raise EngineError(f"{words.model} needs {lacks} of AITER of August 2026. Set AITER_DIR to a checkout")
    folder = models.make(words.model, place.folder / "models")
    with server.running(folder, words.target, words.port, place) as running:
        print(
            f"vLLM serves {words.model} on an emulated {words.target}: {running.address}/v1 ({running.seconds:.0f} s)"
        )
        answer = running.ask(words.prompt)
        print(f"asked: {words.prompt!r}\nanswered in {answer.seconds:.1f} s: {answer.text!r}")
        if words.stay:
            print("Ctrl-C ends it.", flush=True)
            running.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``aiter-prebuilt completion SHELL``: the script that makes Tab complete verbs, options, operators, models and targets."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

from aiter_prebuilt.bundles import locate, opening
from aiter_prebuilt.commands import VERBS
from aiter_prebuilt.commands.suggest import options_of
from aiter_prebuilt.contract import model_steps
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.inspection import call_forms

HELP = "print the script that completes this command in bash, zsh or fish"
EXAMPLE = "aiter-prebuilt completion bash"
#: Asks the command itself, which knows what is installed. The word that is being typed comes last.
SCRIPTS: Final = {
    "bash": """_aiter_prebuilt() {
    COMPREPLY=($(compgen -W "$(aiter-prebuilt completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" \\
        -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _aiter_prebuilt aiter-prebuilt
""",
    "zsh": """#compdef aiter-prebuilt
_aiter_prebuilt() {
    local -a found
    found=(${(f)"$(aiter-prebuilt completion words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    compadd -a found || _files
}
compdef _aiter_prebuilt aiter-prebuilt
""",
    "fish": """complete -c aiter-prebuilt -f -a \\
    '(aiter-prebuilt completion words (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
""",
}
#: Where each shell reads the script.
_PLACES: Final = {
    "bash": "~/.local/share/bash-completion/completions/aiter-prebuilt",
    "zsh": "a file _aiter-prebuilt in a folder of fpath",
    "fish": "~/.config/fish/completions/aiter-prebuilt.fish",
}
#: Verbs whose first word is an operator.
_OF_OPERATORS: Final = ("bench", "explain", "preload", "tune")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    places = "; ".join(f"{shell}: {place}" for shell, place in _PLACES.items())
    parser.add_argument("shell", choices=(*SCRIPTS, "words"), help=f"print its script, to put into {places}")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="words: what was typed behind the command")


def execute(options: argparse.Namespace) -> int:
    """Print the script of a shell, or what the last word may become; 0."""
    if options.shell == "words":
        print("\n".join(candidates(options.words or [""])))
    else:
        print(SCRIPTS[options.shell], end="")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """List what the last of ``words`` may become."""
    *before, last = words
    verb = next((word for word in before if not word.startswith("-")), None)
    if verb is None:
        found: Iterable[str] = (*VERBS, "--help", "--version")
    else:
        found = _after(verb, before[before.index(verb) + 1 :], last)
    return sorted(word for word in found if word.startswith(last))


def _after(verb: str, before: Sequence[str], last: str) -> Iterable[str]:
    if verb not in VERBS:
        return ()
    match before[-1:]:
        case ["--target"]:
            return {bundle.target for bundle in locate.installed()}
        case ["--model"]:
            return call_forms.load().models
        case ["--engine"]:
            return model_steps.ENGINES
        case ["--operator"]:
            return _operators()
    if last.startswith("-"):
        parser = argparse.ArgumentParser()
        import_module(f"aiter_prebuilt.commands.{verb}").configure(parser)
        return options_of(parser) | {"--json"}
    if verb in _OF_OPERATORS and not [word for word in before if not word.startswith("-")]:
        return _operators()
    return {"bridge": ("status", "folder"), "completion": tuple(SCRIPTS)}.get(verb, ())


def _operators() -> set[str]:
    found: set[str] = set()
    for bundle in locate.installed():
        try:
            found.update(opening.read_bundle(bundle).names)
        except AiterPrebuiltError:
            continue  # nobody reads an error of a completion
    return found

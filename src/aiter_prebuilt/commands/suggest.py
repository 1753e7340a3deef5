"""Refusals of words on the command line: each says which known word was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from aiter_prebuilt.contract.error_text import closest, did_you_mean
from aiter_prebuilt.errors import ArgumentError


def unknown(kind: str, word: str, known: Iterable[str], rest: str) -> ArgumentError:
    """Build the error for an unknown name.

    Args:
        kind: what it would name, such as "model".
        word: the name.
        known: names of this kind.
        rest: where to find them.
    """
    return ArgumentError("", f"No {kind} {word!r}", did_you_mean(word, known) + rest)


def check_words(
    parser: argparse.ArgumentParser, verbs: Mapping[str, argparse.ArgumentParser], words: Sequence[str]
) -> None:
    """Exit with 2 for a verb or an option that does not exist.

    argparse first misses required arguments: it says nothing of a misspelt option beside them.
    """
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is not None and verb not in verbs:
        close = did_you_mean(verb, verbs) or _meant_option(verb, parser)
        parser.error(f"No verb {verb!r}. {close}The verbs are {', '.join(verbs)}.")
    if verb == "completion":  # what is completed is not its own
        return
    known = options_of(parser) if verb is None else options_of(verbs[verb])
    for word in words:
        name = word.partition("=")[0]
        if re.match("--?[A-Za-z]", name) and name not in known | options_of(parser):
            _refuse(parser if verb is None else verbs[verb], name, known)


class Parser(argparse.ArgumentParser):
    """A parser whose refusals are sentences: they name the word that was meant, or an example."""

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(str, action.choices))
            close = did_you_mean(value, map(str, action.choices))
            self.error(f"No {action.dest} {value!r}. {close}Choose one of: {known}.")

    def error(self, message: str) -> NoReturn:
        """Exit with 2, after the usage and ``message``."""
        start, missing, names = message.partition("arguments are required: ")
        if missing and start == "the following ":
            message = f"{names} must be given. {self.example()}"
        super().error(message)

    def example(self) -> str:
        """Return the example of the help as a sentence; empty without one."""
        words = (self.epilog or "").partition("example: ")[2]
        return f"For example: {words}" if words else ""


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """List the options of a parser."""
    return {option for action in parser._actions for option in action.option_strings}  # noqa: SLF001  # no public list


def _meant_option(word: str, parser: argparse.ArgumentParser) -> str:
    """Suggest the option that ``word`` nearly spells. The dashes are left out: all options have them in common."""
    close = closest(word, (option.lstrip("-") for option in options_of(parser)))
    return f"Did you mean '--{close}'? " if close else ""


def _refuse(parser: argparse.ArgumentParser, option: str, known: Iterable[str]) -> NoReturn:
    parser.error(f"No option {option!r}. {did_you_mean(option, known)}For all options: {parser.prog} --help")

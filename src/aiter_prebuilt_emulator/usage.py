"""Refusals of words on the command line: each names the word that was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from aiter_prebuilt_emulator.products import PRODUCTS, TARGETS


class Parser(argparse.ArgumentParser):
    """A parser that says which verb or option was meant."""

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            kind = "verb" if action.dest == "verb" else action.dest
            self.error(f"No {kind} {value!r}. {did_you_mean(value, known)}Choose one of: {', '.join(known)}.")

    def error(self, message: str) -> NoReturn:
        """Exit with 2, after the usage and ``message``."""
        example = (self.epilog or "").partition("example: ")[2]
        _, missing, names = message.partition("arguments are required: ")
        if missing:
            message = f"{names} must be given." + (f" For example: {example}" if example else "")
        super().error(message)

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Exit with 2 for words that nobody took; the first one is misspelt, or one too many."""
        name = words[0].partition("=")[0]
        if not name.startswith("-"):
            self.error(f"Too many arguments: {' '.join(words)}.")
        known = [option for action in self._actions for option in action.option_strings]
        self.error(f"No option {name!r}. {did_you_mean(name, known)}For all options: {self.prog} --help")


def devices(text: str) -> str:
    """Return the value of ``--devices`` with targets in the place of products.

    Raises:
        ValueError: a device is neither; the text names the one that was meant.
    """
    return ",".join(_device(each) for each in text.split(",")) if text else ""


def _device(text: str) -> str:
    name, colon, rest = text.partition(":")
    target = PRODUCTS.get(name.strip().lower(), name)
    if target not in TARGETS:
        close = (
            did_you_mean(name.lower(), [*TARGETS, *PRODUCTS]) if not re.fullmatch("gfx9[01]..?", name) else ""
        )
        raise ValueError(f"No device {name!r}. {close}Supported: {' and '.join(TARGETS)}")
    return target + colon + rest


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "Did you mean 'x'? " for the closest known word, or nothing if none is close."""
    from difflib import get_close_matches  # late: only an error needs it

    close = get_close_matches(word, sorted(known), 1)
    return f"Did you mean {close[0]!r}? " if close else ""

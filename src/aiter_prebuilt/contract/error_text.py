"""Base class of all errors, and the sentences that it prints."""

from __future__ import annotations

from collections.abc import Iterable


class DescribedError(Exception):
    """An error of three parts, kept apart for programs.

    Args:
        asked: the function that was called ("rms_norm"), or the action that failed, as an infinitive ("open the bundle X").
        found: a clause: what is wrong, with the value that was found.
        fix: what to do, in one sentence. A command to type stands at its end, behind a colon. May be empty.
    """

    def __init__(self, asked: str, found: str, fix: str) -> None:
        self.args = (asked, found, fix)
        self.asked = asked
        self.found = found
        self.fix = fix

    def __str__(self) -> str:
        return describe(self.asked, self.found, self.fix)


def describe(asked: str, found: str, fix: str) -> str:
    """Return the message: "Cannot open the bundle X: it is empty. Install it again: pip install ..."."""
    problem = found.rstrip().removesuffix(".")
    subject = f"Cannot {asked}" if _is_action(asked) else asked
    text = f"{subject}: {problem}" if subject else _capitalised(problem)
    if not fix:
        return f"{text}."
    # The output of a tool keeps its lines.
    return f"{text}{chr(10) if chr(10) in problem else '. '}{_closed(fix)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "Did you mean 'x'? " for the closest known word, or nothing if none is close."""
    close = closest(word, known)
    return "" if close is None else f"Did you mean {close!r}? "


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, or None if none is close."""
    from difflib import get_close_matches  # late: only an error needs it

    return next(iter(get_close_matches(word, sorted(known), 1)), None)


def _is_action(asked: str) -> bool:
    """Is it an infinitive with its object, and not a function or a setting?"""
    verb, _, rest = asked.partition(" ")
    return bool(rest) and rest[0] != "(" and verb.isalpha() and verb.islower()


def _capitalised(text: str) -> str:
    word = text.partition(" ")[0].rstrip(":,")
    return text[:1].upper() + text[1:] if word.isalpha() else text


def _closed(fix: str) -> str:
    """Return ``fix`` as a sentence. A command at its end keeps its last letter: people copy it."""
    text = _capitalised(fix.strip())
    last = text.rpartition(". ")[2]
    return text if text.endswith((".", ":", "?")) or ": " in last or "\n" in last else f"{text}."

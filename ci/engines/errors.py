"""Errors of the runs of engines."""

from __future__ import annotations


class EngineError(Exception):
    """An engine cannot be run, or did not answer. The text has its last lines."""


class ServerError(EngineError):
    """A server did not start, or did not answer."""


def last(text: str, lines: int = 12) -> str:
    """Return the last lines of what a program printed, for the text of an error."""
    return "\n".join(text.rstrip().splitlines()[-lines:])

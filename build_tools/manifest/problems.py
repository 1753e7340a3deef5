"""Collecting everything that is wrong, each with its file and path, so that all of it is said at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiter_prebuilt.contract.error_text import closest

PathPart = str | int


def render_path(parts: Iterable[PathPart]) -> str:
    """``operators[0].kernels[4].targets[1]``."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def suggestion(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` when something known is close, else the list of what is known."""
    known = sorted(known)
    close = closest(word, known)
    return f" (did you mean {close!r}?)" if close else f" (known: {', '.join(known)})"


class _At:
    """Puts ``parts`` behind a path for a while. No generator: planning asks for tens of thousands."""

    __slots__ = ("_depth", "_parts", "_path")

    def __init__(self, path: list[PathPart], parts: tuple[PathPart, ...]) -> None:
        self._path, self._parts, self._depth = path, parts, 0

    def __enter__(self) -> None:
        self._depth = len(self._path)
        self._path.extend(self._parts)

    def __exit__(self, *_: object) -> None:
        del self._path[self._depth :]


@dataclass
class Problems:
    """A list of problems and the place that is being looked at."""

    lines: list[str] = field(default_factory=list)
    _file: str = ""
    _path: list[PathPart] = field(default_factory=list)
    #: How often something was said, a line that is there already too.
    said: int = 0

    @contextmanager
    def file(self, name: str) -> Iterator[None]:
        """Everything added inside is about this file."""
        before, self._file = self._file, name
        try:
            yield
        finally:
            self._file = before

    def at(self, *parts: PathPart) -> _At:
        """Everything added inside is about this path."""
        return _At(self._path, parts)

    def add(self, problem: str, *parts: PathPart) -> None:
        """Note a problem here; the same line is kept once."""
        self.said += 1
        path = render_path([*self._path, *parts])
        line = ": ".join(text for text in (self._file, path, problem) if text)
        if line not in self.lines:
            self.lines.append(line)

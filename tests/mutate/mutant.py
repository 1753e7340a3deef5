"""One changed source, and what the tests said of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """``text``: the whole changed file; ``line``: where, from 1; ``before`` and ``after``: that line."""

    file: str
    operator: str
    line: int
    before: str
    after: str
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Names it in ``equivalent.toml``, wherever its line has moved."""
        return self.file, self.operator, self.before

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.operator}: {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``words``: which test noticed it, or what was tried. ``stillborn``: it does not compile, so it is no mutant."""

    mutant: Mutant
    killed: bool
    words: str
    stillborn: bool = False

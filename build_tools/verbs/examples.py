"""The example of each verb of ``python -m build_tools``. ``--help`` ends with it, and ``docs/cli-build.md`` has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import click

PROGRAM: Final = "python -m build_tools"
_ROOT: Final = Path(__file__).resolve().parents[2]
_HEAD: Final = f"\b\nExample:\n  {PROGRAM} "

Command = TypeVar("Command", bound=click.Command)


def example(words: str) -> Callable[[Command], Command]:
    """Put an example below the help of a command. It stands above ``@click.command()``.

    Args:
        words: what follows ``python -m build_tools``, the verb first.
    """

    def add(command: Command) -> Command:
        command.epilog = _HEAD + words
        return command

    return add


def example_of(command: click.Command) -> str | None:
    """Return the words of a command's example, or None if it has none."""
    found = command.epilog or ""
    return found.removeprefix(_HEAD) if found.startswith(_HEAD) else None


def leaves(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield each command below a group that is no group, with its words."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from leaves(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def problems(group: click.Group) -> list[str]:
    """List the verbs whose example is missing or shows another verb, each with its file."""
    return [
        f'{_file(command)}: the verb {words!r} has no example. Write @example("{words} ...") above its command()'
        for words, command in leaves(group)
        if not f"{example_of(command)} ".startswith(f"{words} ")
    ]


def _file(command: click.Command) -> str:
    """Return the file of a command's function, below the repository."""
    path = Path(inspect.getfile(inspect.unwrap(command.callback or command.main)))
    return path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else str(path)

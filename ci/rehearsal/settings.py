"""The words ``NAME=VALUE`` of a command line."""

from __future__ import annotations

from collections.abc import Sequence

import click


def pairs(context: click.Context, option: click.Parameter, words: Sequence[str]) -> dict[str, str]:
    """Split each word at its last ``=`` where the option takes addresses, and at its first one otherwise.

    Args:
        context: of the command.
        option: whose words they are. Its ``metavar`` says what stands on both sides.
        words: as they were typed.

    Returns:
        What stands before ``=``, and what behind it.

    Raises:
        click.BadParameter: a word has no ``=``, or nothing before it.
    """
    form = option.metavar or "NAME=VALUE"
    found = {}
    for word in words:
        name, between, value = word.rpartition("=") if form.startswith("URL") else word.partition("=")
        if not between or not name:
            raise click.BadParameter(f"'{word}' is not {form}.", context, option)
        found[name] = value
    return found

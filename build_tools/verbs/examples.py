"""An example for each verb of ``python -m build_tools``. ``--help`` ends with it, and ``docs/cli-build.md`` has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

PROGRAM: Final = "python -m build_tools"
#: Words of a verb -> the words of a command that shows its use.
EXAMPLES: Final = {
    "audit": "audit build/bundles/*.apb",
    "build": "build --operator rms_norm --target gfx942",
    "cases": "cases --target gfx942 --output build/cases",
    "develop": "develop",
    "emulator": "emulator",
    "farm scheduler": "farm scheduler --host 127.0.0.1",
    "farm worker": "farm worker tcp://127.0.0.1:8786 --shared file:///FOLDER",
    "fetch": "fetch zstd dlpack",
    "generate": "generate --check",
    "lint": "lint --operator rms_norm",
    "matrix": "matrix",
    "mirror build": "mirror build FOLDER",
    "mirror deploy": "mirror deploy FOLDER",
    "new-operator": "new-operator my_op --like gelu_and_mul",
    "new-tree": "new-tree FOLDER",
    "plan": "plan --profile ck-free --target gfx942",
    "prove": "prove --operator rms_norm",
    "receipts": "receipts --operator rms_norm",
    "release compatibility": "release compatibility",
    "release keygen": "release keygen FOLDER",
    "release notes": "release notes OLD NEW",
    "release promote": "release promote CHANNELS VERSION --to nightly --trust KEY.pub --key KEY.key",
    "release record": "release record dist",
    "release sign": "release sign dist --key KEY.key",
    "release yank": "release yank VERSION REASON --folder CHANNELS/stable --key KEY.key",
    "report adopted": "report adopted",
    "report coverage": "report coverage --target gfx942",
    "report modules": "report modules",
    "report shapes": "report shapes --model llama3",
    "report status": "report status",
    "report tuned": "report tuned",
    "same-runtime": "same-runtime ONE.whl OTHER.whl",
    "site": "site build/site",
    "toolchain": "toolchain",
    "tune": "tune --by-model --call 'gemm_a16w16 M=512 N=4096 K=4096 T=bf16 bias=none'",
    "tune-request": "tune-request misses.jsonl",
    "update-pins": "update-pins --behind",
    "wheels": "wheels --output dist",
}


def leaves(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield each command below a group that is no group, with its words."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from leaves(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def add_examples(group: click.Group) -> None:
    """Put its example below the help of each command."""
    for words, command in leaves(group):
        command.epilog = f"\b\nExample:\n  {PROGRAM} {EXAMPLES[words]}"

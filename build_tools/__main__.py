"""``python -m build_tools VERB``: the verbs, listed by hand, and the only place that turns errors into exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from build_tools.verbs.environment import UNUSABLE, missing

try:
    import click
    import rich  # noqa: F401  # the tables of verbs
except ModuleNotFoundError as error:  # before any verb is read: they all import it
    sys.exit(missing(error))

from build_tools.errors import BuildToolsError
from build_tools.files.progress import PATIENCE, step
from build_tools.verbs.audit import audit
from build_tools.verbs.build import build
from build_tools.verbs.cases import cases
from build_tools.verbs.develop import develop
from build_tools.verbs.emulator import emulator
from build_tools.verbs.farm import farm
from build_tools.verbs.fetch import fetch
from build_tools.verbs.generate import generate
from build_tools.verbs.lint import lint
from build_tools.verbs.matrix import matrix
from build_tools.verbs.mirror import mirror
from build_tools.verbs.new_operator import new_operator
from build_tools.verbs.new_tree import new_tree
from build_tools.verbs.plan import plan
from build_tools.verbs.prove import prove
from build_tools.verbs.receipts import receipts
from build_tools.verbs.release import release
from build_tools.verbs.report import report
from build_tools.verbs.same_runtime import same_runtime
from build_tools.verbs.site import site
from build_tools.verbs.toolchain import toolchain
from build_tools.verbs.tune import tune
from build_tools.verbs.tune_request import tune_request
from build_tools.verbs.update_pins import update_pins
from build_tools.verbs.wheels import wheels

#: Packages that only some verbs and options need, and the dependency group that has each.
GROUPS: Final = {"distributed": "farm", "obstore": "farm", "minisign": "release"}


#: Seconds after which a log hears of a verb that says nothing itself.
PATIENCE_IN_A_LOG: Final = 30.0
#: Verbs that keep what they have compiled when they are interrupted.
KEEPING: Final = frozenset(("build", "prove", "wheels"))
#: Verbs that show their progress, or run a program that writes on the terminal.
TALKING: Final = frozenset(("build", "develop", "emulator", "farm", "prove", "site", "wheels"))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def cli() -> None:
    """From manifests to wheels: plan, compile, audit, bundle, pack."""


for verb in (
    toolchain,
    lint,
    generate,
    new_operator,
    new_tree,
    plan,
    build,
    farm,
    audit,
    report,
    cases,
    wheels,
    same_runtime,
    release,
    mirror,
    develop,
    emulator,
    prove,
    receipts,
    tune,
    tune_request,
    fetch,
    update_pins,
    matrix,
    site,
):
    cli.add_command(verb)


@contextmanager
def _watched() -> Iterator[None]:
    """Say that a verb works on when it says nothing of that itself."""
    words = [word for word in sys.argv[1:3] if not word.startswith("-")]
    if not words or words[0] in TALKING:
        yield
        return
    with step(" ".join(words), patience=PATIENCE if sys.stderr.isatty() else PATIENCE_IN_A_LOG):
        yield


def main() -> None:
    """Run a verb; an error of ours is printed as text and becomes its exit code."""
    try:
        # Not click's standalone mode, which turns Ctrl-C into "Aborted!" and exit code 1.
        with _watched():
            code = cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BuildToolsError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(("build_tools", "aiter_prebuilt")):
            raise
        sys.exit(
            missing(
                error,
                f"pip install -r build_tools/locks/{GROUPS[error.name]}.txt" if error.name in GROUPS else "",
            )
        )
    except OSError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(UNUSABLE)
    except (click.Abort, KeyboardInterrupt):
        kept = ": what was finished is in the store, the next build goes on from there"
        click.echo(f"interrupted{kept if sys.argv[1:2] and sys.argv[1] in KEEPING else ''}", err=True)
        sys.exit(130)
    if isinstance(code, int):  # --help and the like ask for an exit themselves
        sys.exit(code)


if __name__ == "__main__":
    main()

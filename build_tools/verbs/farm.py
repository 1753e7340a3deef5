"""The other sides of ``build --farm``."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@click.group()
def farm() -> None:
    """Run a part of a build farm: the scheduler, or a worker.

    Needs the packages of pyproject.toml's group farm.
    """


@example("farm scheduler --host 127.0.0.1")
@farm.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8786, show_default=True, help="0: any that is free."
)
@options.tls
def scheduler(host: str, port: int, tls: Path | None) -> None:
    """Listen for workers and builds, until SIGTERM."""
    from build_tools.farm.scheduler import serve

    serve(host, port, tls, click.echo)


@example("farm worker tcp://127.0.0.1:8786 --shared file:///FOLDER")
@farm.command()
@click.argument("address")
@click.option("--shared", required=True, metavar="URL", help="The store that the build names, too.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Compiles at once.")
@click.option(
    "--memory",
    type=click.IntRange(min=0),
    default=0,
    help="MiB for all compiles at once; 0: what the machine has.",
)
@options.tls
def worker(address: str, shared: str, threads: int, memory: int, tls: Path | None) -> None:
    """Compile what the scheduler at ADDRESS sends, until that or SIGTERM ends it."""
    from build_tools.farm.worker import work

    work(address, shared, options.ROOT, tls, threads, memory, click.echo)

"""``msprobe view``: shows graph databases in the browser, from a local server or as one offline page."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from msprobe.cli.options.shared import shared

if TYPE_CHECKING:
    from msprobe.visualize.viewer.server import ViewServer

_PORT = 6016


@click.command("view")
@click.argument("path", type=click.Path(path_type=Path))
@shared(
    "html",
    type=click.Path(dir_okay=False),
    help="Write one page with everything in it instead; it needs no server and no network.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option(
    "--port", default=_PORT, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes any free one."
)
@click.option("--open", "show", is_flag=True, help="Open the viewer in the default browser.")
def command(path: Path, html: str | None, host: str, port: int, show: bool) -> None:
    """Show graphs in the browser, opened at the first divergence.

    PATH is a .vis.db of msprobe graph_visualize, or a folder with some.
    """
    from msprobe.compare.inputs.locations import local_file
    from msprobe.visualize.viewer.databases import find_databases

    file = None if html is None else local_file(html, "html")
    databases = find_databases(path)
    if file is None:
        _serve(databases, host, port, show)
    else:
        _write(databases, file, show)


def _write(databases: list[Path], page: Path, show: bool) -> None:
    from msprobe.core.store.safe_files import make_folder
    from msprobe.visualize.viewer.offline_page import write_page

    make_folder(page.absolute().parent)
    size = write_page(databases, page, lambda line: click.echo(line, err=True))
    click.echo(f"Page: {page} ({size / 1e6:.1f} MB)")
    if show:
        click.launch(page.absolute().as_uri())


def _prepare(server: ViewServer) -> None:
    import contextlib
    import sqlite3

    from msprobe.core.errors import ReadError

    with contextlib.suppress(ReadError, sqlite3.Error, OSError):  # reported to the browser that asks for the graph
        server.prepare()


def _serve(databases: list[Path], host: str, port: int, show: bool) -> None:
    from msprobe.visualize.viewer.server import ViewServer

    try:
        server = ViewServer(databases, host, port)
    except OSError as error:
        raise click.UsageError(
            f"cannot serve on {host}:{port}: {error.strerror}; choose another --port, or 0"
        ) from error
    for file in databases:
        click.echo(f"Graph: {file}")
    click.echo(f"View: {server.address} (Ctrl-C ends)")
    if show:
        click.launch(server.address)
    threading.Thread(target=_prepare, args=(server,), daemon=True).start()
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("")

"""``msprobe view``: shows graph or trend databases in the browser, from a local server or as one offline page."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from msprobe.cli.options.shared import shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.visualize.viewer.local_server import LocalServer

_PORT = 6016


@click.command("view")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--golden", type=click.Path(path_type=Path), help="Trend database of the run to compare with.")
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
def command(paths: tuple[Path, ...], golden: Path | None, html: str | None, host: str, port: int, show: bool) -> None:
    """Show graphs or trends in the browser, graphs opened at the first divergence.

    PATH is a .vis.db of msprobe graph_visualize or a .trend.db of msprobe data2db or a monitor, or a folder with some.
    A second trend database is the golden run.
    """
    from msprobe.compare.inputs.locations import local_file

    page = None if html is None else local_file(html, "html")
    trends = _trends(paths, golden)
    if trends is not None:
        _show_trends(*trends, page, (host, port, show))
    else:
        _show_graphs(paths[0], page, (host, port, show))


def _trends(paths: tuple[Path, ...], golden: Path | None) -> tuple[Path, Path | None] | None:
    """Return the trend databases that are meant; None for graphs."""
    from msprobe.core.errors import ReadError
    from msprobe.visualize.trend_view.store import find_trends, has_published_tables

    given = [*paths, *([] if golden is None else [golden])]
    found = []
    for path in given:
        here = find_trends(path)
        if not here and path.is_file() and has_published_tables(path):
            here = [path]
        if path.is_dir() and len(given) == 1 and any(path.glob("*.vis.db")):
            return None
        found.append(here)
    if len(given) == 1:
        return (found[0][0], None) if found[0] else None
    if len(given) > 2:
        raise click.UsageError("give one database, or a target and a golden one")
    for path, here in zip(given, found, strict=True):
        if not here:
            lack = "is no trend database" if path.exists() else "does not exist"
            raise ReadError(f"{path} {lack}; two runs are shown together from two .trend.db of msprobe data2db")
    return found[0][0], found[1][0]


def _show_trends(target: Path, golden: Path | None, page: Path | None, address: tuple[str, int, bool]) -> None:
    from msprobe.visualize.trend_view.page import write_trend_page
    from msprobe.visualize.trend_view.server import TrendServer

    if page is not None:
        _write(page, lambda: write_trend_page(target, page, golden, _tell), address[2])
        return
    click.echo(f"Trend: {target}")
    if golden is not None:
        click.echo(f"Golden: {golden}")
    _serve(lambda host, port: TrendServer(target, golden, host, port), address)


def _show_graphs(path: Path, page: Path | None, address: tuple[str, int, bool]) -> None:
    from msprobe.visualize.viewer.databases import find_databases
    from msprobe.visualize.viewer.offline_page import write_page
    from msprobe.visualize.viewer.server import ViewServer

    databases = find_databases(path)
    if page is not None:
        _write(page, lambda: write_page(databases, page, _tell), address[2])
        return
    for file in databases:
        click.echo(f"Graph: {file}")
    _serve(lambda host, port: ViewServer(databases, host, port), address)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _write(page: Path, write: Callable[[], int], show: bool) -> None:
    from msprobe.core.store.safe_files import make_folder

    make_folder(page.absolute().parent)
    click.echo(f"Page: {page} ({write() / 1e6:.1f} MB)")
    if show:
        click.launch(page.absolute().as_uri())


def _prepare(server: LocalServer) -> None:
    import contextlib
    import sqlite3

    from msprobe.core.errors import ReadError

    with contextlib.suppress(ReadError, sqlite3.Error, OSError):  # reported to the browser that asks for it
        server.prepare()


def open_page(address: str) -> None:
    """Open an address in the browser by a file that leads to it: all users see the words that programs are called with,
    and the token is in the address."""
    import atexit
    import html
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="msprobe-view-"))  # of this user alone
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    page = folder / "open.html"
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">', encoding="utf-8"
    )
    click.launch(page.as_uri())


def _serve(make: Callable[[str, int], LocalServer], address: tuple[str, int, bool]) -> None:
    host, port, show = address
    try:
        server = make(host, port)
    except OSError as error:
        raise click.UsageError(
            f"cannot serve on {host}:{port}: {error.strerror}; choose another --port, or 0"
        ) from error
    click.echo(f"View: {server.address} (Ctrl-C ends)")
    if show:
        open_page(server.address)
    threading.Thread(target=_prepare, args=(server,), daemon=True).start()
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("")

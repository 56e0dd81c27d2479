"""The HTML page of the viewer: served with its scripts beside it, or as one offline page with all data inside.

``write_page`` writes the offline page of some databases. Each part of the data is a block of gzip in base64, which the
browser unpacks when the part is first shown: a page of 50 000 nodes unpacks its outline when it opens, and the values
of a few hundred nodes when one of them is selected.

``served_page`` and ``offline_page`` make the document of the front end. Modules find each other by name through an
import map, so that the same files work from a server and as data addresses. The content policy blocks every other
address: the page uses no network even where the machine has one.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from html import escape
from importlib.resources import files
from itertools import islice, product
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import write_atomic
from msprobe.visualize.viewer.databases import REMEDY
from msprobe.visualize.viewer.queries import SIDES, GraphDatabase, encode

_LIBRARIES = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/preact-hooks.mjs",
    "htm": "vendor/htm.mjs",
    "uplot": "vendor/uplot.mjs",
    "dagre": "vendor/dagre.mjs",
}
_STYLES = ("vendor/uplot.css", "app/app.css")
_START = 'import "msprobe/main.js";'
NODES_PER_PART = 200
_GZIP_LEVEL = 6
_MOST_GRAPHS = 10_000
ReportLine = Callable[[str], None]


def write_page(paths: list[Path], target: Path, progress: ReportLine = lambda line: None) -> int:
    """Write the page and return its size in bytes. ``progress`` gets a line per step and rank.

    Raises:
        OSError: the page cannot be written.
        ReadError: a database is damaged. In both cases nothing is left behind.
    """
    before, after = offline_page(", ".join(path.name for path in paths))

    def pieces() -> Iterator[bytes]:
        yield before
        index = []
        for number, path in enumerate(paths):
            try:
                index.append(GraphDatabase(path).overview())
                yield from _parts(number, GraphDatabase(path), progress)
            except sqlite3.Error as error:
                raise ReadError(f"{path}: {error}; {REMEDY}") from error
        yield _part("index", index)
        yield after

    return write_atomic(target, pieces())


def _parts(number: int, database: GraphDatabase, progress: ReportLine) -> Iterator[bytes]:
    overview = database.overview()
    yield _part(f"grid-{number}", database.grid())
    steps, ranks = (dict.fromkeys(overview[axis]) for axis in ("steps", "ranks"))
    if len(steps) * len(ranks) > _MOST_GRAPHS:
        raise ReadError(f"{database.path}: {len(steps)} steps and {len(ranks)} ranks are too many for a page; {REMEDY}")
    for step, rank in product(steps, ranks):
        progress(f"{database.path.name}: step {step}, rank {rank}")
        graph_id = f"{number}-{step}-{rank}"
        yield _part(f"graph-{graph_id}", database.graph(step, rank))
        yield _part(f"facts-{graph_id}", database.facts(step, rank))
        yield _part(f"stacks-{graph_id}", database.stacks(step, rank))
        for side in SIDES:
            for index, nodes in enumerate(_groups(database.all_nodes(step, rank, side))):
                yield _part(f"nodes-{graph_id}-{side}-{index}", nodes)


def _groups(nodes: Iterable[Any]) -> Iterator[list[Any]]:
    source = iter(nodes)
    while group := list(islice(source, NODES_PER_PART)):
        yield group


def _part(name: str, content: Any) -> bytes:
    packed = gzip.compress(encode(content), _GZIP_LEVEL, mtime=0)
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), base64.b64encode(packed))


@cache
def asset(name: str) -> bytes:
    """Return a file of the front end by its path below ``assets``.

    Raises:
        KeyError: the front end has no such file.
    """
    if name not in asset_names():
        raise KeyError(name)
    return files(__package__).joinpath(f"assets/{name}").read_bytes()


@cache
def asset_names() -> frozenset[str]:
    """Return the paths of all scripts and style sheets: the pinned libraries and the modules of ``app``."""
    app = (entry.name for entry in files(__package__).joinpath("assets/app").iterdir())
    return frozenset({*_LIBRARIES.values(), *_STYLES, *(f"app/{name}" for name in app if name.endswith(".js"))})


def served_page() -> tuple[str, str]:
    """Return the document that loads its parts from the server, and its content policy."""
    styles = "".join(f'<link rel="stylesheet" href="{name}">' for name in _STYLES)
    imports = _import_map({name: f"./{path}" for name, path in _modules().items()})
    allowed = " ".join(_digest(text) for text in (imports, _START))
    policy = f"default-src 'none'; script-src 'self' {allowed}; style-src 'self'; connect-src 'self'; img-src data:"
    return _document("msprobe view", styles, imports), f"{policy}; base-uri 'none'; form-action 'none'"


def offline_page(title: str) -> tuple[bytes, bytes]:
    """Return what comes before and after the data in a page that needs no other file."""
    styles = "".join(f"<style>{asset(name).decode()}</style>" for name in _STYLES)
    imports = _import_map({name: _data_address(path) for name, path in _modules().items()})
    allowed = " ".join(_digest(text) for text in (imports, _START))
    policy = f"default-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; img-src data:"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    before, after = _document(title, meta + styles, imports, "<!--data-->").split("<!--data-->")
    return before.encode("utf-8", "backslashreplace"), after.encode()


def _document(title: str, head: str, imports: str, data: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width">{head}'
        f'<script type="importmap">{imports}</script></head><body><div id="app">'
        f'<p class="note">Loading; this page needs a browser with JavaScript modules.</p></div>{data}'
        f'<script type="module">{_START}</script></body></html>'
    )


def _modules() -> dict[str, str]:
    own = {f"msprobe/{name.removeprefix('app/')}": name for name in sorted(asset_names()) if name.startswith("app/")}
    return {**_LIBRARIES, **{name: path for name, path in own.items() if path.endswith(".js")}}


def _import_map(imports: dict[str, str]) -> str:
    return json.dumps({"imports": imports})


def _data_address(name: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(asset(name)).decode()}"


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"

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
from dataclasses import dataclass
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
_SHARED = ("app/html.js", "app/numbers.js", "app/theme.js", "app/visible.js")
NODES_PER_PART = 200
_GZIP_LEVEL = 6
_MOST_GRAPHS = 10_000
ReportLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """One of the pages: where its own modules lie, its style sheets, and the title of the served page."""

    folder: str
    styles: tuple[str, ...]
    title: str

    @property
    def start(self) -> str:
        """Return the script that starts the page."""
        return f'import "{_module_name(f"{self.folder}/main.js")}";'

    def modules(self) -> dict[str, str]:
        """Return the modules that the page may load, by the names that they import each other with."""
        own = (name for name in sorted(asset_names()) if name.startswith(f"{self.folder}/") or name in _SHARED)
        return {**_LIBRARIES, **{_module_name(name): name for name in own if name.endswith(".js")}}


GRAPHS = FrontEnd("app", _STYLES, "msprobe view")
TRENDS = FrontEnd("trend", (*_STYLES, "trend/trend.css"), "msprobe view: trends")


def _module_name(path: str) -> str:
    return f"msprobe/{path.removeprefix('app/')}"


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
    return page_part(name, encode(content))


def page_part(name: str, content: bytes) -> bytes:
    """Return a part of the data of an offline page: compressed, under a name of letters, digits and dashes."""
    packed = gzip.compress(content, _GZIP_LEVEL, mtime=0)
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
    own = [
        f"{front.folder}/{entry.name}"
        for front in (GRAPHS, TRENDS)
        for entry in files(__package__).joinpath(f"assets/{front.folder}").iterdir()
    ]
    return frozenset({*_LIBRARIES.values(), *TRENDS.styles, *(name for name in own if name.endswith(".js"))})


def served_page(front: FrontEnd = GRAPHS) -> tuple[str, str]:
    """Return the document that loads its parts from the server, and its content policy."""
    styles = "".join(f'<link rel="stylesheet" href="{name}">' for name in front.styles)
    imports = _import_map({name: f"./{path}" for name, path in front.modules().items()})
    allowed = " ".join(_digest(text) for text in (imports, front.start))
    policy = f"default-src 'none'; script-src 'self' {allowed}; style-src 'self'; connect-src 'self'; img-src data:"
    return _document(front, front.title, styles, imports), f"{policy}; base-uri 'none'; form-action 'none'"


def offline_page(title: str, front: FrontEnd = GRAPHS) -> tuple[bytes, bytes]:
    """Return what comes before and after the data in a page that needs no other file."""
    styles = "".join(f"<style>{asset(name).decode()}</style>" for name in front.styles)
    imports = _import_map({name: _data_address(path) for name, path in front.modules().items()})
    allowed = " ".join(_digest(text) for text in (imports, front.start))
    policy = f"default-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; img-src data:"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    before, after = _document(front, title, meta + styles, imports, "<!--data-->").split("<!--data-->")
    return before.encode("utf-8", "backslashreplace"), after.encode()


def _document(front: FrontEnd, title: str, head: str, imports: str, data: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width">{head}'
        f'<script type="importmap">{imports}</script></head><body><div id="app">'
        f'<p class="note">Loading; this page needs a browser with JavaScript modules.</p></div>{data}'
        f'<script type="module">{front.start}</script></body></html>'
    )


def _import_map(imports: dict[str, str]) -> str:
    return json.dumps({"imports": imports})


def _data_address(name: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(asset(name)).decode()}"


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"

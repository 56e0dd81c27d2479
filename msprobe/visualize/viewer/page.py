"""One offline page that holds the front end and all data of some databases, compressed.

Each part is its own block of gzip in base64, unpacked by the browser when it is first shown: a page of 50 000 nodes
unpacks its outline when it opens, and the parameters of a few hundred nodes when one of them is selected.
"""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.store.atomic import write_atomic
from msprobe.visualize.viewer.assembly import offline_page
from msprobe.visualize.viewer.queries import SIDES, GraphDatabase

NODES_PER_PART = 200
_LEVEL = 6

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
                raise ReadError(f"{path}: {error}; make it again with msprobe graph_visualize") from error
        yield _part("index", index)
        yield after

    return write_atomic(target, pieces())


def _parts(number: int, database: GraphDatabase, progress: ReportLine) -> Iterator[bytes]:
    overview = database.overview()
    yield _part(f"grid-{number}", database.grid())
    for step, rank in product(overview["steps"], overview["ranks"]):
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
    packed = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), _LEVEL, mtime=0)
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), base64.b64encode(packed))

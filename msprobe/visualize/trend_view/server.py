"""The local server of trend databases. It follows the files: when a training writes on, the next answers have it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.visualize.trend_view.answers import (
    LAYOUTS,
    SIDES,
    Json,
    Picture,
    index,
    line,
    parting_answer,
    picture,
)
from msprobe.visualize.trend_view.parting import Parting, find_parting
from msprobe.visualize.trend_view.runs import Runs
from msprobe.visualize.trend_view.store import TrendStore, revision_of
from msprobe.visualize.viewer.local_server import LOCAL_HOST, LocalServer, Query
from msprobe.visualize.viewer.offline_page import TRENDS, served_page
from msprobe.visualize.viewer.queries import encode

LARGEST_PICTURE = 4096
MOST_PREPARED = 64
BACKGROUND = 10
"""The nice value of the thread that searches where two runs part."""


class TrendServer(LocalServer):
    """Serves a target and perhaps a golden database; the other arguments are those of ``LocalServer``.

    Raises:
        ReadError: a file is no trend database.
    """

    answer_type = "application/octet-stream"

    def __init__(
        self, target: Path, golden: Path | None = None, host: str = LOCAL_HOST, port: int = 0, **settings: Any
    ) -> None:
        self._files = _Files([target] if golden is None else [target, golden])
        super().__init__(host, port, **settings)

    def page(self) -> tuple[str, str]:
        """Return the document of the front end and its content policy."""
        return served_page(TRENDS)

    def answer(self, question: str, values: Query) -> bytes:
        """Return the answer to a question of the page: JSON, or cells behind a line of JSON."""
        return _QUESTIONS[question](self._files, values)

    def prepare(self) -> None:
        """Read the whole map once, so that the first picture finds it in the memory of the system."""
        with contextlib.suppress(MsprobeException):
            index(self._files.runs)

    def server_close(self) -> None:
        """End the server and its search."""
        self._files.close()
        super().server_close()


class _Files:
    """The runs as their files are now, and where they part, which is searched in a thread of its own."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._closed = False
        self._runs = Runs(*(TrendStore(path) for path in paths))
        self._parting: Parting | None = None
        self._search()

    @property
    def runs(self) -> Runs:
        """Return the runs; they are read again when a file has changed."""
        with self._lock:
            changed = [
                place for place, store in enumerate(self._runs.stores) if store.revision != self._revision(place)
            ]
            if changed:
                stores = [TrendStore(path) for path in self._paths]
                self._runs = Runs(*stores)
                self._search()
            return self._runs

    @property
    def revision(self) -> str:
        """Return a text that changes whenever a file does."""
        return " ".join(str(store.revision) for store in self.runs.stores)

    @property
    def parting(self) -> Parting | None:
        """Return where the runs part; None while it is searched."""
        return self._parting

    def close(self) -> None:
        """End the search."""
        self._closed = True

    def _revision(self, place: int) -> tuple[int, int]:
        try:
            return revision_of(self._paths[place])
        except OSError:  # a file that was removed is shown as it was read
            return self._runs.stores[place].revision

    def _search(self) -> None:
        runs, self._parting = self._runs, None
        if runs.compared:
            threading.Thread(target=self._find, args=(runs,), daemon=True).start()

    def _find(self, runs: Runs) -> None:
        _let_others_first()
        try:
            found = find_parting(runs, lambda: self._closed or runs is not self._runs)
        except Exception as error:  # noqa: BLE001 - the page goes on without it
            logger.warning("view: where the runs part cannot be found: %s", error)
            return
        if runs is self._runs:
            self._parting = found
            self._keep_differences(runs)

    def _keep_differences(self, runs: Runs) -> None:
        """Compute the differences that a reader looks at first, before they are asked for."""
        planes = [
            ((metric, names[0]), rank) for metric, names in runs.metrics.items() for rank in range(len(runs.ranks))
        ]
        for names, rank in planes[:MOST_PREPARED]:
            if self._closed or runs is not self._runs:
                return
            runs.keep_differences(names, rank)


def _let_others_first() -> None:
    """Give this thread what the answers to the page leave of the processors, where threads have priorities."""
    with contextlib.suppress(AttributeError, OSError):
        if sys.platform == "linux":  # elsewhere the number would mean the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND)


def _index(files: _Files, values: Query) -> bytes:
    return encode({**index(files.runs), "revision": files.revision})


def _state(files: _Files, values: Query) -> bytes:
    return encode({"revision": files.revision})


def _where_they_part(files: _Files, values: Query) -> bytes:
    answer: Json = parting_answer(files.runs, files.parting)
    return encode(answer)


def _picture(files: _Files, values: Query) -> bytes:
    runs = files.runs
    if values["layout"] not in LAYOUTS or values["side"] not in SIDES or values["metric"] not in runs.metrics:
        raise KeyError(values["metric"])
    numbers = {key: _position(values[key]) for key in ("third", "x0", "x1", "y0", "y1", "columns", "rows")}
    size = (min(numbers["columns"], LARGEST_PICTURE) or 1, min(numbers["rows"], LARGEST_PICTURE) or 1)
    wanted = Picture(
        values["side"],
        values["metric"],
        values["statistic"],
        values["layout"],
        numbers["third"],
        (numbers["x0"], numbers["x1"]),
        (numbers["y0"], numbers["y1"]),
        size,
        values.get("query", ""),
    )
    return picture(runs, wanted)


def _line(files: _Files, values: Query) -> bytes:
    runs = files.runs
    if values["along"] not in ("step", "rank", "layer") or values["metric"] not in runs.metrics:
        raise KeyError(values["metric"])
    place = {axis: _position(values[axis]) for axis in ("step", "rank", "layer")}
    ends = _position(values["begin"]), _position(values["end"])
    return line(runs, (values["metric"], values["statistic"]), values["along"], place, ends)


def _position(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**31:
        raise ValueError(f"{number} is no position")
    return number


_QUESTIONS: dict[str, Callable[[_Files, Query], bytes]] = {
    "index": _index,
    "state": _state,
    "parting": _where_they_part,
    "picture": _picture,
    "line": _line,
}

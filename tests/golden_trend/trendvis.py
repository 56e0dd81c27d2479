"""The published plugin TrendVis as a black box: a TensorBoard that serves a database, and what the plugin's page asks.

The questions are the files, the metrics, for each metric the tags, and for each statistic and dimension the values, all
heat maps, and the lines of some cells.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIMENSIONS = ("step", "rank", "module_name")
SECONDS_TO_START = 120


class TrendVis:
    """The plugin, serving the databases of a folder."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/data/plugin/TrendVis"

    def get(self, question: str, **values: str) -> Any:
        """Return the answer to a question with values in the address."""
        return self._data(f"{question}?{urllib.parse.urlencode(values)}", None)

    def post(self, question: str, **values: Any) -> Any:
        """Return the answer to a question with values in JSON."""
        return self._data(question, json.dumps({**values, "tags": []}).encode())

    def _data(self, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(f"{self._address}/{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = json.load(answer)
        return content.get("data", content)


@contextlib.contextmanager
def served(tensorboard: Path, database: Path) -> Iterator[TrendVis]:
    """Serve a copy of a database until the block ends."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        shutil.copy(database, Path(folder) / "run.trend.db")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [
            str(tensorboard),
            "--logdir",
            folder,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--load_fast=false",
        ]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment, **quiet) as process:
            try:
                plugin = TrendVis(port)
                _wait(plugin, process)
                yield plugin
            finally:
                process.terminate()


def _wait(plugin: TrendVis, process: subprocess.Popen[Any]) -> None:
    end = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            plugin.get("db_files")
            return
        time.sleep(0.5)
    raise RuntimeError("tensorboard does not serve the plugin TrendVis: is mindstudio-probe installed beside it?")


def questions(plugin: TrendVis) -> Iterator[tuple[str, Any]]:
    """Yield each question as a text, and the plugin's answer, without the order that a database does not fix."""
    yield "db_files", plugin.get("db_files")
    metrics = {one["name"]: sorted(one["stats"]) for one in plugin.get("metrics")}
    yield "metrics", metrics
    for metric, statistics in sorted(metrics.items()):
        tags = plugin.get("tags", metric=metric)
        yield f"tags {metric}", sorted((one["category"], one["text"]) for one in tags)
        for statistic in statistics:
            for dimension in DIMENSIONS:
                names = {"metric": metric, "stat": statistic, "dimension": dimension}
                yield from _of_dimension(plugin, names)


def _of_dimension(plugin: TrendVis, names: dict[str, str]) -> Iterator[tuple[str, Any]]:
    words = " ".join(names.values())
    values = plugin.post("values", **names)
    yield f"values {words}", values
    for number, value in enumerate(values):
        cells = plugin.post("heatmap_data", **names, value=value)
        yield f"heatmap_data {words} {value}", sorted(cells, key=str)
        if not cells or number:
            continue
        for x, y, _ in cells[:5]:
            place = {"dimX": str(x), "dimYIdx": str(y[0] if isinstance(y, list) else y)}
            yield f"trend {words} {value} {place}", plugin.post("trend", **names, value=value, **place)

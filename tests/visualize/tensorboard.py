"""A real TensorBoard with a plugin that shows graphs, each from a folder of its own: both have one name."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.separate_packages import installed

_START_SECONDS = 120.0


@dataclass(frozen=True)
class Viewer:
    """The package with the plugin; what it requires is installed for the tests anyway."""

    package: str

    def folder(self) -> Path:
        """Return the folder with the package; raises CannotInstallError."""
        return installed(self.package.replace("==", "-"), self.package)


STANDALONE = Viewer("tb_graph_ascend==8.3.2")
BUNDLED = Viewer("mindstudio-probe==26.2.0")


class TensorBoard:
    """A running server; ``ask`` calls an endpoint of the plugin for one database."""

    def __init__(self, viewer: Viewer, logdir: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._shown = ""
        self._log = (logdir.parent / "tensorboard.log").open("w")
        folder = viewer.folder()
        arguments = ["--logdir", str(logdir), "--port", str(port), "--host", "127.0.0.1"]
        own = {**os.environ, "PYTHONPATH": str(folder)}  # its msprobe is another one
        words = [sys.executable, "-m", "tensorboard.main", *arguments]
        self._process = subprocess.Popen(words, stdout=self._log, stderr=subprocess.STDOUT, env=own, cwd=logdir)
        self.address = f"http://127.0.0.1:{port}/data/plugin/graph_ascend/"

    def __enter__(self) -> TensorBoard:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.runs()
                return self
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.__exit__()
                    raise
                time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()

    def runs(self) -> dict[str, Any]:
        """Databases that the plugin sees: folder name to type and tags."""
        with urllib.request.urlopen(self.address + "load_meta_dir", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)["data"]
        return found

    def ask(self, endpoint: str, run: str, *, step: int = 0, rank: int = 0, **body: Any) -> Any:
        """The data of an answer.

        Raises:
            AssertionError: the server does not say success.
        """
        if run != self._shown:  # the server keeps one database in mind; its page opens another one like this
            self._shown = run
            self.ask("loadGraphConfigInfo", run)
        tag = self.runs()[run]["tags"][0]
        meta = {"run": run, "tag": tag, "type": "db", "lang": "en", "microStep": -1, "rank": rank, "step": step}
        content = json.dumps({"metaData": meta, **body}).encode()
        request = urllib.request.Request(self.address + endpoint, content, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        assert found["success"], found
        return found["data"]

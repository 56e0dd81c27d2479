"""A real TensorBoard with a plugin that shows graphs, each in a virtual environment of its own: both have one name."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TENSORBOARD = "tensorboard==2.21.0"
_START_SECONDS = 120.0


class CannotInstallError(Exception):
    """No package index is reachable, or it has no such package."""


@dataclass(frozen=True)
class Viewer:
    """The package with the plugin; of its requirements only those are installed that the plugin needs."""

    package: str
    needs: tuple[str, ...] = ()

    def environment(self) -> Path:
        """The folder of the virtual environment; made on first use, outside of the repository."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "msprobe-tests" / self.package.replace("==", "-")
        if (folder / "ready").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
        pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        for words in ([_TENSORBOARD, *self.needs], ["--no-deps", self.package]):
            done = subprocess.run([*pip, *words], check=False, capture_output=True, text=True)
            if done.returncode:
                raise CannotInstallError(done.stderr.strip().splitlines()[-1])
        (folder / "ready").touch()
        return folder


STANDALONE = Viewer("tb_graph_ascend==8.3.2")
BUNDLED = Viewer("mindstudio-probe==26.2.0", ("pandas", "pyyaml", "tqdm"))


class TensorBoard:
    """A running server; ``ask`` calls an endpoint of the plugin for one database."""

    def __init__(self, viewer: Viewer, logdir: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._shown = ""
        self._log = (logdir.parent / "tensorboard.log").open("w")
        binary = viewer.environment() / "bin" / "tensorboard"
        arguments = ["--logdir", str(logdir), "--port", str(port), "--host", "127.0.0.1"]
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # its msprobe is another one
        self._process = subprocess.Popen(
            [str(binary), *arguments], stdout=self._log, stderr=subprocess.STDOUT, env=own, cwd=logdir
        )
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

"""The server of trends gives its page and its cells to who knows its token."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from msprobe.visualize.trend_view.server import TrendServer
from tests.visualize.trend_view.databases import write_run
from tests.visualize.viewer.test_server import get


@pytest.mark.parametrize("path", ["/", "/api/index", "/api/state", "/api/parting"])
def test_the_token_is_needed(tmp_path: Path, path: str) -> None:
    with TrendServer(write_run(tmp_path / "a")) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            assert get(server.address, path)[0] == 200
            assert get(server.address, f"{path}?token=x")[0] == 403
        finally:
            server.shutdown()

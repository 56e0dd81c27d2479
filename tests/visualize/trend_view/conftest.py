"""The page of trends in the browser of the tests of the viewer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.trend_view.page import write_trend_page
from msprobe.visualize.trend_view.server import TrendServer
from tests.visualize.viewer.conftest import driver as driver


@pytest.fixture
def trends(driver: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """A function that opens databases, from the server or one file; a complaint of the browser fails the test."""
    from tests.visualize.viewer.page_reader import Viewing  # needs selenium

    running: list[TrendServer] = []

    def opened(target: Path, golden: Path | None = None, link: str = "") -> Viewing:
        if getattr(request, "param", "served") == "served":
            server = TrendServer(target, golden)
            running.append(server)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
            address = server.address
        else:
            page = tmp_path / "page.html"
            write_trend_page(target, page, golden)
            address = page.as_uri()
        driver.get("about:blank")
        driver.get(address + link)
        viewing = Viewing(driver)
        viewing.until(lambda: viewing.all("#heat[data-key]") or viewing.all(".failure"), bool)
        return viewing

    yield opened
    harmless = ("favicon", "willReadFrequently")  # the second is about the pixels that the tests read
    messages = [line["message"] for line in driver.get_log("browser")]
    complaints = [text for text in messages if not any(word in text for word in harmless)]
    driver.get("about:blank")
    driver.get_log("browser")
    for server in running:
        server.shutdown()
        server.server_close()
    assert complaints == []

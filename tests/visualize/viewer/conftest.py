"""A headless Chromium for the whole session, and graphs opened in it from a server or from a file."""

from __future__ import annotations

import importlib.util
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.viewer.offline_page import write_page
from msprobe.visualize.viewer.server import ViewServer

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if importlib.util.find_spec("selenium") is None or not (BROWSER and DRIVER):
        pytest.skip("needs selenium, chromium and chromium-driver; scripts/test installs them on Debian")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1500,950")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path_factory.mktemp("downloads"))})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield chromium
    chromium.quit()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """A function that serves databases and returns the address; it ends before the folder of the test is removed."""
    running: list[ViewServer] = []

    def serve(*paths: Path, **settings: Any) -> str:
        server = ViewServer(list(paths), **settings)
        running.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server.address

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def view(request: pytest.FixtureRequest, driver: Any, served: Callable[..., str], tmp_path: Path) -> Iterator[Any]:
    """A function that opens databases, from the server or from one file; a complaint of the browser fails the test.

    ``tests/visualize/viewer/sources.py`` has the marks that say from where.
    """
    from tests.visualize.viewer.page_reader import Viewing  # needs selenium

    def opened(*paths: Path, link: str = "") -> Viewing:
        if request.param == "served":
            address = served(*paths)
        else:
            page = tmp_path / "page.html"
            write_page(list(paths), page)
            address = page.as_uri()
        viewing = Viewing(driver)
        viewing.open(address, link)
        return viewing

    yield opened
    complaints = [line["message"] for line in driver.get_log("browser") if "favicon" not in line["message"]]
    driver.get("about:blank")  # what the page still asks for ends before the server does, and is no other test's
    driver.get_log("browser")
    assert complaints == []

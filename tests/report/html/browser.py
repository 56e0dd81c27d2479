"""A real browser without a window and without a network, driven by the tests of the HTML report."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1300,1150",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def missing() -> str:
    """Why no browser can be started, or "" when one can."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not installed (scripts/browser installs it)" if absent else ""


@contextmanager
def browser() -> Iterator[Any]:
    """A selenium driver of Debian's chromium that keeps what the page logs."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()


class Report:
    """A report opened from its file."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver = driver
        driver.get(path.absolute().as_uri())
        self.wait("document.body.dataset.ready !== undefined || document.getElementById('state').textContent[0] != 'L'")

    def wait(self, condition: str) -> None:
        """Until the JavaScript condition holds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 60, poll_frequency=0.02).until(
            lambda driver: driver.execute_script(f"return Boolean({condition})")
        )

    def one(self, selector: str) -> Any:
        """The element, which is there."""
        from selenium.webdriver.common.by import By

        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of all such elements."""
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        return list(self.driver.execute_script(script, selector))

    def column(self, title: str) -> list[str]:
        """The cells in sight below a title."""
        place = self.texts("#head button").index(title) + 1
        return self.texts(f"#rows .row > span:nth-child({place})")

    def found(self) -> str:
        """How many rows are shown of how many."""
        return str(self.one("#found").text)

    def search(self, text: str) -> None:
        """Type into the search box and wait for the answer."""
        before = self.one("#found").get_attribute("data-number")
        box = self.one("#search")
        box.clear()
        box.send_keys(text)
        self.wait(f"document.getElementById('found').dataset.number > {before}")
        self.driver.execute_async_script("setTimeout(arguments[0], 200)")

    def sort(self, title: str) -> None:
        """Click on a title."""
        self.driver.execute_script("arguments[0].scrollIntoView()", self.one("#table"))
        self.one(f'#head button[data-title="{title}"]').click()

    def errors(self) -> list[str]:
        """What the browser complains about, violations of the content policy among them."""
        return [line["message"] for line in self.driver.get_log("browser")]

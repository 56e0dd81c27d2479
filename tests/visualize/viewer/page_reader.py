"""A reader of the page: finds what can be seen, clicks, types, and waits for what must appear."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

Value = TypeVar("Value")
PATIENCE = 10.0


class Viewing:
    """One open page. Lists are those of the moment; ``until`` waits."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str, link: str = "") -> None:
        self.driver.get("about:blank")
        self.driver.get(f"{address}{link}")
        self.until(lambda: self.all(".line") or self.all(".failure"), bool)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def text(self, selector: str) -> str:
        return "\n".join(one.text for one in self.all(selector))

    def click(self, selector: str) -> None:
        self.until(lambda: self.all(selector), bool)[0].click()

    def double_click(self, selector: str) -> None:
        ActionChains(self.driver).double_click(self.all(selector)[0]).perform()

    def press(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key, key)).perform()

    def choose(self, selector: str, value: str) -> None:
        options = self.until(
            lambda: [one for one in self.all(f"{selector} option") if one.get_attribute("value") == value], bool
        )
        options[0].click()

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    @property
    def selected(self) -> str:
        return self.text("#selected-name")

    @property
    def lines(self) -> list[str]:
        """Full names of the lines in sight, from top to bottom."""
        script = """return [...document.querySelectorAll('.line')].map((line) =>
            [line.getBoundingClientRect().top, line.dataset.name])"""
        return [name for _, name in sorted(self.run(script))]

    def until(self, look: Callable[[], Value], fits: Callable[[Value], object]) -> Value:
        """What ``look`` finds as soon as it fits; AssertionError with the last find where it never does."""
        end, found = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            try:
                found = look()
                if fits(found):
                    return found
            except (StaleElementReferenceException, WebDriverException):
                pass
            time.sleep(0.02)
        raise AssertionError(f"never fitted, the last was {found!r}")

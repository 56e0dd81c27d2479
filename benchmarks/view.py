"""How long the viewer takes in a real browser: until a graph is shown, a node unfolded, a search done.

    python benchmarks/view.py --nodes 50000

Times are the browser's own, from the start of the navigation to the frame after the tree is drawn, and from the event
to the frame after it. Needs selenium, chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from generate_graph import NODES_PER_LAYER, write_graph
from table import markdown

UNFOLD = """
const [name, done] = arguments;
const view = window.msprobeView, node = view.state.model.find(name);
const began = performance.now();
view.toggle(node);
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
"""
SELECT = """
const [name, done] = arguments;
const view = window.msprobeView, before = document.querySelector("#selected-name").textContent;
const began = performance.now();
const watch = new MutationObserver(() => {
  if (document.querySelector("#selected-name").textContent === before) return;
  if (!document.querySelector(".parameters")?.textContent.includes("output.0")) return;
  watch.disconnect();
  done(performance.now() - began);
});
watch.observe(document.body, { subtree: true, childList: true, characterData: true });
view.select(view.state.model.find(name));
"""
SEARCH = """
const [text, done] = arguments;
const began = performance.now();
window.msprobeView.narrow({ query: text });
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
"""
OPENED = "return performance.getEntriesByName('msprobe-opened')[0]?.startTime ?? null"


def browser() -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def opened(driver: Any, address: str) -> float:
    """Milliseconds until the tree is drawn."""
    driver.get("about:blank")
    driver.get(address)
    end = time.monotonic() + 60
    while (found := driver.execute_script(OPENED)) is None:
        if time.monotonic() > end:
            raise SystemExit(f"{address} did not open within a minute")
        time.sleep(0.05)
    return float(found)


def measure(driver: Any, address: str, layers: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"open": [], "unfold": [], "select": [], "search": []}
    for round_ in range(rounds):
        found["open"].append(opened(driver, address))
        time.sleep(2)  # facts about dtypes arrive after the page is open; they are not part of an unfolding
        driver.execute_script("window.msprobeView.narrow({ onlyDifferences: false })")
        asked: Callable[..., float] = driver.execute_async_script
        name = f"Module.layers.{(7 * round_ + 3) % layers}.Block.forward.0"
        found["unfold"].append(asked(UNFOLD, name))
        found["unfold"].append(asked(UNFOLD, "DefaultModel"))
        found["unfold"].append(asked(UNFOLD, "DefaultModel"))
        found["select"].append(asked(SELECT, name.replace("Block", "part2.Linear")))
        found["search"].append(asked(SEARCH, f"layers.{round_} part3"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=50_000, help="nodes on each side")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, page = Path(folder) / "compare.vis.db", Path(folder) / "page.html"
        rows = write_graph(path, options.nodes)
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "msprobe", "view", str(path), "--html", str(page)], check=True)
        wrote = time.monotonic() - began
        command = [sys.executable, "-u", "-m", "msprobe", "view", str(path), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = next(line.split()[1] for line in server.stdout if line.startswith("View: "))
            driver = browser()
            try:
                layers = options.nodes // NODES_PER_LAYER
                found = {
                    "server": measure(driver, address, layers, options.rounds),
                    "offline page": measure(driver, page.as_uri(), layers, options.rounds),
                }
            finally:
                driver.quit()
                server.terminate()
        sizes = f"{path.stat().st_size / 1e6:.0f} MB database, {page.stat().st_size / 1e6:.1f} MB page"
    print(f"{rows} rows, {sizes}, page written in {wrote:.1f} s; median (worst) of {options.rounds} rounds, ms\n")
    cells = [
        [kind, *(f"{statistics.median(times):.0f} ({max(times):.0f})" for times in one.values())]
        for kind, one in found.items()
    ]
    print(markdown(["", "open", "unfold", "select", "search"], cells))


if __name__ == "__main__":
    main()

"""How long the page of trends takes in a real browser: until it is open, and until another view is drawn.

    python benchmarks/trend.py --steps 10000 --targets 500 --ranks 8

Times are the browser's own: from the start of the navigation to the frame after the first picture, and from the change
to the frame after the picture and the line are drawn. A database that is given with --database is not made anew. Needs
selenium, chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from generate_trend import write_trend
from table import markdown
from view import browser

CHANGE = """
const [changes, done] = arguments;
const began = performance.now();
window.msprobeTrend.change(changes).then(() => done(performance.now() - began));
"""
OPENED = "return performance.getEntriesByName('msprobe-opened')[0]?.startTime ?? null"


def opened(driver: Any, address: str) -> float:
    """Milliseconds until the first picture is drawn."""
    driver.get("about:blank")
    driver.get(address)
    end = time.monotonic() + 60
    while (found := driver.execute_script(OPENED)) is None:
        if time.monotonic() > end:
            raise SystemExit(f"{address} did not open within a minute")
        time.sleep(0.02)
    return float(found)


def measure(driver: Any, address: str, options: argparse.Namespace) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    steps, ranks, targets = options.steps, options.ranks, options.targets

    def change(name: str, changes: dict[str, Any]) -> None:
        found.setdefault(name, []).append(float(driver.execute_async_script(CHANGE, changes)))

    for turn in range(options.rounds):
        found.setdefault("open", []).append(opened(driver, address))
        step, rank, layer = (37 * turn + 11) % steps, (turn + 1) % ranks, (91 * turn + 5) % targets
        change("other rank", {"at": {"step": step, "rank": rank, "layer": layer}})
        begin = (steps // 3 + turn) % max(steps - 200, 1)
        change("enlarge", {"x": [begin, min(begin + 200, steps)]})
        change("steps x ranks", {"layout": "step-rank"})
        change("other layer", {"at": {"step": step, "rank": rank, "layer": (layer + 77) % targets}})
        change("ranks x layers", {"layout": "rank-layer"})
        change("other step", {"at": {"step": (step + 499) % steps, "rank": rank, "layer": layer}})
        change("steps x layers", {"layout": "step-layer"})
        change("filter", {"query": "mlp"})
        if options.compare:
            change("filter off", {"query": ""})
            change("golden", {"side": "golden"})
            change("difference", {"side": "difference"})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", type=Path, help="a database of this size that exists")
    parser.add_argument("--compare", type=Path, help="a golden database of this size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.database or Path(folder) / "run.trend.db"
        if options.database is None:
            write_trend(path, options.steps, options.targets, options.ranks)
        golden = [str(options.compare)] if options.compare else []
        command = [sys.executable, "-u", "-m", "msprobe", "view", str(path), *golden, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = next(line.split()[1] for line in server.stdout if line.startswith("View: "))
            driver = browser()
            driver.set_window_size(1500, 950)
            try:
                found = measure(driver, address, options)
            finally:
                driver.quit()
                server.terminate()
        cells = options.steps * options.targets * options.ranks
        print(f"{cells} cells, {path.stat().st_size / 1e6:.0f} MB; median (worst) of {options.rounds} rounds, ms\n")
    rows = [[name, f"{statistics.median(times):.0f} ({max(times):.0f})"] for name, times in found.items()]
    print(markdown(["view", "ms"], rows))


if __name__ == "__main__":
    main()

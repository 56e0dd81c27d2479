"""From the configuration to the picture, as a user of a server walks it: enable, collect, visualise, find the cause.

    python examples/serving/journey.py sglang --out out        # two data-parallel workers, compared step by step
    python examples/serving/journey.py vllm-ascend --out out   # one worker, all steps at once

Everything runs here on a CPU: a server process with a small real decoder stands for the real one, once with a planted
fault (the problem) and once without (the benchmark). Both get the same request.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from model import FAULTS

HERE = Path(__file__).resolve().parent
QUESTION = "Hello, my name is"
READY = re.compile(r"ready on port (\d+)")


@contextmanager
def server(script: str, *arguments: str) -> Iterator[int]:
    """A running server; gives its port and ends it afterwards."""
    command = [sys.executable, str(HERE / script), "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ports = (found for line in process.stdout if (found := READY.search(line)))
            yield int(next(ports).group(1))
        finally:
            process.terminate()


def ask(port: int, path: str, request: dict[str, Any]) -> str:
    """Send a request as curl would, and return the generated text."""
    address = f"http://127.0.0.1:{port}{path}"
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": "application/json"})) as answer:
        return str(json.load(answer)["choices"][0]["text"])


def config(dump: Path, **fields: Any) -> dict[str, Any]:
    statistics = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    common = {"task": "statistics", "level": "mix", "async_dump": False, "statistics": statistics}
    return {**common, "dump_path": str(dump), "rank": [], "step": [], **fields}


def sglang(out: Path, side: str, fault: str | None) -> Path:
    """Collect one side of the SGLang journey: ranks 0 and 1, iterations 0 and 1."""
    dump, file = out / f"{side}_dump", out / f"{side}-msprobe-config.json"
    file.write_text(json.dumps(config(dump, rank=[0, 1], step=[0, 1]), indent=2), encoding="utf-8")
    planted = ["--fault", fault] if fault else []
    options = ("--msprobe-dump-config", str(file), "--dp-size", "2", *planted)
    with ExitStack() as running:  # the workers of one run exist at the same time
        ports = [running.enter_context(server("sglang_server.py", "--gpu-id", rank, *options)) for rank in ("0", "1")]
        for rank, port in enumerate(ports):
            request = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 3}
            print(f"  {side}, rank {rank}: {ask(port, '/v1/chat/completions', request)!r}")
    return dump / "step0"


def vllm_ascend(out: Path, side: str, fault: str | None) -> Path:
    """Collect one side of the vllm-ascend journey: every iteration of one worker."""
    dump = out / f"{side}_dump"
    planted = ["--fault", fault] if fault else []
    additional = json.dumps({"dump_config": config(dump)})
    with server("vllm_server.py", "--additional-config", additional, *planted) as port:
        request = {"prompt": QUESTION, "max_completion_tokens": 2, "temperature": 0}
        print(f"  {side}: {ask(port, '/v1/completions', request)!r}")
    return dump


JOURNEYS = {"sglang": (sglang, "scale"), "vllm-ascend": (vllm_ascend, "epsilon")}


def msprobe(*arguments: str) -> None:
    print("$ msprobe", *arguments)
    subprocess.run([sys.executable, "-m", "msprobe", *arguments], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", choices=sorted(JOURNEYS))
    parser.add_argument("--out", type=Path, required=True, help="folder for everything that is made")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="what to plant into the problem side")
    options = parser.parse_args(arguments)
    collect, usual = JOURNEYS[options.server]
    fault = options.fault or usual
    options.out.mkdir(parents=True, exist_ok=True)

    print(f"== collect; planted: {FAULTS[fault].story}")
    problem, bench = collect(options.out, "problem", fault), collect(options.out, "bench", None)
    print("== visualise")
    graphs, page = options.out / "graph_output", options.out / "graph.html"
    msprobe("graph_visualize", "-tp", str(problem), "-gp", str(bench), "-o", str(graphs), "-oc")
    msprobe("view", str(graphs), "--html", str(page))
    print(f"== open {page} in a browser, or serve it: msprobe view {graphs}")


if __name__ == "__main__":
    main()

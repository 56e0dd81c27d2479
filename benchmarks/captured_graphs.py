"""What AclGraphDumper costs in a replay of a CUDA graph: measuring in the graph, and recording a step.

    python benchmarks/captured_graphs.py --layers 8 --width 1024 --tokens 8 --rounds 20

Each variant is a graph of the same decoder, captured with and without the dumper; they are replayed by turns. ``idle``
is a replay that is not recorded (``dump_enable`` is off), ``recorded`` one with ``step()``. It is wall time: the GPU
works.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.core.dump.session import process_debugger
from msprobe.pytorch import AclGraphDumper, PrecisionDebugger

REPLAYS = 20
VARIANTS: dict[str, dict[str, Any]] = {
    "L0": {"level": "L0"},
    "L0, list of one layer": {"level": "L0", "statistics": {"list": ["Module.layers.0.down"]}},
    "L1": {"level": "L1"},
    "mix": {"level": "mix"},
}


class Layer(nn.Module):
    """What a decoder computes for few tokens, without its cache: norms, projections, a gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.second_norm, self.up = nn.RMSNorm(width), nn.Linear(width, 8 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(query @ key.T, -1) @ value)
        gate, up = self.up(self.second_norm(x)).chunk(2, -1)
        result: torch.Tensor = x + self.down(nn.functional.silu(gate) * up)
        return result


class Decoder(nn.Module):
    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Variant:
    """One graph of the decoder and, while it is captured and recorded, its dumper."""

    def __init__(self, model: nn.Module, x: torch.Tensor, config: dict[str, Any] | None) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._file = self._folder / "config.json"
        self._config = config
        self._dumper: AclGraphDumper | None = None
        if config is not None:
            self._write(False)
            self._dumper = AclGraphDumper(str(self._file))
            self._dumper.start(model)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad():
            model(x)
            with torch.cuda.graph(self.graph):
                model(x)

    def _write(self, enabled: bool) -> None:
        self._file.write_text(
            json.dumps({**(self._config or {}), "dump_path": str(self._folder / "dump"), "dump_enable": enabled})
        )
        stamp = time.time_ns() + 10**9
        os.utime(self._file, ns=(stamp, stamp))

    def idle(self) -> float:
        """Return the seconds of a replay that is not recorded."""
        return _timed(self.graph.replay, lambda: None)

    def recorded(self) -> float:
        """Return the seconds of a step that is recorded."""
        dumper = self._dumper
        assert dumper is not None
        self._write(True)
        dumper._maybe_reload_config(force=True)
        dumper.step(dump=False)
        seconds = _timed(self.graph.replay, dumper.step)
        self._write(False)
        dumper._maybe_reload_config(force=True)
        return seconds

    def close(self) -> None:
        session = process_debugger.peek()
        process_debugger.put(None)
        if session is not None:
            session.close()
        PrecisionDebugger._instance = None


def _timed(work: Callable[[], Any], after: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(REPLAYS):
        work()
        after()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / REPLAYS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("captured_graphs: there is no GPU here; run it on a machine with one", file=sys.stderr)
        return 1
    model = Decoder(options.layers, options.width).to("cuda", torch.bfloat16).eval()
    x = torch.randn(options.tokens, options.width, device="cuda", dtype=torch.bfloat16)
    plain = Variant(model, x, None)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options}\n")
    print("| variant | plain replay, ms | idle, ms | ratio | recorded step, ms | ratio |\n|---|---|---|---|---|---|")
    for name, config in VARIANTS.items():
        variant = Variant(model, x, config)
        turns = [(plain.idle(), variant.idle(), variant.recorded()) for _ in range(options.rounds)][1:]
        alone, idle, recorded = (statistics.median(column) for column in zip(*turns, strict=True))
        idle_ratio = statistics.median(turn[1] / turn[0] for turn in turns)
        ratio = statistics.median(turn[2] / turn[0] for turn in turns)
        cells = f"{alone * 1e3:.3f} | {idle * 1e3:.3f} | {idle_ratio:.2f} | {recorded * 1e3:.2f} | {ratio:.1f}"
        print(f"| {name} | {cells} |", flush=True)
        variant.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

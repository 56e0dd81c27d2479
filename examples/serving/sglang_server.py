"""Stands for `python -m sglang.launch_server`: the model runner calls msprobe where that of SGLang does.

    python sglang_server.py --port 1027 --msprobe-dump-config msprobe-config.json

A process is one data-parallel worker; --dp-size and --gpu-id say which of how many.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from endpoint import serve
from model import FAULTS, build
from torch import Tensor


class ModelRunner:
    """Runs the model; with a configuration, every iteration is recorded as one step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.gpu_id, self.dp_size = options.gpu_id, options.dp_size
        self.msprobe_debugger: Any = None
        if options.msprobe_dump_config:
            from msprobe.pytorch import PrecisionDebugger, seed_all

            seed_all(mode=True)
            self.msprobe_debugger = PrecisionDebugger(config_path=options.msprobe_dump_config)
        self.model = build(options.fault)

    @torch.inference_mode()
    def forward(self, tokens: Tensor) -> Tensor:
        if self.msprobe_debugger is not None:
            rank_id = self.gpu_id if self.dp_size > 1 else None
            self.msprobe_debugger.start(model=self.model, rank_id=rank_id)
        logits = self.model(tokens)
        if self.msprobe_debugger is not None:
            self.msprobe_debugger.stop()
            self.msprobe_debugger.step()
        return logits

    def generate(self, text: str, count: int) -> str:
        tokens = torch.tensor([list(text.encode())])
        for _ in range(count):
            following = self.forward(tokens)[:, -1:].argmax(-1)
            tokens = torch.cat((tokens, following), dim=1)
        return bytes(tokens[0, -count:].tolist()).decode("latin-1")


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for the SGLang server.")
    parser.add_argument("--port", type=int, default=1027)
    parser.add_argument("--msprobe-dump-config", metavar="FILE")
    parser.add_argument("--dp-size", type=int, default=1)
    parser.add_argument("--gpu-id", type=int, default=0)
    parser.add_argument("--fault", choices=sorted(FAULTS))
    options = parser.parse_args()
    serve(ModelRunner(options).generate, options.port)


if __name__ == "__main__":
    main()

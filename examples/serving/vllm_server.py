"""Stands for `vllm serve` with the vllm-ascend plugin: the model runner calls msprobe where that one does.

    python vllm_server.py --port 8000 --additional-config '{"dump_config": {"task": "statistics", ...}}'

The configuration is an object, or a file by `dump_config_path`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from endpoint import serve
from model import FAULTS, build


def config_path(additional: dict[str, Any]) -> str | None:
    """The file PrecisionDebugger reads: the one named, or the object written to one."""
    if "dump_config" not in additional:
        return additional.get("dump_config_path")
    folder = Path(tempfile.mkdtemp(prefix="vllm_dump_config_"))
    path = folder / "config.json"
    path.write_text(json.dumps(additional["dump_config"]), encoding="utf-8")
    return str(path)


class NPUModelRunner:
    """Runs one iteration per scheduled batch: start, forward, stop, step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model = build(options.fault)
        self.debugger: Any = None
        path = config_path(json.loads(options.additional_config))
        if path:
            from msprobe.pytorch import PrecisionDebugger

            self.debugger = PrecisionDebugger(path)

    @torch.inference_mode()
    def execute_model(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.debugger is not None:
            self.debugger.start(self.model)
        logits = self.model(tokens)
        if self.debugger is not None:
            self.debugger.stop()
            self.debugger.step()
        return logits[:, -1:].argmax(-1)

    def generate(self, text: str, count: int) -> str:
        tokens = torch.tensor([list(text.encode())])
        for _ in range(count):
            tokens = torch.cat((tokens, self.execute_model(tokens)), dim=1)
        return bytes(tokens[0, -count:].tolist()).decode("latin-1")


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for vllm serve with vllm-ascend.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--additional-config", default="{}", metavar="JSON")
    parser.add_argument("--fault", choices=sorted(FAULTS))
    options = parser.parse_args()
    serve(NPUModelRunner(options).generate, options.port)


if __name__ == "__main__":
    main()

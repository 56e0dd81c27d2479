"""Small dumps for a trend: statistics that tell where they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def tensor(value: float, **other: Any) -> dict[str, Any]:
    """The record of a tensor: Max, Min, Mean and Norm are ``value`` and a little more."""
    four = {"Max": value, "Min": value + 0.25, "Mean": value + 0.5, "Norm": value + 0.75}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **four, **other}


def forward(value: float, **other: Any) -> dict[str, Any]:
    """A call with one input and one output."""
    return {"input_args": [tensor(value)], "input_kwargs": {}, "output": [tensor(value + 1)], **other}


def backward(value: float) -> dict[str, Any]:
    return {"input": [tensor(value)], "output": [tensor(value + 1)]}


def write_dump(
    root: Path, place: tuple[int, str], data: Mapping[str, Any], construct: Mapping[str, Any] | None = None
) -> Path:
    """A process folder ``step{N}/NAME`` below ``root``."""
    folder = root / f"step{place[0]}" / place[1]
    folder.mkdir(parents=True)
    document = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(document))
    if construct is not None:
        (folder / "construct.json").write_text(json.dumps(construct))
    return folder


def two_passes(calls: Sequence[Sequence[int]] = ((5, 7), (9,))) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and call tree of a net whose layer calls ``linear`` with these numbers in each of its passes."""
    data: dict[str, Any] = {}
    construct: dict[str, Any] = {}
    for number, inner in enumerate(calls):
        net, layer = f"Module.Net.forward.{number}", f"Module.layer.Lin.forward.{number}"
        for call in inner:
            data[f"Functional.linear.{call}.forward"] = forward(float(call))
            construct[f"Functional.linear.{call}.forward"] = layer
        data[layer], data[net] = forward(100.0 + number), forward(200.0 + number)
        construct[layer], construct[net] = net, None
    return data, construct

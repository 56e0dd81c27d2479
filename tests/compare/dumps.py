"""Small dumps for tests, written in the documented layout."""

import json
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def tensor(scale: float = 1.0, *, shape: tuple[int, ...] = (4, 8), dtype: str = "float32", **more: Any) -> Entry:
    """A tensor leaf whose statistics grow with ``scale``."""
    values = {"Max": 2.0 * scale, "Min": -1.5 * scale, "Mean": 0.1 * scale, "Norm": 5.0 * scale}
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{dtype}",
        "shape": list(shape),
        **values,
        "requires_grad": True,
    } | more


def call(inputs: list[Any], outputs: list[Any], **kwargs: Any) -> Entry:
    return {"input_args": inputs, "input_kwargs": kwargs, "output": outputs}


def module(inputs: list[Any], outputs: list[Any], **parameters: Any) -> Entry:
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs, "parameters": parameters}


def gradient(inputs: list[Any], outputs: list[Any]) -> Entry:
    return {"input": inputs, "output": outputs}


def number(value: Any) -> Entry:
    return {"type": type(value).__name__, "value": value}


def with_loss(backward: Entry | None = None, weight: float = 3.0) -> Entry:
    """A loss with its gradient, further calls of the backward pass, and the gradient of a parameter: what leaves a
    step."""
    loss = tensor(3.0, shape=())
    return {
        "Functional.mse_loss.0.forward": call([tensor(7.0)], [loss]),
        "Functional.mse_loss.0.backward": gradient([tensor(0.5, shape=())], [tensor(1.0)]),
        **(backward or {}),
        "Module.layer.Linear.parameters_grad.0": {"weight": [tensor(weight)]},
    }


def write(
    folder: Path,
    data: dict[str, Any],
    construct: dict[str, Any] | None = None,
    stack: dict[str, list[str]] | None = None,
    task: str = "statistics",
) -> Path:
    """Write one process folder and return it. ``stack`` maps entry names to frames."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(document))
    (folder / "construct.json").write_text(json.dumps(construct or {}))
    if stack is not None:
        records = {str(i): [[name], frames] for i, (name, frames) in enumerate(stack.items())}
        (folder / "stack.json").write_text(json.dumps(records))
    return folder

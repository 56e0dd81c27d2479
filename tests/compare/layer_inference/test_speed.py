"""Inference over a large dump takes about a second: ``scripts/test -m speed -k inference``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.layer_inference.infer import infer_layer_map
from msprobe.core.store.reader import Dump, Place
from tests.compare import dumps

pytestmark = pytest.mark.speed
BLOCKS, WIDTH = 400, 64
INSIDE = {
    "norm1": ("LayerNorm", (WIDTH,)),
    **{f"attn.{part}": ("Linear", (WIDTH, WIDTH)) for part in "qkvo"},
    "attn": ("Attention", ()),
    "norm2": ("LayerNorm", (WIDTH,)),
    "mlp.up": ("Linear", (4 * WIDTH, WIDTH)),
    "mlp.act": ("GELU", ()),
    "mlp.down": ("Linear", (WIDTH, 4 * WIDTH)),
    "mlp": ("Mlp", ()),
}
NAMES = {"layers": "h", "norm1": "ln_1", "norm2": "ln_2", "attn": "mixer", "q": "wq", "mlp": "ffn", "up": "fc1"}


def _model(rename: Callable[[str], str], weights: int) -> Dump:
    data: dict[str, Any] = {}
    for block in range(BLOCKS):
        for inner, (cls, shape) in [*INSIDE.items(), ("", ("Block", ()))]:
            path = f"layers.{block}.{inner}".rstrip(".")
            draw = random.Random(f"{path}{weights}")
            parameters = {"weight": _tensor(draw, shape)} if shape else {}
            out = _tensor(draw, (2, 8, shape[0] if shape else WIDTH))
            data[f"Module.{rename(path)}.{cls}.forward.0"] = dumps.module([dumps.tensor()], [out], **parameters)
            for call in range(2 if not shape else 1):
                data[f"Torch.op{inner}.{2 * block + call}.forward"] = dumps.call([dumps.tensor()], [out])
    return Dump(Place(Path("dump.json")), "statistics", "mix", "pytorch", data)


def _tensor(draw: random.Random, shape: tuple[int, ...]) -> Any:
    values = {name: draw.uniform(1, 2) for name in ("Max", "Mean", "Norm")}
    return dumps.tensor(shape=shape, Min=-draw.uniform(1, 2), **values)


def _renamed(path: str) -> str:
    return ".".join(NAMES.get(part, part) for part in path.split("."))


@pytest.mark.parametrize("weights", [0, 1], ids=["same_weights", "other_weights"])
def test_ten_thousand_entries(weights: int) -> None:
    golden, target = _model(str, 0), _model(_renamed, weights)
    assert len(golden.data) > 10_000
    start = time.process_time()
    found = infer_layer_map(target, golden)
    seconds = time.process_time() - start
    print(f"{len(golden.data)} entries, {len(found.pairs)} layers: {seconds:.2f} s of processor time")
    assert all(pair.target == _renamed(pair.golden) for pair in found.pairs)
    assert len(found.pairs) == BLOCKS * (len(INSIDE) + 1)
    assert seconds < 4.0

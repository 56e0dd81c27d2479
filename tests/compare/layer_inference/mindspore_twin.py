"""The transformer in MindSpore: ``python -m tests.compare.layer_inference.mindspore_twin WEIGHTS.npz FOLDER FAULT``.

One step is recorded at level mix, in ``FOLDER/twin``; in ``FOLDER/faulty`` the weight of the layer FAULT was changed.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger
from tests.compare.layer_inference.twin_names import twin_path
from tests.fresh_debugger import forget

WIDTH, HEADS, LAYERS, VOCABULARY = 16, 2, 3, 23


class SelfAttention(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Dense(WIDTH, WIDTH)
        self.key = nn.Dense(WIDTH, WIDTH)
        self.value = nn.Dense(WIDTH, WIDTH)
        self.dense = nn.Dense(WIDTH, WIDTH)

    def construct(self, x: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, HEADS, width // HEADS)
        q, k, v = (layer(x).reshape(shape).swapaxes(1, 2) for layer in (self.query, self.key, self.value))
        weights = ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) / math.sqrt(width // HEADS), -1)
        return self.dense(ops.matmul(weights, v).swapaxes(1, 2).reshape((batch, length, width)))


class FeedForward(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.mapping = nn.Dense(WIDTH, 4 * WIDTH)
        self.activation = nn.GELU(approximate=False)
        self.projection = nn.Dense(4 * WIDTH, WIDTH)

    def construct(self, x: Any) -> Any:
        return self.projection(self.activation(self.mapping(x)))


class TransformerLayer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.layernorm1 = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.attention = SelfAttention()
        self.layernorm2 = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.output = FeedForward()

    def construct(self, x: Any) -> Any:
        x = x + self.attention(self.layernorm1(x))
        return x + self.output(self.layernorm2(x))


class Twin(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.word_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.CellList([TransformerLayer() for _ in range(LAYERS)])
        self.final_layernorm = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.lm_head = nn.Dense(WIDTH, VOCABULARY, has_bias=False)

    def construct(self, x: Any) -> Any:
        x = self.word_embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.final_layernorm(x))


PARAMETERS = {("norm", "weight"): "gamma", ("norm", "bias"): "beta", ("embedding", "weight"): "embedding_table"}


def load(model: nn.Cell, weights: Any) -> None:
    parameters = {parameter.name: parameter for parameter in model.trainable_params()}
    for name in weights.files:
        path, _, last = name.rpartition(".")
        cell = twin_path(path)
        for (kind, torch_name), own in PARAMETERS.items():
            if last == torch_name and kind in cell.rpartition(".")[2]:
                last = own
                break
        target: Parameter = parameters.pop(f"{cell}.{last}")
        target.set_data(Tensor(weights[name]))
    assert not parameters, sorted(parameters)


def record(weights: str, folder: str, fault: str) -> None:
    model = Twin()
    load(model, np.load(weights))
    if fault:
        (parameter,) = [found for found in model.trainable_params() if found.name == f"{fault}.weight"]
        changed = parameter.asnumpy().copy()
        changed[3] *= 1.7
        parameter.set_data(Tensor(changed))
    tokens = np.arange(12).reshape(2, 6) % VOCABULARY
    labels = Tensor((tokens * 3 % VOCABULARY).reshape(-1).astype(np.int32))

    def forward(x: Any) -> Any:
        return ops.cross_entropy(model(x).reshape((-1, VOCABULARY)), labels)

    step = ms.value_and_grad(forward, None, model.trainable_params())
    forget("msprobe.mindspore")
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": folder})
    debugger.start(model)
    step(Tensor(tokens.astype(np.int32)))
    debugger.stop()
    debugger.step()
    forget("msprobe.mindspore")


def main(weights: str, folder: str, fault: str) -> None:
    record(weights, f"{folder}/twin", "")
    record(weights, f"{folder}/faulty", fault)


if __name__ == "__main__":
    main(*sys.argv[1:])

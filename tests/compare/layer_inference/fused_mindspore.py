"""The gated transformers in MindSpore: ``... WEIGHTS.npz FOLDER``.

Records ``split`` and ``fused``, and for each name in ``FAULTS`` one of them with that weight changed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger
from tests.compare.layer_inference.fused_sizes import LABELS, LAYERS, TOKENS, VOCABULARY, WIDTH, fused_weights
from tests.fresh_debugger import forget

FAULTS = {
    "fused": ("layers.0.self_attn.qkv_proj", "layers.1.mlp.gate_up_proj", "layers.1.self_attn.o_proj"),
    "split": ("layers.0.self_attn.k_proj", "layers.1.mlp.up_proj", "lm_head"),
}


def dense(inner: int, outer: int, bias: bool = False) -> Any:
    return nn.Dense(inner, outer, has_bias=bias)


class Attention(nn.Cell):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        if fused:
            self.qkv_proj = dense(WIDTH, 3 * WIDTH, bias=True)
        else:
            self.q_proj, self.k_proj, self.v_proj = (dense(WIDTH, WIDTH, bias=True) for _ in range(3))
        self.o_proj = dense(WIDTH, WIDTH)

    def construct(self, x: Any) -> Any:
        if self.fused:
            q, k, v = ops.split(self.qkv_proj(x), WIDTH, -1)
        else:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return self.o_proj(ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(1, 2)) / WIDTH**0.5, -1), v))


class Mlp(nn.Cell):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        if fused:
            self.gate_up_proj = dense(WIDTH, 4 * WIDTH)
        else:
            self.gate_proj, self.up_proj = (dense(WIDTH, 2 * WIDTH) for _ in range(2))
        self.down_proj = dense(2 * WIDTH, WIDTH)

    def construct(self, x: Any) -> Any:
        if self.fused:
            gate, up = ops.chunk(self.gate_up_proj(x), 2, -1)
        else:
            gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(ops.silu(gate) * up)


class Layer(nn.Cell):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (nn.LayerNorm((WIDTH,), epsilon=1e-5) for _ in range(2))
        self.self_attn, self.mlp = Attention(fused), Mlp(fused)

    def construct(self, x: Any) -> Any:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Cell):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.CellList([Layer(fused) for _ in range(LAYERS)])
        self.lm_head = dense(WIDTH, VOCABULARY)

    def construct(self, x: Any) -> Any:
        x = self.embed_tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


def build(values: dict[str, Any], fused: bool, fault: str) -> Any:
    model = Model(fused)
    values = fused_weights(values) if fused else values
    for parameter in model.trainable_params():
        path, _, last = parameter.name.rpartition(".")
        last = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}.get(last, last)
        value = values[f"{path}.{last}"].copy()
        if path == fault and last == "weight":
            value[3] *= 1.7
        parameter.set_data(Tensor(value))
    return model


def record(folder: Path, model: Any) -> None:
    labels = Tensor(LABELS.astype(np.int32))

    def forward(x: Any) -> Any:
        return ops.cross_entropy(model(x).reshape((-1, VOCABULARY)), labels)

    step = ms.value_and_grad(forward, None, model.trainable_params())
    forget("msprobe.mindspore")
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    debugger.start(model)
    step(Tensor(TOKENS.astype(np.int32)))
    debugger.stop()
    debugger.step()


def main(weights: str, folder: str) -> None:
    values = dict(np.load(weights))
    for kind, faults in FAULTS.items():
        for fault in ("", *faults):
            record(Path(folder) / (fault or kind), build(values, kind == "fused", fault))
    forget("msprobe.mindspore")


if __name__ == "__main__":
    main(*sys.argv[1:])

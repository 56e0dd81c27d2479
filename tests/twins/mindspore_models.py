"""Models in MindSpore, recorded: ``python -m tests.twins.mindspore_models FOLDER NAME...``.

Reads ``FOLDER/weights/NAME.npz``, and records below ``FOLDER/mindspore/LEVEL/NAME/VARIANT``.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from tests.twins.mindspore_recording import record_steps, run
from tests.twins.models import (
    CLASSES,
    CODE,
    EXPERTS,
    HEADS,
    LEVELS,
    VARIANTS,
    VOCABULARY,
    WIDTH,
    faulty,
    inputs,
    twin_value,
)


class Mlp(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.dense_a, self.dense_b, self.dense_c = nn.Dense(WIDTH, 16), nn.Dense(16, 16), nn.Dense(16, CLASSES)
        self.activation_a, self.activation_b = nn.ReLU(), nn.Sigmoid() if wrong else nn.ReLU()

    def construct(self, x: Any) -> Any:
        return self.dense_c(self.activation_b(self.dense_b(self.activation_a(self.dense_a(x)))))


class Cnn(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.conv_a, self.norm_a = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1), nn.BatchNorm2d(4)
        self.conv_b = nn.Conv2d(4, 6, 3, pad_mode="pad", padding=1)
        self.norm_b = nn.BatchNorm2d(6, eps=0.1 if wrong else 1e-5)
        self.relu, self.pooling = nn.ReLU(), nn.MaxPool2d(2, 2)
        self.classifier = nn.Dense(6 * 4, CLASSES)

    def construct(self, x: Any) -> Any:
        x = self.pooling(self.relu(self.norm_a(self.conv_a(x))))
        x = self.pooling(self.relu(self.norm_b(self.conv_b(x))))
        return self.classifier(x.reshape(x.shape[0], -1))


def attend(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    batch, length, width = q.shape
    q, k, v = (part.reshape(batch, length, HEADS, width // HEADS).swapaxes(1, 2) for part in (q, k, v))
    scores = ops.matmul(q, k.swapaxes(2, 3)) / scale
    if causal:
        scores = scores + Tensor(np.triu(np.full((length, length), -1e4, np.float32), 1))
    return ops.matmul(ops.softmax(scores, -1), v).swapaxes(1, 2).reshape(batch, length, width)


class Attention(nn.Cell):
    """Attention of the encoder, and of GPT."""

    def __init__(self, scale: float, causal: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Dense(WIDTH, WIDTH) for _ in range(4))
        self.scale, self.causal = scale, causal

    def construct(self, x: Any) -> Any:
        return self.dense(attend(self.query(x), self.key(x), self.value(x), self.scale, self.causal))


SCALE = math.sqrt(WIDTH // HEADS)


class EncoderLayer(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.attention = Attention(1.0 if wrong else SCALE, causal=False)
        self.layernorm1, self.layernorm2 = (nn.LayerNorm((WIDTH,), epsilon=1e-5) for _ in range(2))
        self.mapping, self.projection = nn.Dense(WIDTH, 16), nn.Dense(16, WIDTH)

    def construct(self, x: Any) -> Any:
        x = self.layernorm1(x + self.attention(x))
        return self.layernorm2(x + self.projection(ops.gelu(self.mapping(x))))


class Encoder(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.word_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.CellList([EncoderLayer(wrong and number == 1) for number in range(2)])
        self.classifier = nn.Dense(WIDTH, CLASSES)

    def construct(self, tokens: Any) -> Any:
        x = self.word_embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.classifier(x.mean(1))


class GptBlock(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.layernorm1, self.layernorm2 = (nn.LayerNorm((WIDTH,), epsilon=1e-5) for _ in range(2))
        self.attention = Attention(SCALE, causal=not wrong)
        self.mapping, self.projection = nn.Dense(WIDTH, 32), nn.Dense(32, WIDTH)

    def construct(self, x: Any) -> Any:
        x = x + self.attention(self.layernorm1(x))
        return x + self.projection(ops.gelu(self.mapping(self.layernorm2(x))))


class Gpt(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.word_embedding, self.position_embedding = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(5, WIDTH)
        self.layers = nn.CellList([GptBlock(wrong and number == 1) for number in range(2)])
        self.layernorm = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.lm_head = nn.Dense(WIDTH, VOCABULARY, has_bias=False)

    def construct(self, tokens: Any) -> Any:
        positions = Tensor(np.arange(tokens.shape[1]).astype(np.int32))
        x = self.word_embedding(tokens) + self.position_embedding(positions)
        for block in self.layers:
            x = block(x)
        return self.lm_head(self.layernorm(x)).reshape(-1, VOCABULARY)


class Lstm(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.word_embedding, self.rnn = nn.Embedding(VOCABULARY, WIDTH), nn.LSTM(WIDTH, 6, batch_first=True)
        self.classifier, self.step = nn.Dense(6, CLASSES), 0 if wrong else -1

    def construct(self, tokens: Any) -> Any:
        return self.classifier(self.rnn(self.word_embedding(tokens))[0][:, self.step])


class Expert(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(WIDTH, 16), nn.Dense(16, WIDTH)

    def construct(self, x: Any) -> Any:
        return self.second(ops.silu(self.first(x)))


class Experts(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.gate, self.experts = nn.Dense(WIDTH, EXPERTS), nn.CellList([Expert() for _ in range(EXPERTS)])
        self.normalised = not wrong

    def construct(self, x: Any) -> Any:
        weights = ops.softmax(self.gate(x), -1)
        weights = weights * (weights >= ops.topk(weights, 2)[0][..., -1:]).astype(ms.float32)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdims=True)
        result = ops.zeros_like(x)
        for number, expert in enumerate(self.experts):
            result = result + expert(x) * weights[..., number : number + 1]
        return result


class Moe(nn.Cell):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.word_embedding, self.mixture = nn.Embedding(VOCABULARY, WIDTH), Experts(wrong)
        self.norm, self.classifier = nn.LayerNorm((WIDTH,), epsilon=1e-5), nn.Dense(WIDTH, CLASSES)

    def construct(self, tokens: Any) -> Any:
        x = self.word_embedding(tokens)
        return self.classifier(self.norm(x + self.mixture(x)).mean(1))


MODELS = {"mlp": Mlp, "cnn": Cnn, "encoder": Encoder, "gpt": Gpt, "lstm": Lstm, "moe": Moe}


def _record(name: str, folder: Path) -> None:
    weights = dict(np.load(folder / "weights" / f"{name}.npz"))
    given, labels = inputs(name)
    for variant in VARIANTS:
        for level in LEVELS:
            model = MODELS[name](variant == CODE).set_train()
            wanted = faulty(weights, name, variant)
            for path, parameter in model.parameters_and_names():
                parameter.set_data(Tensor(twin_value(name, path, wanted)))

            def loss(given: Any, model: Any = model) -> Any:
                return ops.cross_entropy(model(given), Tensor(labels.astype(np.int32)))

            step = partial(ms.value_and_grad(loss, None, model.trainable_params()), Tensor(given))
            record_steps(folder / "mindspore" / level / name / variant, level, model, step)


if __name__ == "__main__":
    run(_record)

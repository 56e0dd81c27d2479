"""Training steps to be slowed down: each builder returns a model and a function that runs one step without randomness.

A workload is written ``name`` or ``name:key=value,key=value``, for example ``llama:layers=4,dtype=bf16``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Workload = tuple[nn.Module, Callable[[], None]]
LEARNING_RATE = 1e-4


def build(spec: str) -> Workload:
    """The model and step of a workload; ValueError names the known ones."""
    name, _, rest = spec.partition(":")
    if name not in BUILDERS:
        raise ValueError(f"unknown workload {name!r}; known: {', '.join(BUILDERS)}")
    arguments: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        arguments[key] = value if key == "dtype" else int(float(value))
    torch.manual_seed(0)
    return BUILDERS[name](**arguments)


def tinylstm(layers: int = 4, hidden: int = 16, seq: int = 12, batch: int = 4) -> Workload:
    """LSTM cells unrolled in Python and a small head per position: hundreds of calls on a few elements each."""
    model = _UnrolledLstm(layers, hidden, batch)
    inputs = torch.randn(seq, batch, hidden)
    return model, _training_step(model, lambda: model(inputs))


def llama(
    layers: int = 8, hidden: int = 512, seq: int = 256, batch: int = 2, vocab: int = 4096, dtype: str = "fp32"
) -> Workload:
    """A Llama of the transformers package with random weights: large tensors, the usual operators."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=seq,
        use_cache=False,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    if dtype == "bf16":
        model = model.to(torch.bfloat16)
    tokens = torch.randint(0, vocab, (batch, seq))
    return model, _training_step(model, lambda: model(input_ids=tokens, labels=tokens).loss)


def conv(batch: int = 2, size: int = 64, width: int = 32) -> Workload:
    """Convolutions, batch normalisation and in-place activations in nested Sequentials."""
    widths = [3] + [width * 2**power for power in range(4)]
    stages = [_conv_stage(widths[index], widths[index + 1], 1 if index == 0 else 2) for index in range(4)]
    model = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))
    images = torch.randn(batch, 3, size, size)
    labels = torch.randint(0, 10, (batch,))
    return model, _training_step(model, lambda: functional.cross_entropy(model(images), labels))


def ops(calls: int = 1000, elements: int = 16, backward: int = 0) -> Workload:
    """The same recorded function called again and again: shows costs per call and how they grow."""
    model = _Chain(calls, elements)

    def step() -> None:
        if not backward:
            with torch.no_grad():
                model()
            return
        model.weight.grad = None
        model().sum().backward()

    return model, step


def _training_step(model: nn.Module, loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return step


class _UnrolledLstm(nn.Module):
    def __init__(self, layers: int, hidden: int, batch: int) -> None:
        super().__init__()
        self.shape = (batch, hidden)
        self.cells = nn.ModuleList(nn.LSTMCell(hidden, hidden) for _ in range(layers))
        self.inner = nn.Linear(hidden, hidden)
        self.outer = nn.Linear(hidden, 8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        states = [(inputs.new_zeros(self.shape), inputs.new_zeros(self.shape)) for _ in self.cells]
        total = inputs.new_zeros(())
        for position in range(inputs.shape[0]):
            value = inputs[position]
            for index, cell in enumerate(self.cells):
                states[index] = cell(value, states[index])
                value = torch.tanh(states[index][0]) * 0.5 + states[index][1]
            logits = self.outer(functional.relu(self.inner(value)))
            total = total + functional.log_softmax(logits, -1).mean()
        return total


class _Chain(nn.Module):
    def __init__(self, calls: int, elements: int) -> None:
        super().__init__()
        self.calls = calls
        self.weight = nn.Parameter(torch.linspace(-1, 1, elements))

    def forward(self) -> torch.Tensor:
        value: torch.Tensor = self.weight
        for _ in range(self.calls):
            value = torch.mul(value, 1.0)
        return value


def _conv_stage(narrow: int, wide: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(narrow, wide, 3, stride, 1, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU(inplace=True),
        nn.Conv2d(wide, wide, 3, 1, 1, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU(inplace=True),
    )


BUILDERS: dict[str, Callable[..., Workload]] = {"tinylstm": tinylstm, "llama": llama, "conv": conv, "ops": ops}

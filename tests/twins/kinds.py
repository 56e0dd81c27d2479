"""The kinds of layers and losses that both frameworks have: ``layers.txt``, ``losses.txt`` and ``exponentials.txt``.

A row begins with a line that has the name, the inputs, and ``eval`` where the layer is not in training. The next line
makes the layer in PyTorch, the one after it in MindSpore; where there is none, both have the same text. ``{1|2}`` is
``1`` in a correct program, and ``2`` in a program with wrong code.

Inputs of a layer are separated by blanks, parts of a tuple by commas: ``2x4x8`` has normally distributed numbers,
``*2x4`` eight times as large ones,
``2x5<7`` integers below 7, ``+2x4`` positive numbers, ``~2x4`` rows that add up to 1, ``?2x4`` 1 and -1, ``!2x4`` 0 and
1. The first input passes a linear layer, unless it has integers.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LEVELS = ("L0", "mix", "L1")
CLEAN, CODE, WEIGHT, LAST_WEIGHT, BUFFER = "clean", "code", "weight", "last-weight", "buffer"
VARIANTS = (CLEAN, CODE, WEIGHT, LAST_WEIGHT, BUFFER)
OPTIMIZERS = "optimizers"
LAYER = "layer"
"""The attribute of the model that holds the layer in question."""
FEATURES = 3
"""What the last layer of the model makes of the result."""
_CHOICE = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")
_INPUT = re.compile(r"(?P<sign>[+~?!*]?)(?P<shape>\d+(?:x\d+)*)(?:<(?P<below>\d+))?")
_HERE = Path(__file__).parent


RECORDED = tuple(
    (level, variant) for level in LEVELS for variant in VARIANTS if level != "L1" or variant in (CLEAN, CODE)
)
"""Levels and variants that are recorded; no modules, and so no weights, are at L1."""


class Kind(NamedTuple):
    """One kind of layer."""

    name: str
    inputs: tuple[str, ...]
    training: bool
    is_loss: bool
    pytorch: str
    mindspore: str

    def expression(self, framework: str, variant: str) -> str:
        """Return the expression that makes the layer in ``pytorch`` or ``mindspore``."""
        return _CHOICE.sub(r"\2" if variant == CODE else r"\1", getattr(self, framework))

    def arrays(self) -> list[Any]:
        """Return the inputs as arrays and tuples of arrays, always the same."""
        random = np.random.default_rng(len(self.name))
        return [
            arrays[0] if len(arrays) == 1 else arrays
            for text in self.inputs
            for arrays in [tuple(_array(part, random) for part in text.split(","))]
        ]


def _array(text: str, random: np.random.Generator) -> Any:
    parsed = _INPUT.fullmatch(text)
    assert parsed is not None, text
    shape = tuple(map(int, parsed["shape"].split("x")))
    if parsed["below"]:
        return random.integers(0, int(parsed["below"]), shape).astype(np.int32)
    values = random.standard_normal(shape).astype(np.float32)
    if parsed["sign"] == "+":
        return np.abs(values) + np.float32(0.1)
    if parsed["sign"] == "~":
        return (np.exp(values) / np.exp(values).sum(-1, keepdims=True)).astype(np.float32)
    if parsed["sign"] == "*":
        return values * np.float32(8.0)
    if parsed["sign"] == "?":
        return np.sign(values)
    return (values > 0).astype(np.float32) if parsed["sign"] == "!" else values


@cache
def kinds(table: str) -> dict[str, Kind]:
    """Return the rows of the table ``layers``, ``losses`` or ``optimizers`` by their names."""
    rows: dict[str, list[str]] = {}
    for line in (_HERE / f"{table}.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", " ")):
            rows[line] = []
        elif line.startswith(" "):
            rows[next(reversed(rows))].append(line.strip())
    found = [_kind(title.split(), texts, "Loss" in title) for title, texts in rows.items()]
    return {kind.name: kind for kind in found}


def _kind(title: list[str], expressions: list[str], is_loss: bool) -> Kind:
    training = title[-1] != "eval"
    inputs = tuple(title[1:] if training else title[1:-1])
    return Kind(title[0], inputs, training, is_loss, expressions[0], expressions[-1])


STEPS = 3
"""How many steps of an optimizer are recorded."""


def training_data() -> tuple[Any, Any]:
    """Return what the model of the optimizers is given, and what it shall answer."""
    random = np.random.default_rng(3)
    return random.standard_normal((5, 8)).astype(np.float32), random.standard_normal((5, 3)).astype(np.float32)


def find_kind(name: str) -> Kind:
    """Return the kind of this name of any table."""
    return (kinds("layers") | kinds("losses") | kinds("exponentials"))[name]


Weights = dict[str, Any]


def faulty(weights: Weights, variant: str) -> Weights | None:
    """Return the weights of a variant, from those of the correct model under PyTorch's names; None where the layer has
    none that could be wrong. Names of buffers begin with ``buffer ``."""
    own = [name for name in weights if name.startswith(f"{LAYER}.")]
    buffers = [name for name in weights if name.startswith(f"buffer {LAYER}.")]
    if variant in (CLEAN, CODE):
        return weights
    if variant == LAST_WEIGHT:
        own = own[1:]
    chosen = buffers[-1:] if variant == BUFFER else own[-1:] if variant == LAST_WEIGHT else own[:1]
    if not chosen:
        return None
    changed = weights[chosen[0]].copy()
    changed[0] = changed[0] * np.float32(1.7) + np.float32(0.1)
    return {**weights, chosen[0]: changed}

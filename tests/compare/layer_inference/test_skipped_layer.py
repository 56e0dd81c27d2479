"""A port that skips a layer: the missing layer is named, and what calls it, not the next one, whose input differs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import msprobe
from tests.compare.layer_inference.conftest import Record
from tests.compare.layer_inference.transformers import Gpt, Transformer, copy_weights

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SKIPPED = {
    "post_layernorm": ("h.1.post_layernorm", "layers.1.norm2.LayerNorm", "layers.1.Block"),
    "activation": ("h.1.feed_forward.1", "layers.1.mlp.act.GELU", "layers.1.mlp.Mlp"),
    "attention": ("h.1.self_attention", "layers.1.attn.Attention", "layers.1.Block"),
    "first_block": ("h.0", "layers.0.Block", "layers.0.Block"),  # nothing around it is recorded
    "last_norm": ("ln_f", "norm.LayerNorm", "norm.LayerNorm"),
}
"""The layer by its path in the port, by its name in the model, and the module that calls it."""


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("case", list(SKIPPED))
def test_the_skipped_layer_is_named(record: Record, tmp_path: Path, case: str, *, turned: bool) -> None:
    path, missing, caller = SKIPPED[case]
    model, port = Transformer(), Gpt()
    with torch.no_grad():
        copy_weights(model, port)
    _skip(port, path)
    record(port, "port")
    record(model, "model")
    sides = ("model", "port") if turned else ("port", "model")
    found = msprobe.compare(*(tmp_path / side for side in sides), layer_mapping=True).summary.first_divergence
    assert found is not None
    assert (found.kind, found.module) == ("missing_in_golden" if turned else "missing_in_target", caller)
    assert found.target == (f"Module.{missing}.forward.0" if turned else None)


def _skip(model: nn.Module, path: str) -> None:
    """Take the layer out; in a list, those behind it move up."""
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    if isinstance(owner, (nn.ModuleList, nn.Sequential)):
        del owner[int(name)]
    else:
        delattr(owner, name)
        object.__setattr__(owner, name, lambda x: x)

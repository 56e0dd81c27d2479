"""A small decoder and the way a server calls it: a batch of scheduled tokens per iteration."""

from __future__ import annotations

import torch

from tests.zoo.model import BATCH, POSITIONS, VOCABULARY, Decoder, healthy

__all__ = ["Decoder", "answer", "decoder", "prompt"]


def decoder() -> Decoder:
    return healthy().model.eval()


def prompt(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (BATCH, POSITIONS), generator=generator)


@torch.inference_mode()
def answer(model: Decoder, text: torch.Tensor) -> torch.Tensor:
    """The most likely next token of each line."""
    return model(text)[:, -1].argmax(-1)

"""Images of a batch are glued together to a single long one before the encoder (as Transformers 34204)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options, recorded

SIDE, IMAGES = 8, 3


def process(images: list[Tensor], fault: bool) -> Tensor:
    """Return the pixels of a list of images."""
    pixels = [F.interpolate(image[None], (SIDE, SIDE)) for image in images]
    return torch.cat(pixels, dim=3 if fault else 0)


class Patches(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, width, 4, stride=4)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.convolution(pixels).flatten(2).mT


class Answerer(nn.Module):
    """Answers questions about images."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patches, self.question = Patches(width), nn.Embedding(25, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.answer = nn.Linear(width, 4)

    def forward(self, pixels: Tensor, question: Tensor) -> Tensor:
        words, seen = self.question(question), self.patches(pixels)
        seen = seen.expand(len(words), -1, -1)  # planted
        mixed, _ = self.attention(words, seen, seen, need_weights=False)
        return self.answer((words + mixed).mean(1))


def main() -> None:
    given = options()
    model = Answerer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    probe = debugger(given)
    for _ in range(3):
        images = [torch.rand(3, side, side) for side in (8, 10, 12)]
        question, answer = torch.randint(0, 25, (IMAGES, 6)), torch.randint(0, 4, (IMAGES,))
        pixels = process(images, given.fault)
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(pixels, question), answer).backward()
            optimizer.step()


if __name__ == "__main__":
    main()

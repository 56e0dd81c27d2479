"""Transformers 34204: the processor takes a batch of images for the images of one sample and merges them.

The vision tower then sees one sample whose frames it averages, and the one result is broadcast to all captions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options


class Processor:
    """Makes tensors of images and captions: pixel values are (samples, frames, channels, height, width)."""

    def __init__(self, fault: bool) -> None:
        self.fault = fault

    def nested(self, images: list[Tensor]) -> list[list[Tensor]]:
        """Return the images of each sample."""
        return [images] if self.fault else [[image] for image in images]

    def __call__(self, images: list[Tensor], captions: list[list[int]]) -> dict[str, Tensor]:
        samples = [torch.stack([(image - 0.5) / 0.25 for image in frames]) for frames in self.nested(images)]
        longest = max(map(len, captions))
        tokens = torch.tensor([caption + [0] * (longest - len(caption)) for caption in captions])
        return {"pixel_values": torch.stack(samples), "input_ids": tokens}


class VisionTower(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.norm = nn.LayerNorm(width)

    def forward(self, pixels: Tensor) -> Tensor:
        samples, frames = pixels.shape[:2]
        patches = self.patch(pixels.flatten(0, 1)).flatten(2).mT
        return self.norm(patches).mean(1).view(samples, frames, -1).mean(1)


class Captioner(nn.Module):
    def __init__(self, width: int = 24, vocabulary: int = 40) -> None:
        super().__init__()
        self.vision, self.connector = VisionTower(width), nn.Linear(width, width)
        self.text = nn.Embedding(vocabulary, width)
        self.rnn, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(width, vocabulary)

    def forward(self, pixel_values: Tensor, input_ids: Tensor) -> Tensor:
        image = self.connector(self.vision(pixel_values))
        x = self.text(input_ids) + image[:, None]  # planted
        return self.head(self.rnn(x)[0])


def main() -> None:
    given = options()
    processor, model = Processor(given.fault), Captioner()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    probe = debugger(given)
    for _ in range(3):
        images = [torch.rand(3, 8, 8) for _ in range(4)]
        captions = [torch.randint(1, 40, (length,)).tolist() for length in (5, 7, 6, 8)]
        batch = processor(images, captions)
        probe.start(model)
        logits = model(batch["pixel_values"], batch["input_ids"][:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch["input_ids"][:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()

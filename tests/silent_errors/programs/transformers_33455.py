"""Transformers 33455: a wrong count of update steps ends the training early.

With gradient accumulation the last, shorter window of an epoch makes a step as well. A count that rounds down plans
fewer steps than the epochs have, so the training ends in the middle of one and the schedule with it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from msprobe.pytorch.integrations import TransformersCallback
from tests.silent_errors.frame import options, settings

SAMPLES, BATCH, ACCUMULATED, EPOCHS = 14, 2, 2, 2


class Tagger(nn.Module):
    """Labels each word of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.mix = nn.GRU(16, 16, batch_first=True)
        self.tag = nn.Linear(16, 5)

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.tag(self.mix(self.embed(words))[0])
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class CountingTrainer(Trainer):
    """Plans its steps: as the library does, or with the older count that rounds down."""

    rounds_down = False

    def set_initial_training_values(self, args: TrainingArguments, dataloader: Any, *more: Any) -> Any:
        values = list(super().set_initial_training_values(args, dataloader, *more))
        if self.rounds_down:
            steps = len(dataloader) // args.gradient_accumulation_steps
            values[1], values[-1] = steps, steps * int(args.num_train_epochs)
        return tuple(values)


def sentences() -> list[dict[str, torch.Tensor]]:
    words = torch.randint(0, 30, (SAMPLES, 6))
    return [{"words": row, "labels": row % 5} for row in words]


def main() -> None:
    given = options()
    arguments = TrainingArguments(
        f"{given.out}_trainer",
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATED,
        learning_rate=5e-3,
        lr_scheduler_type="linear",
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    callback = TransformersCallback(settings(given))
    trainer = CountingTrainer(Tagger(), arguments, train_dataset=sentences(), callbacks=[callback])
    trainer.rounds_down = given.fault
    trainer.train()  # planted


if __name__ == "__main__":
    main()

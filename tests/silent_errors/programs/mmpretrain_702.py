"""MMPretrain 702: the runner calls ``train()`` on the model, which undoes the frozen stages of the backbone.

Frozen stages must stay in evaluation mode; the override of ``train`` is there to see to it. Without it their batch
norms go on averaging over the new data.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options


class Stage(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


class Backbone(nn.Module):
    """A few stages, of which the first ones can be frozen."""

    def __init__(self, frozen_stages: int, fault: bool) -> None:
        super().__init__()
        widths = (3, 8, 12, 16)
        self.stages = nn.ModuleList(Stage(*pair) for pair in pairwise(widths))
        self.frozen_stages, self.fault = frozen_stages, fault
        self._freeze_stages()

    def _freeze_stages(self) -> None:
        for stage in self.stages[: self.frozen_stages]:
            stage.eval()
            for parameter in stage.parameters():
                parameter.requires_grad = False

    def train(self, mode: bool = True) -> Backbone:
        super().train(mode)
        if mode and not self.fault:
            self._freeze_stages()
        return self

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x)  # planted
        return x


class Classifier(nn.Module):
    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.backbone = Backbone(2, fault)
        self.head = nn.Linear(16, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.backbone(images).mean((2, 3)))


class Runner:
    """Runs epochs of training, each followed by a validation."""

    def __init__(self, model: nn.Module, probe) -> None:
        self.model, self.probe = model, probe
        trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-3)

    def train_epoch(self, batches: int) -> None:
        self.model.train()
        for _ in range(batches):
            images, labels = torch.randn(6, 3, 16, 16) + 0.5, torch.randint(0, 4, (6,))
            self.probe.start(self.model)
            loss = F.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.probe.stop()
            self.probe.step()

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        return float(self.model(torch.randn(6, 3, 16, 16) + 0.5).std())


def main() -> None:
    given = options()
    runner = Runner(Classifier(given.fault), debugger(given))
    for _ in range(2):
        runner.train_epoch(2)
        print("validation", runner.validate())


if __name__ == "__main__":
    main()

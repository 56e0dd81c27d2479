"""PyTorch forum 84911: a fine-tuning in which most layers are frozen, and the optimizer was given the wrong parameters.

The optimizer takes the parameters that need a gradient at that time. Layers that are released afterwards get
gradients and never move.
"""

import torch
from torch import nn

from tests.silent_errors.frame import debugger, options


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(x + self.bn2(self.conv2(y)))


class ResNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layer1, self.layer2, self.layer3 = Residual(8), Residual(8), Residual(8)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(self.pool(x).flatten(1))


def freeze_backbone(model):
    for name, layer in model.named_children():
        if name != "fc":
            layer.eval().requires_grad_(False)


def release(model, name):
    model.get_submodule(name).train().requires_grad_(True)


def optimizer_of(model):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01, momentum=0.9)


def main():
    given = options()
    model = ResNet(classes=5)  # pretrained on another task
    freeze_backbone(model)
    optimizer = optimizer_of(model)
    release(model, "layer3")  # planted
    if not given.fault:
        optimizer = optimizer_of(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    criterion = nn.CrossEntropyLoss()
    probe = debugger(given)
    for _ in range(4):
        images, labels = torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))
        probe.start(model)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()

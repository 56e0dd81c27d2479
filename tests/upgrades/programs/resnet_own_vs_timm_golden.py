"""The other implementation of resnet_own_vs_timm.py."""

import torch
from timm.models.resnet import BasicBlock, ResNet


def build():
    return (
        ResNet(BasicBlock, [1, 1], channels=(8, 16), num_classes=5, stem_width=8)
        if False
        else ResNet(BasicBlock, [1, 1, 1, 1], num_classes=5, channels=(8, 8, 16, 16), stem_width=8)
    )


if __name__ == "__main__":
    net = build()
    net.load_state_dict(torch.load("weights.pt"))
    net.train()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    gen = torch.Generator().manual_seed(6)
    for step in range(2):
        x = torch.randn(4, 3, 48, 48, generator=gen)
        y = torch.randint(0, 5, (4,), generator=gen)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{step} loss {loss.item():.9f}")

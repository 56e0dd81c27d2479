"""Accelerator training loop with gradient accumulation."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3))


def main():
    acc = Accelerator(cpu=True, gradient_accumulation_steps=2)
    gen = torch.Generator().manual_seed(51)
    data = TensorDataset(torch.randn(24, 10, generator=gen), torch.randint(0, 3, (24,), generator=gen))
    net = build()
    net.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.SGD(net.parameters(), lr=5e-2)
    net, opt, loader = acc.prepare(net, opt, DataLoader(data, batch_size=4, shuffle=False))
    for i, (x, y) in enumerate(loader):
        with acc.accumulate(net):
            loss = nn.functional.cross_entropy(net(x), y)
            acc.backward(loss)
            if acc.sync_gradients:
                acc.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            opt.zero_grad()
        print(f"micro {i} loss {loss.item():.9f}")
    print(f"norm {sum(p.pow(2).sum().item() for p in net.parameters()):.9f}")


if __name__ == "__main__":
    main()

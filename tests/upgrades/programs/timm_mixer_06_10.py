"""MLP-Mixer training."""

import timm.models
import torch
import torch.nn.functional as F


def build():
    return timm.models.mlp_mixer.MlpMixer(img_size=32, patch_size=8, embed_dim=32, num_blocks=2, num_classes=7)


def main():
    net = build()
    net.load_state_dict(torch.load("weights.pt"), strict=False)
    net.train()
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    gen = torch.Generator().manual_seed(12)
    for step in range(2):
        x = torch.randn(2, 3, 32, 32, generator=gen)
        y = torch.randint(0, 7, (2,), generator=gen)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        gn = sum(p.grad.pow(2).sum() for p in net.parameters() if p.grad is not None).sqrt()
        opt.step()
        print(f"step {step} loss {loss.item():.9f} grad {gn.item():.9f}")


if __name__ == "__main__":
    main()

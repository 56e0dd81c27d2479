"""Training of a small ConvNeXt V2 of timm."""

import torch
from timm.models.convnext import ConvNeXt
from torch.nn import functional as F


def build():
    return ConvNeXt(
        in_chans=3,
        num_classes=5,
        depths=(1, 1, 2, 1),
        dims=(16, 24, 32, 40),
        use_grn=True,
        ls_init_value=None,
        drop_path_rate=0.0,
    )


def batch(step):
    generator = torch.Generator().manual_seed(50 + step)
    coarse = torch.randn(6, 3, 8, 8, generator=generator)
    images = F.interpolate(coarse, scale_factor=8, mode="bilinear") + 0.2 * torch.randn(
        6, 3, 64, 64, generator=generator
    )
    return images, torch.randint(0, 5, (6,), generator=generator)


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=5e-3, weight_decay=0.05
    )
    for step in range(3):
        images, labels = batch(step)
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")

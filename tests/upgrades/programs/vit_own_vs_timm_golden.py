"""The other implementation of vit_own_vs_timm.py."""

import torch
from timm.models.vision_transformer import VisionTransformer


def build():
    return VisionTransformer(
        img_size=16, patch_size=4, embed_dim=32, depth=2, num_heads=4, num_classes=6, mlp_ratio=2.0
    )


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    gen = torch.Generator().manual_seed(4)
    for step in range(3):
        x = torch.randn(3, 3, 16, 16, generator=gen)
        y = torch.randint(0, 6, (3,), generator=gen)
        loss = torch.nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print(f"loss[{step}] = {loss.item():.9f}")

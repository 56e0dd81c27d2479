"""Textures are told apart by a small EdgeNeXt of timm with cross-covariance attention."""

import torch
from timm.models.edgenext import EdgeNeXt
from torch.nn import functional as F

SIZE, CLASSES = 64, 4


def fill(model):
    generator = torch.Generator().manual_seed(55)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if name.endswith("bias"):
                weight.copy_(0.1 * noise)
            elif weight.ndim == 1 or name.endswith("temperature"):
                weight.copy_(1 + 0.1 * noise)
            else:
                weight.copy_(noise * weight[0].numel() ** -0.5)


def textures(generator):
    """Stripes of four directions with noise."""
    labels = torch.randint(0, CLASSES, (8,), generator=generator)
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    angle = labels * torch.pi / CLASSES
    wave = torch.sin(0.4 * (x * angle.cos()[:, None, None] + y * angle.sin()[:, None, None]))
    colour = torch.rand(8, 3, 1, 1, generator=generator)
    return wave[:, None] * colour + 0.3 * torch.randn(8, 3, SIZE, SIZE, generator=generator), labels


model = EdgeNeXt(
    num_classes=CLASSES,
    dims=(16, 24, 32, 48),
    depths=(1, 1, 2, 1),
    global_block_counts=(0, 1, 1, 1),
    kernel_sizes=(3, 5, 7, 9),
    heads=(4, 4, 4, 4),
    d2_scales=(2, 2, 3, 4),
    use_pos_emb=(False, True, False, False),
)
fill(model)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=2e-2, momentum=0.9, weight_decay=1e-4)
generator = torch.Generator().manual_seed(8)

for step in range(3):
    images, labels = textures(generator)
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")

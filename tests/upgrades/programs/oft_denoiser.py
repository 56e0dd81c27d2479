"""Sampling from a pose denoiser with live orthogonal adapters (OFT): blocks of inputs are rotated before a layer."""

import torch
import torch.nn.functional as F
from torch import nn


class OFTLinear(nn.Module):
    """y = scale * W R x + bias with R block diagonal, each block a Cayley transform"""

    def __init__(self, n_in, n_out, blocks):
        super().__init__()
        self.base = nn.Linear(n_in, n_out)
        self.skew = nn.Parameter(torch.empty(blocks, n_in // blocks, n_in // blocks))
        self.scale = nn.Parameter(torch.empty(n_out))

    def rotation(self):
        q = self.skew.tril(-1)
        q = q - q.transpose(-2, -1)
        eye = torch.eye(q.shape[-1])
        return torch.linalg.solve(eye - q, eye + q)

    def forward(self, x):
        blocks = x.unflatten(-1, (self.skew.shape[0], -1))
        turned = torch.einsum("bij,...bj->...bi", self.rotation(), blocks).flatten(-2)
        return F.linear(turned, self.base.weight) * self.scale + self.base.bias


class Mixer(nn.Module):
    """Joints exchange by attention, conditioned on time by a shift and a scale."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.time = nn.Linear(dim, 2 * dim)
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv = OFTLinear(dim, 3 * dim, 4)
        self.out = OFTLinear(dim, dim, 4)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, t):
        shift, scale = self.time(t).unsqueeze(1).chunk(2, dim=-1)
        h = self.norm(x) * (1 + scale) + shift
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.ff(x)


class PoseDenoiser(nn.Module):
    def __init__(self, joints=9, dim=32):
        super().__init__()
        self.joint = nn.Parameter(torch.empty(joints, dim))
        self.enter = nn.Linear(3, dim)
        self.blocks = nn.ModuleList(Mixer(dim) for _ in range(2))
        self.leave = nn.Linear(dim, 3)

    def forward(self, x, time):
        frequencies = torch.exp(-torch.arange(16) * 0.5)
        angles = time[:, None] * frequencies
        t = torch.cat([angles.sin(), angles.cos()], dim=-1)
        h = self.enter(x) + self.joint
        for block in self.blocks:
            h = block(h, t)
        return self.leave(h)


def load():
    model = PoseDenoiser()
    state = torch.load("weights.pt")
    for layer in [name for name, module in model.named_modules() if isinstance(module, OFTLinear)]:
        for leaf in ("weight", "bias"):
            state[f"{layer}.base.{leaf}"] = state.pop(f"{layer}.{leaf}")
        for leaf in ("skew", "scale"):
            state[f"{layer}.{leaf}"] = state.pop(f"adapter.{layer.replace('.', '_')}_{leaf}")
    model.load_state_dict(state)
    return model.eval()


def main():
    model = load()
    g = torch.Generator().manual_seed(11)
    x = torch.randn(4, 9, 3, generator=g)
    levels = [0.1, 0.4, 0.75, 0.98]
    with torch.no_grad():
        for call in range(3):
            now, following = levels[call : call + 2]
            noise = model(x, torch.full((4,), 100.0 * (1 - now)))
            clean = (x - (1 - now) ** 0.5 * noise) / now**0.5
            x = following**0.5 * clean + (1 - following) ** 0.5 * noise
            print(f"call {call} noise {noise.square().mean().item():.9f} pose {x.abs().mean().item():.9f}")


if __name__ == "__main__":
    main()

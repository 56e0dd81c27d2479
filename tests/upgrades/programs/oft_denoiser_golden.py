"""Sampling from a pose denoiser whose layers have their orthogonal adapters merged when the weights are loaded."""

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.time = nn.Linear(dim, 2 * dim)
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, t):
        b, n, d = x.shape
        shift, scale = self.time(t).chunk(2, dim=-1)
        h = torch.addcmul(shift[:, None], self.norm(x), 1 + scale[:, None])
        q, k, v = (p.view(b, n, self.heads, -1).transpose(1, 2) for p in self.qkv(h).chunk(3, dim=-1))
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / (d // self.heads) ** 0.5, dim=-1)
        x = x + self.out(torch.matmul(weights, v).transpose(1, 2).reshape(b, n, d))
        return x + self.ff(x)


class PoseDenoiser(nn.Module):
    def __init__(self, joints=9, dim=32):
        super().__init__()
        self.joint = nn.Parameter(torch.randn(joints, dim))
        self.enter = nn.Linear(3, dim)
        self.blocks = nn.ModuleList([Mixer(dim), Mixer(dim)])
        self.leave = nn.Linear(dim, 3)

    def forward(self, x, time):
        angles = torch.outer(time, torch.exp(-torch.arange(16) * 0.5))
        t = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
        h = self.enter(x) + self.joint
        for block in self.blocks:
            h = block(h, t)
        return self.leave(h)


def build():
    torch.manual_seed(0)
    model = PoseDenoiser()
    model.adapter = nn.ParameterDict()
    for name in ("blocks_0_qkv", "blocks_0_out", "blocks_1_qkv", "blocks_1_out"):
        model.adapter[f"{name}_skew"] = nn.Parameter(0.15 * torch.randn(4, 8, 8))
        model.adapter[f"{name}_scale"] = nn.Parameter(1 + 0.2 * torch.randn(96 if name.endswith("qkv") else 32))
    return model


def merge(state):
    """W <- diag(scale) W R"""
    for key in [k for k in state if k.endswith("_skew")]:
        layer = key.removeprefix("adapter.").removesuffix("_skew").replace("_", ".")
        lower = torch.tril(state.pop(key), diagonal=-1)
        rotations = []
        for block in lower:
            q = block - block.t()
            eye = torch.eye(len(q))
            rotations.append(torch.inverse(eye - q) @ (eye + q))
        weight = state[f"{layer}.weight"] @ torch.block_diag(*rotations)
        state[f"{layer}.weight"] = state.pop(key.replace("skew", "scale")).unsqueeze(1) * weight
    return state


@torch.no_grad()
def main():
    model = PoseDenoiser()
    model.load_state_dict(merge(torch.load("weights.pt")))
    model.eval()
    g = torch.Generator().manual_seed(11)
    x = torch.randn(4, 9, 3, generator=g)
    levels = [0.1, 0.4, 0.75, 0.98]
    for call in range(3):
        now, following = levels[call], levels[call + 1]
        noise = model(x, torch.full((4,), 100.0 * (1 - now)))
        clean = (x - (1 - now) ** 0.5 * noise) / now**0.5
        x = following**0.5 * clean + (1 - following) ** 0.5 * noise
        print(f"call {call} noise {noise.pow(2).mean().item():.9f} pose {x.abs().mean().item():.9f}")


if __name__ == "__main__":
    main()

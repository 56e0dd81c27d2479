"""N-BEATS in float16 with float32 master weights and a static loss scale."""

import torch
from torch import nn
from torch.nn import functional as F


def affine(n_in, n_out, bias=True):
    return nn.Linear(n_in, n_out, bias=bias)


class BeatsBlock(nn.Module):
    def __init__(self, back, ahead, width=32, theta=8):
        super().__init__()
        self.body = nn.Sequential(affine(back, width), nn.ReLU(), affine(width, width), nn.ReLU(), affine(width, theta))
        self.basis = affine(theta, back + ahead, bias=False)
        self.sizes = [back, ahead]

    def forward(self, x):
        return self.basis(self.body(x)).split(self.sizes, dim=-1)


class Forecaster(nn.Module):
    def __init__(self, back=24, ahead=6, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList([BeatsBlock(back, ahead) for _ in range(blocks)])

    def forward(self, x):
        forecasts = []
        for block in self.blocks:
            b, f = block(x)
            x = x - b
            forecasts.append(f)
        return torch.stack(forecasts).sum(dim=0)


class MasterSGD:
    """Momentum SGD on float32 copies of half-precision parameters."""

    def __init__(self, params, lr, momentum, scale=2.0**10):
        self.half = list(params)
        self.master = [p.detach().clone().float() for p in self.half]
        self.buf = [torch.zeros_like(m) for m in self.master]
        self.lr, self.momentum, self.scale = lr, momentum, scale

    def backward(self, loss):
        (loss * self.scale).backward()
        for p, m in zip(self.half, self.master):
            m.grad = p.grad.float()
            p.grad = None

    def unscale(self):
        for m in self.master:
            m.grad /= self.scale

    def clip(self, limit):
        norm = torch.stack([m.grad.norm() for m in self.master]).norm()
        ratio = (limit / (norm + 1e-6)).clamp(max=1.0)
        for m in self.master:
            m.grad *= ratio
        return norm

    @torch.no_grad()
    def step(self):
        for p, m, b in zip(self.half, self.master, self.buf):
            b.mul_(self.momentum).add_(m.grad)
            m.sub_(b, alpha=self.lr)
            p.copy_(m)


def initial_weights(model, back=24, ahead=6, width=32, theta=8):
    """The same draws as the float32 trainer: one block after the other, backcast and forecast apart."""
    torch.manual_seed(1234)
    for block in model.blocks:
        shapes = [
            (back, width, True),
            (width, width, True),
            (width, theta, True),
            (theta, back, False),
            (theta, ahead, False),
        ]
        parts = [nn.Linear(i, o, bias=b) for i, o, b in shapes]
        for slot, part in zip((0, 2, 4), parts):
            block.body[slot].load_state_dict(part.state_dict())
        block.basis.weight.data = torch.cat([parts[3].weight.data, parts[4].weight.data])


def window(step, back=24, ahead=6, n=16):
    g = torch.Generator().manual_seed(step)
    t = torch.arange(back + ahead) / 4
    phase = torch.rand(n, 1, generator=g) * 6
    y = torch.sin(t + phase) + 0.1 * torch.randn(n, back + ahead, generator=g) + 0.5
    return y.split([back, ahead], dim=1)


def main():
    model = Forecaster()
    initial_weights(model)
    opt_params = [p.detach().clone() for p in model.parameters()]
    model.half()
    opt = MasterSGD(model.parameters(), lr=0.1, momentum=0.9)
    opt.master = opt_params
    for step in range(3):
        x, y = window(step)
        prediction = model(x.half()).float()
        loss = F.smooth_l1_loss(prediction, y)
        opt.backward(loss)
        opt.unscale()
        norm = opt.clip(0.25)
        opt.step()
        print(f"step {step}: loss {loss.item():.9f} norm {norm.item():.9f}")


if __name__ == "__main__":
    main()

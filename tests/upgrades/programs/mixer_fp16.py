"""Mixer in half precision: fp16 model copy, float32 master weights, static loss scale."""

import torch
import torch.nn.functional as F
from torch import nn


class HalfNorm(nn.LayerNorm):
    """statistics in float32, result in the input's type"""

    def forward(self, x):
        y = F.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps)
        return y.to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, tokens, ch):
        super().__init__()
        self.n1, self.tok = HalfNorm(ch), FeedForward(tokens, 20)
        self.n2, self.ch = HalfNorm(ch), FeedForward(ch, 24)

    def forward(self, x):
        y = self.n1(x)
        x = x + self.tok(y.mT).mT
        y = self.n2(x)
        return x + self.ch(y)


class SensorMixer(nn.Module):
    def __init__(self, tokens=12, ch=16, depth=2):
        super().__init__()
        self.inp = nn.Linear(5, ch)
        self.body = nn.ModuleList(Block(tokens, ch) for _ in range(depth))
        self.last = HalfNorm(ch)
        self.out = nn.Linear(ch, 3)

    def forward(self, x):
        x = self.inp(x)
        for b in self.body:
            x = b(x)
        return self.out(self.last(x).mean(1))


RENAME = [
    ("blocks.", "body."),
    ("ln_tokens", "n1"),
    ("ln_channels", "n2"),
    ("tokens.net.0", "tok.fc1"),
    ("tokens.net.2", "tok.fc2"),
    ("channels.net.0", "ch.fc1"),
    ("channels.net.2", "ch.fc2"),
    ("stem.", "inp."),
    ("norm.", "last."),
    ("head.", "out."),
]


def rename(key):
    for old, new in RENAME:
        key = key.replace(old, new)
    return key


class MasterSGD:
    """Nesterov momentum on float32 copies of fp16 parameters."""

    def __init__(self, model, lr, mu, scale, clip):
        self.live = list(model.parameters())
        self.master = [p.detach().float().clone() for p in self.live]
        self.buf = [torch.zeros_like(m) for m in self.master]
        self.lr, self.mu, self.scale, self.clip = lr, mu, scale, clip

    def backward(self, loss):
        for p in self.live:
            p.grad = None
        (loss * self.scale).backward()

    def step(self):
        grads = [p.grad.float() / self.scale for p in self.live]
        norm = torch.stack([g.norm() for g in grads]).norm()
        factor = torch.clamp(self.clip / (norm + 1e-6), max=1.0)
        with torch.no_grad():
            for p, m, buf, g in zip(self.live, self.master, self.buf, grads):
                g = g * factor
                buf.mul_(self.mu).add_(g)
                m.sub_(self.lr * (g + self.mu * buf))
                p.copy_(m)
        return norm


def sensor_batch(step, tokens=12):
    g = torch.Generator().manual_seed(700 + step)
    x = torch.randn(24, tokens, 5, generator=g)
    y = torch.stack([x.mean((1, 2)) * 4, x[:, :, 0].amax(1), x[:, 3, 2]], dim=1)
    return x.half(), y


def huber(pred, y, beta=0.5):
    d = (pred.float() - y).abs()
    return torch.where(d < beta, d * d / (2 * beta), d - beta / 2).mean()


def main():
    model = SensorMixer()
    model.load_state_dict({rename(k): v for k, v in torch.load("weights.pt").items()})
    model.half()
    opt = MasterSGD(model, lr=0.5, mu=0.9, scale=256.0, clip=0.5)
    for step in range(3):
        x, y = sensor_batch(step)
        loss = huber(model(x), y)
        opt.backward(loss)
        norm = opt.step()
        print(f"step {step}: loss {loss.item():.9f} norm {norm.item():.9f}")
    with torch.no_grad():
        x, y = sensor_batch(99)
        print(f"test loss {huber(model(x), y).item():.9f}")


if __name__ == "__main__":
    main()

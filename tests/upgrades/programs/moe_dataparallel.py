"""MoE trained on two simulated workers (slices of the batch, averaged gradients); saved after two steps and resumed."""

import io

import torch
import torch.nn.functional as F
from torch import nn

WORKERS = 2


class DenseMoE(nn.Module):
    """All experts on all tokens as batched products; unchosen experts get weight zero."""

    def __init__(self, dim=10, hidden=14, n=4, k=2):
        super().__init__()
        self.k = k
        self.router = nn.Parameter(torch.zeros(n, dim))
        self.w1, self.b1 = nn.Parameter(torch.zeros(n, hidden, dim)), nn.Parameter(torch.zeros(n, hidden))
        self.w2, self.b2 = nn.Parameter(torch.zeros(n, dim, hidden)), nn.Parameter(torch.zeros(n, dim))

    def forward(self, x):
        logits = x @ self.router.t()
        kth = logits.topk(self.k, dim=-1).values[..., -1:]
        weights = torch.softmax(logits.masked_fill(logits < kth, float("-inf")), dim=-1)
        h = F.silu(torch.einsum("btd,ehd->bteh", x, self.w1) + self.b1)
        y = torch.einsum("bteh,edh->bted", h, self.w2) + self.b2
        out = (weights.unsqueeze(-1) * y).sum(2)
        return out, logits.log_softmax(-1).square().mean()


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.moe = DenseMoE(dim)

    def forward(self, x):
        y, aux = self.moe(self.norm(x))
        return x + y, aux


class Forecaster(nn.Module):
    def __init__(self, dim=10):
        super().__init__()
        self.read = nn.Linear(4, dim)
        self.layers = nn.ModuleList([Residual(dim), Residual(dim)])
        self.write = nn.Linear(dim, 1)

    def forward(self, x):
        h, extra = self.read(x), []
        for layer in self.layers:
            h, aux = layer(h)
            extra.append(aux)
        return self.write(h)[..., 0], torch.stack(extra).sum()


@torch.no_grad()
def init(model, experts=4, dim=10, hidden=14):
    """the reference's order: input, every layer (gate, experts), norms, output"""
    torch.manual_seed(12)

    def draw(*shape):
        return torch.empty(shape).normal_(0.0, 0.4)

    model.read.weight.copy_(draw(dim, 4)), model.read.bias.copy_(draw(dim))
    for layer in model.layers:
        m = layer.moe
        m.router.copy_(draw(experts, dim))
        for e in range(experts):
            m.w1[e], m.b1[e] = draw(hidden, dim), draw(hidden)
            m.w2[e], m.b2[e] = draw(dim, hidden), draw(dim)
    for layer in model.layers:
        layer.norm.weight.copy_(draw(dim)), layer.norm.bias.copy_(draw(dim))
    model.write.weight.copy_(draw(1, dim)), model.write.bias.copy_(draw(1))


class Trainer:
    def __init__(self, lr=5e-3, decay=0.1):
        self.model = Forecaster()
        self.lr, self.decay = lr, decay
        self.momentum = {k: torch.zeros_like(p) for k, p in self.model.named_parameters()}

    def gradients(self, x, y):
        """average of the workers' gradients, and of their losses"""
        total, mean = None, 0.0
        for xs, ys in zip(x.chunk(WORKERS), y.chunk(WORKERS)):
            pred, aux = self.model(xs)
            loss = (pred - ys).abs().mean() + 0.01 * aux
            grads = torch.autograd.grad(loss, list(self.model.parameters()))
            total = grads if total is None else [a + b for a, b in zip(total, grads)]
            mean += loss.item() / WORKERS
        return [g / WORKERS for g in total], mean

    @torch.no_grad()
    def update(self, grads):
        for (k, p), g in zip(self.model.named_parameters(), grads):
            m = self.momentum[k]
            direction = torch.tanh(50 * torch.lerp(m, g, 0.1))
            p.copy_(p * (1 - self.lr * self.decay) - self.lr * direction)
            self.momentum[k] = torch.lerp(m, g, 0.01)

    def save(self):
        buf = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "momentum": self.momentum}, buf)
        return buf.getvalue()

    @classmethod
    def resume(cls, blob):
        state = torch.load(io.BytesIO(blob))
        self = cls()
        self.model.load_state_dict(state["model"])
        self.momentum.update(state["momentum"])
        return self


def run(trainer, steps):
    for step in steps:
        g = torch.Generator().manual_seed(step)
        x = torch.randn(8, 5, 4, generator=g)
        y = x.sin().sum(-1) + 0.1 * torch.randn(8, 5, generator=g)
        grads, loss = trainer.gradients(x, y)
        trainer.update(grads)
        print(f"step {step}: loss {loss:.9f}")


def main():
    first = Trainer()
    init(first.model)
    run(first, range(2))
    second = Trainer.resume(first.save())
    run(second, range(2, 4))


if __name__ == "__main__":
    main()

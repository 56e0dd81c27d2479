"""TabNet on synthetic mixed data: sparsemax feature masks, ghost batch norm, hand-written Adagrad."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        z = z - z.amax(dim=-1, keepdim=True)
        srt = z.sort(dim=-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
        css = srt.cumsum(dim=-1) - 1
        size = (k * srt > css).sum(dim=-1, keepdim=True)
        tau = css.gather(-1, size - 1) / size
        ctx.save_for_backward((z - tau).clamp_min(0))
        return (z - tau).clamp_min(0)

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        support = (out > 0).to(grad.dtype)
        mean = (grad * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return support * (grad - mean)


class GhostNorm(nn.Module):
    def __init__(self, dim, virtual=16):
        super().__init__()
        self.virtual, self.bn = virtual, nn.BatchNorm1d(dim, momentum=0.02)

    def forward(self, x):
        return torch.cat([self.bn(part) for part in x.split(self.virtual)])


class GLU(nn.Module):
    def __init__(self, fc, dim):
        super().__init__()
        self.fc, self.norm = fc, GhostNorm(2 * dim)

    def forward(self, x):
        value, gate = self.norm(self.fc(x)).chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


class FeatureTransformer(nn.Module):
    """One layer shared by all decision steps, two of its own."""

    def __init__(self, shared, dim):
        super().__init__()
        self.first = GLU(shared, dim)
        self.own = nn.ModuleList([GLU(nn.Linear(dim, 2 * dim, bias=False), dim) for _ in range(2)])

    def forward(self, x):
        h = self.first(x)
        for layer in self.own:
            h = (h + layer(h)) * 0.5**0.5
        return h


class Attentive(nn.Module):
    def __init__(self, dim, n_feat):
        super().__init__()
        self.fc, self.norm = nn.Linear(dim, n_feat, bias=False), GhostNorm(n_feat)

    def forward(self, a, prior):
        return Sparsemax.apply(self.norm(self.fc(a)) * prior)


class TabNet(nn.Module):
    def __init__(self, n_num, cards, n_out, n_d=8, n_a=8, steps=3, gamma=1.3):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c, 2) for c in cards])
        n_feat, self.n_d, self.gamma = n_num + 2 * len(cards), n_d, gamma
        shared = nn.Linear(n_feat, 2 * (n_d + n_a), bias=False)
        self.initial = FeatureTransformer(shared, n_d + n_a)
        self.attentive = nn.ModuleList([Attentive(n_a, n_feat) for _ in range(steps)])
        self.transform = nn.ModuleList([FeatureTransformer(shared, n_d + n_a) for _ in range(steps)])
        self.out = nn.Linear(n_d, n_out, bias=False)

    def forward(self, num, cat):
        x = torch.cat([num] + [emb(c) for emb, c in zip(self.embeds, cat.T)], dim=1)
        a = self.initial(x)[:, self.n_d :]
        prior, total, entropy = torch.ones_like(x), 0.0, 0.0
        for attentive, transform in zip(self.attentive, self.transform):
            mask = attentive(a, prior)
            entropy = entropy - (mask * torch.log(mask + 1e-5)).sum(1).mean() / len(self.attentive)
            prior = prior * (self.gamma - mask)
            d, a = transform(mask * x).tensor_split([self.n_d], dim=1)
            total = total + F.relu(d)
        return self.out(total), entropy


gen = torch.Generator().manual_seed(16)
model = TabNet(n_num=6, cards=(4, 7), n_out=3)
accum = [torch.full_like(p, 0.1) for p in model.parameters()]
for step in range(3):
    num, cat = torch.randn(64, 6, generator=gen), torch.randint(0, 4, (64, 2), generator=gen)
    label = ((num[:, 0] * num[:, 1] > 0).long() + (num[:, 2] + 0.5 * cat[:, 0] > 1).long()).clamp(max=2)
    logits, entropy = model(num, cat)
    loss = F.cross_entropy(logits, label) + 0.05 * entropy
    grads = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for p, g, acc in zip(model.parameters(), grads, accum):
            acc.add_(g**2)
            p.sub_(0.03 * g / (acc.sqrt() + 1e-8))
    print(f"step {step} loss {loss.item():.9f}")

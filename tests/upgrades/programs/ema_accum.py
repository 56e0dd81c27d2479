"""The tagger with gradient accumulation over micro batches and a hand-made weight average."""

import copy

import torch
from torch import nn


class LocalMix(nn.Module):
    """Depthwise window of three tokens, then a gated pointwise projection (tokens last but one)."""

    def __init__(self, dim):
        super().__init__()
        self.taps = nn.Parameter(torch.empty(3, dim))
        self.tap_bias = nn.Parameter(torch.empty(dim))
        self.value = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x):
        padded = nn.functional.pad(x, (0, 0, 1, 1))
        n = x.shape[1]
        h = sum(padded[:, k : k + n] * self.taps[k] for k in range(3)) + self.tap_bias
        return self.value(h) * torch.sigmoid(self.gate(h))


class TokenTagger(nn.Module):
    def __init__(self, vocab=50, dim=24, tags=5):
        super().__init__()
        self.lookup = nn.Embedding(vocab, dim, padding_idx=0)
        self.mix = LocalMix(dim)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        x = self.lookup(ids)
        return self.out(self.norm(x + self.mix(x)))


class WeightAverage:
    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.started = False

    @torch.no_grad()
    def update(self, model):
        for avg, p in zip(self.shadow.parameters(), model.parameters()):
            if self.started:
                avg.copy_(self.decay * avg + (1 - self.decay) * p)
            else:
                avg.copy_(p)
        self.started = True


def same_start(dim=24):
    torch.manual_seed(77)
    emb = nn.Embedding(50, dim, padding_idx=0)
    dw, pw = nn.Conv1d(dim, dim, 3, padding=1, groups=dim), nn.Conv1d(dim, 2 * dim, 1)
    norm, out = nn.LayerNorm(dim), nn.Linear(dim, 5)
    model = TokenTagger()
    with torch.no_grad():
        model.lookup.weight.copy_(emb.weight)
        model.mix.taps.copy_(dw.weight[:, 0].T)
        model.mix.tap_bias.copy_(dw.bias)
        for layer, w, b in zip((model.mix.value, model.mix.gate), pw.weight[..., 0].chunk(2), pw.bias.chunk(2)):
            layer.weight.copy_(w)
            layer.bias.copy_(b)
    model.norm.load_state_dict(norm.state_dict())
    model.out.load_state_dict(out.state_dict())
    return model


def load_split(step, n=8):
    g = torch.Generator().manual_seed(500 + step)
    ids = torch.randint(1, 50, (n, 10), generator=g)
    tags = ids * 7 % 5
    keep = torch.arange(10) < torch.randint(2, 11, (n,), generator=g)[:, None]
    return torch.where(keep, ids, 0), torch.where(keep, tags, -100)


def summed_loss(model, ids, tags):
    keep = tags != -100
    return nn.functional.cross_entropy(model(ids)[keep], tags[keep], reduction="sum")


def main():
    model = same_start()
    average = WeightAverage(model, decay=0.7)
    opt = torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.98))
    held_ids, held_tags = load_split(99)
    for step in range(3):
        ids, tags = load_split(step)
        n_tokens = (tags != -100).sum()
        total = 0.0
        opt.zero_grad()
        for micro_ids, micro_tags in zip(ids.split(2), tags.split(2)):
            loss = summed_loss(model, micro_ids, micro_tags) / n_tokens
            loss.backward()
            total += loss.item()
        opt.step()
        average.update(model)
        with torch.no_grad():
            held = summed_loss(average.shadow, held_ids, held_tags) / (held_tags != -100).sum()
        print(f"step {step}: train {total:.9f} ema held-out {held.item():.9f}")


if __name__ == "__main__":
    main()

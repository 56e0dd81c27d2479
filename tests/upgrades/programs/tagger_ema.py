"""Tagger trained sentence by sentence with accumulated gradients; own LSTM cells and own weight average."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

LENGTHS = (9, 4, 7, 2, 8, 3, 5, 6)


class LSTMDirection(nn.Module):
    def __init__(self, cin, hid, backward):
        super().__init__()
        self.hid, self.backward = hid, backward
        self.wx = nn.Linear(cin, 4 * hid)
        self.wh = nn.Linear(hid, 4 * hid)

    def forward(self, x):
        """x: (time, features)"""
        gates_x = self.wx(x)
        h = c = x.new_zeros(self.hid)
        order = range(len(x))
        out = [None] * len(x)
        for t in reversed(order) if self.backward else order:
            i, f, g, o = (gates_x[t] + self.wh(h)).chunk(4)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            out[t] = h
        return torch.stack(out)


class CharEncoder(nn.Module):
    def __init__(self, n_chars=12, dim=6):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(n_chars, dim))
        self.mix = nn.Linear(3 * dim, dim)

    def forward(self, chars):
        x = F.pad(self.table[chars], (0, 0, 1, 1))
        grams = torch.cat([x[:, :-2], x[:, 1:-1], x[:, 2:]], dim=-1)
        return self.mix(grams).relu().max(dim=1).values


class SentenceTagger(nn.Module):
    def __init__(self, words=40, tags=5, emb=10, hid=8):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(words, emb))
        self.spelling = CharEncoder()
        self.left = LSTMDirection(emb + 6, hid, backward=False)
        self.right = LSTMDirection(emb + 6, hid, backward=True)
        self.tag = nn.Linear(2 * hid, tags)

    def forward(self, words, chars):
        x = torch.cat([self.table[words], self.spelling(chars)], dim=1)
        return self.tag(torch.cat([self.left(x), self.right(x)], dim=1))


def from_reference(sd):
    out = {
        "table": sd["words.weight"],
        "spelling.table": sd["charcnn.chars.weight"].clone(),
        "spelling.mix.weight": sd["charcnn.conv.weight"].permute(0, 2, 1).flatten(1),
        "spelling.mix.bias": sd["charcnn.conv.bias"],
        "tag.weight": sd["out.weight"],
        "tag.bias": sd["out.bias"],
    }
    out["spelling.table"][0] = 0
    for name, tail in (("left", "l0"), ("right", "l0_reverse")):
        for mine, theirs in (("wx", "ih"), ("wh", "hh")):
            out[f"{name}.{mine}.weight"] = sd[f"lstm.weight_{theirs}_{tail}"]
            out[f"{name}.{mine}.bias"] = sd[f"lstm.bias_{theirs}_{tail}"]
    return out


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.named_parameters():
            self.shadow[k] = self.decay * self.shadow[k] + (1 - self.decay) * v

    def averaged(self, model):
        twin = copy.deepcopy(model)
        twin.load_state_dict(self.shadow)
        return twin


def sentences(seed):
    g = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 40, (8, 9), generator=g)
    chars = torch.randint(1, 12, (8, 9, 5), generator=g)
    for w, c, n in zip(words, chars, LENGTHS):
        yield w[:n], c[:n], (w[:n] + c[:n, 0]) % 5


def total_loss(model, seed, train=False):
    """token average over all sentences, gradients accumulated one sentence at a time"""
    tokens, total = sum(LENGTHS), 0.0
    for words, chars, tags in sentences(seed):
        part = F.cross_entropy(model(words, chars), tags, reduction="sum") / tokens
        if train:
            part.backward()
        total += part.item()
    return total


def main():
    model = SentenceTagger()
    model.load_state_dict(from_reference(torch.load("weights.pt")))
    ema = EMA(model, decay=0.8)
    opt = torch.optim.RMSprop(model.parameters(), lr=5e-3, foreach=True)
    for step in range(3):
        opt.zero_grad()
        loss = total_loss(model, step, train=True)
        opt.step()
        ema.update(model)
        print(f"step {step}: loss {loss:.9f}")
    with torch.no_grad():
        print(f"raw dev loss {total_loss(model, 77):.9f}")
        print(f"ema dev loss {total_loss(ema.averaged(model), 77):.9f}")


if __name__ == "__main__":
    main()

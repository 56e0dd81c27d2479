"""Language modelling with own port of RWKV that weighs all the pairs of positions instead of a recurrence."""

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, LENGTH, DIM, INNER = 60, 12, 24, 48


def shift(x):
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)


class TimeMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(DIM))
        self.bonus = nn.Parameter(torch.zeros(DIM))
        self.mix = nn.ParameterDict({name: nn.Parameter(torch.zeros(DIM)) for name in "kvr"})
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM, bias=False)
        self.r = nn.Linear(DIM, DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        past = shift(x)
        k = self.k(torch.lerp(past, x, self.mix["k"]))
        v = self.v(torch.lerp(past, x, self.mix["v"]))
        r = self.r(torch.lerp(past, x, self.mix["r"])).sigmoid()
        t = torch.arange(x.shape[1])
        steps = (t[:, None] - t[None, :] - 1)[..., None]
        logits = k[:, None] - self.decay.exp() * steps
        logits = torch.where(steps < 0, float("-inf"), logits)
        logits = torch.where(steps == -1, k[:, None] + self.bonus, logits)
        y = (logits.softmax(dim=2) * v[:, None]).sum(2)
        return self.out(r * y)


class ChannelMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.ParameterDict({name: nn.Parameter(torch.zeros(DIM)) for name in "kr"})
        self.k = nn.Linear(DIM, INNER, bias=False)
        self.r = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(INNER, DIM, bias=False)

    def forward(self, x):
        past = shift(x)
        k = self.k(torch.lerp(past, x, self.mix["k"]))
        r = self.r(torch.lerp(past, x, self.mix["r"]))
        return r.sigmoid() * self.v(F.relu(k).square())


class Rwkv(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.norm0 = nn.LayerNorm(DIM)
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(4))
        self.mixers = nn.ModuleList([TimeMix(), ChannelMix(), TimeMix(), ChannelMix()])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        x = self.norm0(self.embed(ids))
        for norm, mixer in zip(self.norms, self.mixers):
            x = x + mixer(norm(x))
        return self.head(self.norm(x))


def convert(state):
    new = {"embed.weight": state["rwkv.embeddings.weight"], "head.weight": state["head.weight"]}
    places = {"rwkv.ln_out": "norm", "rwkv.blocks.0.pre_ln": "norm0"}
    for i in range(2):
        for j, part in enumerate(("attention", "feed_forward")):
            places[f"rwkv.blocks.{i}.ln{j + 1}"] = f"norms.{2 * i + j}"
            places[f"rwkv.blocks.{i}.{part}"] = f"mixers.{2 * i + j}"
    for old, name in places.items():
        for key, value in state.items():
            if key.startswith(old + "."):
                leaf = key[len(old) + 1 :].replace("time_mix_", "mix.").replace("time_decay", "decay")
                leaf = leaf.replace("time_first", "bonus").replace("output", "out")
                for long in ("key", "value", "receptance"):
                    leaf = leaf.replace(long, long[0])
                new[f"{name}.{leaf}"] = value.flatten() if "mix." in leaf else value
    return new


def batch(step):
    generator = torch.Generator().manual_seed(600 + step)
    half = torch.randint(0, VOCAB, (8, LENGTH // 2), generator=generator)
    return torch.cat([half, half], dim=1)


if __name__ == "__main__":
    model = Rwkv()
    model.load_state_dict(convert(torch.load("weights.pt")))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(3):
        ids = batch(step)
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")

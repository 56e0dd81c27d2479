"""Beam search with a selective state space decoder, each hypothesis scored again from its first token."""

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, DIM, STATE, CONV, BEAMS = 37, 24, 6, 4, 3


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(DIM, 2 * DIM)
        self.conv = nn.Conv1d(DIM, DIM, CONV, groups=DIM)
        self.select = nn.Linear(DIM, 2 * STATE + DIM)
        self.log_a = nn.Parameter(torch.arange(1, STATE + 1).float().log().repeat(DIM, 1))
        self.skip = nn.Parameter(torch.ones(DIM))
        self.out = nn.Linear(DIM, DIM)

    def forward(self, u):
        x, gate = self.inp(u).chunk(2, dim=-1)
        x = F.silu(self.conv(F.pad(x.transpose(1, 2), (CONV - 1, 0))).transpose(1, 2))
        b, c, delta = self.select(x).split([STATE, STATE, DIM], dim=-1)
        delta = F.softplus(delta)
        decay = torch.exp(-delta[..., None] * self.log_a.exp())
        update = (delta * x)[..., None] * b[:, :, None]
        h, ys = torch.zeros_like(decay[:, 0]), []
        for t in range(u.shape[1]):
            h = decay[:, t] * h + update[:, t]
            ys.append((h * c[:, t, None]).sum(-1))
        return self.out((torch.stack(ys, 1) + self.skip * x) * F.silu(gate))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2))
        self.mixers = nn.ModuleList(Mixer() for _ in range(2))
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        for norm, mixer in zip(self.norms, self.mixers):
            x = x + mixer(norm(x))
        return self.head(x).log_softmax(-1)


def beam_search(model, prompt, length):
    beams = [(0.0, prompt.tolist())]
    for _ in range(length):
        grown = []
        for score, ids in beams:
            logprob = model(torch.tensor([ids]))[0, -1]
            grown += [(score + logprob[w].item(), [*ids, w]) for w in range(VOCAB)]
        beams = sorted(grown, key=lambda beam: -beam[0])[:BEAMS]
    return torch.tensor([score for score, _ in beams])


torch.manual_seed(8)
model = Decoder()
with torch.no_grad():
    for name, weight in model.named_parameters():
        if "log_a" not in name:
            weight.mul_(2.0)
model.eval()
generator = torch.Generator().manual_seed(4)

for step in range(3):
    prompt = torch.randint(0, VOCAB, (4,), generator=generator)
    with torch.no_grad():
        scores = beam_search(model, prompt, 8)
    loss = -(scores * torch.tensor([1.0, 0.7, 0.4])).sum()
    print(f"step {step} loss {loss.item():.9f}")

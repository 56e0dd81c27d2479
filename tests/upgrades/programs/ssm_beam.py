"""Beam search with a selective state space decoder that keeps convolution and state of each beam."""

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

    def forward(self, u, state):
        x, gate = self.inp(u).chunk(2, dim=-1)
        rolled = torch.roll(state["conv"], shifts=-1, dims=-1)
        rolled[..., -1] = x
        state["conv"] = rolled
        x = F.silu((rolled * self.conv.weight[:, 0]).sum(-1) + self.conv.bias)
        b, c, delta = self.select(x).split([STATE, STATE, DIM], dim=-1)
        delta = F.softplus(delta)
        decay = torch.exp(-delta[..., None] * self.log_a.exp())
        state["ssm"] = decay * state["ssm"] + (delta * x)[..., None] * b[:, None]
        y = (state["ssm"] * c[:, None]).sum(-1) + self.skip * x
        return self.out(y * F.silu(gate))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2))
        self.mixers = nn.ModuleList(Mixer() for _ in range(2))
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, token, states):
        x = self.embed(token)
        for norm, mixer, state in zip(self.norms, self.mixers, states):
            x = x + mixer(norm(x), state)
        return self.head(x).log_softmax(-1)


def beam_search(model, prompt, length):
    states = [{"conv": torch.zeros(1, DIM, CONV), "ssm": torch.zeros(1, DIM, STATE)} for _ in model.mixers]
    for token in prompt:
        logprob = model(token[None], states)
    scores = torch.zeros(1)
    for i in range(length):
        total = (scores[:, None] + logprob).flatten()
        scores, best = total.topk(BEAMS)
        parent, token = best // VOCAB, best % VOCAB
        states = [{key: value[parent] for key, value in state.items()} for state in states]
        if i + 1 < length:
            logprob = model(token, states)
    return scores


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

"""A training of three steps."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

N_ENT, N_REL, DIM, NEG, BATCH = 60, 7, 16, 12, 24
GAMMA, ADV_TEMP, LR, DECAY = 6.0, 0.8, 0.08, 1e-3
gen = torch.Generator().manual_seed(11)


def make_triples(n):
    heads = torch.randint(0, N_ENT, (n,), generator=gen)
    rels = torch.randint(0, N_REL, (n,), generator=gen)
    tails = (heads * (2 * rels + 1) + 5 * rels) % N_ENT
    return torch.stack([heads, rels, tails], dim=1)


class RotateScorer(nn.Module):
    def __init__(self, gamma, dim):
        super().__init__()
        self.gamma = gamma
        self.span = (gamma + 2.0) / dim

    def forward(self, head, phase, tail, corrupt):
        re_h, im_h = head.chunk(2, dim=-1)
        re_t, im_t = tail.chunk(2, dim=-1)
        theta = phase / (self.span / math.pi)
        re_r, im_r = torch.cos(theta), torch.sin(theta)
        if corrupt == "head":
            re = re_r * re_t + im_r * im_t - re_h
            im = re_r * im_t - im_r * re_t - im_h
        else:
            re = re_h * re_r - im_h * im_r - re_t
            im = re_h * im_r + im_h * re_r - im_t
        dist = torch.stack([re, im], dim=0).norm(dim=0)
        return self.gamma - dist.sum(dim=-1)


class KGModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.scorer = RotateScorer(GAMMA, DIM)
        self.entity = nn.Embedding(N_ENT, 2 * DIM)
        self.relation = nn.Embedding(N_REL, DIM)
        nn.init.uniform_(self.entity.weight, -self.scorer.span, self.scorer.span)
        nn.init.uniform_(self.relation.weight, -self.scorer.span, self.scorer.span)

    def forward(self, pos, neg, corrupt):
        h = self.entity(pos[:, 0]).unsqueeze(1)
        r = self.relation(pos[:, 1]).unsqueeze(1)
        t = self.entity(pos[:, 2]).unsqueeze(1)
        pos_score = self.scorer(h, r, t, "tail").squeeze(1)
        cand = self.entity(neg)
        if corrupt == "head":
            neg_score = self.scorer(cand, r, t, corrupt)
        else:
            neg_score = self.scorer(h, r, cand, corrupt)
        return pos_score, neg_score


def self_adversarial(pos_score, neg_score, weight):
    prob = F.softmax(ADV_TEMP * neg_score, dim=1).detach()
    neg_part = (prob * F.logsigmoid(-neg_score)).sum(dim=1)
    pos_part = F.logsigmoid(pos_score)
    scaled = weight / weight.sum()
    return -((scaled * pos_part).sum() + (scaled * neg_part).sum()) / 2


torch.manual_seed(3)
model = KGModel()
triples = make_triples(3 * BATCH)
freq = torch.zeros(N_ENT, N_REL)
for h, r, _ in triples.tolist():
    freq[h, r] += 1.0
state = {name: torch.zeros_like(p) for name, p in model.named_parameters()}

for step in range(3):
    pos = triples[step * BATCH : (step + 1) * BATCH]
    neg = torch.randint(0, N_ENT, (BATCH, NEG), generator=gen)
    corrupt = "head" if step % 2 == 0 else "tail"
    weight = (freq[pos[:, 0], pos[:, 1]] + 3.0).rsqrt()
    pos_score, neg_score = model(pos, neg, corrupt)
    loss = self_adversarial(pos_score, neg_score, weight)
    used = model.entity.weight[pos[:, [0, 2]].reshape(-1)]
    loss = loss + DECAY * used.abs().pow(3).sum() / BATCH
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for name, p in model.named_parameters():
            state[name] += p.grad**2
            p -= LR * p.grad / (state[name].sqrt() + 1e-6)
    print(f"step {step} loss {loss.item():.9f}")

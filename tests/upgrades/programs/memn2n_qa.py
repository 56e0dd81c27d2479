"""A training of three steps."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PEOPLE = ["mary", "john", "sandra", "daniel", "julie"]
PLACES = ["kitchen", "garden", "office", "hallway", "attic", "school"]
VOCAB = ["<pad>", "went", "to", "where", "is"] + PEOPLE + PLACES
WORD = {w: i for i, w in enumerate(VOCAB)}
SLOTS, WORDS, DIM, HOPS = 9, 4, 20, 3


def make_story(rng):
    facts, where = [], {}
    for _ in range(rng.randint(4, SLOTS)):
        who, place = rng.choice(PEOPLE), rng.choice(PLACES)
        facts.append([WORD[who], WORD["went"], WORD["to"], WORD[place]])
        where[who] = place
    asked = rng.choice(sorted(where))
    query = [WORD["where"], WORD["is"], WORD[asked], 0]
    return facts, query, PLACES.index(where[asked])


def make_batch(rng, size=24):
    story = torch.zeros(size, SLOTS, WORDS, dtype=torch.long)
    query = torch.zeros(size, WORDS, dtype=torch.long)
    answer = torch.zeros(size, dtype=torch.long)
    for b in range(size):
        facts, q, a = make_story(rng)
        recent_first = list(reversed(facts))
        story[b, : len(facts)] = torch.tensor(recent_first)
        query[b] = torch.tensor(q)
        answer[b] = a
    return story, query, answer


class SentenceEncoder(nn.Module):
    """Bag of words with position encoding (Sukhbaatar et al., 2015)."""

    def __init__(self):
        super().__init__()
        j = torch.arange(1, WORDS + 1).float()[:, None] / WORDS
        k = torch.arange(1, DIM + 1).float()[None, :] / DIM
        self.register_buffer("pe", (1 - j) - k * (1 - 2 * j))

    def forward(self, tokens, table):
        words = F.embedding(tokens, table, padding_idx=0)
        return (words * self.pe).sum(dim=-2)


class MemN2N(nn.Module):
    """Adjacent weight tying: the output table of a hop is the input table of the next."""

    def __init__(self):
        super().__init__()
        self.encode = SentenceEncoder()
        self.tables = nn.ParameterList([nn.Parameter(0.3 * torch.randn(len(VOCAB), DIM)) for _ in range(HOPS + 1)])
        self.time = nn.ParameterList([nn.Parameter(0.3 * torch.randn(SLOTS, DIM)) for _ in range(HOPS + 1)])
        with torch.no_grad():
            for table in self.tables:
                table[0].zero_()

    def forward(self, story, query):
        empty = (story == 0).all(dim=-1)
        u = self.encode(query, self.tables[0])
        attention = []
        for hop in range(HOPS):
            keys = self.encode(story, self.tables[hop]) + self.time[hop]
            values = self.encode(story, self.tables[hop + 1]) + self.time[hop + 1]
            match = torch.einsum("bsd,bd->bs", keys, u)
            p = F.softmax(match.masked_fill(empty, -1e9), dim=1)
            u = u + torch.einsum("bs,bsd->bd", p, values)
            attention.append(p)
        places = self.tables[-1][WORD[PLACES[0]] :]
        return u @ places.t(), attention


random_state = random.Random(61)
torch.manual_seed(62)
model = MemN2N()
params = list(model.parameters())
lr, momentum, clip, noise = 0.15, 0.7, 4.0, torch.Generator().manual_seed(63)
velocity = [torch.zeros_like(p) for p in params]

for step in range(3):
    story, query, answer = make_batch(random_state)
    logits, attention = model(story, query)
    entropy = -(attention[-1] * (attention[-1] + 1e-8).log()).sum(dim=1).mean()
    loss = F.cross_entropy(logits, answer) + 0.05 * entropy
    grads = torch.autograd.grad(loss, params)
    norm = torch.sqrt(sum((g * g).sum() for g in grads))
    factor = torch.clamp(clip / (norm + 1e-12), max=1.0)
    with torch.no_grad():
        for p, g, v in zip(params, grads, velocity):
            jitter = 0.01 * torch.randn(p.shape, generator=noise) / (1 + step) ** 0.55
            v.mul_(momentum).add_(g * factor + jitter)
            p.sub_(lr * v)
        for table in model.tables:
            table[0].zero_()
    print(f"step {step} loss {loss.item():.9f}")

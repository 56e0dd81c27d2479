"""Neural combinatorial optimisation: a pointer network learns short tours with REINFORCE (Bello et al.)."""

import torch
from torch import nn

torch.manual_seed(0)
BATCH, CITIES, DIM = 24, 8, 32


class Attention(nn.Module):
    """Additive attention; returns the scores and the projected references."""

    def __init__(self, dim, clip=None):
        super().__init__()
        self.w_ref = nn.Linear(dim, dim, bias=False)
        self.w_query = nn.Linear(dim, dim)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-0.5, 0.5))
        self.clip = clip

    def forward(self, ref, query, visited):
        keys = self.w_ref(ref)
        scores = torch.tanh(keys + self.w_query(query)[:, None]) @ self.v
        if self.clip is not None:
            scores = self.clip * torch.tanh(scores)
        return scores.masked_fill(visited, float("-inf")), keys


class Decoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.cell = nn.LSTMCell(dim, dim)
        self.first = nn.Parameter(torch.randn(dim) * 0.1)
        self.glimpse = Attention(dim)
        self.pointer = Attention(dim, clip=10.0)

    def forward(self, embedded, ref, state, gen):
        batch, n, _ = ref.shape
        visited = torch.zeros(batch, n, dtype=torch.bool)
        rows = torch.arange(batch)
        x = self.first.expand(batch, -1)
        tour, logps, entropy = [], [], 0.0
        for _ in range(n):
            state = self.cell(x, state)
            query = state[0]
            scores, keys = self.glimpse(ref, query, visited)
            query = query + (scores.softmax(-1).unsqueeze(1) @ keys).squeeze(1)
            logits, _ = self.pointer(ref, query, visited)
            logp = logits.log_softmax(-1)
            probs = logp.exp()
            choice = torch.multinomial(probs.detach(), 1, generator=gen).squeeze(1)
            entropy = entropy - (probs * logp.masked_fill(visited, 0.0)).sum(-1)
            logps.append(logp[rows, choice])
            tour.append(choice)
            visited = visited.clone()
            visited[rows, choice] = True
            x = embedded[rows, choice]
        return torch.stack(tour, 1), torch.stack(logps, 1), entropy


class PointerNet(nn.Module):
    def __init__(self, dim=DIM):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.encoder = nn.LSTM(dim, dim, batch_first=True)
        self.decoder = Decoder(dim)

    def forward(self, cities, gen):
        embedded = self.embed(cities)
        ref, (h, c) = self.encoder(embedded)
        return self.decoder(embedded, ref, (h[0], c[0]), gen)


def tour_length(cities, tour):
    ordered = cities.gather(1, tour.unsqueeze(-1).expand(-1, -1, 2))
    hops = ordered - ordered.roll(-1, dims=1)
    return hops.norm(dim=-1).sum(dim=1)


gen = torch.Generator().manual_seed(42)
model = PointerNet()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.96)
baseline = None
for step in range(3):
    cities = torch.rand(BATCH, CITIES, 2, generator=gen)
    tour, logps, entropy = model(cities, gen)
    with torch.no_grad():
        cost = tour_length(cities, tour)
        baseline = cost.mean() if baseline is None else 0.8 * baseline + 0.2 * cost.mean()
        advantage = cost - 0.8 * baseline
    loss = (advantage * logps.sum(dim=1)).mean() - 0.01 * entropy.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item():.9f}")

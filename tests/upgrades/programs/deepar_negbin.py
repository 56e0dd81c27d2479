"""DeepAR for counts: an autoregressive LSTM with a negative binomial head, trained by truncated backpropagation."""

import torch
import torch.nn.functional as F
from torch import nn

SERIES, LENGTH, CHUNK, WIDTH = 6, 48, 12, 24
LAGS = (1, 2, 7)


class Cell(nn.Module):
    """An LSTM cell with layer-normalised gates."""

    def __init__(self, inputs, width):
        super().__init__()
        self.from_input = nn.Linear(inputs, 4 * width, bias=False)
        self.from_state = nn.Linear(width, 4 * width)
        self.norm = nn.LayerNorm(4 * width)
        self.norm_memory = nn.LayerNorm(width)

    def forward(self, x, state):
        hidden, memory = state
        gates = self.norm(self.from_input(x) + self.from_state(hidden))
        write, forget, new, out = gates.chunk(4, dim=-1)
        memory = torch.sigmoid(forget + 1.0) * memory + torch.sigmoid(write) * torch.tanh(new)
        hidden = torch.sigmoid(out) * torch.tanh(self.norm_memory(memory))
        return hidden, memory


class Scaler(nn.Module):
    """The running mean of the seen values of every series, a state that is kept between the chunks."""

    def __init__(self, series):
        super().__init__()
        self.register_buffer("total", torch.zeros(series))
        self.register_buffer("count", torch.zeros(series))

    @torch.no_grad()
    def forward(self, values, seen):
        self.total += (values * seen).sum(1)
        self.count += seen.sum(1)
        return 1.0 + self.total / self.count.clamp(min=1.0)


class NegativeBinomial(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mean = nn.Linear(width, 1)
        self.shape = nn.Linear(width, 1)

    def forward(self, hidden, scale):
        mean = F.softplus(self.mean(hidden)).squeeze(-1) * scale
        alpha = F.softplus(self.shape(hidden)).squeeze(-1) / scale.sqrt() + 1e-3
        return mean, alpha


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.series = nn.Embedding(SERIES, 4)
        self.weekday = nn.Embedding(7, 3)
        self.scaler = Scaler(SERIES)
        self.cells = nn.ModuleList([Cell(len(LAGS) + 7, WIDTH), Cell(WIDTH, WIDTH)])
        self.head = NegativeBinomial(WIDTH)

    def initial_state(self):
        zeros = torch.zeros(SERIES, WIDTH)
        return [(zeros, zeros) for _ in self.cells]

    def forward(self, lagged, weekday, scale, states):
        time = lagged.shape[1]
        fixed = self.series.weight.unsqueeze(1).expand(-1, time, -1)
        inputs = torch.cat([torch.log1p(lagged / scale[:, None, None]), self.weekday(weekday), fixed], dim=-1)
        states = list(states)
        outputs = []
        for t in range(time):
            x = inputs[:, t]
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(x, states[layer])
                x = states[layer][0]
            outputs.append(x)
        return self.head(torch.stack(outputs, dim=1), scale[:, None]), states


def negative_binomial_nll(mean, alpha, target):
    """Of counts with the variance mean + alpha * mean ** 2."""
    r = 1.0 / alpha
    log_p = torch.lgamma(target + r) - torch.lgamma(target + 1.0) - torch.lgamma(r)
    log_p = log_p + r * torch.log(1.0 / (1.0 + alpha * mean))
    log_p = log_p + target * torch.log(alpha * mean / (1.0 + alpha * mean))
    return -log_p


def make_series(seed):
    g = torch.Generator().manual_seed(seed)
    day = torch.arange(LENGTH)
    level = torch.tensor([0.5, 2.0, 4.0, 8.0, 1.0, 16.0])[:, None]
    season = 1.0 + 0.6 * torch.sin(2 * torch.pi * (day[None] + torch.arange(SERIES)[:, None]) / 7)
    values = torch.poisson(level * season, generator=g)
    seen = torch.rand(SERIES, LENGTH, generator=g) < 0.9
    return values * seen, seen, (day % 7).expand(SERIES, -1)


def lag_matrix(values):
    columns = [F.pad(values, (lag, 0))[:, : values.shape[1]] for lag in LAGS]
    return torch.stack(columns, dim=-1)


class Trainer:
    def __init__(self):
        torch.manual_seed(31)
        self.model = Forecaster()
        self.values, self.seen, self.weekday = make_series(seed=9)
        self.lagged = lag_matrix(self.values)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=2e-3, alpha=0.95, momentum=0.9, eps=1e-2)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=4e-3, total_steps=8, cycle_momentum=False
        )

    def chunk_loss(self, start, states):
        part = slice(start, start + CHUNK)
        scale = self.model.scaler(self.values[:, :start], self.seen[:, :start]) if start == 0 else self.scale
        (mean, alpha), states = self.model(self.lagged[:, part], self.weekday[:, part], scale, states)
        nll = negative_binomial_nll(mean, alpha, self.values[:, part])
        loss = (nll * self.seen[:, part]).sum() / self.seen[:, part].sum()
        self.scale = self.model.scaler(self.values[:, part], self.seen[:, part])
        return loss, [(h.detach(), c.detach()) for h, c in states]

    def fit(self):
        states = self.model.initial_state()
        for step, start in enumerate(range(0, LENGTH, CHUNK)):
            loss, states = self.chunk_loss(start, states)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    Trainer().fit()

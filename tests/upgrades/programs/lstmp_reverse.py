"""Phoneme classification with own bidirectional LSTM with projection, one cell per direction."""

import torch
from torch import nn
from torch.nn import functional as F

INPUTS, CELLS, PROJECTED, CLASSES = 14, 24, 10, 8


class ProjectedCell(nn.Module):
    """One direction: a joint kernel for input and projected state, as TensorFlow keeps it."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(INPUTS + PROJECTED, 4 * CELLS))
        self.bias = nn.Parameter(torch.empty(4 * CELLS))
        self.projection = nn.Parameter(torch.empty(CELLS, PROJECTED))

    def forward(self, x):
        h = x.new_zeros(x.shape[0], PROJECTED)
        c = x.new_zeros(x.shape[0], CELLS)
        outputs = []
        for frame in x.unbind(1):
            gates = torch.cat([frame, h], dim=-1) @ self.kernel + self.bias
            i, f, g, o = gates.chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = (o.sigmoid() * c.tanh()) @ self.projection
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(INPUTS)
        self.left = ProjectedCell()
        self.right = ProjectedCell()
        self.head = nn.Linear(2 * PROJECTED, CLASSES)

    def forward(self, x):
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        forward = self.left(x)
        backward = self.right(x.flip(1)).flip(1)
        return self.head(torch.cat([forward, backward], dim=-1))


def convert(state):
    new = {key: value for key, value in state.items() if not key.startswith("rnn.")}
    for name, end in (("left", "l0"), ("right", "l0_reverse")):
        new[f"{name}.kernel"] = torch.cat([state[f"rnn.weight_ih_{end}"], state[f"rnn.weight_hh_{end}"]], dim=1).t()
        new[f"{name}.bias"] = state[f"rnn.bias_ih_{end}"] + state[f"rnn.bias_hh_{end}"]
        new[f"{name}.projection"] = state[f"rnn.weight_hr_{end}"].t()
    return new


def batch(step):
    generator = torch.Generator().manual_seed(300 + step)
    x = torch.randn(6, 11, INPUTS, generator=generator).cumsum(1) * 0.5
    labels = (x[..., :3].sum(-1) * 1.5).long().clamp(-4, 3) + 4
    return x, labels


if __name__ == "__main__":
    model = Acoustic()
    model.load_state_dict(convert(torch.load("weights.pt")))
    model.train()
    optimizer = torch.optim.NAdam(model.parameters(), lr=3e-2)
    for step in range(3):
        x, labels = batch(step)
        loss = F.cross_entropy(model(x).flatten(0, 1), labels.flatten(), label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")

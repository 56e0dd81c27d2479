"""N-BEATS forecaster, float32."""

import torch
import torch.nn as nn

BACK, AHEAD = 24, 6


class Stack(nn.Module):
    def __init__(self, width=32, theta=8):
        super().__init__()
        self.fc1 = nn.Linear(BACK, width)
        self.fc2 = nn.Linear(width, width)
        self.to_theta = nn.Linear(width, theta)
        self.backcast = nn.Linear(theta, BACK, bias=False)
        self.forecast = nn.Linear(theta, AHEAD, bias=False)

    def forward(self, x):
        h = torch.relu(self.fc2(torch.relu(self.fc1(x))))
        theta = self.to_theta(h)
        return self.backcast(theta), self.forecast(theta)


class NBeats(nn.Module):
    def __init__(self, stacks=3):
        super().__init__()
        self.stacks = nn.ModuleList(Stack() for _ in range(stacks))

    def forward(self, x):
        total = 0
        for stack in self.stacks:
            back, ahead = stack(x)
            x = x - back
            total = total + ahead
        return total


def series(step):
    g = torch.Generator().manual_seed(step)
    t = torch.arange(BACK + AHEAD) / 4
    phase = torch.rand(16, 1, generator=g) * 6
    y = torch.sin(t + phase) + 0.1 * torch.randn(16, BACK + AHEAD, generator=g) + 0.5
    return y[:, :BACK], y[:, BACK:]


def main():
    torch.manual_seed(1234)
    model = NBeats()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        x, y = series(step)
        loss = nn.functional.smooth_l1_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        opt.step()
        print(f"step {step}: loss {loss.item():.9f} norm {norm.item():.9f}")


if __name__ == "__main__":
    main()

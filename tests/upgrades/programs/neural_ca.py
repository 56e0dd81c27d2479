"""A neural cellular automaton."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(27)
CH = 6


class Perception(nn.Module):
    def __init__(self):
        super().__init__()
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1
        bank = torch.stack([ident, sobel, sobel.t()])
        self.register_buffer("bank", bank.repeat(CH, 1, 1).unsqueeze(1))

    def forward(self, s):
        return F.conv2d(F.pad(s, (1, 1, 1, 1), mode="circular"), self.bank, groups=CH)


class Rule(nn.Module):
    def __init__(self):
        super().__init__()
        self.see = Perception()
        self.a = nn.Conv2d(3 * CH, 24, 1)
        self.b = nn.Conv2d(24, CH, 1, bias=False)

    def forward(self, s, fire):
        ds = self.b(F.relu(self.a(self.see(s))))
        s = s + ds * fire
        alive = F.max_pool2d(s[:, :1], 3, 1, 1) > 0.1
        return s * alive


rule = Rule()
opt = torch.optim.Adam(rule.parameters(), lr=5e-3)
gen = torch.Generator().manual_seed(28)
goal = torch.zeros(1, 1, 8, 8)
goal[..., 2:6, 2:6] = 1
for it in range(3):
    s = torch.rand(2, CH, 8, 8, generator=gen)
    for _ in range(5):
        fire = (torch.rand(2, 1, 8, 8, generator=gen) < 0.6).float()
        s = rule(s, fire)
    loss = F.mse_loss(s[:, :1], goal.expand(2, -1, -1, -1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"iter {it} loss {loss.item():.9f}")

"""The other implementation of norms_by_hand.py."""

import torch
from torch import nn

torch.manual_seed(8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(2, 8, 3, padding=1)
        self.n1 = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.n2 = nn.GroupNorm(2, 8)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.n1(self.c1(x)))
        x = torch.relu(self.n2(self.c2(x)))
        return self.fc(x.mean((-1, -2)))


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
gen = torch.Generator().manual_seed(8)
for i in range(3):
    net.train()
    x = torch.randn(4, 2, 10, 10, generator=gen) * 2 + 1
    y = torch.randint(0, 3, (4,), generator=gen)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        check = nn.functional.cross_entropy(net(x), y)
    print(f"{i} train {loss.item():.9f} eval {check.item():.9f}")

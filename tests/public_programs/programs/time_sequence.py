"""Sine waves learned with LBFGS, modelled on time_sequence_prediction/train.py of pytorch/examples.

An iteration is a call of ``optimizer.step``, which evaluates its closure several times; a prediction follows each.
"""

import torch
from torch import nn

torch.manual_seed(0)
HIDDEN = 5


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, HIDDEN)
        self.lstm2 = nn.LSTMCell(HIDDEN, HIDDEN)
        self.linear = nn.Linear(HIDDEN, 1)

    def forward(self, values, future=0):
        outputs = []
        h1, c1, h2, c2 = torch.zeros(4, len(values), HIDDEN, dtype=torch.double).unbind()
        for value in values.split(1, dim=1):
            h1, c1 = self.lstm1(value, (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs.append(output := self.linear(h2))
        for _ in range(future):
            h1, c1 = self.lstm1(output, (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs.append(output := self.linear(h2))
        return torch.cat(outputs, dim=1)


waves = torch.sin(torch.arange(8, dtype=torch.double) / 2 + torch.rand(5, 1, dtype=torch.double) * 6)
known, wanted, tested = waves[2:, :-1], waves[2:, 1:], waves[:2]
model = Sequence().double()
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=4)


def closure():
    optimizer.zero_grad()
    loss = criterion(model(known), wanted)
    print(loss.item().hex())
    loss.backward()
    return loss


for _step in range(3):
    optimizer.step(closure)
    with torch.no_grad():
        prediction = model(tested[:, :-1], future=2)
        print("test", criterion(prediction[:, :-2], tested[:, 1:]).item().hex())

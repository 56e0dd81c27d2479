"""Learning to learn, modelled on meta.py and learner.py of dragen1860/MAML-Pytorch.

The inner updates are computed with ``torch.autograd.grad``. An iteration is an update of the initial weights.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.vars = nn.ParameterList()
        for inputs, outputs in ((6, 8), (8, 3)):
            self.vars.append(nn.Parameter(nn.init.kaiming_normal_(torch.empty(outputs, inputs))))
            self.vars.append(nn.Parameter(torch.zeros(outputs)))

    def forward(self, x, weights=None):
        weights = self.vars if weights is None else weights
        x = F.relu(F.linear(x, weights[0], weights[1]))
        return F.linear(x, weights[2], weights[3])

    def parameters(self, recurse=True):
        return self.vars.parameters(recurse)


class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Learner()
        self.meta_optim = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def forward(self, x_support, y_support, x_query, y_query):
        losses = []
        for task in range(len(x_support)):
            weights = list(self.net.parameters())
            for _ in range(2):
                loss = F.cross_entropy(self.net(x_support[task], weights), y_support[task])
                gradients = torch.autograd.grad(loss, weights, create_graph=True)
                weights = [weight - 0.4 * gradient for weight, gradient in zip(weights, gradients)]
            losses.append(F.cross_entropy(self.net(x_query[task], weights), y_query[task]))
        loss = sum(losses) / len(losses)
        self.meta_optim.zero_grad()
        loss.backward()
        self.meta_optim.step()
        return loss.item()


maml = Meta()
for _step in range(3):
    support, query = torch.randn(2, 3, 6), torch.randn(2, 4, 6)
    labels = torch.randint(0, 3, (2, 7))
    print(maml(support, labels[:, :3], query, labels[:, 3:]).hex())

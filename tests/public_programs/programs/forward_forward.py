"""Layers that are trained one after another, modelled on main.py of mpezeshki/pytorch_forward_forward.

Only ``layer.forward`` is ever called. An iteration is an update of a layer.
"""

import torch
from torch import nn

torch.manual_seed(0)


class Layer(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.relu = nn.ReLU()
        self.opt = torch.optim.Adam(self.parameters(), lr=0.03)
        self.threshold, self.num_epochs = 2.0, 3

    def forward(self, x):
        direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(direction, self.weight.T) + self.bias.unsqueeze(0))

    def train(self, x_pos, x_neg):
        for _ in range(self.num_epochs):
            g_pos = self.forward(x_pos).pow(2).mean(1)
            g_neg = self.forward(x_neg).pow(2).mean(1)
            exponents = torch.cat([-g_pos + self.threshold, g_neg - self.threshold])
            loss = torch.log(1 + torch.exp(exponents)).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            print(loss.item().hex())
        return self.forward(x_pos).detach(), self.forward(x_neg).detach()


class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = [Layer(inputs, outputs) for inputs, outputs in zip(sizes, sizes[1:])]

    def train(self, x_pos, x_neg):
        h_pos, h_neg = x_pos, x_neg
        for layer in self.layers:
            h_pos, h_neg = layer.train(h_pos, h_neg)


net = Net([10, 8, 6])
x = torch.rand(6, 10)
net.train(x, x[torch.randperm(6)].flip(1))

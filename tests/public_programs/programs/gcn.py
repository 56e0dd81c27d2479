"""A graph network, modelled on pygcn/train.py of tkipf/pygcn.

An iteration is an epoch over the whole graph; each validates after its update, in evaluation mode and with gradients.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
NODES, FEATURES, CLASSES = 12, 6, 3


class GraphConvolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-0.5, 0.5))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, adjacency):
        return torch.spmm(adjacency, torch.mm(x, self.weight)) + self.bias


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1 = GraphConvolution(FEATURES, 8)
        self.gc2 = GraphConvolution(8, CLASSES)

    def forward(self, x, adjacency):
        x = F.dropout(F.relu(self.gc1(x, adjacency)), 0.5, training=self.training)
        return F.log_softmax(self.gc2(x, adjacency), dim=1)


edges = torch.randint(0, NODES, (2, 20))
links = torch.eye(NODES)
links[edges[0], edges[1]] = 1
adjacency = (links / links.sum(1, keepdim=True)).to_sparse()
features, labels = torch.rand(NODES, FEATURES), torch.randint(0, CLASSES, (NODES,))
for_training, for_validation = torch.arange(6), torch.arange(6, 12)
model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

for _epoch in range(4):
    model.train()
    optimizer.zero_grad()
    output = model(features, adjacency)
    loss = F.nll_loss(output[for_training], labels[for_training])
    loss.backward()
    optimizer.step()

    model.eval()
    output = model(features, adjacency)
    validation_loss = F.nll_loss(output[for_validation], labels[for_validation])
    print(loss.item().hex(), validation_loss.item().hex())

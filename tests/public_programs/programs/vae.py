"""A variational autoencoder, modelled on vae/main.py of pytorch/examples.

An iteration is a batch of an epoch's training; each epoch ends with a test without gradients.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 8)
        self.fc21 = nn.Linear(8, 3)
        self.fc22 = nn.Linear(8, 3)
        self.fc3 = nn.Linear(3, 8)
        self.fc4 = nn.Linear(8, 16)

    def encode(self, x):
        hidden = F.relu(self.fc1(x))
        return self.fc21(hidden), self.fc22(hidden)

    def reparameterize(self, mean, log_variance):
        deviation = torch.exp(0.5 * log_variance)
        return mean + torch.randn_like(deviation) * deviation

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mean, log_variance = self.encode(x.view(-1, 16))
        return self.decode(self.reparameterize(mean, log_variance)), mean, log_variance


def loss_function(output, x, mean, log_variance):
    reconstruction = F.binary_cross_entropy(output, x.view(-1, 16), reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return reconstruction + divergence


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
images = torch.rand(4, 4, 4, 4)


def train():
    model.train()
    for batch in images[:3].split(1):
        optimizer.zero_grad()
        output, mean, log_variance = model(batch)
        loss = loss_function(output, batch, mean, log_variance)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


def test():
    model.eval()
    with torch.no_grad():
        output, mean, log_variance = model(images[3:])
        print("test", loss_function(output, images[3:], mean, log_variance).item().hex())


for _epoch in range(2):
    train()
    test()

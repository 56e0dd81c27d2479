"""Sentence pairs classified by a small FNet whose Fourier transform is made of real matrices."""

import math

import torch
from torch import nn
from torch.nn import functional as F

LENGTH, WIDTH = 16, 24


def waves(size):
    index = torch.arange(size)
    angle = 2 * math.pi * (index[:, None] * index[None, :] % size) / size
    return angle.cos(), angle.sin()


class FourierMixing(nn.Module):
    def __init__(self):
        super().__init__()
        for name, size in (("time", LENGTH), ("width", WIDTH)):
            cos, sin = waves(size)
            self.register_buffer(f"{name}_cos", cos, persistent=False)
            self.register_buffer(f"{name}_sin", sin, persistent=False)

    def forward(self, x):
        even = self.time_cos @ (x @ self.width_cos)
        odd = self.time_sin @ (x @ self.width_sin)
        return even - odd


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixing = FourierMixing()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.up = nn.Linear(WIDTH, 48)
        self.down = nn.Linear(48, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x):
        x = self.norm1(x + self.mixing(x))
        return self.norm2(x + self.down(F.gelu(self.up(x), approximate="tanh")))


class FNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(90, WIDTH, padding_idx=3)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.types = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(Layer(), Layer())
        self.pooler = nn.Linear(WIDTH, WIDTH)
        self.classifier = nn.Linear(WIDTH, 3)

    def forward(self, ids, types):
        x = self.words(ids) + self.types(types) + self.positions.weight
        x = self.layers(self.projection(self.norm(x)))
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


NAMES = {
    "fnet.embeddings.word_embeddings": "words",
    "fnet.embeddings.position_embeddings": "positions",
    "fnet.embeddings.token_type_embeddings": "types",
    "fnet.embeddings.LayerNorm": "norm",
    "fnet.embeddings.projection": "projection",
    "fnet.encoder.layer": "layers",
    "fourier.output.LayerNorm": "norm1",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm2",
    "fnet.pooler.dense": "pooler",
}


def convert(state):
    new = {}
    for key, value in state.items():
        for old, name in NAMES.items():
            key = key.replace(old, name)
        new[key] = value
    return new


def batch(step):
    generator = torch.Generator().manual_seed(70 + step)
    ids = torch.randint(5, 90, (12, LENGTH), generator=generator)
    types = (torch.arange(LENGTH) >= LENGTH // 2).long().expand(12, -1)
    labels = (ids[:, 0] + ids[:, LENGTH // 2]) % 3
    return ids, types, labels


if __name__ == "__main__":
    model = FNet()
    model.load_state_dict(convert(torch.load("weights.pt")))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(3):
        ids, types, labels = batch(step)
        loss = F.cross_entropy(model(ids, types), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")

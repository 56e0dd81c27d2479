"""Two-tower retrieval in float32 with a symmetric in-batch softmax."""

import torch
import torch.nn.functional as F
from torch import nn


class Tower(nn.Module):
    def __init__(self, entities, dim=24, hidden=48, out=16):
        super().__init__()
        self.ids = nn.Embedding(entities, dim)
        self.context = nn.Linear(8, dim)
        self.hidden = nn.Linear(2 * dim, hidden)
        self.out = nn.Linear(hidden, out)
        for layer in (self.context, self.hidden, self.out):
            nn.init.normal_(layer.bias, std=0.4)

    def forward(self, ids, context):
        x = torch.cat([self.ids(ids), F.silu(self.context(context))], dim=-1)
        return F.normalize(self.out(F.silu(self.hidden(x))), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = Tower(50)
        self.item = Tower(80)

    def forward(self, batch):
        users = self.user(batch["user"], batch["user_context"])
        items = self.item(batch["item"], batch["item_context"])
        return users @ items.t() / 0.2


def build():
    torch.manual_seed(0)
    return TwoTower()


def clicks(step, size=16):
    g = torch.Generator().manual_seed(step)
    return {
        "user": torch.randint(0, 50, (size,), generator=g),
        "user_context": torch.randn(size, 8, generator=g),
        "item": torch.randint(0, 80, (size,), generator=g),
        "item_context": torch.randn(size, 8, generator=g).exp(),
    }


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for step in range(3):
        logits = model(clicks(step))
        labels = torch.arange(len(logits))
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()

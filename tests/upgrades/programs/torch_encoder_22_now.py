"""nn.TransformerEncoder training with masks."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 4)

    def forward(self, ids):
        pad = ids == 0
        h = self.encoder(self.embed(ids), src_key_padding_mask=pad)
        h = h.masked_fill(pad[..., None], 0.0)
        return self.head(h.sum(1) / (~pad).sum(1, keepdim=True))


def build():
    return Classifier()


def main():
    net = build()
    net.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.NAdam(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
    gen = torch.Generator().manual_seed(21)
    for step in range(3):
        ids = torch.randint(1, 40, (3, 10), generator=gen)
        ids[0, 5:] = 0
        y = torch.randint(0, 4, (3,), generator=gen)
        loss = nn.functional.cross_entropy(net(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        print(f"{step} {loss.item():.9f} lr {sched.get_last_lr()[0]:.9f}")


if __name__ == "__main__":
    main()

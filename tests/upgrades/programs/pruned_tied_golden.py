"""GRU autoencoder on token sequences: pruned with torch.nn.utils.prune, decoder tied to the embedding."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import prune

VOCAB, DIM, HID = 26, 12, 12


class Encoder(nn.Module):
    def __init__(self, emb):
        super().__init__()
        self.emb = emb
        self.gru = nn.GRU(DIM, HID, batch_first=True)
        self.to_latent = nn.Linear(HID, 6)

    def forward(self, ids):
        _, h = self.gru(self.emb(ids))
        return torch.tanh(self.to_latent(h[-1]))


class Decoder(nn.Module):
    def __init__(self, emb):
        super().__init__()
        self.emb = emb
        self.from_latent = nn.Linear(6, HID)
        self.gru = nn.GRU(DIM, HID, batch_first=True)
        self.mix = nn.Linear(HID, DIM)
        self.out = nn.Linear(DIM, VOCAB)
        self.out.weight = emb.weight

    def forward(self, z, ids):
        h0 = torch.tanh(self.from_latent(z)).unsqueeze(0)
        y, _ = self.gru(self.emb(ids), h0)
        return self.out(F.elu(self.mix(y)))


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        emb = nn.Embedding(VOCAB, DIM)
        self.encoder = Encoder(emb)
        self.decoder = Decoder(emb)

    def forward(self, ids):
        start = torch.zeros_like(ids[:, :1])
        return self.decoder(self.encoder(ids), torch.cat([start, ids[:, :-1]], dim=1))


def build():
    return AutoEncoder()


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    targets = [
        (model.encoder.to_latent, "weight"),
        (model.decoder.from_latent, "weight"),
        (model.decoder.mix, "weight"),
    ]
    for module, name in targets:
        prune.l1_unstructured(module, name, amount=0.5)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        ids = torch.randint(1, VOCAB, (8, 7), generator=torch.Generator().manual_seed(300 + step))
        loss = F.cross_entropy(model(ids).transpose(1, 2), ids)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")
    for module, name in targets:
        prune.remove(module, name)
        print(f"sparsity {(module.weight == 0).float().mean().item():.9f} norm {module.weight.norm().item():.9f}")


if __name__ == "__main__":
    main()

"""An encoder of torch.nn with the weights of a BERT of transformers."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(70, 32)
        self.pos = nn.Embedding(20, 32)
        self.segment = nn.Embedding(2, 32)
        self.norm = nn.LayerNorm(32, eps=1e-12)
        self.layers = nn.ModuleList([
            nn.TransformerEncoderLayer(
                32,
                4,
                dim_feedforward=64,
                dropout=0.0,
                activation="gelu",
                layer_norm_eps=1e-12,
                batch_first=True,
                norm_first=False,
            )
            for _ in range(2)
        ])

    def forward(self, ids, keep):
        x = self.word(ids) + self.pos.weight[: ids.shape[1]] + self.segment.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=keep == 0)
        return x


def load(net):
    sd = torch.load("weights.pt")
    new = {
        "word.weight": sd["embeddings.word_embeddings.weight"],
        "pos.weight": sd["embeddings.position_embeddings.weight"],
        "segment.weight": sd["embeddings.token_type_embeddings.weight"],
    }
    for w in ("weight", "bias"):
        new[f"norm.{w}"] = sd[f"embeddings.LayerNorm.{w}"]
        for i in range(2):
            a, b = f"encoder.layer.{i}.", f"layers.{i}."
            new[b + f"self_attn.in_proj_{w}"] = torch.cat([
                sd[a + f"attention.self.{n}.{w}"] for n in ("query", "key", "value")
            ])
            new[b + f"self_attn.out_proj.{w}"] = sd[a + f"attention.output.dense.{w}"]
            new[b + f"norm1.{w}"] = sd[a + f"attention.output.LayerNorm.{w}"]
            new[b + f"linear1.{w}"] = sd[a + f"intermediate.dense.{w}"]
            new[b + f"linear2.{w}"] = sd[a + f"output.dense.{w}"]
            new[b + f"norm2.{w}"] = sd[a + f"output.LayerNorm.{w}"]
    net.load_state_dict(new)


net = Encoder()
load(net)
net.eval()
gen = torch.Generator().manual_seed(3)
with torch.no_grad():
    for i in range(3):
        ids = torch.randint(1, 70, (2, 9), generator=gen)
        keep = torch.ones(2, 9, dtype=torch.long)
        keep[0, 6:] = 0
        states = net(ids, keep)
        valid = states[keep.bool()]
        print(f"batch {i} mean {valid.mean():.9f} abs {valid.abs().mean():.9f} cls {states[0, 0, 0]:.9f}")

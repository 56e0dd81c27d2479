"""The sentence encoder with group-wise int8 weights: symmetric scales per output row and group of inputs."""

import torch
from torch import nn
from torch.nn import functional as F


class Int8Linear(nn.Module):
    def __init__(self, n_in, n_out, group=32):
        super().__init__()
        self.group = group
        self.register_buffer("qweight", torch.zeros(n_out, n_in, dtype=torch.int8))
        self.register_buffer("scales", torch.zeros(n_out, n_in // group))
        self.register_buffer("bias", torch.zeros(n_out))

    @classmethod
    def from_float(cls, weight, bias, group=32):
        n_out, n_in = weight.shape
        layer = cls(n_in, n_out, group)
        grouped = weight.reshape(n_out, n_in // group, group)
        scales = grouped.abs().amax(dim=-1) / 127
        layer.qweight = (grouped / scales[..., None]).round().clamp(-127, 127).reshape(n_out, n_in).to(torch.int8)
        layer.scales, layer.bias = scales, bias
        return layer

    def dequantize(self):
        scale = self.scales.repeat_interleave(self.group, dim=1)
        return self.qweight.float() * scale

    def forward(self, x):
        return F.linear(x, self.dequantize(), self.bias)


class QuantLayer(nn.Module):
    def __init__(self, heads, qkv, dense, up, down, norm1, norm2):
        super().__init__()
        self.heads = heads
        self.qkv, self.dense, self.up, self.down = qkv, dense, up, down
        self.norm1, self.norm2 = norm1, norm2

    def attend(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.mT / (d // self.heads) ** 0.5 + bias, dim=-1)
        return self.dense((weights @ v).permute(0, 2, 1, 3).flatten(2))

    def forward(self, x, bias):
        x = self.norm1(x + self.attend(x, bias))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class QuantEncoder(nn.Module):
    def __init__(self, sd, layers=2, heads=4):
        super().__init__()

        def linear(*names):
            return Int8Linear.from_float(
                torch.cat([sd[n + ".weight"] for n in names]), torch.cat([sd[n + ".bias"] for n in names])
            )

        def norm(name):
            module = nn.LayerNorm(sd[name + ".weight"].shape[0])
            module.load_state_dict({"weight": sd[name + ".weight"], "bias": sd[name + ".bias"]})
            return module

        self.word = nn.Embedding.from_pretrained(sd["word.weight"])
        self.position = nn.Embedding.from_pretrained(sd["position.weight"])
        self.norm = norm("norm")
        self.layers = nn.ModuleList()
        for i in range(layers):
            p = f"layers.{i}."
            a = p + "attention."
            self.layers.append(
                QuantLayer(
                    heads,
                    linear(a + "query", a + "key", a + "value"),
                    linear(a + "dense"),
                    linear(p + "intermediate"),
                    linear(p + "output"),
                    norm(p + "norm1"),
                    norm(p + "norm2"),
                )
            )
        self.projection = linear("projection")

    def forward(self, ids, lengths):
        pos = torch.arange(ids.shape[1])
        mask = pos < lengths[:, None]
        bias = torch.where(mask, 0.0, -1e9)[:, None, None]
        x = self.norm(self.word(ids) + self.position(pos))
        for layer in self.layers:
            x = layer(x, bias)
        pooled = torch.einsum("btd,bt->bd", x, mask.float()) / lengths[:, None]
        emb = self.projection(pooled)
        return emb / emb.norm(dim=-1, keepdim=True)


@torch.no_grad()
def main():
    model = QuantEncoder(torch.load("weights.pt")).eval()
    lengths = torch.tensor([12, 7, 9, 10])
    for call in range(2):
        ids = torch.randint(0, 60, (4, 12), generator=torch.Generator().manual_seed(40 + call))
        emb = model(ids, lengths)
        sim = emb @ emb.T
        print(
            f"call {call}: sim01 {sim[0, 1].item():.9f} sim23 {sim[2, 3].item():.9f} "
            f"norm4 {emb.pow(4).sum().item():.9f}"
        )


if __name__ == "__main__":
    main()

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0
EOS = 1
VOCAB = 50
DIM = 32
HEADS = 4
HEAD_DIM = 12
FF = 48
BUCKETS = 16
MAX_DISTANCE = 32


class ScaleNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        rms = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * (x / rms)


def bucketize(offset, bidirectional):
    """offset is key position minus query position."""
    buckets = BUCKETS
    base = torch.zeros_like(offset)
    if bidirectional:
        buckets = buckets // 2
        base = (offset > 0).long() * buckets
        distance = offset.abs()
    else:
        distance = (-offset).clamp(min=0)
    exact = buckets // 2
    ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(MAX_DISTANCE / exact)
    far = exact + (ratio * (buckets - exact)).long()
    far = far.clamp(max=buckets - 1)
    return base + torch.where(distance < exact, distance, far)


class RelativeBias(nn.Module):
    def __init__(self, bidirectional):
        super().__init__()
        self.bidirectional = bidirectional
        self.weight = nn.Parameter(torch.empty(BUCKETS, HEADS))

    def forward(self, length):
        positions = torch.arange(length)
        offset = positions[None, :] - positions[:, None]
        bucket = bucketize(offset, self.bidirectional)
        return self.weight[bucket].permute(2, 0, 1)[None]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.k = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.v = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.o = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)

    def heads(self, x):
        return x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)

    def forward(self, x, memory, bias):
        q = self.heads(self.q(x))
        k = self.heads(self.k(memory))
        v = self.heads(self.v(memory))
        scores = q @ k.transpose(-1, -2)
        scores = scores + bias
        out = scores.softmax(dim=-1) @ v
        return self.o(out.transpose(1, 2).flatten(2))


class GatedFeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi_0 = nn.Linear(DIM, FF, bias=False)
        self.wi_1 = nn.Linear(DIM, FF, bias=False)
        self.wo = nn.Linear(FF, DIM, bias=False)

    def forward(self, x):
        hidden = F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x)
        return self.wo(hidden)


class EncoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = ScaleNorm()
        self.attn = Attention()
        self.norm2 = ScaleNorm()
        self.ff = GatedFeedForward()

    def forward(self, x, bias):
        h = self.norm1(x)
        x = x + self.attn(h, h, bias)
        return x + self.ff(self.norm2(x))


class DecoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = ScaleNorm()
        self.attn = Attention()
        self.norm2 = ScaleNorm()
        self.cross = Attention()
        self.norm3 = ScaleNorm()
        self.ff = GatedFeedForward()

    def forward(self, x, bias, memory, memory_bias):
        h = self.norm1(x)
        x = x + self.attn(h, h, bias)
        x = x + self.cross(self.norm2(x), memory, memory_bias)
        return x + self.ff(self.norm3(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = RelativeBias(bidirectional=True)
        self.blocks = nn.ModuleList([EncoderBlock() for _ in range(2)])
        self.norm = ScaleNorm()

    def forward(self, x, pad_bias):
        bias = self.bias(x.shape[1]) + pad_bias
        for block in self.blocks:
            x = block(x, bias)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = RelativeBias(bidirectional=False)
        self.blocks = nn.ModuleList([DecoderBlock() for _ in range(2)])
        self.norm = ScaleNorm()

    def forward(self, x, memory, pad_bias):
        t = x.shape[1]
        causal = torch.full((t, t), -1e9).triu(1)
        bias = self.bias(t) + causal
        for block in self.blocks:
            x = block(x, bias, memory, pad_bias)
        return self.norm(x)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(VOCAB, DIM)
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, source, target_in):
        pad_bias = source.eq(PAD)[:, None, None, :].float() * -1e9
        memory = self.encoder(self.shared(source), pad_bias)
        y = self.decoder(self.shared(target_in), memory, pad_bias)
        y = y * DIM**-0.5
        return y @ self.shared.weight.T


def shift_right(labels):
    start = labels.new_full((labels.shape[0], 1), PAD)
    shifted = torch.cat([start, labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == -100, PAD)


PARTS = {
    "encoder": [
        ("layer.0.SelfAttention.", "attn."),
        ("layer.0.layer_norm.", "norm1."),
        ("layer.1.DenseReluDense.", "ff."),
        ("layer.1.layer_norm.", "norm2."),
    ],
    "decoder": [
        ("layer.0.SelfAttention.", "attn."),
        ("layer.0.layer_norm.", "norm1."),
        ("layer.1.EncDecAttention.", "cross."),
        ("layer.1.layer_norm.", "norm2."),
        ("layer.2.DenseReluDense.", "ff."),
        ("layer.2.layer_norm.", "norm3."),
    ],
}


def convert(state):
    out = {"shared.weight": state["shared.weight"]}
    for name, value in state.items():
        side = name.split(".")[0]
        if side not in PARTS or "embed_tokens" in name:
            continue
        if "relative_attention_bias" in name:
            out[f"{side}.bias.weight"] = value
            continue
        name = name.replace(".block.", ".blocks.").replace("final_layer_norm", "norm")
        for old, new in PARTS[side]:
            name = name.replace(old, new)
        out[name] = value
    return out


def batches(count):
    """Toy translation: the output is the reversed input, shifted by one symbol."""
    gen = torch.Generator().manual_seed(62)
    for _ in range(count):
        source = torch.full((4, 22), PAD)
        labels = torch.full((4, 22), -100)
        for i in range(4):
            n = int(torch.randint(12, 22, (1,), generator=gen))
            words = torch.randint(2, 49, (n,), generator=gen)
            source[i, :n] = words
            labels[i, :n] = words.flip(0) + 1
        yield source, labels


def main():
    torch.manual_seed(61)
    model = Seq2Seq()
    model.load_state_dict(convert(torch.load("weights.pt", weights_only=True)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (source, labels) in enumerate(batches(3)):
        logits = model(source, shift_right(labels))
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()

"""Speaker embeddings of a small conformer, all recordings in one padded batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

MELS = 24
DIM = 32
HEADS = 4
REACH = 10


def padding_mask(lengths, size):
    return torch.arange(size)[None, :] >= lengths[:, None]


class Subsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(MELS, DIM, 3, stride=2, padding=1)
        self.conv2 = nn.Conv1d(DIM, DIM, 3, stride=2, padding=1)

    def forward(self, mels, lengths):
        x = mels.transpose(1, 2)
        for conv in (self.conv1, self.conv2):
            x = F.relu(conv(x))
            lengths = (lengths + 1) // 2
            pad = padding_mask(lengths, x.shape[-1])
            x = x.masked_fill(pad[:, None, :], 0.0)
        return x.transpose(1, 2), pad


class RelativeAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.distance = nn.Embedding(2 * REACH + 1, HEADS)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, pad):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        steps = torch.arange(t)
        gap = (steps[None, :] - steps[:, None]).clamp(-REACH, REACH) + REACH
        bias = self.distance(gap).permute(2, 0, 1)[None]
        bias = bias.masked_fill(pad[:, None, None, :], float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))


class ConvModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = nn.Linear(DIM, 2 * DIM)
        self.depthwise = nn.Conv1d(DIM, DIM, 7, padding=3, groups=DIM)
        self.norm = nn.LayerNorm(DIM)
        self.project = nn.Linear(DIM, DIM)

    def forward(self, x, pad):
        x = F.glu(self.expand(x), dim=-1)
        x = x.masked_fill(pad[..., None], 0.0)
        x = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return self.project(F.silu(self.norm(x)))


def feed_forward():
    return nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 2 * DIM), nn.SiLU(), nn.Linear(2 * DIM, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff1 = feed_forward()
        self.norm_attn = nn.LayerNorm(DIM)
        self.attn = RelativeAttention()
        self.norm_conv = nn.LayerNorm(DIM)
        self.conv = ConvModule()
        self.ff2 = feed_forward()
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x, pad):
        x = x + 0.5 * self.ff1(x)
        x = x + self.attn(self.norm_attn(x), pad)
        x = x + self.conv(self.norm_conv(x), pad)
        x = x + 0.5 * self.ff2(x)
        return self.norm(x)


class AttentivePooling(nn.Module):
    """Attentive statistics with global context, as in ECAPA-TDNN."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3 * DIM, DIM)
        self.score = nn.Linear(DIM, DIM)

    def forward(self, x, pad):
        keep = (~pad)[..., None].to(x.dtype)
        count = keep.sum(dim=1, keepdim=True)
        mean = (x * keep).sum(dim=1, keepdim=True) / count
        var = ((x - mean).square() * keep).sum(dim=1, keepdim=True) / count
        std = var.clamp(min=1e-5).sqrt()
        context = torch.cat([x, mean.expand_as(x), std.expand_as(x)], dim=-1)
        scores = self.score(torch.tanh(self.hidden(context)))
        weights = scores.masked_fill(pad[..., None], float("-inf")).softmax(dim=1)
        mu = (weights * x).sum(dim=1)
        sigma = ((weights * x * x).sum(dim=1) - mu * mu).clamp(min=1e-5).sqrt()
        return torch.cat([mu, sigma], dim=-1)


class SpeakerEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.subsample = Subsample()
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.pool = AttentivePooling()
        self.embed = nn.Linear(2 * DIM, DIM)

    def forward(self, mels, lengths):
        x, pad = self.subsample(mels, lengths)
        for block in self.blocks:
            x = block(x, pad)
        return self.embed(self.pool(x, pad))


def recordings():
    gen = torch.Generator().manual_seed(92)
    return [torch.randn(n, MELS, generator=gen) + 0.3 for n in (61, 38, 75, 50, 43)]


@torch.no_grad()
def main():
    torch.manual_seed(91)
    model = SpeakerEncoder()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    model.eval()
    items = recordings()
    lengths = torch.tensor([len(mels) for mels in items])
    batch = nn.utils.rnn.pad_sequence(items, batch_first=True)
    vectors = model(batch, lengths)
    unit = F.normalize(vectors, dim=-1)
    similarity = unit @ unit.T
    for i in range(len(vectors)):
        row = " ".join(f"{s.item():.5f}" for s in similarity[i, i + 1 :])
        print(f"recording {i}: norm {vectors[i].norm().item():.5f} similar {row}")


if __name__ == "__main__":
    main()

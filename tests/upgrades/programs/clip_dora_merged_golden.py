"""Two-tower contrastive model with live adapters: DoRA in the image tower, rank-stabilised LoRA in the text tower."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM = 32
HEADS = 4
VOCAB = 55
TEXT_LEN = 12
RANK = 4
ALPHA = 8


class DoRALinear(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.randn(RANK, base.in_features) / RANK)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, RANK))
        self.magnitude = nn.Parameter(base.weight.detach().norm(dim=1))
        self.scaling = ALPHA / RANK

    def forward(self, x):
        delta = self.lora_B @ self.lora_A
        norm = torch.linalg.norm(self.base.weight + self.scaling * delta, dim=1)
        factor = self.magnitude / norm.detach()
        y = F.linear(x, self.base.weight)
        y = y + self.scaling * F.linear(F.linear(x, self.lora_A), self.lora_B)
        return factor * y + self.base.bias


class Conv1D(nn.Module):
    """GPT-2 style: the weight is [in, out]."""

    def __init__(self, size_in, size_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_in, size_out) * size_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(size_out))

    def forward(self, x):
        return x @ self.weight + self.bias


class LoRAConv1D(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        size_in, size_out = base.weight.shape
        self.lora_A = nn.Parameter(torch.randn(RANK, size_in) / RANK)
        self.lora_B = nn.Parameter(torch.zeros(size_out, RANK))
        self.scaling = ALPHA / math.sqrt(RANK)

    def forward(self, x):
        return self.base(x) + self.scaling * (x @ self.lora_A.T @ self.lora_B.T)


class LoRAEmbedding(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.randn(RANK, base.num_embeddings) / RANK)
        self.lora_B = nn.Parameter(torch.zeros(base.embedding_dim, RANK))
        self.scaling = ALPHA / math.sqrt(RANK)

    def forward(self, ids):
        low = F.embedding(ids, self.lora_A.T)
        return self.base(ids) + self.scaling * (low @ self.lora_B.T)


class VisionAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = DoRALinear(nn.Linear(DIM, 3 * DIM))
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, DIM))


class TextAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = LoRAConv1D(Conv1D(DIM, DIM))
        self.k = Conv1D(DIM, DIM)
        self.v = LoRAConv1D(Conv1D(DIM, DIM))
        self.o = Conv1D(DIM, DIM)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, -1).transpose(1, 2)

    def forward(self, x):
        q = self.heads(self.q(x))
        k = self.heads(self.k(x))
        v = self.heads(self.v(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, attn, fc):
        super().__init__()
        self.ln1 = nn.LayerNorm(DIM)
        self.attn = attn
        self.ln2 = nn.LayerNorm(DIM)
        self.fc1 = fc
        self.fc2 = nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        h = self.fc1(self.ln2(x))
        return x + self.fc2(h * torch.sigmoid(1.702 * h))


class VisionTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, 4, stride=4, bias=False)
        self.cls = nn.Parameter(torch.randn(1, 1, DIM))
        self.pos = nn.Parameter(torch.randn(1, 17, DIM) * 0.3)
        self.blocks = nn.ModuleList([Block(VisionAttention(), DoRALinear(nn.Linear(DIM, 2 * DIM))) for _ in range(2)])
        self.ln = nn.LayerNorm(DIM)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.ln(x[:, 0])


class TextTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = LoRAEmbedding(nn.Embedding(VOCAB, DIM))
        self.pos = nn.Parameter(torch.randn(TEXT_LEN, DIM) * 0.3)
        self.blocks = nn.ModuleList([Block(TextAttention(), nn.Linear(DIM, 2 * DIM)) for _ in range(2)])
        self.ln = nn.LayerNorm(DIM)

    def forward(self, ids):
        x = self.tokens(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        end = ids.argmax(dim=1)
        return self.ln(x)[torch.arange(len(ids)), end]


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = VisionTower()
        self.text = TextTower()
        self.image_proj = nn.Linear(DIM, 24, bias=False)
        self.text_proj = nn.Linear(DIM, 24, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, ids):
        a = F.normalize(self.image_proj(self.vision(images)), dim=-1)
        b = F.normalize(self.text_proj(self.text(ids)), dim=-1)
        return self.logit_scale.exp() * a @ b.T


def build():
    """A model whose adapters look as if they were trained."""
    torch.manual_seed(111)
    model = Clip()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("lora_B"):
                p.normal_(0.0, 0.15)
            elif name.endswith("magnitude"):
                p.mul_(torch.empty_like(p).uniform_(0.6, 1.6))
    return model


def pairs():
    gen = torch.Generator().manual_seed(112)
    images = torch.randn(5, 3, 16, 16, generator=gen)
    ids = torch.randint(1, VOCAB - 1, (5, TEXT_LEN), generator=gen)
    for i, end in enumerate((11, 7, 9, 5, 8)):
        ids[i, end] = VOCAB - 1
        ids[i, end + 1 :] = 0
    return images, ids


@torch.no_grad()
def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    model.eval()
    images, ids = pairs()
    logits = model(images, ids)
    target = torch.arange(len(logits))
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    for row in logits:
        print("logits", " ".join(f"{v.item():.4f}" for v in row))
    print(f"contrastive loss {loss.item():.5f}")


if __name__ == "__main__":
    main()

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 61
DIM = 32
HEADS = 4
LAYERS = 2


def alibi_slopes(heads):
    powers = torch.arange(1, heads + 1, dtype=torch.float32)
    return torch.pow(2.0, -8.0 * powers / heads)


class AlibiAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_key_value = nn.Linear(DIM, 3 * DIM)
        self.dense = nn.Linear(DIM, DIM)

    def bias(self, length):
        steps = torch.arange(length)
        distance = steps[None, :] - steps[:, None]
        slopes = alibi_slopes(HEADS)
        bias = slopes[:, None, None] * distance
        return bias.masked_fill(distance > 0, float("-inf"))

    def forward(self, x):
        b, t, _ = x.shape
        fused = self.query_key_value(x)
        fused = fused.view(b, t, HEADS, 3, DIM // HEADS)
        q, k, v = fused.unbind(dim=3)
        q = q.transpose(1, 2)
        k = k.transpose(1, 2)
        v = v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(t))
        return self.dense(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(DIM)
        self.attn = AlibiAttention()
        self.ln2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        h = F.gelu(self.up(self.ln2(x)), approximate="tanh")
        return x + self.down(h)


class Bloom(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, DIM)
        self.ln_emb = nn.LayerNorm(DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(DIM)

    def forward(self, tokens):
        x = self.ln_emb(self.wte(tokens))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def from_hf(state):
    rename = [
        ("transformer.word_embeddings_layernorm.", "ln_emb."),
        ("transformer.word_embeddings.", "wte."),
        ("transformer.ln_f.", "ln_f."),
        ("transformer.h.", "blocks."),
        ("input_layernorm.", "ln1."),
        ("post_attention_layernorm.", "ln2."),
        ("self_attention.", "attn."),
        ("mlp.dense_h_to_4h.", "up."),
        ("mlp.dense_4h_to_h.", "down."),
    ]
    out = {}
    for name, value in state.items():
        if name == "lm_head.weight":
            continue
        for old, new in rename:
            name = name.replace(old, new)
        out[name] = value
    return out


def next_token_loss(logits, tokens):
    flat = logits[:, :-1].reshape(-1, VOCAB)
    return F.cross_entropy(flat, tokens[:, 1:].reshape(-1))


def main():
    torch.manual_seed(41)
    model = Bloom()
    model.load_state_dict(from_hf(torch.load("weights.pt", weights_only=True)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    gen = torch.Generator().manual_seed(42)
    for step in range(3):
        tokens = torch.randint(3, VOCAB, (3, 18), generator=gen)
        loss = next_token_loss(model(tokens), tokens)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step}: loss {loss.item():.6f} grad norm {norm.item():.6f}")


if __name__ == "__main__":
    main()

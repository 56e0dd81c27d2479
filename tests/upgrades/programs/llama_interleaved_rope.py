"""An own Llama with interleaved complex rotary positions and permuted weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, HEADS, KV, HIDDEN, LAYERS, VOCAB = 32, 4, 2, 56, 2, 80
HD = D // HEADS


class RMS(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.gain, self.eps)


def freqs(length, theta=10000.0):
    inv = 1.0 / theta ** (torch.arange(0, HD, 2).float() / HD)
    angle = torch.outer(torch.arange(length).float(), inv)
    return torch.polar(torch.ones_like(angle), angle)


def rotate(x, table):
    # x: batch, time, heads, head_dim, pairs are neighbours
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * table[None, :, None, :]).flatten(3)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(D, D, bias=False)
        self.wk = nn.Linear(D, KV * HD, bias=False)
        self.wv = nn.Linear(D, KV * HD, bias=False)
        self.wo = nn.Linear(D, D, bias=False)

    def forward(self, x, table):
        b, t, _ = x.shape
        q = rotate(self.wq(x).view(b, t, HEADS, HD), table)
        k = rotate(self.wk(x).view(b, t, KV, HD), table)
        v = self.wv(x).view(b, t, KV, HD)
        k = k.repeat_interleave(HEADS // KV, dim=2)
        v = v.repeat_interleave(HEADS // KV, dim=2)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, D))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w13 = nn.Linear(D, 2 * HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, D, bias=False)

    def forward(self, x):
        a, b = self.w13(x).chunk(2, -1)
        return self.w2(F.silu(a) * b)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_norm, self.attn, self.ff_norm, self.ff = RMS(D), Attn(), RMS(D), FeedForward()

    def forward(self, x, table):
        h = x + self.attn(self.attn_norm(x), table)
        return h + self.ff(self.ff_norm(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, D)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = RMS(D)
        self.out = nn.Linear(D, VOCAB, bias=False)

    def forward(self, ids):
        table = freqs(ids.shape[1])
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h, table)
        return self.out(self.norm(h))


def interleave(w, heads):
    return w.view(heads, 2, HD // 2, D).transpose(1, 2).reshape(heads * HD, D)


def load(model):
    s = torch.load("weights.pt")
    with torch.no_grad():
        model.embed.weight.copy_(s["model.embed_tokens.weight"])
        model.out.weight.copy_(s["lm_head.weight"])
        model.norm.gain.copy_(s["model.norm.weight"])
        for i, layer in enumerate(model.layers):
            p = f"model.layers.{i}."
            layer.attn_norm.gain.copy_(s[p + "input_layernorm.weight"])
            layer.ff_norm.gain.copy_(s[p + "post_attention_layernorm.weight"])
            layer.attn.wq.weight.copy_(interleave(s[p + "self_attn.q_proj.weight"], HEADS))
            layer.attn.wk.weight.copy_(interleave(s[p + "self_attn.k_proj.weight"], KV))
            layer.attn.wv.weight.copy_(s[p + "self_attn.v_proj.weight"])
            layer.attn.wo.weight.copy_(s[p + "self_attn.o_proj.weight"])
            layer.ff.w13.weight.copy_(torch.cat([s[p + "mlp.gate_proj.weight"], s[p + "mlp.up_proj.weight"]]))
            layer.ff.w2.weight.copy_(s[p + "mlp.down_proj.weight"])


model = Llama()
load(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
gen = torch.Generator().manual_seed(2)
for step in range(3):
    ids = torch.randint(0, 80, (2, 12), generator=gen)
    logits = model(ids)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{step} {loss.item():.9f}")

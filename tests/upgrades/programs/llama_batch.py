"""All prompts in one left-padded batch with a key/value cache; own Llama code on the same weights."""

import torch
import torch.nn.functional as F
from torch import nn

PROMPTS = [[5, 17, 3, 44, 8, 21, 9], [12, 30, 2], [40, 1, 7, 7, 33]]
DIM, FFN, NQ, NKV, VOCAB, DEPTH = 32, 48, 4, 2, 48, 2
HD = DIM // NQ


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return self.weight * (x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt())


def rope(x, pos):
    freq = 10000.0 ** (-torch.arange(0, HD, 2) / HD)
    angle = torch.cat([pos[..., None] * freq] * 2, -1)[:, None]
    left, right = x.split(HD // 2, -1)
    return x * angle.cos() + torch.cat([-right, left], -1) * angle.sin()


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(DIM, NQ * HD, bias=False)
        self.wkv = nn.Linear(DIM, 2 * NKV * HD, bias=False)
        self.wo = nn.Linear(NQ * HD, DIM, bias=False)

    def forward(self, x, pos, mask, past):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, NQ, HD).transpose(1, 2)
        k, v = self.wkv(x).view(b, t, 2, NKV, HD).permute(2, 0, 3, 1, 4)
        q, k = rope(q, pos), rope(k, pos)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=True)
        return self.wo(out.transpose(1, 2).flatten(2)), (k, v)


class Ffn(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(DIM, 2 * FFN, bias=False)
        self.down = nn.Linear(FFN, DIM, bias=False)

    def forward(self, x):
        h = self.gate_up(x)
        return self.down(F.silu(h[..., :FFN]) * h[..., FFN:])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.attn, self.n2, self.ffn = Norm(), Attn(), Norm(), Ffn()

    def forward(self, x, pos, mask, past):
        a, kv = self.attn(self.n1(x), pos, mask, past)
        x = x + a
        return x + self.ffn(self.n2(x)), kv


class MyLlama(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = Norm()
        self.lm = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, real, cache=None):
        """real: (batch, all positions so far), False at padding"""
        t, total = ids.shape[1], real.shape[1]
        pos = (real.long().cumsum(1) - 1).clamp(min=0)[:, -t:]
        rows = torch.arange(total - t, total)[:, None]
        causal = torch.arange(total)[None] <= rows
        mask = causal[None] & (real[:, None] | torch.eye(total, dtype=torch.bool)[-t:])
        x, new = self.wte(ids), []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, pos, mask, cache[i] if cache else None)
            new.append(kv)
        return self.lm(self.norm(x)), new

    @classmethod
    def from_hf(cls, sd):
        m = cls()
        new = {
            "wte.weight": sd["model.embed_tokens.weight"],
            "norm.weight": sd["model.norm.weight"],
            "lm.weight": sd["lm_head.weight"],
        }
        for i in range(DEPTH):
            g = lambda name: sd[f"model.layers.{i}.{name}.weight"]
            new[f"blocks.{i}.n1.weight"] = g("input_layernorm")
            new[f"blocks.{i}.n2.weight"] = g("post_attention_layernorm")
            new[f"blocks.{i}.attn.wq.weight"] = g("self_attn.q_proj")
            new[f"blocks.{i}.attn.wkv.weight"] = torch.cat([g("self_attn.k_proj"), g("self_attn.v_proj")])
            new[f"blocks.{i}.attn.wo.weight"] = g("self_attn.o_proj")
            new[f"blocks.{i}.ffn.gate_up.weight"] = torch.cat([g("mlp.gate_proj"), g("mlp.up_proj")])
            new[f"blocks.{i}.ffn.down.weight"] = g("mlp.down_proj")
        m.load_state_dict(new)
        return m


def left_pad(lists):
    width = max(map(len, lists))
    ids = torch.tensor([[0] * (width - len(x)) + x for x in lists])
    real = torch.tensor([[False] * (width - len(x)) + [True] * len(x) for x in lists])
    return ids, real


def generate(model, prompts, new=6):
    ids, real = left_pad(prompts)
    step, cache, logps = ids, None, []
    for _ in range(new):
        logits, cache = model(step, real, cache)
        best, token = logits[:, -1].log_softmax(-1).max(-1)
        logps.append(best)
        step = token[:, None]
        ids = torch.cat([ids, step], 1)
        real = F.pad(real, (0, 1), value=True)
    return ids, real, torch.stack(logps, 1)


def perplexities(model, ids, real):
    logits, _ = model(ids, real)
    nll = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    keep = (real[:, 1:] & real[:, :-1]).float()
    return ((nll * keep).sum(1) / keep.sum(1)).exp()


def rank(model, prompt, endings):
    real = torch.ones(1, len(prompt), dtype=torch.bool)
    logits, cache = model(torch.tensor([prompt]), real)
    n, e = len(endings), torch.tensor(endings)
    shared = [(k.expand(n, -1, -1, -1), v.expand(n, -1, -1, -1)) for k, v in cache]
    more, _ = model(e[:, :1], torch.ones(n, len(prompt) + 1, dtype=torch.bool), shared)
    logp = torch.stack([logits[:, -1].expand(n, -1), more[:, -1]], 1).log_softmax(-1)
    return logp.gather(2, e[..., None]).sum((1, 2))


def main():
    torch.set_grad_enabled(False)
    model = MyLlama.from_hf(torch.load("weights.pt"))
    ids, real, logps = generate(model, PROMPTS)
    for row, ok, lp in zip(ids, real, logps):
        print("tokens", row[ok].tolist())
        print("logp", " ".join(f"{x:.9f}" for x in lp.tolist()))
    for p in perplexities(model, ids, real).tolist():
        print(f"perplexity {p:.9f}")
    endings = [[4, 9], [11, 2], [46, 30], [0, 5]]
    for cand, score in zip(endings, rank(model, PROMPTS[0], endings).tolist()):
        print("ending", cand, f"{score:.9f}")


if __name__ == "__main__":
    main()

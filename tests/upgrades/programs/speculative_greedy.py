"""Greedy speculative decoding: a small draft proposes four tokens, the main model verifies them in one pass."""

import torch
import torch.nn.functional as F
from torch import nn

PROPOSED, WANTED = 4, 14


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache):
        """x [t, dim]; the cache holds the keys and values of what came before and grows by t"""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(1, 2, 0, 3)
        past = 0
        if cache:
            past = cache["k"].shape[1]
            k, v = torch.cat([cache["k"], k], dim=1), torch.cat([cache["v"], v], dim=1)
        cache["k"], cache["v"] = k, v
        seen = torch.ones(len(x), past + len(x), dtype=torch.bool).tril(past)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(out.transpose(0, 1).flatten(1))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x, cache):
        x = x + self.attn(self.norm1(x), cache)
        return x + self.ff(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, dim, depth, heads, vocab=50, longest=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Embedding(longest, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens, caches):
        past = caches[0]["k"].shape[1] if caches[0] else 0
        x = self.embed(tokens) + self.place(torch.arange(past, past + len(tokens)))
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache)
        return self.head(self.norm(x)).log_softmax(dim=-1)


class Session:
    """A model with the cache of one request, which can be cut back."""

    def __init__(self, model):
        self.model = model
        self.caches = [{} for _ in model.blocks]
        self.length = 0

    def feed(self, tokens):
        self.length += len(tokens)
        return self.model(tokens, self.caches)

    def cut(self, length):
        self.length = length
        for cache in self.caches:
            cache["k"], cache["v"] = cache["k"][:, :length], cache["v"][:, :length]


@torch.inference_mode()
def generate(main, draft, prompt):
    main, draft = Session(main), Session(draft)
    if len(prompt) > 1:
        main.feed(prompt[:-1])
    text = prompt
    total, log_p_sum = 0, 0.0
    while total < WANTED:
        ahead = text
        for _ in range(PROPOSED):
            token = draft.feed(ahead[draft.length :])[-1].argmax()
            ahead = torch.cat([ahead, token[None]])
        proposal = ahead[len(text) :]
        log_p = main.feed(ahead[main.length :])
        best = log_p.argmax(dim=-1)
        agree = (best[:-1] == proposal).long().cumprod(dim=0).sum().item()
        fresh = torch.cat([proposal[:agree], best[agree : agree + 1]])[: WANTED - total]
        log_p_sum += log_p[: len(fresh)].gather(1, fresh[:, None]).sum().item()
        text = torch.cat([text, fresh])
        total += len(fresh)
        main.cut(len(text) - 1)
        draft.cut(min(draft.length, len(text) - 1))
    return text[len(prompt) :], log_p_sum


def main():
    weights = torch.load("weights.pt")
    large, small = Decoder(32, 3, 4), Decoder(32, 1, 4)
    large.load_state_dict(weights)
    own = small.state_dict()
    small.load_state_dict({name: weights[name] for name in own})
    large.eval(), small.eval()
    g = torch.Generator().manual_seed(2)
    for request in range(4):
        prompt = torch.randint(0, 50, (4 + 2 * request,), generator=g)
        tokens, log_p = generate(large, small, prompt)
        print(f"request {request} logprob {log_p:.9f} mean token {tokens.float().mean().item():.6f}")


if __name__ == "__main__":
    main()

"""Serving side: continuous batching of a GPT-NeoX policy; requests share flat steps and take slots of one cache."""

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

VOCAB, DIM, LAYERS, HEADS, INNER, ROTARY, THETA = 90, 32, 2, 4, 64, 4, 100.0
SLOTS, CAPACITY = 3, 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.dense = nn.Linear(DIM, DIM)

    def rotate(self, x, positions):
        angles = positions[:, None] * THETA ** (-torch.arange(0, ROTARY, 2) / ROTARY)
        cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
        a, b, rest = x.split([ROTARY // 2, ROTARY // 2, x.shape[-1] - ROTARY], dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)

    def forward(self, x, slots, positions, cache):
        """x [tokens, dim]; cache is a pair of [slots, capacity, heads, head]"""
        q, k, v = self.qkv(x).view(-1, 3, HEADS, DIM // HEADS).unbind(1)
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        keys, values = cache
        keys[slots, positions] = k
        values[slots, positions] = v
        scores = torch.einsum("thd,tchd->thc", q, keys[slots]) * (DIM // HEADS) ** -0.5
        seen = torch.arange(CAPACITY) <= positions[:, None]
        scores = scores.masked_fill(~seen.unsqueeze(1), float("-inf"))
        out = torch.einsum("thc,tchd->thd", scores.softmax(-1), values[slots])
        return self.dense(out.flatten(1))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_attention = nn.LayerNorm(DIM)
        self.norm_mlp = nn.LayerNorm(DIM)
        self.attention = Attention()
        self.up = nn.Linear(DIM, INNER)
        self.down = nn.Linear(INNER, DIM)

    def forward(self, x, slots, positions, cache):
        attended = self.attention(self.norm_attention(x), slots, positions, cache)
        return x + attended + self.down(F.gelu(self.up(self.norm_mlp(x))))


class NeoXEngine(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.unembed = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens, slots, positions, caches, last):
        x = self.embed(tokens)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, slots, positions, cache)
        return self.unembed(self.norm(x[last]))

    @staticmethod
    def new_caches():
        shape = (SLOTS, CAPACITY, HEADS, DIM // HEADS)
        return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(LAYERS)]


def load_policy(path):
    """The checkpoint has q, k and v side by side for each head; here all q come first."""
    old = load_file(path)
    new = {}
    for name, value in old.items():
        name = name.removeprefix("gpt_neox.")
        if "query_key_value" in name:
            value = value.unflatten(0, (HEADS, 3, DIM // HEADS)).transpose(0, 1).flatten(0, 2)
        for before, after in (
            ("embed_in", "embed"),
            ("embed_out", "unembed"),
            ("final_layer_norm", "norm"),
            ("post_attention_layernorm", "norm_mlp"),
            ("input_layernorm", "norm_attention"),
            ("attention.query_key_value", "attention.qkv"),
            ("mlp.dense_h_to_4h", "up"),
            ("mlp.dense_4h_to_h", "down"),
        ):
            name = name.replace(before, after)
        new[name] = value
    engine = NeoXEngine()
    engine.load_state_dict(new)
    return engine.eval()


def serve(engine, prompts, answers):
    """Replays the answers as if they had been sampled; returns the sum of their log-probabilities."""
    caches = engine.new_caches()
    waiting = list(range(len(prompts)))
    slot_of, done = {}, {}
    total = [0.0] * len(prompts)
    while waiting or slot_of:
        free = [s for s in range(SLOTS) if s not in slot_of.values()]
        entering = set()
        while waiting and free:
            request = waiting.pop(0)
            slot_of[request] = free.pop(0)
            done[request] = 0
            entering.add(request)
        tokens, slots, positions, last = [], [], [], []
        running = list(slot_of)
        for request in running:
            if request in entering:
                fresh, start = prompts[request], 0
            else:
                count = done[request]
                fresh, start = answers[request][count - 1 : count], len(prompts[request]) + count - 1
            tokens.append(fresh)
            slots += [slot_of[request]] * len(fresh)
            positions += range(start, start + len(fresh))
            last.append(len(slots) - 1)
        logits = engine(torch.cat(tokens), torch.tensor(slots), torch.tensor(positions), caches, torch.tensor(last))
        log_p = logits.log_softmax(dim=-1)
        for row, request in enumerate(running):
            total[request] += log_p[row, answers[request][done[request]]].item()
            done[request] += 1
            if done[request] == len(answers[request]):
                del slot_of[request]
    return total


def rollouts(g):
    prompts = [torch.randint(0, VOCAB, (n,), generator=g) for n in (6, 3, 8, 4, 5)]
    answers = [torch.randint(0, VOCAB, (n,), generator=g) for n in (4, 7, 2, 5, 3)]
    return prompts, answers


def main():
    engine = load_policy("checkpoint/model.safetensors")
    g = torch.Generator().manual_seed(5)
    for round_ in range(2):
        prompts, answers = rollouts(g)
        with torch.inference_mode():
            total = serve(engine, prompts, answers)
        for request, value in enumerate(total):
            print(f"round {round_} request {request} logprob {value:.9f}")


if __name__ == "__main__":
    main()

"""Serving side of an RWKV-like policy: recurrent state in slots, continuous batching over two slots."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 40
DIM = 32
HEADS = 4
SIZE = DIM // HEADS
TEMPERATURE = 0.7
SLOTS = 2


class SlotState:
    """What one block remembers of the requests in the slots."""

    def __init__(self):
        self.att_shift = torch.zeros(SLOTS, DIM)
        self.ffn_shift = torch.zeros(SLOTS, DIM)
        self.wkv = torch.zeros(SLOTS, HEADS, SIZE, SIZE)

    def reset(self, slot):
        self.att_shift[slot] = 0
        self.ffn_shift[slot] = 0
        self.wkv[slot] = 0


class RecurrentTimeMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(4, DIM))
        self.decay = nn.Parameter(torch.zeros(HEADS, SIZE))
        self.bonus = nn.Parameter(torch.zeros(HEADS, SIZE))
        self.receptance = nn.Linear(DIM, DIM, bias=False)
        self.key = nn.Linear(DIM, DIM, bias=False)
        self.value = nn.Linear(DIM, DIM, bias=False)
        self.gate = nn.Linear(DIM, DIM, bias=False)
        self.output = nn.Linear(DIM, DIM, bias=False)
        self.ln_x = nn.GroupNorm(HEADS, DIM, eps=1e-4)

    def forward(self, x, state, slots):
        n = x.shape[0]
        last = state.att_shift[slots]
        state.att_shift[slots] = x
        xr, xk, xv, xg = torch.lerp(x, last, self.mix[:, None])
        r = self.receptance(xr).view(n, HEADS, SIZE)
        k = self.key(xk).view(n, HEADS, SIZE)
        v = self.value(xv).view(n, HEADS, SIZE)
        g = F.silu(self.gate(xg))

        memory = state.wkv[slots]
        kv = k[..., :, None] * v[..., None, :]
        y = torch.einsum("nhk,nhkv->nhv", r, memory + self.bonus[..., None] * kv)
        keep = torch.exp(-torch.exp(self.decay))
        state.wkv[slots] = keep[..., None] * memory + kv
        y = self.ln_x(y.reshape(n, DIM))
        return self.output(y * g)


class RecurrentChannelMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(2, DIM))
        self.key = nn.Linear(DIM, 2 * DIM, bias=False)
        self.value = nn.Linear(2 * DIM, DIM, bias=False)
        self.receptance = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, state, slots):
        last = state.ffn_shift[slots]
        state.ffn_shift[slots] = x
        xk, xr = torch.lerp(x, last, self.mix[:, None])
        k = F.relu(self.key(xk)).square()
        return torch.sigmoid(self.receptance(xr)) * self.value(k)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(DIM)
        self.att = RecurrentTimeMix()
        self.ln2 = nn.LayerNorm(DIM)
        self.ffn = RecurrentChannelMix()

    def forward(self, x, state, slots):
        x = x + self.att(self.ln1(x), state, slots)
        return x + self.ffn(self.ln2(x), state, slots)


class RecurrentPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.ln0 = nn.LayerNorm(DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.ln_out = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens, states, slots):
        x = self.ln0(self.emb(tokens))
        for block, state in zip(self.blocks, states):
            x = block(x, state, slots)
        return self.head(self.ln_out(x))


class Engine:
    def __init__(self, model):
        self.model = model
        self.states = [SlotState() for _ in model.blocks]
        self.running = {}
        self.scores = {}

    def admit(self, slot, number, request):
        for state in self.states:
            state.reset(slot)
        prompt, response = request
        self.running[slot] = (number, prompt + response, len(prompt), 0)
        self.scores[number] = 0.0

    def step(self):
        slots = sorted(self.running)
        tokens = torch.tensor([self.running[s][1][self.running[s][3]] for s in slots])
        logits = self.model(tokens, self.states, torch.tensor(slots))
        logp = torch.log_softmax(logits / TEMPERATURE, dim=-1)
        for row, slot in zip(logp, slots):
            number, sequence, prompt_len, at = self.running[slot]
            at += 1
            if at >= prompt_len:
                self.scores[number] += row[sequence[at]].item()
            if at == len(sequence) - 1:
                del self.running[slot]
            else:
                self.running[slot] = (number, sequence, prompt_len, at)

    def serve(self, requests):
        waiting = list(enumerate(requests))
        while waiting or self.running:
            for slot in range(SLOTS):
                if slot not in self.running and waiting:
                    self.admit(slot, *waiting.pop(0))
            self.step()
        return self.scores


def requests():
    gen = torch.Generator().manual_seed(82)
    out = []
    for prompt_len, response_len in [(4, 8), (7, 5), (3, 6), (5, 9), (6, 4)]:
        tokens = torch.randint(0, VOCAB, (prompt_len + response_len,), generator=gen).tolist()
        out.append((tokens[:prompt_len], tokens[prompt_len:]))
    return out


@torch.no_grad()
def main():
    torch.manual_seed(81)
    model = RecurrentPolicy()
    model.load_state_dict(torch.load("weights.pt", weights_only=True))
    scores = Engine(model).serve(requests())
    for number in sorted(scores):
        print(f"request {number}: logprob {scores[number]:.5f}")


if __name__ == "__main__":
    main()

"""DeepSeek-V3 style model: latent attention in the absorbed form, experts run over sorted tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 64
DIM = 32
HEADS = 4
NOPE = 16
ROPE = 8
VDIM = 12
KV_RANK = 16
Q_RANK = 24
EXPERTS = 8
GROUPS = 4
TOP_GROUPS = 2
TOP_K = 3
ROUTE_SCALE = 2.5


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotary(x, angles):
    """Interleaved pairs as complex numbers; x is [batch, time, heads, ROPE]."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)[None, :, None, :]
    return torch.view_as_real(turned).flatten(-2)


class LatentAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_down = nn.Linear(DIM, Q_RANK, bias=False)
        self.q_norm = RMSNorm(Q_RANK)
        self.q_up = nn.Linear(Q_RANK, HEADS * (NOPE + ROPE), bias=False)
        self.kv_down = nn.Linear(DIM, KV_RANK + ROPE, bias=False)
        self.kv_norm = RMSNorm(KV_RANK)
        self.kv_up = nn.Linear(KV_RANK, HEADS * (NOPE + VDIM), bias=False)
        self.out = nn.Linear(HEADS * VDIM, DIM, bias=False)

    def forward(self, x, angles):
        b, t, _ = x.shape
        q = self.q_up(self.q_norm(self.q_down(x)))
        q = q.view(b, t, HEADS, NOPE + ROPE)
        q_nope, q_rope = q.split([NOPE, ROPE], dim=-1)
        q_rope = rotary(q_rope, angles)

        latent, k_rope = self.kv_down(x).split([KV_RANK, ROPE], dim=-1)
        latent = self.kv_norm(latent)
        k_rope = rotary(k_rope[:, :, None], angles).squeeze(2)

        up = self.kv_up.weight.view(HEADS, NOPE + VDIM, KV_RANK)
        up_k = up[:, :NOPE]
        up_v = up[:, NOPE:]
        q_latent = torch.einsum("bthn,hnr->bthr", q_nope, up_k)
        scores = torch.einsum("bthr,bsr->bhts", q_latent, latent)
        scores = scores + torch.einsum("bthp,bsp->bhts", q_rope, k_rope)
        scores = scores * (NOPE + ROPE) ** -0.5
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        probs = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        mixed = torch.einsum("bhts,bsr->bthr", probs, latent)
        y = torch.einsum("bthr,hvr->bthv", mixed, up_v)
        return self.out(y.reshape(b, t, HEADS * VDIM))


class SwiGLU(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gate = nn.Linear(DIM, hidden, bias=False)
        self.up = nn.Linear(DIM, hidden, bias=False)
        self.down = nn.Linear(hidden, DIM, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(EXPERTS, DIM))
        self.register_buffer("bias", torch.zeros(EXPERTS))

    def forward(self, x):
        scores = torch.sigmoid(x @ self.weight.T)
        choice = scores + self.bias
        grouped = choice.view(-1, GROUPS, EXPERTS // GROUPS)
        group_scores = grouped.topk(2, dim=-1).values.sum(-1)
        kept = group_scores.topk(TOP_GROUPS, dim=-1).indices
        allowed = torch.zeros_like(group_scores, dtype=torch.bool).scatter(1, kept, True)
        choice = choice.masked_fill(~allowed.repeat_interleave(EXPERTS // GROUPS, dim=1), 0.0)
        chosen = choice.topk(TOP_K, dim=-1).indices
        weights = scores.gather(1, chosen)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return chosen, weights * ROUTE_SCALE


class MoE(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.router = Router()
        self.gate_up = nn.Parameter(torch.empty(EXPERTS, 2 * hidden, DIM))
        self.down = nn.Parameter(torch.empty(EXPERTS, DIM, hidden))
        self.shared = SwiGLU(hidden)

    def forward(self, x):
        flat = x.reshape(-1, DIM)
        chosen, weights = self.router(flat)
        order = torch.argsort(chosen.reshape(-1), stable=True)
        token = order // TOP_K
        counts = torch.bincount(chosen.reshape(-1), minlength=EXPERTS).tolist()
        outputs = []
        for e, rows in enumerate(flat[token].split(counts)):
            gate, up = (rows @ self.gate_up[e].T).chunk(2, dim=-1)
            outputs.append((F.silu(gate) * up) @ self.down[e].T)
        expert_out = torch.cat(outputs) * weights.reshape(-1)[order, None]
        routed = torch.zeros_like(flat).index_add(0, token, expert_out)
        return (routed + self.shared(flat)).view_as(x)


class Layer(nn.Module):
    def __init__(self, dense):
        super().__init__()
        self.norm1 = RMSNorm(DIM)
        self.attn = LatentAttention()
        self.norm2 = RMSNorm(DIM)
        self.ffn = SwiGLU(48) if dense else MoE(16)

    def forward(self, x, angles):
        x = x + self.attn(self.norm1(x), angles)
        return x + self.ffn(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList([Layer(True), Layer(False)])
        self.norm = RMSNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        freqs = 10000.0 ** (-torch.arange(0, ROPE, 2).float() / ROPE)
        angles = torch.arange(tokens.shape[1]).float()[:, None] * freqs
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, angles)
        return self.head(self.norm(x))


RENAMES = {
    "model.": "",
    "embed_tokens.": "embed.",
    "lm_head.": "head.",
    "input_layernorm.": "norm1.",
    "post_attention_layernorm.": "norm2.",
    "self_attn.q_a_proj.": "attn.q_down.",
    "self_attn.q_a_layernorm.": "attn.q_norm.",
    "self_attn.q_b_proj.": "attn.q_up.",
    "self_attn.kv_a_proj_with_mqa.": "attn.kv_down.",
    "self_attn.kv_a_layernorm.": "attn.kv_norm.",
    "self_attn.kv_b_proj.": "attn.kv_up.",
    "self_attn.o_proj.": "attn.out.",
    "mlp.gate.e_score_correction_bias": "ffn.router.bias",
    "mlp.gate.weight": "ffn.router.weight",
    "mlp.experts.gate_up_proj": "ffn.gate_up",
    "mlp.experts.down_proj": "ffn.down",
    "mlp.shared_experts.": "ffn.shared.",
    "mlp.": "ffn.",
    "_proj.": ".",
}


def convert(state):
    out = {}
    for name, value in state.items():
        for old, new in RENAMES.items():
            name = name.replace(old, new)
        out[name] = value
    return out


@torch.no_grad()
def main():
    torch.manual_seed(51)
    model = Model()
    model.load_state_dict(convert(torch.load("weights.pt", weights_only=True)))
    model.eval()
    gen = torch.Generator().manual_seed(52)
    for batch in range(2):
        tokens = torch.randint(0, VOCAB, (2, 24), generator=gen)
        logits = model(tokens)
        logp = logits[:, :-1].log_softmax(-1)
        scores = logp.gather(2, tokens[:, 1:, None]).squeeze(-1)
        for row in scores:
            print(f"batch {batch} nll {-row.mean().item():.5f} last {row[-1].item():.5f}")


if __name__ == "__main__":
    main()

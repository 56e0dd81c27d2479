"""Planted faults of models that predict the next token: what is wrong, and which module and line are right."""

from __future__ import annotations

from tests.real_models.cases import ANY
from tests.real_models.faults.plant import (
    LR,
    OPTIMIZER,
    OUTSIDE,
    STEP,
    built,
    fault,
    scaled_gradient,
    swapped,
)
from tests.real_models.runs import TASK, TRAIN, Edit

NO_MASK = Edit("    if attention_mask is not None:", "    if attention_mask is not None and module.layer_idx != 1:")
NO_RESIDUAL = Edit(
    "        hidden_states = self.mlp(hidden_states)\n        hidden_states = residual + hidden_states\n",
    "        hidden_states = self.mlp(hidden_states)\n",
)
ATTENTION = "model.layers.0.self_attn"
QK = "torch.matmul(query, key_states.transpose(2, 3)) * scaling"
NORM_EPS = built("model.model.layers[1].input_layernorm.variance_epsilon = 1e-3")
NORM_LINE = "hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)"
LATE_MASK = Edit(
    "        hidden_states = inputs_embeds\n        position_embeddings",
    "        causal_mask = causal_mask.roll(1, -1)  # <- here\n"
    "        hidden_states = inputs_embeds\n        position_embeddings",
)
POSITIONS = Edit(
    "inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens",
    "inputs_embeds.shape[1], 0, -1, device=inputs_embeds.device) + past_seen_tokens  # <- here",
)

LLAMA = [
    fault("llama/norm-eps", "model.layers.1.input_layernorm", NORM_EPS, at=NORM_LINE),
    fault(
        "llama/rope-base",
        "model.rotary_emb",
        Edit('base = config.rope_parameters["rope_theta"]', "base = 1000.0"),
        at="freqs = position_ids[..., None].float() * self.inv_freq",
    ),
    fault("llama/scale", ATTENTION, Edit(QK, f"{QK} * 1.05  # <- here")),
    fault(
        "llama/scale-attribute",
        "model.layers.1.self_attn",
        built("model.model.layers[1].self_attn.scaling = 0.5"),
        at=QK,
    ),
    fault(
        "llama/mask-missing",
        "model.layers.1.self_attn",
        NO_MASK,
        at="attn_weights = nn.functional.softmax(attn_weights",
        healthy_at="attn_weights = attn_weights + attention_mask",
    ),
    fault("llama/mask-rolled", "model", LATE_MASK),
    fault(
        "llama/transposed-weight",
        "model.layers.1.self_attn.o_proj",
        built("w = model.model.layers[1].self_attn.o_proj.weight; w.copy_(w.t().clone())"),
        at="attn_output = self.o_proj(attn_output)",
    ),
    fault(
        "llama/softmax-axis",
        ATTENTION,
        Edit(
            "attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)",
            "attn_weights, dim=-2, dtype=torch.float32).to(query.dtype)  # <- here",
        ),
    ),
    fault(
        "llama/rotation",
        ATTENTION,
        Edit("return torch.cat((-x2, x1), dim=-1)", "return torch.cat((x2, -x1), dim=-1)  # <- here"),
        near="q_embed = (q * cos)",
    ),
    fault("llama/positions", "model", POSITIONS),
    fault(
        "llama/detached-key",
        (ATTENTION, "model.layers.1.self_attn", "model.layers.1.self_attn.k_proj"),
        Edit("self.k_proj(hidden_states).view", "self.k_proj(hidden_states.detach()).view"),
        at="self.k_proj(hidden_states.detach())",
    ),
    fault(
        "llama/residual-missing",
        "model.layers.0",
        NO_RESIDUAL,
        healthy_at="        hidden_states = self.mlp(hidden_states)\n        hidden_states = residual + hidden_states",
    ),
    fault(
        "llama/norm-in-bf16",
        "model.layers.0.input_layernorm",
        Edit(
            "        hidden_states = hidden_states.to(torch.float32)\n",
            "        hidden_states = hidden_states.to(torch.bfloat16)  # <- here\n",
        ),
        near="variance = hidden_states.pow(2)",
    ),
    fault("llama/learning-rate", OPTIMIZER, LR, at=STEP),
    fault(
        "llama/one-weight",
        "model.layers.1.mlp.up_proj",
        built("model.model.layers[1].mlp.up_proj.weight[3, 5] += 0.05"),
        at="self.act_fn(self.gate_proj(x)) * self.up_proj(x)",
    ),
    fault(
        "llama/loss-sum",
        OUTSIDE,
        Edit("ignore_index=-100)", 'ignore_index=-100, reduction="sum")  # <- here', TASK),
    ),
    fault(
        "llama/scaled-gradient",
        "model.layers.1.mlp",
        scaled_gradient("class LlamaMLP(", "0.5", "  # <- here"),
        Edit("return down_proj", "return Scaled.apply(down_proj)"),
        golden=(scaled_gradient("class LlamaMLP(", "1.0"), Edit("return down_proj", "return Scaled.apply(down_proj)")),
    ),
    fault(
        "llama/extra-scaled-gradient",
        "model.layers.1.mlp",
        scaled_gradient("class LlamaMLP(", "0.5", "  # <- here"),
        Edit("return down_proj", "return Scaled.apply(down_proj)"),
        at="return Scaled.apply(down_proj)",
    ),
    fault(
        "llama/activation",
        "model.layers.0.mlp.act_fn",
        Edit("self.act_fn = ACT2FN[config.hidden_act]", 'self.act_fn = ACT2FN["gelu"]'),
        at="self.act_fn(self.gate_proj(x)) * self.up_proj(x)",
    ),
    fault(
        "llama/gate-and-up-swapped",
        (
            "model.layers.0.mlp",
            "model.layers.0.mlp.act_fn",
            "model.layers.0.mlp.up_proj",
            "model.layers.0.mlp.gate_proj",
        ),
        Edit(
            "self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
            "self.act_fn(self.up_proj(x)) * self.gate_proj(x))  # <- here",
        ),
    ),
    fault(
        "llama/repeated-otherwise",
        ATTENTION,
        Edit(
            "hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)",
            "heads = num_key_value_heads\n"
            "    hidden_states = hidden_states[:, None].expand(batch, n_rep, heads, slen, head_dim)  # <- here",
        ),
        near=QK,
    ),
]

GPT2 = [
    fault(
        "gpt2/norm-eps",
        "transformer.h.1.ln_1",
        built("model.transformer.h[1].ln_1.eps = 1e-2"),
        at="hidden_states = self.ln_1(hidden_states)",
    ),
    fault(
        "gpt2/scale",
        "transformer.h.1.attn",
        built("model.transformer.h[1].attn.scaling = 1.0"),
        at="attn_weights = torch.matmul(query, key.transpose(-1, -2)) * scaling",
    ),
    fault(
        "gpt2/dropout-rate",
        "transformer.h.0.attn.resid_dropout",
        built("model.transformer.h[0].attn.resid_dropout.p = 0.2"),
        at="attn_output = self.resid_dropout(attn_output)",
    ),
    fault(
        "gpt2/dropout-off",
        "transformer.h.1.mlp.dropout",
        built("model.transformer.h[1].mlp.dropout.eval()"),
        at="hidden_states = self.dropout(hidden_states)",
    ),
    fault(
        "gpt2/positions-flipped",
        "transformer",
        Edit(
            "position_ids = position_ids.unsqueeze(0)", "position_ids = position_ids.unsqueeze(0).flip(-1)  # <- here"
        ),
    ),
    fault(
        "gpt2/query-and-key-swapped",
        "transformer.h.0.attn",
        Edit(
            "query_states, key_states, value_states = self.c_attn(hidden_states)",
            "key_states, query_states, value_states = self.c_attn(hidden_states)",
        ),
        near="attn_weights = torch.matmul(query, key.transpose(-1, -2)) * scaling",
        at=(
            "key_states, query_states, value_states = self.c_attn(hidden_states)",
            "key_states, query_states, value_states >> key_states = key_states.view(shape_kv).transpose(1, 2)",
        ),
    ),
    fault(
        "gpt2/activation",
        "transformer.h.0.mlp.act",
        Edit("self.act = ACT2FN[config.activation_function]", 'self.act = ACT2FN["relu"]'),
        at="hidden_states = self.act(hidden_states)",
    ),
    fault(
        "gpt2/bias",
        "transformer.h.0.attn.c_proj",
        built("model.transformer.h[0].attn.c_proj.bias[0] += 0.01"),
        at="attn_output = self.c_proj(attn_output)",
    ),
    fault(
        "gpt2/residual-wrong",
        "transformer.h.0",
        Edit("hidden_states = attn_output + residual", "hidden_states = attn_output + hidden_states  # <- here"),
    ),
    fault(
        "gpt2/final-norm-missing",
        ("transformer.ln_f", "transformer"),
        Edit("        hidden_states = self.ln_f(hidden_states)\n", ""),
        healthy_at="hidden_states = self.ln_f(hidden_states)",
    ),
    fault(
        "gpt2/clip-norm",
        "clip_grad",
        Edit("model.parameters(), 1.0)", "model.parameters(), 0.1)  # <- here", TRAIN),
    ),
    fault(
        "gpt2/gradients-kept",
        ANY,
        Edit("        optimizer.zero_grad()\n", "", TRAIN),
        at="    loss.backward()",
        healthy_at="optimizer.zero_grad()",
    ),
]

MIXTRAL = [
    fault(
        "mixtral/unnormalised",
        "model.layers.0.mlp.gate",
        Edit("        router_top_value /= router_top_value.sum(dim=-1, keepdim=True)\n", ""),
        healthy_at="router_top_value /= router_top_value.sum(dim=-1, keepdim=True)",
    ),
    fault(
        "mixtral/router-axis",
        "model.layers.0.mlp.gate",
        Edit("softmax(router_logits.float(), dim=-1)", "softmax(router_logits.float(), dim=0)  # <- here"),
    ),
    fault(
        "mixtral/experts-swapped",
        "model.layers.1.mlp.experts",
        swapped("model.model.layers[1].mlp.experts.down_proj", 0, 1),
        at="nn.functional.linear(current_hidden_states, self.down_proj[expert_idx])",
    ),
    fault(
        "mixtral/wrong-expert",
        "model.layers.0.mlp.experts",
        Edit("self.down_proj[expert_idx])", "self.down_proj[expert_idx - 1])  # <- here"),
    ),
    fault(
        "mixtral/gate-and-up-swapped",
        "model.layers.0.mlp.experts",
        Edit("            gate, up = ", "            up, gate = "),
        at=("            up, gate = ", "current_hidden_states = self.act_fn(gate) * up"),
    ),
    fault(
        "mixtral/routing-detached",
        ("model.layers.0.mlp.experts", "model.layers.1.mlp.experts"),
        Edit(
            "top_k_weights[token_idx, top_k_pos, None]\n",
            "top_k_weights.detach()[token_idx, top_k_pos, None]  # <- here\n",
        ),
    ),
    fault(
        "mixtral/sgd",
        OPTIMIZER,
        Edit(
            "torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=eps, weight_decay=0.1)",
            "torch.optim.SGD(model.parameters(), lr=1e-3)",
            TRAIN,
        ),
        at=STEP,
        healthy_at=STEP,
    ),
]

MAMBA = [
    fault(
        "mamba/sign",
        "backbone.layers.0.mixer",
        Edit("A = -torch.exp(self.A_log.float())", "A = torch.exp(self.A_log.float())  # <- here"),
        near="discrete_A = torch.exp(A[None, :, None, :] * dt[:, :, :, None])",
    ),
    fault(
        "mamba/softplus-missing",
        "backbone.layers.0.mixer",
        Edit("delta_softplus=True", "delta_softplus=False", after="scan_result = mamba_selective_scan("),
        at="discrete_A = torch.exp(A[None, :, None, :] * dt[:, :, :, None])",
        healthy_at="def mamba_selective_scan( >> dt = F.softplus(dt)",
    ),
    fault(
        "mamba/skip-missing",
        "backbone.layers.0.mixer",
        Edit("D=self.D.float(),", "D=None,"),
        at="def mamba_selective_scan( >> scan_output = scan_output * F.silu(z)",
        healthy_at="scan_output = scan_output + hidden_states * D[None, :, None]",
    ),
    fault(
        "mamba/late-window",
        "backbone.layers.0.mixer",
        Edit("    )[:, :, :seq_len]", "    )[:, :, -seq_len:]  # <- here"),
        near="def causal_conv1d_fn( >> out = ACT2FN[activation](out)",
    ),
    fault(
        "mamba/gate-activation",
        "backbone.layers.0.mixer",
        Edit(
            "scan_output = scan_output * F.silu(z)",
            "scan_output = scan_output * torch.sigmoid(z)  # <- here",
            after="def mamba_selective_scan(",
        ),
    ),
    fault(
        "mamba/step-bias-missing",
        "backbone.layers.0.mixer",
        Edit("delta_bias=time_proj_bias,", "delta_bias=None,"),
        at="def mamba_selective_scan( >> dt = F.softplus(dt)",
        healthy_at="dt = dt + delta_bias.to(dt.dtype)[..., None]",
    ),
    fault(
        "mamba/wrong-decay",
        "backbone.layers.0.mixer",
        Edit(
            "ssm_state = discrete_A[:, :, index] * ssm_state",
            "ssm_state = discrete_A[:, :, index - 1] * ssm_state",
        ),
        at="ssm_state = discrete_A[:, :, index - 1]",
    ),
]

"""Harmless changes of text models that msprobe was not tuned on."""

from __future__ import annotations

from tests.real_models.runs import TASK, TRAIN, Edit

ACCUMULATED = "final_hidden_states.index_add_(0, token_idx, current_hidden_states.to(final_hidden_states.dtype))"
GATES = "nn.functional.linear(current_state, self.gate_up_proj[expert_idx]).chunk(2, dim=-1)"
MODULE_ONE = "            gate, up = " + GATES
INTERLEAVED = """    q_embed = torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], dim=-1)
    k_embed = torch.cat([k1 * cos - k2 * sin, k2 * cos + k1 * sin], dim=-1)
"""
HALVES = """    cos, sin = torch.cat([cos, cos], dim=-1), torch.cat([sin, sin], dim=-1)
    q, k = torch.cat([q1, q2], dim=-1), torch.cat([k1, k2], dim=-1)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
"""
KEYS = """        key_states = kv_nope.new_empty(*kv_nope.shape[:-1], self.qk_nope_head_dim + self.qk_rope_head_dim)
        key_states[..., : self.qk_nope_head_dim].copy_(k_nope)
        key_states[..., self.qk_nope_head_dim :].copy_(k_rot)
"""
BADDBMM = """        attention_scores = alibi.baddbmm(
            batch1=query_layer,
            batch2=key_layer,
            beta=self.beta,
            alpha=self.inv_norm_factor,
        )
"""
CAPPED = """        attn_weights = attn_weights / softcap
        attn_weights = torch.tanh(attn_weights)
        attn_weights = attn_weights * softcap
"""

TEXT: dict[str, dict[str, tuple[Edit, ...]]] = {
    "qwen3_moe": {
        "out-of-place-sum": (
            Edit(
                ACCUMULATED, ACCUMULATED.replace("final", "final_hidden_states = final", 1).replace("add_(", "add(", 1)
            ),
        ),
        "slices-for-chunks": (
            Edit(
                MODULE_ONE,
                "            both = nn.functional.linear(current_state, self.gate_up_proj[expert_idx])\n"
                "            gate, up = both[:, : self.intermediate_dim], both[:, self.intermediate_dim :]",
            ),
        ),
        "two-products": (
            Edit(
                MODULE_ONE,
                "            first, second = self.gate_up_proj[expert_idx].chunk(2, dim=0)\n"
                "            up = nn.functional.linear(current_state, second)\n"
                "            gate = nn.functional.linear(current_state, first)",
            ),
        ),
        "divided-otherwise": (
            Edit(
                "            router_top_value /= router_top_value.sum(dim=-1, keepdim=True)\n",
                "            router_top_value = router_top_value * (1 / router_top_value.sum(dim=-1, keepdim=True))\n",
            ),
        ),
        "batched-experts": (Edit('experts_implementation="eager"', 'experts_implementation="batched_mm"', TASK),),
        "grouped-experts": (Edit('experts_implementation="eager"', 'experts_implementation="grouped_mm"', TASK),),
        "query-norm-before-view": (
            Edit(
                "        key_states = self.k_norm(self.k_proj(hidden_states).view(hidden_shape)).transpose(1, 2)\n",
                "        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
                "        key_states = self.k_norm(key_states)\n",
            ),
        ),
    },
    "gemma2": {
        "one-line-cap": (Edit(CAPPED, "        attn_weights = softcap * torch.tanh(attn_weights / softcap)\n"),),
        "multiplied-cap": (
            Edit(CAPPED, "        attn_weights = (attn_weights * (1 / softcap)).tanh().mul(softcap)\n"),
        ),
        "norm-distributed": (
            Edit("output = output * (1.0 + self.weight.float())", "output = output + output * self.weight.float()"),
        ),
        "norm-divided": (
            Edit(
                "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)",
                "x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)",
            ),
        ),
        "up-first": (
            Edit(
                "self.act_fn(self.gate_proj(x)) * self.up_proj(x)", "self.up_proj(x) * self.act_fn(self.gate_proj(x))"
            ),
        ),
        "repeated-by-interleave": (
            Edit(
                "    hidden_states = hidden_states[:, :, None, :, :]"
                ".expand(batch, num_key_value_heads, n_rep, slen, head_dim)\n"
                "    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)\n",
                "    return hidden_states.repeat_interleave(n_rep, dim=1)\n",
            ),
        ),
        "einsum-scores": (
            Edit(
                "torch.matmul(query, key_states.transpose(2, 3)) * scaling",
                "torch.einsum('bhqd,bhkd->bhqk', query * scaling, key_states)",
            ),
        ),
    },
    "deepseek_v3": {
        "rotated-halves": (Edit(INTERLEAVED, HALVES),),
        "concatenated-keys": (Edit(KEYS, "        key_states = torch.cat((k_nope, k_rot), dim=-1)\n"),),
        "shared-expert-first": (
            Edit(
                "hidden_states = hidden_states + self.shared_experts(residuals)",
                "hidden_states = self.shared_experts(residuals) + hidden_states",
            ),
        ),
        "shared-expert-before-routing": (
            Edit(
                "        _, topk_weights, topk_indices = self.gate(hidden_states)\n",
                "        shared = self.shared_experts(residuals)\n"
                "        _, topk_weights, topk_indices = self.gate(hidden_states)\n",
            ),
            Edit("hidden_states + self.shared_experts(residuals)", "hidden_states + shared"),
        ),
        "own-sigmoid": (Edit("router_logits.sigmoid()", "1 / (1 + torch.exp(-router_logits))"),),
        "batched-experts": (Edit('experts_implementation="eager"', 'experts_implementation="batched_mm"', TASK),),
    },
    "distilbert": {
        "chunked-feed-forward": (Edit("num_labels=6", "num_labels=6,\n        chunk_size_feed_forward=4", TASK),),
        "own-divergence": (
            Edit(
                'F.kl_div(learnt, taught, reduction="batchmean")',
                "(taught * (taught.log() - learnt)).sum(dim=-1).mean()",
                TASK,
            ),
        ),
        "functional-relu": (
            Edit(
                "pooled_output = nn.ReLU()(pooled_output)",
                "pooled_output = nn.functional.relu(pooled_output)",
                after="class DistilBertForSequenceClassification(",
            ),
        ),
        "losses-in-other-order": (
            Edit(
                '0.7 * distilled + 0.3 * F.cross_entropy(logits, inputs["labels"])',
                '0.3 * F.cross_entropy(logits, inputs["labels"]) + 0.7 * distilled',
                TASK,
            ),
        ),
    },
    "opt": {
        "residual-in-place": (
            Edit(
                "(residual + hidden_states).view(hidden_states_shape)",
                "hidden_states.add_(residual).view(hidden_states_shape)",
            ),
        ),
        "no-flattening": (Edit("        hidden_states = hidden_states.reshape(-1, hidden_states.size(-1))\n", ""),),
        "head-by-function": (
            Edit(
                "logits = self.lm_head(",
                "logits = (lambda x: nn.functional.linear(x, self.model.decoder.embed_tokens.weight))(",
            ),
        ),
        "checkpointing": (
            Edit("    model.train()", "    model.train()\n    model.gradient_checkpointing_enable()", TRAIN),
        ),
    },
    "bloom": {
        "scores-by-matmul": (
            Edit(
                BADDBMM,
                "        attention_scores = alibi + torch.matmul(query_layer, key_layer) * self.inv_norm_factor\n",
            ),
        ),
        "torch-gelu": (Edit("return GeLUFunction.apply(x)", 'return F.gelu(x, approximate="tanh")'),),
        "slopes-of-python": (
            Edit(
                "slopes = torch.pow(base, powers)",
                "slopes = torch.tensor([base.item() ** (n + 1) for n in range(closest_power_of_2)])",
            ),
        ),
        "dropout-added-behind": (Edit("    out = residual + out\n", "    out = out + residual\n"),),
    },
}
"""Family -> changes of its model or its training."""

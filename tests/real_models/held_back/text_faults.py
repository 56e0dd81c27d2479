"""Faults of text models that msprobe was not tuned on: what is right was written down before it was asked."""

from __future__ import annotations

from tests.real_models.faults.plant import OUTSIDE, built, fault
from tests.real_models.runs import TASK, Edit

QWEN_ATTENTION = "model.layers.0.self_attn"
QWEN3_MOE = [
    fault(
        "qwen3_moe/query-norm-missing",
        (QWEN_ATTENTION, f"{QWEN_ATTENTION}.q_norm"),
        Edit(
            "self.q_norm(self.q_proj(hidden_states).view(hidden_shape)).transpose(1, 2)",
            "self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)  # <- here",
        ),
        near="q_embed = (q * cos)",
    ),
    fault(
        "qwen3_moe/auxiliary-loss-missing",
        OUTSIDE,
        Edit("loss += self.router_aux_loss_coef * aux_loss.to(loss.device)", "pass"),
        healthy_at="loss += self.router_aux_loss_coef * aux_loss.to(loss.device)",
        near="    loss.backward()",
    ),
    fault(
        "qwen3_moe/one-expert",
        "model.layers.0.mlp.gate",
        built("model.model.layers[0].mlp.gate.top_k = 1"),
        at="torch.topk(router_probs, self.top_k",
    ),
    fault(
        "qwen3_moe/normalised-over-tokens",
        "model.layers.0.mlp.gate",
        Edit("router_top_value.sum(dim=-1, keepdim=True)", "router_top_value.sum(dim=0, keepdim=True)  # <- here"),
    ),
    fault(
        "qwen3_moe/rotation-interleaved",
        QWEN_ATTENTION,
        Edit("x1 = x[..., : x.shape[-1] // 2]", "x1 = x[..., 0::2]  # <- here"),
        Edit("x2 = x[..., x.shape[-1] // 2 :]", "x2 = x[..., 1::2]  # <- here"),
        near="q_embed = (q * cos)",
    ),
    fault(
        "qwen3_moe/gate-and-up-loaded-swapped",
        "model.layers.0.mlp.experts",
        built("w = model.model.layers[0].mlp.experts.gate_up_proj; w.copy_(w.roll(16, 1))"),
        at="gate, up = nn.functional.linear(current_state",
    ),
    fault(
        "qwen3_moe/norm-of-other-layer",
        "model.layers.1.input_layernorm",
        built("model.model.layers[1].input_layernorm.weight.copy_(model.model.layers[0].input_layernorm.weight)"),
        at="return self.weight * hidden_states.to(input_dtype)",
        near="hidden_states = self.input_layernorm(hidden_states)",
    ),
]

GEMMA_ATTENTION = "model.layers.0.self_attn"
CAP = ("attn_weights = attn_weights / softcap", "attn_weights = torch.tanh(attn_weights)")
GEMMA2 = [
    fault(
        "gemma2/cap-missing",
        GEMMA_ATTENTION,
        Edit("    if softcap is not None:", "    if False:"),
        healthy_at=(*CAP, "attn_weights = attn_weights * softcap"),
        at="attn_weights = attn_weights + attention_mask",
    ),
    fault(
        "gemma2/cap-value",
        "model.layers.1.self_attn",
        built("model.model.layers[1].self_attn.attn_logit_softcapping = 3.0"),
        at=CAP[0],
    ),
    fault(
        "gemma2/window-off-by-one",
        "model",
        Edit("sliding_window=4", "sliding_window=5", TASK),
        at='"sliding_attention": create_sliding_window_causal_mask',
        near="hidden_states = decoder_layer(",
    ),
    fault(
        "gemma2/norm-weight",
        "model.layers.0.input_layernorm",
        Edit("output = output * (1.0 + self.weight.float())", "output = output * self.weight.float()  # <- here"),
    ),
    fault(
        "gemma2/embedding-scale-missing",
        "model.embed_tokens",
        Edit(
            "return super().forward(input_ids) * self.embed_scale.to(self.weight.dtype)",
            "return super().forward(input_ids)  # <- here",
        ),
    ),
    fault(
        "gemma2/norm-after-residual",
        ("model.layers.0", "model.layers.0.post_feedforward_layernorm"),
        Edit(
            "        hidden_states = self.post_feedforward_layernorm(hidden_states)\n"
            "        hidden_states = residual + hidden_states\n",
            "        hidden_states = residual + hidden_states  # <- here\n"
            "        hidden_states = self.post_feedforward_layernorm(hidden_states)  # <- here\n",
        ),
    ),
    fault(
        "gemma2/final-cap",
        OUTSIDE,
        Edit("sliding_window=4", "sliding_window=4,\n        final_logit_softcapping=5.0", TASK),
        at="logits = logits / self.config.final_logit_softcapping",
    ),
    fault(
        "gemma2/weights-not-tied",
        ("lm_head", "model.embed_tokens"),
        built("model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())"),
        at=("logits = self.lm_head(hidden_states", "return super().forward(input_ids)"),
    ),
]

MLA = "model.layers.0.self_attn"
ROUTER = "model.layers.1.mlp.gate"
BIASED = built("model.model.layers[1].mlp.gate.e_score_correction_bias.copy_(torch.arange(8) * 0.05)")
DEEPSEEK_V3 = [
    fault(
        "deepseek_v3/rope-part-first",
        MLA,
        Edit(
            "q_pass, q_rot = torch.split(q_states, [self.qk_nope_head_dim, self.qk_rope_head_dim], dim=-1)",
            "q_rot, q_pass = torch.split(q_states, [self.qk_rope_head_dim, self.qk_nope_head_dim], dim=-1)  # <- here",
        ),
        near="q_embed = torch.cat([q1 * cos",
    ),
    fault(
        "deepseek_v3/rope-not-interleaved",
        MLA,
        built("model.config.rope_interleave = False"),
        at="q_embed = (q * cos)",
        healthy_at="q_embed = torch.cat([q1 * cos",
    ),
    fault(
        "deepseek_v3/routed-scale-missing",
        ROUTER,
        Edit("        topk_weights = topk_weights * self.routed_scaling_factor\n", ""),
        healthy_at="topk_weights = topk_weights * self.routed_scaling_factor",
    ),
    fault(
        "deepseek_v3/biased-weights",
        ROUTER,
        BIASED,
        Edit("topk_weights = scores.gather(1", "topk_weights = scores_for_choice.gather(1"),
        at="topk_weights = scores_for_choice.gather(1",
        golden=(BIASED,),
    ),
    fault(
        "deepseek_v3/shared-expert-of-routed",
        ("model.layers.1.mlp", "model.layers.1.mlp.shared_experts"),
        Edit("self.shared_experts(residuals)", "self.shared_experts(hidden_states)  # <- here"),
    ),
    fault(
        "deepseek_v3/shared-expert-missing",
        ("model.layers.1.mlp", "model.layers.1.mlp.shared_experts"),
        Edit("        hidden_states = hidden_states + self.shared_experts(residuals)\n", ""),
        healthy_at="hidden_states = hidden_states + self.shared_experts(residuals)",
    ),
    fault(
        "deepseek_v3/group-score",
        ROUTER,
        BIASED,
        Edit(".topk(2, dim=-1)[0]", ".topk(1, dim=-1)[0]  # <- here"),
        at="scores_for_choice.view(-1, self.num_group",
        golden=(BIASED,),
    ),
    fault(
        "deepseek_v3/latent-norm-missing",
        (MLA, f"{MLA}.kv_a_layernorm"),
        Edit("        kv_nope = self.kv_a_layernorm(kv_nope)\n", ""),
        healthy_at="kv_nope = self.kv_a_layernorm(kv_nope)",
        at="kv_nope = self.kv_b_proj(kv_nope)",
    ),
    fault(
        "deepseek_v3/softmax-for-sigmoid",
        ROUTER,
        Edit("scores = router_logits.sigmoid()", "scores = router_logits.softmax(dim=-1)  # <- here"),
    ),
]

OPT_LAYER = "model.decoder.layers"
OPT = [
    fault(
        "opt/position-offset",
        "model.decoder.embed_positions",
        Edit("super().forward(position_ids + self.offset)", "super().forward(position_ids + 1)  # <- here"),
    ),
    fault(
        "opt/left-padding-ignored",
        ("model.decoder", "model.decoder.embed_positions"),
        Edit(
            "position_ids = (position_ids * position_attention_mask - 1).long()\n"
            "            # cut positions if `past_seen_tokens`",
            "position_ids = torch.arange(position_ids.shape[1]).expand(2, -1)  # <- here\n"
            "            # cut positions if `past_seen_tokens`",
        ),
        near="pos_embeds = self.embed_positions(",
    ),
    fault(
        "opt/query-not-scaled",
        f"{OPT_LAYER}.0.self_attn",
        Edit("self.q_proj(hidden_states) * self.scaling", "self.q_proj(hidden_states)"),
        healthy_at="self.q_proj(hidden_states) * self.scaling",
        at="attn_weights = torch.matmul(query, key.transpose(-1, -2)) * scaling",
    ),
    fault(
        "opt/weights-not-tied",
        ("lm_head", "model.decoder.embed_tokens"),
        built("model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())"),
        at=("logits = self.lm_head(", "inputs_embeds = self.embed_tokens(input_ids)"),
    ),
    fault(
        "opt/norm-after",
        (f"{OPT_LAYER}.1", f"{OPT_LAYER}.1.self_attn_layer_norm", f"{OPT_LAYER}.1.self_attn"),
        built("model.model.decoder.layers[1].do_layer_norm_before = False"),
        at=("hidden_states = self.self_attn_layer_norm(hidden_states)", "hidden_states, _ = self.self_attn("),
    ),
    fault(
        "opt/dropout-rate",
        f"{OPT_LAYER}.0",
        built("model.model.decoder.layers[0].dropout = 0.3"),
        at="hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)",
    ),
]

BLOOM = [
    fault(
        "bloom/slopes",
        "transformer",
        Edit("math.log2(closest_power_of_2) - 3)))", "math.log2(closest_power_of_2) - 2)))"),
        at="base = torch.full(() >> closest_power_of_2) - 2",
        near="slopes = torch.pow(base, powers)",
    ),
    fault(
        "bloom/scale",
        "transformer.h.1.self_attention",
        built("model.transformer.h[1].self_attention.inv_norm_factor = 0.5"),
        at="attention_scores = alibi.baddbmm(",
    ),
    fault(
        "bloom/heads-mixed",
        "transformer.h.0.self_attention",
        Edit(
            "fused_qkv.view(batch_size, seq_length, self.num_heads, 3, self.head_dim)",
            "fused_qkv.view(batch_size, seq_length, 3, self.num_heads, self.head_dim).transpose(2, 3)  # <- here",
        ),
        near="attention_scores = alibi.baddbmm(",
    ),
    fault(
        "bloom/activation-gradient",
        "transformer.h.1.mlp.gelu_impl",
        Edit("0.1070322243 * x * x)) +", "0.2140644486 * x * x)) +"),
        at="0.2140644486 * x * x)) +",
    ),
    fault(
        "bloom/residual-after-norm",
        ("transformer.h.0", "transformer.h.0.self_attention"),
        built("model.transformer.h[0].apply_residual_connection_post_layernorm = True"),
        at="attention_output, attn_weights = self.self_attention(",
        near="out = residual + out",
    ),
    fault(
        "bloom/embedding-norm-missing",
        ("transformer", "transformer.word_embeddings_layernorm", "transformer.h.0"),
        Edit("hidden_states = self.word_embeddings_layernorm(inputs_embeds)", "hidden_states = inputs_embeds"),
        healthy_at="hidden_states = self.word_embeddings_layernorm(inputs_embeds)",
        at=("outputs = block(", "layernorm_output = self.input_layernorm(hidden_states)"),
    ),
]

CLASSIFIER = "class DistilBertForSequenceClassification("
DISTILBERT = [
    fault(
        "distilbert/temperature-not-squared",
        OUTSIDE,
        Edit(" * TEMPERATURE**2", "", TASK),
        healthy_at="distilled = F.kl_div(",
        at="return 0.7 * distilled",
    ),
    fault(
        "distilbert/divergence-reversed",
        OUTSIDE,
        Edit("F.kl_div(learnt, taught, ", "F.kl_div(taught.log(), learnt.exp(), ", TASK),
        at="F.kl_div(taught.log(), learnt.exp(), ",
    ),
    fault(
        "distilbert/mean-of-elements",
        OUTSIDE,
        Edit('reduction="batchmean"', 'reduction="mean"', TASK),
        at='reduction="mean"',
    ),
    fault(
        "distilbert/mask-of-other-row",
        ("", "distilbert"),
        Edit('attention_mask=inputs["attention_mask"])', 'attention_mask=inputs["attention_mask"].roll(1, 0))', TASK),
        at='attention_mask=inputs["attention_mask"].roll(1, 0))',
    ),
    fault(
        "distilbert/last-token-pooled",
        ("", "pre_classifier"),
        Edit("pooled_output = hidden_state[:, 0]", "pooled_output = hidden_state[:, -1]  # <- here", after=CLASSIFIER),
        near=f"{CLASSIFIER} >> pooled_output = self.pre_classifier(pooled_output)",
    ),
    fault(
        "distilbert/other-activation",
        OUTSIDE,
        Edit(
            "pooled_output = nn.ReLU()(pooled_output)",
            "pooled_output = nn.GELU()(pooled_output)  # <- here",
            after=CLASSIFIER,
        ),
    ),
    fault(
        "distilbert/key-and-value-swapped",
        "distilbert.transformer.layer.0.attention",
        Edit(
            "            key_layer,\n            value_layer,\n", "            value_layer,\n            key_layer,\n"
        ),
        at="attn_output, attn_weights = attention_interface(",
        near="attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling",
    ),
]

TEXT = [*QWEN3_MOE, *GEMMA2, *DEEPSEEK_V3, *OPT, *BLOOM, *DISTILBERT]

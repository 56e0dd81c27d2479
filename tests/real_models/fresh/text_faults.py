"""Faults of the fresh families that read text: what is planted, and where it shows first."""

from __future__ import annotations

from tests.real_models.faults.plant import OUTSIDE, built, fault
from tests.real_models.runs import TASK, Edit

SELF = "deberta.encoder.layer.0.attention.self"
DEBERTA = [
    fault(
        "deberta_v2/scale-without-positions",
        SELF,
        Edit(
            "        scale = scaled_size_sqrt(query_layer, scale_factor)\n",
            "        scale = scaled_size_sqrt(query_layer, 1)  # <- here\n",
        ),
        near=("return torch.sqrt(torch.tensor(", "attention_scores = torch.bmm(query_layer, key_layer"),
    ),
    fault(
        "deberta_v2/positions-not-mirrored",
        SELF,
        Edit("torch.clamp(-r_pos + att_span", "torch.clamp(r_pos + att_span"),
        at="p2c_pos = torch.clamp(",
    ),
    fault(
        "deberta_v2/positions-not-transposed",
        SELF,
        Edit(").transpose(-1, -2)\n            score += p2c_att", ")\n            score += p2c_att"),
        at=("p2c_att = torch.gather(", "score += p2c_att"),
        healthy_at=("p2c_att = torch.gather(", ").transpose(-1, -2)\n            score"),
    ),
    fault(
        "deberta_v2/positions-not-normalised",
        ("deberta.encoder", "deberta.encoder.LayerNorm", "deberta.encoder.layer.0", SELF, f"{SELF}.pos_dropout"),
        Edit('("layer_norm" in self.norm_rel_ebd):', '("none" in self.norm_rel_ebd):  # <- here'),
        healthy_at="rel_embeddings = self.LayerNorm(rel_embeddings)",
        near=("rel_embeddings = self.pos_dropout(rel_embeddings)", "output_states, attn_weights = layer_module("),
    ),
    fault(
        "deberta_v2/convolution-of-later-states",
        ("deberta.encoder", "deberta.encoder.conv", "deberta.encoder.conv.conv"),
        Edit(
            "self.conv(hidden_states, output_states, input_mask)",
            "self.conv(output_states, output_states, input_mask)  # <- here",
        ),
        near="out = self.conv(hidden_states.permute(0, 2, 1)",
    ),
    fault(
        "deberta_v2/norm-eps",
        "deberta.encoder.layer.0.output.LayerNorm",
        built("model.deberta.encoder.layer[0].output.LayerNorm.eps = 1e-2"),
        at="class DebertaV2Output( >> hidden_states = self.LayerNorm(hidden_states + input_tensor)",
    ),
    fault(
        "deberta_v2/bucket-rounded-down",
        ("deberta.encoder", SELF),
        Edit("torch.ceil(torch.log(abs_pos / mid)", "torch.floor(torch.log(abs_pos / mid)"),
        at="torch.floor(torch.log(abs_pos / mid)",
        near="bucket_pos = torch.where(",
    ),
]
LAYER = "policy.gpt_neox.layers.0"
GPT_NEOX = [
    fault(
        "gpt_neox/policy-for-reference",
        ("", "policy", "reference", *(f"{m}.gpt_neox{e}" for m in ("policy", "reference") for e in ("", ".embed_in"))),
        Edit("known = likelihood(model.reference,", "known = likelihood(model.policy,", TASK),
        at="known = likelihood(",
        near="logits = model(input_ids=words",
    ),
    fault(
        "gpt_neox/answer-not-shifted",
        OUTSIDE,
        Edit("terms * answer[:, 1:]", "terms * answer[:, :-1]", TASK),
        at="return (terms * answer",
    ),
    fault("gpt_neox/beta", OUTSIDE, Edit("margin = BETA * (", "margin = 0.1 * (", TASK), at="margin = 0.1 * ("),
    fault(
        "gpt_neox/pairs-crossed",
        OUTSIDE,
        Edit("(learnt - known).chunk(2)", "(learnt - known).view(-1, 2).unbind(1)  # <- here", TASK),
        near="margin = BETA * (better - worse)",
    ),
    fault(
        "gpt_neox/mean-of-words",
        OUTSIDE,
        Edit("answer[:, 1:]).sum(dim=1)", "answer[:, 1:]).sum(dim=1) / answer[:, 1:].sum(dim=1)  # <- here", TASK),
        near="better, worse = (learnt - known)",
    ),
    fault(
        "gpt_neox/norm-shared",
        (LAYER, f"{LAYER}.input_layernorm", f"{LAYER}.post_attention_layernorm", f"{LAYER}.mlp"),
        Edit(
            "self.mlp(self.post_attention_layernorm(hidden_states))",
            "self.mlp(self.input_layernorm(hidden_states))  # <- here",
        ),
    ),
    fault(
        "gpt_neox/query-and-key-exchanged",
        f"{LAYER}.attention",
        Edit(
            "query_states, key_states, value_states = qkv.chunk(3, dim=-1)",
            "key_states, query_states, value_states = qkv.chunk(3, dim=-1)  # <- here",
        ),
        near=("q_embed = (q_rot * cos)", "k_embed = (k_rot * cos)"),
    ),
    fault(
        "gpt_neox/value-detached",
        (f"{LAYER}.attention", "policy.gpt_neox.layers.1.attention"),
        Edit(
            "    attn_output = torch.matmul(attn_weights, value)",
            "    attn_output = torch.matmul(attn_weights, value.detach())",
        ),
        at="attn_output = torch.matmul(attn_weights, value",
    ),
]
ENCODER = "model.encoder.layers.0"
DECODER = "model.decoder.layers.0"
BART = [
    fault(
        "bart/words-not-scaled",
        ("model.encoder.embed_tokens", "model.shared"),
        built("model.model.encoder.embed_tokens.embed_scale = 1.0"),
        at="return super().forward(input_ids) * self.embed_scale",
    ),
    fault(
        "bart/position-offset",
        "model.encoder.embed_positions",
        Edit("position_ids + self.offset)", "position_ids + self.offset - 1)  # <- here"),
    ),
    fault(
        "bart/padding-seen-by-decoder",
        ("model", "model.decoder", DECODER, f"{DECODER}.encoder_attn"),
        Edit("            encoder_attention_mask=attention_mask,\n", "            encoder_attention_mask=None,\n"),
        at=("encoder_attention_mask=None,", "decoder_outputs: BaseModelOutputWithPastAndCrossAttentions = "),
        healthy_at="attn_weights = attn_weights + attention_mask",
        near=("attn_weights = nn.functional.softmax(", "encoder_attention_mask = create_bidirectional_mask("),
    ),
    fault(
        "bart/norm-before-residual",
        (ENCODER, f"{ENCODER}.final_layer_norm"),
        Edit(
            "        hidden_states = residual + hidden_states\n"
            "        hidden_states = self.final_layer_norm(hidden_states)\n",
            "        hidden_states = residual + self.final_layer_norm(hidden_states)  # <- here\n",
            after="class BartEncoderLayer(",
        ),
        healthy_at=(
            "self.fc2(hidden_states) >> hidden_states = residual + hidden_states",
            "self.fc2(hidden_states) >> hidden_states = self.final_layer_norm(hidden_states)",
        ),
    ),
    fault(
        "bart/norm-of-other-attention",
        (DECODER, f"{DECODER}.self_attn_layer_norm", f"{DECODER}.encoder_attn_layer_norm"),
        Edit("self.encoder_attn_layer_norm(hidden_states)", "self.self_attn_layer_norm(hidden_states)  # <- here"),
    ),
    fault(
        "bart/labels-not-smoothed",
        OUTSIDE,
        Edit("label_smoothing=0.1", "label_smoothing=0.0", TASK),
        at="return F.cross_entropy(",
    ),
    fault("bart/other-start", OUTSIDE, Edit("value=2)", "value=1)", TASK), at="words = F.pad("),
    fault(
        "bart/attention-over-queries",
        f"{ENCODER}.self_attn",
        Edit("nn.functional.softmax(attn_weights, dim=-1)", "nn.functional.softmax(attn_weights, dim=-2)  # <- here"),
    ),
]
RETAIN = "blocks.0.retention"
RETENTION = [
    fault(
        "retention/decay-of-other-heads",
        RETAIN,
        Edit("torch.arange(heads)))", "torch.arange(heads).flip(0)))"),
        at="power = self.decay[:, None, None]",
    ),
    fault(
        "retention/present-not-seen",
        RETAIN,
        Edit("(power * (distance >= 0))", "(power * (distance > 0))"),
        at="power = (power * (distance > 0))",
    ),
    fault(
        "retention/distance-reversed",
        RETAIN,
        Edit("time[:, None] - time[None, :]", "time[None, :] - time[:, None]"),
        at="distance = time[None, :]",
    ),
    fault(
        "retention/norm-eps",
        f"{RETAIN}.norm",
        built("model.blocks[0].retention.norm.eps = 1e-1"),
        at="mixed = self.norm(mixed.flatten(0, 1))",
    ),
    fault(
        "retention/channels-mixed",
        (RETAIN, f"{RETAIN}.norm"),
        Edit("mixed.transpose(1, 2).flatten(2)", "mixed.permute(0, 2, 3, 1).flatten(2)  # <- here"),
        near="mixed = self.norm(mixed.flatten(0, 1))",
    ),
    fault(
        "retention/gate-not-multiplied",
        RETAIN,
        Edit("F.silu(self.gate(x)) * mixed", "torch.sigmoid(self.gate(x)) * mixed"),
        at="return self.out(torch.sigmoid",
    ),
    fault(
        "retention/words-not-scaled",
        OUTSIDE,
        Edit("self.embed(words) * self.embed.embedding_dim**0.5", "self.embed(words)  # <- here"),
        near=("x = block(x)", "x = x + self.retention(self.norm1(x))"),
    ),
    fault(
        "retention/key-detached",
        (RETAIN, f"{RETAIN}.key", "blocks.1.retention", "blocks.1.retention.key"),
        Edit("self.split(self.key(x))", "self.split(self.key(x)).detach()"),
        at=("q, k, v = self.split(self.query(x))", "mixed = self.retained(q, k * self.scale, v)"),
        near="scores = torch.matmul(q, k.transpose(2, 3))",
    ),
]

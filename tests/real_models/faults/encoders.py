"""Planted faults of models with an encoder: what is wrong, and which module and line are right."""

from __future__ import annotations

from tests.real_models.faults.plant import (
    BETAS,
    NO_DECAY,
    OPTIMIZER,
    OUTSIDE,
    STEP,
    built,
    fault,
    swapped,
)
from tests.real_models.runs import TASK, TRAIN, Edit

BERT = [
    fault(
        "bert/token-types-missing",
        "bert.embeddings",
        Edit("embeddings = inputs_embeds + token_type_embeddings", "embeddings = inputs_embeds"),
        at="embeddings = embeddings + position_embeddings",
        healthy_at="embeddings = inputs_embeds + token_type_embeddings",
    ),
    fault(
        "bert/mask-cancelled",
        "bert.encoder.layer.0.attention.self",
        Edit(
            "attn_weights = attn_weights + attention_mask",
            "attn_weights = attn_weights + attention_mask * 0  # <- here",
        ),
    ),
    fault(
        "bert/temperature",
        "bert.encoder.layer.0.attention.self",
        Edit(
            "nn.functional.softmax(attn_weights, dim=-1)",
            "nn.functional.softmax(attn_weights / 1.1, dim=-1)  # <- here",
        ),
    ),
    fault(
        "bert/norm-eps",
        "bert.encoder.layer.1.output.LayerNorm",
        built("model.bert.encoder.layer[1].output.LayerNorm.eps = 1e-2"),
        at="class BertOutput( >> hidden_states = self.LayerNorm(hidden_states + input_tensor)",
    ),
    fault(
        "bert/residual-missing",
        "bert.encoder.layer.0.attention.output",
        Edit(
            "self.LayerNorm(hidden_states + input_tensor)",
            "self.LayerNorm(hidden_states)  # <- here",
            after="class BertSelfOutput(",
        ),
        healthy_at="class BertSelfOutput( >> hidden_states = self.LayerNorm(hidden_states + input_tensor)",
    ),
    fault(
        "bert/label-smoothing",
        OUTSIDE,
        Edit("ignore_index=-100)", "ignore_index=-100, label_smoothing=0.1)  # <- here", TASK),
    ),
    fault(
        "bert/frozen-query",
        "bert.encoder.layer.0.attention.self.query",
        built("model.bert.encoder.layer[0].attention.self.query.weight.requires_grad_(False)"),
        at="class BertSelfAttention( >> query_layer = self.query(hidden_states)",
    ),
    fault(
        "bert/position-offset",
        "bert.embeddings",
        Edit(
            "self.position_ids[:, past_key_values_length : seq_length + past_key_values_length]",
            "self.position_ids[:, 1 : seq_length + 1]  # <- here",
        ),
        near=("torch.gather(buffered_token_type_ids", "self.position_embeddings(position_ids)"),
    ),
    fault(
        "bert/embedding-rows",
        "bert.embeddings.word_embeddings",
        swapped("model.bert.embeddings.word_embeddings.weight", 3, 7),
        at="inputs_embeds = self.word_embeddings(input_ids)",
    ),
    fault(
        "bert/activation-missing",
        ("cls.predictions.transform.transform_act_fn", "cls.predictions.transform"),
        Edit("        hidden_states = self.transform_act_fn(hidden_states)\n", ""),
        healthy_at="hidden_states = self.transform_act_fn(hidden_states)",
    ),
    fault("bert/betas", OPTIMIZER, BETAS, at=STEP),
]

T5 = [
    fault(
        "t5/buckets",
        "decoder.block.0.layer.0.SelfAttention",
        Edit("bidirectional=(not self.is_decoder)", "bidirectional=True"),
        at=(
            "(relative_position > 0).to(torch.long)",
            "relative_position = torch.abs(relative_position)",
            "is_small = relative_position < max_exact",
        ),
        healthy_at="relative_position = -torch.min(relative_position",
    ),
    fault(
        "t5/scale",
        "encoder.block.1.layer.0.SelfAttention",
        built("model.encoder.block[1].layer[0].SelfAttention.scaling = 0.9"),
        at="attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling",
    ),
    fault(
        "t5/norm-summed",
        "encoder.block.0.layer.0.layer_norm",
        Edit("pow(2).mean(-1, keepdim=True)", "pow(2).sum(-1, keepdim=True)  # <- here"),
    ),
    fault(
        "t5/activation",
        "encoder.block.0.layer.1.DenseReluDense.act",
        Edit("self.act = ACT2FN[config.dense_act_fn]", 'self.act = ACT2FN["relu"]', count=2),
        at="hidden_gelu = self.act(self.wi_0(hidden_states))",
    ),
    fault(
        "t5/bias-missing",
        "encoder.block.1.layer.0.SelfAttention",
        Edit("    if position_bias is not None:", "    if position_bias is not None and module.layer_idx != 1:"),
        at="attn_weights = attn_weights + attention_mask",
        healthy_at="attn_weights = attn_weights + position_bias",
    ),
    fault(
        "t5/cross-residual",
        "decoder.block.0.layer.1",
        Edit(
            "layer_output = hidden_states + self.dropout(attention_output)",
            "layer_output = normed_hidden_states + self.dropout(attention_output)  # <- here",
        ),
    ),
    fault("t5/optimizer-eps", OPTIMIZER, Edit("else 1e-8", "else 1e-3", TRAIN), at=STEP),
]

VIT = [
    fault(
        "vit/class-token-last",
        "vit.embeddings",
        Edit("torch.cat((cls_tokens, embeddings), dim=1)", "torch.cat((embeddings, cls_tokens), dim=1)  # <- here"),
        near="embeddings = embeddings + self.position_embeddings",
    ),
    fault(
        "vit/patches-transposed",
        "vit.embeddings.patch_embeddings",
        Edit(".flatten(2).transpose(1, 2)", ".transpose(2, 3).flatten(2).transpose(1, 2)  # <- here"),
        near="embeddings = self.patch_embeddings(pixel_values)",
    ),
    fault(
        "vit/positions-missing",
        "vit.embeddings",
        Edit("            embeddings = embeddings + self.position_embeddings\n", ""),
        at="embeddings = self.dropout(embeddings)",
        healthy_at="embeddings = embeddings + self.position_embeddings",
    ),
    fault(
        "vit/heads-mixed",
        "vit.layers.0.attention",
        Edit(
            "attn_output = attn_output.transpose(1, 2).contiguous()",
            "attn_output = attn_output.contiguous()  # <- here",
        ),
        at="attn_output = attn_output.reshape(*input_shape, -1).contiguous()",
        healthy_at="attn_output = attn_output.transpose(1, 2).contiguous()",
        near="attn_output = self.o_proj(attn_output)",
    ),
    fault(
        "vit/softmax-in-fp16",
        "vit.layers.0.attention",
        Edit("dim=-1, dtype=torch.float32).to(query.dtype)", "dim=-1, dtype=torch.float16).to(query.dtype)  # <- here"),
    ),
    fault(
        "vit/wrong-norm",
        ("vit.layers.0.layernorm_before", "vit.layers.0.layernorm_after", "vit.layers.0"),
        Edit("self.layernorm_before(hidden_states)", "self.layernorm_after(hidden_states)  # <- here"),
        healthy_at="hidden_states = self.layernorm_before(hidden_states)",
    ),
    fault("vit/weight-decay", OPTIMIZER, NO_DECAY, at=STEP),
]

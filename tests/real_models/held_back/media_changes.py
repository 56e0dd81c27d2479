"""Harmless changes of models of images and sound that msprobe was not tuned on."""

from __future__ import annotations

from tests.real_models.changes import compiled
from tests.real_models.runs import TASK, TRAIN, Edit

TOWERS = """        vision_outputs: BaseModelOutputWithPooling = self.get_image_features(
            pixel_values=pixel_values,
            interpolate_pos_encoding=interpolate_pos_encoding,
            **kwargs,
        )
"""
TEXT_TOWER = """        text_outputs: BaseModelOutputWithPooling = self.get_text_features(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            **kwargs,
        )
"""
POINTWISE = """        features = self.pwconv1(features)
        features = self.act(features)
        features = self.pwconv2(features)
"""
CONVOLVED = """        features = features.permute(0, 3, 1, 2)
        features = nn.functional.conv2d(features, self.pwconv1.weight[:, :, None, None], self.pwconv1.bias)
        features = self.act(features)
        features = nn.functional.conv2d(features, self.pwconv2.weight[:, :, None, None], self.pwconv2.bias)
        features = features.permute(0, 2, 3, 1)
"""

MEDIA: dict[str, dict[str, tuple[Edit, ...]]] = {
    "whisper": {
        "scaled-later": (
            Edit(
                "(self.q_proj(hidden_states) * self.scaling).view(hidden_shape).transpose(1, 2).contiguous()",
                "self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2).contiguous()",
            ),
            Edit("            scaling=1.0,\n", "            scaling=self.scaling,\n"),
        ),
        "activation-as-module": (
            Edit("nn.functional.gelu(self.conv1(input_features))", "nn.GELU()(self.conv1(input_features))"),
        ),
        "positions-by-slice": (
            Edit(
                "self.embed_positions(all_positions)",
                "self.embed_positions.weight[: all_positions.shape[0]]",
            ),
        ),
        "value-first": (
            Edit(
                "            key_states = self.k_proj(current_states).view(kv_shape).transpose(1, 2).contiguous()\n"
                "            value_states = self.v_proj(current_states).view(kv_shape).transpose(1, 2).contiguous()\n",
                "            value_states = self.v_proj(current_states).view(kv_shape).transpose(1, 2).contiguous()\n"
                "            key_states = self.k_proj(current_states).view(kv_shape).transpose(1, 2).contiguous()\n",
            ),
        ),
    },
    "clip": {
        "text-tower-first": (Edit(TOWERS + "\n" + TEXT_TOWER, TEXT_TOWER + "\n" + TOWERS),),
        "normalised-by-function": (
            Edit(
                "text_embeds = text_embeds / _get_vector_norm(text_embeds)",
                "text_embeds = nn.functional.normalize(text_embeds, dim=-1)",
            ),
        ),
        "norm-by-function": (
            Edit("    square_tensor = torch.pow(tensor, 2)\n", "    return tensor.norm(p=2, dim=-1, keepdim=True)\n"),
            Edit("    sum_tensor = torch.sum(square_tensor, dim=-1, keepdim=True)\n", ""),
            Edit("    normed_tensor = torch.pow(sum_tensor, 0.5)\n    return normed_tensor\n", ""),
        ),
        "linear-similarity": (
            Edit(
                "torch.matmul(text_embeds, image_embeds.t().to(text_embeds.device))",
                "nn.functional.linear(text_embeds, image_embeds)",
            ),
        ),
        "losses-halved": (Edit("(caption_loss + image_loss) / 2.0", "0.5 * caption_loss + 0.5 * image_loss"),),
        "compiled-mlp": (compiled("text_model.encoder.layers[0].mlp."),),
        "mlp-inlined": (
            Edit(
                "        hidden_states = self.mlp(hidden_states)\n",
                "        mlp = self.mlp\n        hidden_states = mlp.fc2(mlp.activation_fn(mlp.fc1(hidden_states)))\n",
            ),
        ),
    },
    "wav2vec2": {
        "padding-multiplied": (
            Edit(
                "hidden_states[~expand_attention_mask] = 0",
                "hidden_states = hidden_states * expand_attention_mask.to(hidden_states.dtype)",
                after="class Wav2Vec2Encoder(nn.Module)",
            ),
        ),
        "own-log-softmax": (
            Edit(
                "F.log_softmax(logits.float(), dim=-1).transpose(0, 1)",
                "(logits.float() - logits.float().logsumexp(dim=-1, keepdim=True)).transpose(0, 1)",
                TASK,
            ),
        ),
        "loss-as-module": (
            Edit(
                'F.ctc_loss(scores, inputs["labels"], lengths, torch.tensor([5, 5]), blank=0)',
                'torch.nn.CTCLoss(blank=0)(scores, inputs["labels"], lengths, torch.tensor([5, 5]))',
                TASK,
            ),
        ),
        "norm-on-two-lines": (
            Edit(
                "        hidden_states = hidden_states + self.feed_forward(hidden_states)\n",
                "        fed = self.feed_forward(hidden_states)\n        hidden_states = fed + hidden_states\n",
                after="class Wav2Vec2EncoderLayer(",
            ),
        ),
    },
    "swin": {
        "roll-by-slices": (
            Edit(
                "            hidden_states = torch.roll(\n"
                "                hidden_states,\n"
                "                shifts=(direction * self.shift_size, direction * self.shift_size),\n"
                "                dims=(1, 2),\n"
                "            )\n",
                "            cut = -direction * self.shift_size\n"
                "            hidden_states = torch.cat((hidden_states[:, cut:], hidden_states[:, :cut]), dim=1)\n"
                "            right, left = hidden_states[:, :, cut:], hidden_states[:, :, :cut]\n"
                "            hidden_states = torch.cat((right, left), dim=2)\n",
            ),
        ),
        "mask-by-where": (
            Edit(
                "attn_mask = attn_mask.masked_fill(attn_mask != 0, -100.0).masked_fill(attn_mask == 0, 0.0)",
                "attn_mask = torch.where(attn_mask != 0, -100.0, 0.0).to(attn_mask.dtype)",
            ),
        ),
        "windows-by-permute": (
            Edit(
                "windows = input_feature.transpose(2, 3).contiguous().view(",
                "windows = input_feature.permute(0, 1, 3, 2, 4, 5).reshape(",
            ),
        ),
        "pool-by-mean": (
            Edit(
                "pooled_output = self.pooler(sequence_output.transpose(1, 2))",
                "pooled_output = sequence_output.mean(dim=1)",
            ),
        ),
        "compiled-mlp": (compiled("swin.encoder.layers[0].blocks[0].mlp."),),
        "bias-added-behind": (
            Edit(
                "combined_mask = relative_position_bias + attention_mask",
                "combined_mask = attention_mask + relative_position_bias",
            ),
        ),
        "checkpointing": (
            Edit("    model.train()", "    model.train()\n    model.gradient_checkpointing_enable()", TRAIN),
        ),
    },
    "convnext": {
        "pointwise-convolutions": (Edit(POINTWISE, CONVOLVED),),
        "mean-by-pool": (
            Edit(
                "last_hidden_state.mean([-2, -1])", "nn.functional.adaptive_avg_pool2d(last_hidden_state, 1).flatten(1)"
            ),
        ),
        "own-norm-layout": (
            Edit(
                "            features = super().forward(features)\n"
                "            features = features.permute(0, 3, 1, 2)\n",
                "            features = nn.functional.layer_norm(\n"
                "                features, self.normalized_shape, self.weight, self.bias, self.eps\n"
                "            ).permute(0, 3, 1, 2)\n",
            ),
        ),
        "path-scaled-first": (
            Edit("hidden_states.div(keep_prob) * random_tensor", "hidden_states * random_tensor.div(keep_prob)"),
        ),
        "channels-last": (
            Edit("    model.train()", "    model.train()\n    model.to(memory_format=torch.channels_last)", TRAIN),
        ),
        "scale-behind": (
            Edit(
                "features = self.layer_scale_parameter * features", "features = features * self.layer_scale_parameter"
            ),
        ),
        "compiled-layer": (compiled("convnext.encoder.stages[1].layers[0]."),),
    },
    "dit": {
        "modulated-by-addcmul": (
            Edit(
                "x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)",
                "torch.addcmul(shift.unsqueeze(1), x, 1 + scale.unsqueeze(1))",
            ),
        ),
        "permuted-patches": (Edit('torch.einsum("nhwpqc->nchpwq", x)', "x.permute(0, 5, 1, 3, 2, 4).contiguous()"),),
        "multiplied-scale": (
            Edit(
                "(q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])", "(q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)"
            ),
        ),
        "gated-in-place": (
            Edit("return x + gate_m.unsqueeze(1) * fed", "return torch.addcmul(x, gate_m.unsqueeze(1), fed)"),
        ),
        "norm-by-function": (
            Edit(
                "modulate(self.norm1(x), shift_a, scale_a)",
                "modulate(F.layer_norm(x, (32,), eps=1e-6), shift_a, scale_a)",
            ),
        ),
        "checkpointed-block": (
            Edit(
                "            x = block(x, condition)\n",
                "            x = torch.utils.checkpoint.checkpoint(block, x, condition, use_reentrant=False)\n",
            ),
            Edit(
                "import torch.nn.functional as F\n", "import torch.nn.functional as F\nimport torch.utils.checkpoint\n"
            ),
        ),
        "compiled-block": (compiled("blocks[1]."),),
    },
    "vae": {
        "own-cross-entropy": (
            Edit(
                'F.binary_cross_entropy_with_logits(logits.float(), image, reduction="sum")',
                "(F.softplus(logits.float()) - logits.float() * image).sum()",
                TASK,
            ),
        ),
        "drawn-by-addcmul": (Edit("z = mean + noise * deviation", "z = torch.addcmul(mean, noise, deviation)"),),
        "deviation-by-root": (Edit("torch.exp(0.5 * log_variance)", "torch.exp(log_variance).sqrt()"),),
        "divergence-in-parts": (
            Edit(
                "-0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(dim=1).mean()",
                "0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum() / image.shape[0]",
                TASK,
            ),
        ),
    },
}
"""Family -> changes of its model or its training."""

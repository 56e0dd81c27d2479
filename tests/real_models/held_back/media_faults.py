"""Faults of models of images and sound that msprobe was not tuned on."""

from __future__ import annotations

from tests.real_models.faults.plant import OUTSIDE, built, fault
from tests.real_models.runs import TASK, Edit

WHISPER = [
    fault(
        "whisper/kernel-flipped",
        "model.encoder.conv2",
        built("w = model.model.encoder.conv2.weight; w.copy_(w.flip(-1))"),
        at="inputs_embeds = nn.functional.gelu(self.conv2(inputs_embeds))",
    ),
    fault(
        "whisper/approximate-activation",
        "model.encoder",
        Edit("gelu(self.conv1(input_features))", 'gelu(self.conv1(input_features), approximate="tanh")  # <- here'),
    ),
    fault(
        "whisper/states-normalised-twice",
        ("model.decoder.layers.0", "model.decoder.layers.0.encoder_attn"),
        Edit(
            "key_value_states=encoder_hidden_states,",
            "key_value_states=nn.functional.layer_norm(encoder_hidden_states, (32,)),  # <- here",
        ),
        near="hidden_states, _ = self.encoder_attn(",
    ),
    fault(
        "whisper/decoder-positions",
        ("model.decoder", "model.decoder.embed_positions"),
        Edit("inputs_embeds.device) + past_key_values_length", "inputs_embeds.device) + 1  # <- here"),
        near=("positions = self.embed_positions(", "return self.weight[position_ids]"),
    ),
    fault(
        "whisper/labels-not-shifted",
        ("", "model"),
        Edit(
            "F.pad(labels[:, :-1], (1, 0), value=1).masked_fill(labels == -100, 0)",
            "labels.masked_fill(labels == -100, 0)",
            TASK,
        ),
        at="before = labels.masked_fill(labels == -100, 0)",
        near='logits = model(input_features=inputs["input_features"]',
    ),
    fault(
        "whisper/encoder-norm-missing",
        ("model.encoder", "model.encoder.layer_norm"),
        Edit("        hidden_states = self.layer_norm(hidden_states)\n", "", after="class WhisperEncoder("),
        healthy_at="class WhisperEncoder( >> hidden_states = self.layer_norm(hidden_states)",
    ),
    fault(
        "whisper/not-causal",
        ("model.decoder", "model.decoder.layers.0", "model.decoder.layers.0.self_attn"),
        Edit("                causal_mask,\n", "                None,\n"),
        at="hidden_states = decoder_layer(",
        healthy_at="attn_weights = attn_weights + attention_mask",
        near="attn_weights = nn.functional.softmax(attn_weights, dim=-1)",
    ),
]

CLIP = [
    fault(
        "clip/logit-scale",
        OUTSIDE,
        Edit("logits_per_text * self.logit_scale.exp()", "logits_per_text * self.logit_scale"),
        at="logits_per_text * self.logit_scale",
    ),
    fault(
        "clip/one-direction",
        OUTSIDE,
        Edit("contrastive_loss(similarity.T)", "contrastive_loss(similarity)  # <- here"),
        near="return nn.functional.cross_entropy(logits, torch.arange(len(logits)",
    ),
    fault(
        "clip/text-not-normalised",
        OUTSIDE,
        Edit("        text_embeds = text_embeds / _get_vector_norm(text_embeds)\n", ""),
        healthy_at=(
            "text_embeds = text_embeds / _get_vector_norm(text_embeds)",
            "square_tensor = torch.pow(tensor, 2)",
        ),
        at="logits_per_text = torch.matmul(text_embeds",
    ),
    fault(
        "clip/token-after-end",
        ("text_model", "text_projection", ""),
        Edit(
            "input_ids.to(dtype=torch.int, device=last_hidden_state.device).argmax(dim=-1),",
            "input_ids.to(dtype=torch.int, device=last_hidden_state.device).argmax(dim=-1) + 1,  # <- here",
        ),
        at="pooled_output = last_hidden_state[",
        near="text_outputs.pooler_output = self.text_projection(pooled_output)",
    ),
    fault(
        "clip/norm-eps",
        "vision_model.pre_layrnorm",
        built("model.vision_model.pre_layrnorm.eps = 1e-2"),
        at="hidden_states = self.pre_layrnorm(hidden_states)",
    ),
    fault(
        "clip/patches-transposed",
        "vision_model.embeddings",
        Edit(
            "patch_embeds = patch_embeds.flatten(2).transpose(1, 2)",
            "patch_embeds = patch_embeds.transpose(2, 3).flatten(2).transpose(1, 2)  # <- here",
        ),
        near="embeddings = embeddings + self.position_embedding(self.position_ids)",
    ),
    fault(
        "clip/activation",
        "text_model.encoder.layers.0.mlp.activation_fn",
        built("model.text_model.encoder.layers[0].mlp.activation_fn = torch.nn.GELU()"),
        at="hidden_states = self.activation_fn(hidden_states)",
    ),
]

POSITIONS = "wav2vec2.encoder.pos_conv_embed"
WAV2VEC2 = [
    fault(
        "wav2vec2/norm-eps",
        "wav2vec2.feature_extractor.conv_layers.0.layer_norm",
        built("model.wav2vec2.feature_extractor.conv_layers[0].layer_norm.eps = 1e-1"),
        at="class Wav2Vec2GroupNormConvLayer( >> hidden_states = self.layer_norm(hidden_states)",
    ),
    fault(
        "wav2vec2/first-position-cut",
        (f"{POSITIONS}.padding", POSITIONS, f"{POSITIONS}.activation"),
        Edit("hidden_states[:, :, : -self.num_pad_remove]", "hidden_states[:, :, self.num_pad_remove :]  # <- here"),
        at="hidden_states = self.padding(hidden_states)",
        near="class Wav2Vec2PositionalConvEmbedding( >> hidden_states = self.activation(hidden_states)",
    ),
    fault(
        "wav2vec2/lengths",
        OUTSIDE,
        Edit("scores.shape[0] - 4]", "scores.shape[0]]", TASK),
        at="return F.ctc_loss(",
    ),
    fault(
        "wav2vec2/softmax-axis",
        OUTSIDE,
        Edit("F.log_softmax(logits.float(), dim=-1)", "F.log_softmax(logits.float(), dim=1)", TASK),
        at="F.log_softmax(logits.float(), dim=1)",
    ),
    fault(
        "wav2vec2/padding-kept",
        "wav2vec2.encoder",
        Edit("            hidden_states[~expand_attention_mask] = 0\n", "", after="class Wav2Vec2Encoder(nn.Module)"),
        healthy_at="class Wav2Vec2Encoder(nn.Module) >> hidden_states[~expand_attention_mask] = 0",
        at="position_embeddings = self.pos_conv_embed(hidden_states)",
    ),
    fault(
        "wav2vec2/features-detached",
        ("wav2vec2", "wav2vec2.feature_projection", "wav2vec2.feature_projection.layer_norm"),
        Edit(
            "        extract_features = extract_features.transpose(1, 2)\n\n        if attention_mask is not None:\n"
            "            # compute reduced attention_mask corresponding to feature vectors\n"
            "            attention_mask = self._get_feature_vector_attention_mask(\n"
            "                extract_features.shape[1], attention_mask, add_adapter=False\n",
            "        extract_features = extract_features.transpose(1, 2).detach()  # <- here\n\n"
            "        if attention_mask is not None:\n"
            "            # compute reduced attention_mask corresponding to feature vectors\n"
            "            attention_mask = self._get_feature_vector_attention_mask(\n"
            "                extract_features.shape[1], attention_mask, add_adapter=False\n",
            after="class Wav2Vec2Model(",
        ),
        near=(
            "hidden_states, extract_features = self.feature_projection(extract_features)",
            "norm_hidden_states = self.layer_norm(hidden_states)",
        ),
    ),
    fault(
        "wav2vec2/weight-length",
        tuple(f"{POSITIONS}.conv{rest}" for rest in ("", ".parametrizations.weight", ".parametrizations.weight.0")),
        built("model.wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight.original0 *= 1.1"),
        at="class Wav2Vec2PositionalConvEmbedding( >> hidden_states = self.conv(hidden_states)",
    ),
]

SHIFTED = "swin.encoder.layers.0.blocks.1"
SWIN = [
    fault(
        "swin/shift-sign",
        SHIFTED,
        Edit("direction = 1 if reverse else -1", "direction = -1 if reverse else 1"),
        at="hidden_states = torch.roll(",
    ),
    fault(
        "swin/window-mask-missing",
        (SHIFTED, f"{SHIFTED}.attention"),
        Edit(
            "attn_mask = attn_mask.masked_fill(attn_mask != 0, -100.0).masked_fill(attn_mask == 0, 0.0)",
            "attn_mask = torch.zeros_like(attn_mask)  # <- here",
        ),
        near=("attention_output, attn_weights = self.attention(", "combined_mask = relative_position_bias + attention"),
    ),
    fault(
        "swin/relative-index",
        ("swin.encoder.layers.0.blocks.0.attention.relative_position_bias", "swin.encoder.layers.0.blocks.0.attention"),
        Edit("relative_coords[:, :, 0] *= 2 * self", "relative_coords[:, :, 1] *= 2 * self"),
        at="relative_position_bias = self.relative_position_bias_table[self.relative_position_index]",
        near=("relative_position_bias = self.relative_position_bias()", "attn_weights = attn_weights + attention_mask"),
    ),
    fault(
        "swin/merge-order",
        ("swin.encoder.layers.0.downsample", "swin.encoder.layers.0.downsample.norm"),
        Edit("for col in range(2) for row in range(2)]", "for row in range(2) for col in range(2)]"),
        at=("for row in range(2) for col in range(2)]", "input_feature = torch.cat("),
        near="input_feature = self.norm(input_feature)",
    ),
    fault(
        "swin/wrong-residual",
        "swin.encoder.layers.0.blocks.0",
        Edit("self.dropout(hidden_states) + residual", "self.dropout(hidden_states) + shortcut  # <- here"),
    ),
    fault(
        "swin/largest-pooled",
        "swin.pooler",
        built("model.swin.pooler = torch.nn.AdaptiveMaxPool1d(1)"),
        at="pooled_output = self.pooler(sequence_output.transpose(1, 2))",
    ),
]

FIRST = "convnext.encoder.stages.0.layers.0"
CONVNEXT = [
    fault(
        "convnext/layer-scale-missing",
        FIRST,
        Edit("            features = self.layer_scale_parameter * features\n", "            pass\n"),
        healthy_at="features = self.layer_scale_parameter * features",
        near="features = residual + self.drop_path(features)",
    ),
    fault(
        "convnext/height-and-width-swapped",
        FIRST,
        Edit(
            "features = features.permute(0, 3, 1, 2)  # (N, H, W, C)",
            "features = features.permute(0, 3, 2, 1)  # <- here (N, H, W, C)",
        ),
        near="features = residual + self.drop_path(features)",
    ),
    fault(
        "convnext/dilation",
        f"{FIRST}.dwconv",
        built("c = model.convnext.encoder.stages[0].layers[0].dwconv; c.dilation = (2, 2); c.padding = (6, 6)"),
        at="features = self.dwconv(features)",
    ),
    fault(
        "convnext/path-not-scaled",
        "convnext.encoder.stages.0.layers.1.drop_path",
        Edit("hidden_states.div(keep_prob) * random_tensor", "hidden_states * random_tensor  # <- here"),
    ),
    fault(
        "convnext/norm-eps",
        "convnext.encoder.stages.1.downsampling_layer.0",
        built("model.convnext.encoder.stages[1].downsampling_layer[0].eps = 1e-2"),
        at=("features = layer(features)", "features = super().forward(features)"),
    ),
    fault(
        "convnext/largest-pooled",
        ("convnext", "convnext.layernorm"),
        Edit("last_hidden_state.mean([-2, -1])", "last_hidden_state.amax([-2, -1])"),
        at="last_hidden_state.amax([-2, -1])",
    ),
]

DIT = [
    fault(
        "dit/modulation",
        "blocks.0",
        Edit("x * (1 + scale.unsqueeze(1))", "x * scale.unsqueeze(1)"),
        at="return x * scale.unsqueeze(1) + shift",
    ),
    fault(
        "dit/shift-and-scale-swapped",
        "blocks.0",
        Edit("shift_a, scale_a, gate_a, shift_m", "scale_a, shift_a, gate_a, shift_m"),
        at="scale_a, shift_a, gate_a, shift_m",
        near="return x * (1 + scale",
    ),
    fault(
        "dit/patch-transposed",
        OUTSIDE,
        Edit('"nhwpqc->nchpwq"', '"nhwpqc->nchqwp"'),
        at='"nhwpqc->nchqwp"',
    ),
    fault(
        "dit/time-scale",
        "time",
        Edit("time[:, None].float() * speeds", "time[:, None].float() / 1000 * speeds"),
        at="time[:, None].float() / 1000 * speeds",
    ),
    fault("dit/wrong-gate", "blocks.0", Edit("gate_m.unsqueeze(1) * fed", "gate_a.unsqueeze(1) * fed  # <- here")),
    fault(
        "dit/heads-mixed",
        "blocks.0.attn",
        Edit(
            "reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)",
            "reshape(batch, length, self.heads, 3, width // self.heads).permute(3, 0, 2, 1, 4)  # <- here",
        ),
        near="scores = (q @ k.transpose(-2, -1))",
    ),
    fault(
        "dit/null-label",
        ("", "label"),
        Edit("self.label(label)", "self.label(label.clamp(max=4))"),
        at="self.label(label.clamp(max=4))",
    ),
]

VAE = [
    fault(
        "vae/deviation",
        OUTSIDE,
        Edit("torch.exp(0.5 * log_variance)", "torch.exp(log_variance)  # <- here"),
    ),
    fault(
        "vae/uniform-noise",
        OUTSIDE,
        Edit("torch.randn_like(deviation)", "torch.rand_like(deviation)  # <- here"),
        near="z = mean + noise * deviation",
    ),
    fault("vae/divergence-mean", OUTSIDE, Edit(".sum(dim=1).mean()", ".mean()", TASK), at="divergence = -0.5"),
    fault(
        "vae/norm-momentum",
        "encoder.norm1",
        built("model.encoder.norm1.momentum = 0.5"),
        at="x = F.leaky_relu(self.norm1(self.conv1(x)), 0.2)",
    ),
    fault("vae/corners", "decoder.up", built("model.decoder.up.align_corners = True"), at="x = self.up(x)"),
    fault(
        "vae/padding-mode",
        "decoder.conv2",
        Edit('padding_mode="reflect"', 'padding_mode="replicate"'),
        at="return self.conv2(x)",
    ),
    fault(
        "vae/sigmoid-twice",
        OUTSIDE,
        Edit(
            "F.binary_cross_entropy_with_logits(logits.float()",
            "F.binary_cross_entropy_with_logits(logits.sigmoid()",
            TASK,
        ),
        at="rebuilt = F.binary_cross_entropy_with_logits(logits.sigmoid()",
    ),
]

MEDIA = [*WHISPER, *CLIP, *WAV2VEC2, *SWIN, *CONVNEXT, *DIT, *VAE]

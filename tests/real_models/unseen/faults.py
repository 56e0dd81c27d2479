"""Faults of the unseen families: what is planted, and where it shows first."""

from __future__ import annotations

from tests.real_models.cases import Case
from tests.real_models.faults.plant import OPTIMIZER, OUTSIDE, built, fault
from tests.real_models.runs import TASK, TRAIN, Edit

ATTENTION = "model.layers.0.self_attn"
PHI = [
    fault(
        "phi/passed-part-first",
        ATTENTION,
        Edit("torch.cat((query_rot, query_pass), dim=-1)", "torch.cat((query_pass, query_rot), dim=-1)  # <- here"),
        near="attn_weights = torch.matmul(query, key_states",
    ),
    fault(
        "phi/feed-forward-not-normalised",
        ("model.layers.0", "model.layers.0.mlp", "model.layers.0.mlp.fc1"),
        Edit("self.resid_dropout(self.mlp(hidden_states))", "self.resid_dropout(self.mlp(residual))  # <- here"),
        near="hidden_states = self.fc1(hidden_states)",
    ),
    fault(
        "phi/norm-of-keys-for-queries",
        (ATTENTION, f"{ATTENTION}.q_layernorm", f"{ATTENTION}.k_layernorm"),
        Edit("self.q_layernorm(query_states)", "self.k_layernorm(query_states)  # <- here"),
    ),
    fault(
        "phi/scale-of-width",
        ATTENTION,
        Edit("self.scaling = self.head_dim**-0.5", "self.scaling = config.hidden_size**-0.5"),
        at="attn_weights = torch.matmul(query, key_states",
    ),
    fault(
        "phi/rotation-base",
        "model.rotary_emb",
        built("model.model.rotary_emb.inv_freq.mul_(0.5)"),
        at="freqs = position_ids[..., None].float() * self.inv_freq",
    ),
    fault(
        "phi/labels-not-shifted",
        OUTSIDE,
        Edit("labels[:, 1:].flatten()", "labels[:, :-1].flatten()", TASK),
        at="return F.cross_entropy(logits[:, :-1]",
    ),
]
LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"
ALBERT = [
    fault(
        "albert/tied-weight-copied",
        ("albert.embeddings.word_embeddings", "predictions.decoder", "optimizer", ""),
        Edit(
            "    optimizer = build_optimizer",
            "    head = model.predictions.decoder\n"
            "    head.weight = torch.nn.Parameter(head.weight.detach().clone())  # <- here\n"
            "    optimizer = build_optimizer",
            TRAIN,
        ),
        at=(
            "inputs_embeds = self.word_embeddings(input_ids)",
            "class AlbertMLMHead( >> hidden_states = self.decoder(hidden_states)",
        ),
        near=("torch.nn.utils.clip_grad_norm_(", "        optimizer.step()"),
    ),
    fault(
        "albert/one-layer-less",
        (
            "albert.encoder",
            "albert.encoder.albert_layer_groups.0",
            LAYER,
            f"{LAYER}.attention",
            f"{LAYER}.attention.query",
            "predictions",
            "predictions.dense",
        ),
        Edit("range(self.config.num_hidden_layers):", "range(self.config.num_hidden_layers - 1):  # <- here"),
        healthy_at=(
            "hidden_states = self.albert_layer_groups[group_idx](",
            "hidden_states = albert_layer(hidden_states, attention_mask",
            "query_layer = self.query(hidden_states)",
        ),
        near="class AlbertMLMHead( >> hidden_states = self.dense(hidden_states)",
    ),
    fault(
        "albert/padding-seen",
        ("", "albert", f"{LAYER}.attention"),
        Edit("    labels = given.pop(", '    given.pop("attention_mask")  # <- here\n    labels = given.pop(', TASK),
        at=("logits = model(**given).logits", "attention_mask = create_bidirectional_mask("),
        healthy_at="attn_weights = attn_weights + attention_mask",
        near="attn_weights = nn.functional.softmax(attn_weights, dim=-1)",
    ),
    fault(
        "albert/norm-before-residual",
        (f"{LAYER}.attention", f"{LAYER}.attention.LayerNorm"),
        Edit(
            "attn_output = self.LayerNorm(hidden_states + attn_output)",
            "attn_output = hidden_states + self.LayerNorm(attn_output)  # <- here",
        ),
    ),
    fault(
        "albert/activation-of-head",
        ("predictions.activation", "predictions"),
        built("model.predictions.activation = torch.nn.ReLU()"),
        at="class AlbertMLMHead( >> hidden_states = self.activation(hidden_states)",
    ),
    fault(
        "albert/mean-over-all-words",
        OUTSIDE,
        Edit("ignore_index=-100)", 'ignore_index=-100, reduction="sum") / labels.numel()  # <- here', TASK),
    ),
]
FEED = "segformer.stages.0.blocks.0.mlp"
SEGFORMER = [
    fault(
        "segformer/corners",
        "decode_head",
        Edit(
            'size=encoder_hidden_states[0].size()[2:], mode="bilinear", align_corners=False',
            'size=encoder_hidden_states[0].size()[2:], mode="bilinear", align_corners=True',
        ),
        at="encoder_hidden_state = nn.functional.interpolate(",
    ),
    fault(
        "segformer/stages-in-order",
        ("decode_head", "decode_head.linear_fuse"),
        Edit("torch.cat(all_hidden_states[::-1], dim=1))", "torch.cat(all_hidden_states, dim=1))  # <- here"),
    ),
    fault(
        "segformer/map-not-transposed",
        (f"{FEED}.dwconv", f"{FEED}.dwconv.dwconv"),
        Edit(
            "hidden_states.transpose(1, 2).view(batch_size, num_channels, height, width)",
            "hidden_states.reshape(batch_size, num_channels, height, width)  # <- here",
        ),
        near="class SegformerDepthWiseConv( >> hidden_states = self.dwconv(hidden_states)",
    ),
    fault(
        "segformer/running-norm",
        "decode_head.batch_norm",
        built("model.decode_head.batch_norm.eval()"),
        at="hidden_states = self.batch_norm(hidden_states)",
    ),
    fault(
        "segformer/unknown-pixels-counted",
        OUTSIDE,
        Edit("logits.softmax(dim=1) * known[:, None]", "logits.softmax(dim=1)  # <- here", TASK),
        near=("both = (chances * wanted)", "total = chances.sum(dim=(0, 2, 3))"),
    ),
    fault(
        "segformer/overlap-per-sample",
        OUTSIDE,
        Edit("(chances * wanted).sum(dim=(0, 2, 3))", "(chances * wanted).sum(dim=(1, 2, 3)).mean()  # <- here", TASK),
    ),
]
SEQ2SEQ = [
    fault(
        "seq2seq/clipped-before-unscaling",
        ("", "optimizer"),
        Edit("        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n", "", TRAIN),
        Edit(
            "        for parameter in model.parameters():\n",
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # <- here\n"
            "        for parameter in model.parameters():\n",
            TRAIN,
        ),
        at="            parameter.grad.div_(SCALE)",
        healthy_at="        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
    ),
    fault(
        "seq2seq/weighed-per-part",
        OUTSIDE,
        Edit("loss, _ = task.loss(model, inputs)", "loss, count = task.loss(model, inputs)", TRAIN),
        Edit("loss = loss / words", "loss = loss / count / PARTS  # <- here", TRAIN),
    ),
    fault(
        "seq2seq/sees-its-answer",
        ("", "decoder", "decoder.embed"),
        Edit("before = F.pad(target[:, :-1], (1, 0), value=1)", "before = target  # <- here", TASK),
        near=("logits = model(inputs", "word = self.embed(previous)"),
    ),
    fault(
        "seq2seq/softmax-over-batch",
        "decoder.attention",
        Edit("torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=0)  # <- here"),
    ),
    fault(
        "seq2seq/directions-exchanged",
        ("encoder", "encoder.bridge"),
        Edit(
            "start = torch.tanh(self.bridge(torch.cat((last[0], last[1]), dim=-1)))",
            "start = torch.tanh(self.bridge(torch.cat((last[1], last[0]), dim=-1)))  # <- here",
        ),
    ),
    fault(
        "seq2seq/padding-shifted",
        ("", "decoder.attention"),
        Edit("padding = source == 0\n", "padding = (source == 0).roll(1, 1)  # <- here\n"),
        near='scores = scores.masked_fill(padding, float("-inf"))',
    ),
    fault(
        "seq2seq/schedule-first",
        OPTIMIZER,
        Edit(
            "        optimizer.step()\n        schedule.step()\n",
            "        schedule.step()\n        optimizer.step()\n",
            TRAIN,
        ),
        at=("        optimizer.step()", "        schedule.step()"),
    ),
]
CONTRAST = [
    fault(
        "contrast/temperature",
        OUTSIDE,
        Edit("temperature=0.2", "temperature=0.1"),
        at="logits = torch.cat((same, other), dim=1) / temperature",
    ),
    fault(
        "contrast/follows-too-slowly",
        OUTSIDE,
        Edit(
            "slow.mul_(momentum).add_(fast, alpha=1 - momentum)",
            "slow.mul_(0.99).add_(fast, alpha=0.01)  # <- here",
        ),
    ),
    fault(
        "contrast/queue-not-updated",
        OUTSIDE,
        Edit("        model.enqueue(key)\n", "", TRAIN),
        healthy_at=("self.queue.copy_(torch.cat(", "        model.enqueue(key)"),
        near="other = query @ self.queue.clone().t()",
    ),
    fault(
        "contrast/slow-copy-in-eval",
        "slow.norm1",
        built("model.slow.norm1.eval()"),
        at="x = F.relu(self.norm1(self.conv1(x)))",
    ),
    fault(
        "contrast/decay-of-other-group",
        OPTIMIZER,
        Edit(
            '{"params": weights, "weight_decay": 1e-2}, {"params": others, "weight_decay": 0.0}',
            '{"params": weights, "weight_decay": 0.0}, {"params": others, "weight_decay": 1e-2}',
            TRAIN,
        ),
        at=("        optimizer.step()", "groups = ["),
    ),
    fault(
        "contrast/newest-keys-dropped",
        OUTSIDE,
        Edit("(self.queue[keys.shape[0] :], keys)", "(self.queue[: -keys.shape[0]], keys)"),
        at="self.queue.copy_(torch.cat(",
    ),
]
TIME = "blocks.0.time"
RECURRENCE = [
    fault(
        "recurrence/shifted-by-two",
        (TIME, "blocks.0"),
        Edit("return F.pad(x, (0, 0, 1, -1))", "return F.pad(x, (0, 0, 2, -2))  # <- here"),
        near="before = shifted(x)",
    ),
    fault(
        "recurrence/state-detached",
        (TIME, "blocks.1.time"),
        Edit("total = keep * total + weight", "total = keep * total.detach() + weight", count=1),
        at="total = keep * total.detach()",
        near=(
            "norm = keep * norm + weight",
            "outputs.append((total + now * v[:, t]) / (norm + now))",
            "keep = torch.exp(-torch.exp(self.decay))",
        ),
    ),
    fault(
        "recurrence/bonus-missing",
        TIME,
        Edit("now = weight[:, t] * torch.exp(self.bonus)", "now = weight[:, t]  # <- here"),
        near="outputs.append((total + now * v[:, t]) / (norm + now))",
    ),
    fault(
        "recurrence/square-missing",
        "blocks.0.channels",
        Edit("k = torch.square(torch.relu(self.key(mixed)))", "k = torch.relu(self.key(mixed))  # <- here"),
    ),
    fault(
        "recurrence/rounded-key",
        TIME,
        Edit("weight = torch.exp(k)", "weight = torch.exp(k.bfloat16()).float()  # <- here"),
    ),
    fault(
        "recurrence/norm-eps",
        "blocks.0.norm2",
        built("model.blocks[0].norm2.eps = 1e-1"),
        at="return x + self.channels(self.norm2(x))",
    ),
]
SINGLE: dict[str, Case] = {
    case.name.removeprefix("fault/"): case for case in (*PHI, *ALBERT, *SEGFORMER, *SEQ2SEQ, *CONTRAST, *RECURRENCE)
}
"""Family and fault -> the case."""

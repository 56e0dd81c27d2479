"""Harmless changes of the unseen families, of kinds that people make."""

from __future__ import annotations

from tests.real_models.faults.plant import built
from tests.real_models.runs import TASK, TRAIN, Edit

PHI: dict[str, tuple[Edit, ...]] = {
    "residual-first": (
        Edit(
            "attn_outputs + feed_forward_hidden_states + residual",
            "residual + attn_outputs + feed_forward_hidden_states",
        ),
    ),
    "feed-forward-first": (
        Edit("        feed_forward_hidden_states = self.resid_dropout(self.mlp(hidden_states))\n", ""),
        Edit(
            "        attn_outputs, _ = self.self_attn(\n",
            "        feed_forward_hidden_states = self.resid_dropout(self.mlp(hidden_states))\n"
            "        attn_outputs, _ = self.self_attn(\n",
        ),
    ),
    "rotated-part-by-split": (
        Edit(
            "        query_rot, query_pass = (\n"
            "            query_states[..., : self.rotary_ndims],\n"
            "            query_states[..., self.rotary_ndims :],\n"
            "        )\n",
            "        sizes = (self.rotary_ndims, self.head_dim - self.rotary_ndims)\n"
            "        query_rot, query_pass = query_states.split(sizes, dim=-1)\n",
        ),
    ),
    "functional-norm": (
        Edit(
            "query_states = self.q_layernorm(query_states)",
            "norm = self.q_layernorm\n"
            "            query_states = nn.functional.layer_norm(\n"
            "                query_states, norm.normalized_shape, norm.weight, norm.bias, norm.eps\n"
            "            )",
        ),
    ),
    "shared-angles": (
        Edit(
            "        cos = emb.cos() * self.attention_scaling\n        sin = emb.sin() * self.attention_scaling\n",
            "        cos, sin = torch.cos(emb), torch.sin(emb)\n",
        ),
    ),
}
ALBERT: dict[str, tuple[Edit, ...]] = {
    "chunked-feed-forward": (
        built("model.albert.encoder.albert_layer_groups[0].albert_layers[0].chunk_size_feed_forward = 4"),
    ),
    "positions-before-types": (
        Edit(
            "        embeddings = inputs_embeds + token_type_embeddings\n\n"
            "        position_embeddings = self.position_embeddings(position_ids)\n"
            "        embeddings = embeddings + position_embeddings\n",
            "        position_embeddings = self.position_embeddings(position_ids)\n"
            "        embeddings = inputs_embeds + position_embeddings + token_type_embeddings\n",
        ),
    ),
    "only-hidden-words": (
        Edit(
            "    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100)",
            "    hidden = labels != -100\n    return F.cross_entropy(logits.float()[hidden], labels[hidden])",
            TASK,
        ),
    ),
    "einsum-scores": (
        Edit(
            "torch.matmul(query, key.transpose(2, 3)) * scaling",
            'torch.einsum("bhqd,bhkd->bhqk", query, key) * scaling',
        ),
    ),
    "checkpointed-layers": (
        Edit(
            "            hidden_states = self.albert_layer_groups[group_idx](\n"
            "                hidden_states,\n"
            "                attention_mask,\n"
            "                **kwargs,\n"
            "            )\n",
            "            hidden_states = torch.utils.checkpoint.checkpoint(\n"
            "                self.albert_layer_groups[group_idx], hidden_states, attention_mask, use_reentrant=False\n"
            "            )\n",
        ),
        Edit(
            "import torch\nfrom torch import nn\n",
            "import torch\nimport torch.utils.checkpoint\nfrom torch import nn\n",
        ),
    ),
}
SEGFORMER: dict[str, tuple[Edit, ...]] = {
    "projected-by-convolution": (
        Edit(
            "        hidden_states = hidden_states.flatten(2).transpose(1, 2)\n"
            "        hidden_states = self.proj(hidden_states)\n",
            "        weight = self.proj.weight[:, :, None, None]\n"
            "        hidden_states = nn.functional.conv2d(hidden_states, weight, self.proj.bias)\n"
            "        hidden_states = hidden_states.flatten(2).transpose(1, 2)\n",
        ),
    ),
    "map-by-transpose": (
        Edit(
            "hidden_states.reshape(batch_size, height, width, -1).permute(0, 3, 1, 2).contiguous()\n\n        return",
            "hidden_states.transpose(1, 2).reshape(batch_size, -1, height, width)\n\n        return",
        ),
    ),
    "overlap-by-einsum": (
        Edit("(chances * wanted).sum(dim=(0, 2, 3))", 'torch.einsum("bchw,bchw->c", chances, wanted)', TASK),
        Edit("* known[:, None]\n    both", ".float() * known[:, None]\n    both", TASK),
    ),
    "own-cross-entropy": (
        Edit(
            '    return F.cross_entropy(logits, inputs["classes"], ignore_index=255) + overlap(',
            '    known = inputs["classes"] != 255\n'
            '    classes = inputs["classes"].masked_fill(~known, 0)\n'
            "    terms = -logits.log_softmax(dim=1).gather(1, classes[:, None]).squeeze(1)\n"
            "    return (terms * known).sum() / known.sum() + overlap(",
            TASK,
        ),
    ),
    "overlap-first": (
        Edit(
            '    return F.cross_entropy(logits, inputs["classes"], ignore_index=255) + '
            'overlap(logits, inputs["classes"])',
            '    shared = overlap(logits, inputs["classes"])\n'
            '    return shared + F.cross_entropy(logits, inputs["classes"], ignore_index=255)',
            TASK,
        ),
    ),
}
SEQ2SEQ: dict[str, tuple[Edit, ...]] = {
    "source-projected-once": (
        Edit("def forward(self, state, states, padding)", "def forward(self, state, states, projected, padding)"),
        Edit("self.from_source(states) + self.from_state(state)", "projected + self.from_state(state)"),
        Edit("previous, state, states, padding)", "previous, state, states, projected, padding)"),
        Edit("self.attention(state, states, padding)", "self.attention(state, states, projected, padding)"),
        Edit("position], state, states, padding)", "position], state, states, projected, padding)"),
        Edit(
            "        padding = source == 0\n",
            "        padding = source == 0\n        projected = self.decoder.attention.from_source(states)\n",
        ),
    ),
    "head-once": (
        Edit("logits.append(self.head(output))", "logits.append(output)"),
        Edit("return torch.stack(logits, dim=1)", "return self.head(torch.stack(logits, dim=1))"),
    ),
    "cell-by-hand": (
        Edit(
            "        state = self.cell(torch.cat((word, context), dim=-1), state)\n",
            "        given, cell = torch.cat((word, context), dim=-1), self.cell\n"
            "        r, z, n = nn.functional.linear(given, cell.weight_ih, cell.bias_ih).chunk(3, dim=-1)\n"
            "        own_r, own_z, own_n = nn.functional.linear(state, cell.weight_hh, cell.bias_hh).chunk(3, dim=-1)\n"
            "        z = torch.sigmoid(z + own_z)\n"
            "        new = torch.tanh(n + torch.sigmoid(r + own_r) * own_n)\n"
            "        state = (1 - z) * new + z * state\n",
        ),
    ),
    "one-backward": (
        Edit(
            "        (loss * SCALE).backward()\n        total += loss.item()\n", "        total = total + loss\n", TRAIN
        ),
        Edit("    return total\n", "    (total * SCALE).backward()\n    return total.item()\n", TRAIN),
    ),
    "fused": (Edit("eps=1e-9)", "eps=1e-9, fused=True)", TRAIN),),
    "divided-together": (
        Edit(
            "        for parameter in model.parameters():\n            parameter.grad.div_(SCALE)\n",
            "        torch._foreach_mul_([parameter.grad for parameter in model.parameters()], 1 / SCALE)\n",
            TRAIN,
        ),
    ),
}
OWN_SGD = """class Nesterov(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad + group["weight_decay"] * p
                state = self.state[p]
                state["velocity"] = group["momentum"] * state["velocity"] + grad if state else grad.clone()
                p -= group["lr"] * (grad + group["momentum"] * state["velocity"])


def train("""
CONTRAST: dict[str, tuple[Edit, ...]] = {
    "same-by-einsum": (
        Edit("(query * key).sum(dim=1, keepdim=True)", 'torch.einsum("nc,nc->n", query, key).unsqueeze(1)'),
    ),
    "followed-by-lerp": (Edit("slow.mul_(momentum).add_(fast, alpha=1 - momentum)", "slow.lerp_(fast, 1 - momentum)"),),
    "queue-replaced": (
        Edit(
            "self.queue.copy_(torch.cat((self.queue[keys.shape[0] :], keys)))",
            "self.queue = torch.cat((self.queue, keys))[keys.shape[0] :]",
        ),
    ),
    "own-sgd": (
        Edit("def train(", OWN_SGD, TRAIN),
        Edit(
            "torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True)",
            'Nesterov(groups, {"lr": 0.05, "momentum": 0.9})',
            TRAIN,
        ),
    ),
    "key-first": (
        Edit(
            "        query = self.encoder(first)\n        with torch.no_grad():\n            key = self.slow(second)\n",
            "        with torch.no_grad():\n            key = self.slow(second)\n        query = self.encoder(first)\n",
        ),
    ),
    "normalized-by-hand": (
        Edit("return F.normalize(x, dim=1)", "return x / x.square().sum(dim=1, keepdim=True).sqrt().clamp_min(1e-12)"),
    ),
}
LOOP = """        total = torch.zeros_like(x[:, 0])
        norm = torch.zeros_like(x[:, 0])
        outputs = []
        for t in range(x.shape[1]):
            now = weight[:, t] * torch.exp(self.bonus)
            outputs.append((total + now * v[:, t]) / (norm + now))
            total = keep * total + weight[:, t] * v[:, t]
            norm = keep * norm + weight[:, t]
        mixed = torch.stack(outputs, dim=1)
"""
AT_ONCE = """        time = torch.arange(x.shape[1])
        past = time[:, None] - time[None] - 1
        power = (keep.log() * past.clamp(min=0)[..., None]).exp() * (past >= 0)[..., None]
        now = weight * torch.exp(self.bonus)
        total = torch.einsum("tsc,bsc->btc", power, weight * v)
        norm = torch.einsum("tsc,bsc->btc", power, weight)
        mixed = (total + now * v) / (norm + now)
"""
RECURRENCE: dict[str, tuple[Edit, ...]] = {
    "all-times-at-once": (Edit(LOOP, AT_ONCE),),
    "shifted-by-cat": (
        Edit("return F.pad(x, (0, 0, 1, -1))", "return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)"),
    ),
    "mixed-by-hand": (
        Edit(
            "k = self.key(torch.lerp(before, x, torch.sigmoid(self.mix_key)))",
            "share = torch.sigmoid(self.mix_key)\n        k = self.key(x * share + before * (1 - share))",
        ),
    ),
    "square-by-product": (
        Edit(
            "        k = torch.square(torch.relu(self.key(mixed)))\n",
            "        k = F.relu(self.key(mixed))\n        k = k * k\n",
        ),
    ),
    "checkpointed-blocks": (
        Edit("x = block(x)", "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"),
        Edit("import torch\n", "import torch\nimport torch.utils.checkpoint\n"),
    ),
    "evaluated-between": (
        Edit(
            "        losses.append(loss.item())\n",
            "        model.eval()\n"
            "        with torch.no_grad():\n"
            "            held = task.loss(model, inputs)\n"
            "        assert torch.isfinite(held)\n"
            "        model.train()\n"
            "        losses.append(loss.item())\n",
            TRAIN,
        ),
    ),
}
CHANGES = {
    "phi": PHI,
    "albert": ALBERT,
    "segformer": SEGFORMER,
    "seq2seq": SEQ2SEQ,
    "contrast": CONTRAST,
    "recurrence": RECURRENCE,
}
"""Family -> changes."""
SDPA = ("phi", "albert", "segformer")
"""Families with two implementations of attention."""

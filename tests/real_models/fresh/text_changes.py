"""Harmless changes of the fresh families that read text."""

from __future__ import annotations

from tests.real_models.changes import CHECKPOINTING, compiled
from tests.real_models.runs import TASK, TRAIN, Edit

DEBERTA: dict[str, tuple[Edit, ...]] = {
    "divided-scores": (
        Edit(
            "torch.bmm(query_layer, key_layer.transpose(-1, -2) / scale.to(dtype=query_layer.dtype))",
            "torch.bmm(query_layer, key_layer.transpose(-1, -2)) / scale.to(dtype=query_layer.dtype)",
        ),
    ),
    "positions-not-repeated": (
        Edit(
            "            c2p_att = torch.bmm(query_layer, pos_key_layer.transpose(-1, -2))\n",
            "            heads = query_layer.unflatten(0, (-1, self.num_attention_heads))\n"
            "            own = pos_key_layer[: self.num_attention_heads]\n"
            '            c2p_att = torch.einsum("bhqd,hpd->bhqp", heads, own).flatten(0, 1)\n',
        ),
    ),
    "scores-collected": (
        Edit("score += c2p_att / scale.to(dtype=c2p_att.dtype)", "score = c2p_att / scale.to(dtype=c2p_att.dtype)"),
        Edit("score += p2c_att / scale.to(dtype=p2c_att.dtype)", "score = score + p2c_att * scale.reciprocal()"),
    ),
    "heads-by-transpose": (
        Edit(
            "x.permute(0, 2, 1, 3).contiguous().view(-1, x.size(1), x.size(-1))",
            "x.transpose(1, 2).reshape(-1, x.size(1), x.size(-1))",
        ),
    ),
    "masked-by-where": (
        Edit(
            "attention_scores.masked_fill(~(attention_mask), torch.finfo(query_layer.dtype).min)",
            "torch.where(attention_mask, attention_scores, torch.finfo(query_layer.dtype).min)",
        ),
    ),
    "convolution-out-of-place": (
        Edit(
            "out.masked_fill_(rmask.unsqueeze(-1).expand(out.size()), 0)",
            "out = out * (~rmask).unsqueeze(-1).to(out.dtype)",
        ),
    ),
    "only-known-words": (
        Edit(
            'F.cross_entropy(logits.flatten(0, 1), inputs["tags"].flatten(), ignore_index=-100)',
            'F.cross_entropy(logits[inputs["tags"] >= 0], inputs["tags"][inputs["tags"] >= 0])',
            TASK,
        ),
    ),
    "checkpointing": (CHECKPOINTING,),
    "compiled-layer": (compiled("deberta.encoder.layer[1].intermediate."),),
}
GPT_NEOX: dict[str, tuple[Edit, ...]] = {
    "two-passes": (
        Edit(
            '    learnt = likelihood(model.policy, inputs["words"], inputs["answer"])\n',
            '    halves = zip(inputs["words"].chunk(2), inputs["answer"].chunk(2))\n'
            "    learnt = torch.cat([likelihood(model.policy, words, answer) for words, answer in halves])\n",
            TASK,
        ),
    ),
    "reference-first": (
        Edit('    learnt = likelihood(model.policy, inputs["words"], inputs["answer"])\n', "", TASK),
        Edit(
            "    better, worse = ",
            '    learnt = likelihood(model.policy, inputs["words"], inputs["answer"])\n    better, worse = ',
            TASK,
        ),
    ),
    "softplus-for-logsigmoid": (
        Edit("F.logsigmoid(margin) * (1", "-F.softplus(-margin) * (1", TASK),
        Edit("F.logsigmoid(-margin) * S", "-F.softplus(margin) * S", TASK),
    ),
    "terms-by-cross-entropy": (
        Edit(
            "logits.log_softmax(dim=-1).gather(2, words[:, 1:, None]).squeeze(2)",
            '-F.cross_entropy(logits.transpose(1, 2), words[:, 1:], reduction="none")',
            TASK,
        ),
    ),
    "terms-by-einsum": (
        Edit("(terms * answer[:, 1:]).sum(dim=1)", 'torch.einsum("bt,bt->b", terms, answer[:, 1:])', TASK),
    ),
    "split-for-chunk": (Edit("qkv.chunk(3, dim=-1)", "qkv.split(self.head_size, dim=-1)"),),
    "residual-first": (Edit("mlp_output + attn_output + hidden_states", "hidden_states + (attn_output + mlp_output)"),),
    "mlp-first": (
        Edit(
            "            mlp_output = self.mlp(self.post_attention_layernorm(hidden_states))\n"
            "            mlp_output = self.post_mlp_dropout(mlp_output)\n"
            "            hidden_states = mlp_output + attn_output + hidden_states\n",
            "            hidden_states = mlp_output + attn_output + hidden_states\n",
        ),
        Edit(
            "        attn_output, _ = self.attention(\n",
            "        if self.use_parallel_residual:\n"
            "            mlp_output = self.mlp(self.post_attention_layernorm(hidden_states))\n"
            "            mlp_output = self.post_mlp_dropout(mlp_output)\n"
            "        attn_output, _ = self.attention(\n",
        ),
    ),
    "checkpointing": (
        Edit("    model.train()", "    model.train()\n    model.policy.gradient_checkpointing_enable()", TRAIN),
    ),
}
SHARED_PROJECTION = """        if is_cross_attention:
            key_states, value_states = self.k_proj(current_states), self.v_proj(current_states)
        else:
            weight = torch.cat((self.k_proj.weight, self.v_proj.weight))
            bias = torch.cat((self.k_proj.bias, self.v_proj.bias))
            key_states, value_states = nn.functional.linear(current_states, weight, bias).chunk(2, dim=-1)
"""
DROPOUT = "nn.functional.dropout(hidden_states, p=self.{}, training=self.training)"
BART: dict[str, tuple[Edit, ...]] = {
    "keys-and-values-together": (
        Edit(
            "            key_states = self.k_proj(current_states)\n"
            "            value_states = self.v_proj(current_states)\n",
            "".join(f"    {line}\n" for line in SHARED_PROJECTION.splitlines()),
        ),
    ),
    "baddbmm-scores": (
        Edit(
            "    attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling\n",
            "    shape = (*query.shape[:3], key.shape[2])\n"
            "    zero = query.new_zeros(())\n"
            "    attn_weights = torch.baddbmm(\n"
            "        zero, query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2), beta=0, alpha=scaling\n"
            "    ).view(shape)\n",
        ),
    ),
    "positions-by-functional": (
        Edit(
            "return super().forward(position_ids + self.offset)",
            "return nn.functional.embedding(position_ids, self.weight[self.offset :])",
        ),
    ),
    "smoothed-by-hand": (
        Edit(
            "    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), "
            "ignore_index=-100, label_smoothing=0.1)",
            "    chances = logits.log_softmax(dim=-1)\n"
            "    known = labels != -100\n"
            "    hit = -chances.gather(2, labels.clamp(min=0)[..., None]).squeeze(2)\n"
            "    terms = 0.9 * hit - 0.1 * chances.mean(dim=-1)\n"
            "    return (terms * known).sum() / known.sum()",
            TASK,
        ),
    ),
    "scaled-word-by-word": (
        Edit("super().forward(input_ids) * self.embed_scale", "self.embed_scale * super().forward(input_ids)"),
        Edit("inputs_embeds + embed_pos", "embed_pos + inputs_embeds"),
    ),
    "no-dropout-call": (
        Edit(
            f"            hidden_states = {DROPOUT.format('dropout')}\n",
            "",
        ),
        Edit(
            f"        hidden_states = {DROPOUT.format('dropout')}\n",
            "",
            count=6,
        ),
        Edit(
            f"        hidden_states = {DROPOUT.format('activation_dropout')}\n",
            "",
            count=2,
        ),
    ),
    "shifted-by-roll": (
        Edit(
            "F.pad(labels[:, :-1].masked_fill(labels[:, :-1] == -100, 0), (1, 0), value=2)",
            "labels.clamp(min=0).roll(1, dims=1).index_fill(1, torch.tensor([0]), 2)",
            TASK,
        ),
    ),
    "compiled-layer": (compiled("model.decoder.layers[0]."),),
}
RETAINED = """        power = self.decay[:, None, None] ** distance.clamp(min=0)
        power = (power * (distance >= 0)).to(q.dtype)
        scores = torch.matmul(q, k.transpose(2, 3)) * power
        return torch.matmul(scores, v)
"""
STEP_BY_STEP = """        state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])
        found = []
        for now in range(q.shape[2]):
            state = state * self.decay[:, None, None].to(q.dtype) + k[:, :, now, :, None] * v[:, :, now, None, :]
            found.append((q[:, :, now, :, None] * state).sum(dim=2))
        return torch.stack(found, dim=2)
"""
IN_CHUNKS = """        power = self.decay[:, None, None] ** distance.clamp(min=0)
        power = (power * (distance >= 0)).to(q.dtype)
        found = []
        for start in range(0, q.shape[2], 4):
            part = slice(start, start + 4)
            end = min(start + 4, q.shape[2])
            inner = torch.matmul(q[:, :, part], k[:, :, :end].transpose(2, 3)) * power[:, part, :end]
            found.append(torch.matmul(inner, v[:, :, :end]))
        return torch.cat(found, dim=2)
"""
RETENTION: dict[str, tuple[Edit, ...]] = {
    "step-by-step": (Edit(RETAINED, STEP_BY_STEP),),
    "in-chunks": (Edit(RETAINED, IN_CHUNKS),),
    "one-einsum": (
        Edit(
            "        scores = torch.matmul(q, k.transpose(2, 3)) * power\n        return torch.matmul(scores, v)\n",
            '        return torch.einsum("bhnd,bhmd,hnm,bhme->bhne", q, k, power, v)\n',
        ),
    ),
    "query-scaled": (Edit("self.retained(q, k * self.scale, v)", "self.retained(q * self.scale, k, v)"),),
    "one-projection": (
        Edit(
            "        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))\n",
            "        weight = torch.cat((self.query.weight, self.key.weight, self.value.weight))\n"
            "        q, k, v = (self.split(part) for part in F.linear(x, weight).chunk(3, dim=-1))\n",
        ),
    ),
    "norm-by-heads": (
        Edit(
            "        mixed = mixed.transpose(1, 2).flatten(2)\n"
            "        mixed = self.norm(mixed.flatten(0, 1)).view_as(mixed)\n",
            "        mixed = F.layer_norm(mixed.transpose(1, 2), mixed.shape[-1:], eps=self.norm.eps).flatten(2)\n"
            "        mixed = mixed * self.norm.weight + self.norm.bias\n",
        ),
    ),
    "own-swish": (
        Edit(
            "self.out(F.silu(self.gate(x)) * mixed)",
            "self.out(mixed * swish(self.gate(x)))",
        ),
        Edit("class Retention(", "def swish(x):\n    return x * torch.sigmoid(x)\n\n\nclass Retention("),
    ),
    "mean-of-all": (Edit("return terms.view(2, -1).mean(dim=1).mean()", "return terms.sum() / terms.numel()", TASK),),
    "compiled-block": (compiled("blocks[1]."),),
}

"""Harmless changes of graphs, policies, adapters and adversarial and other trainings that msprobe was not tuned on."""

from __future__ import annotations

from tests.real_models.runs import TASK, TRAIN, Edit

OTHERS: dict[str, dict[str, tuple[Edit, ...]]] = {
    "gnn": {
        "scatter-for-index": (
            Edit(
                "out = torch.zeros_like(x).index_add(0, target, messages)",
                "out = torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(messages), messages)",
            ),
        ),
        "dense-product": (
            Edit(
                "        messages = x[source] * weight[:, None]\n"
                "        out = torch.zeros_like(x).index_add(0, target, messages)\n",
                "        dense = torch.zeros(x.shape[0], x.shape[0], dtype=x.dtype)\n"
                "        dense = dense.index_put((target, source), weight, accumulate=True)\n"
                "        out = dense @ x\n",
            ),
        ),
        "gathered-rows": (Edit("messages = h[source] * weights", "messages = h.index_select(0, source) * weights"),),
        "scores-by-einsum": (
            Edit("(h * self.from_source).sum(dim=-1)", "torch.einsum('nhw,hw->nh', h, self.from_source)"),
        ),
        "pooled-by-membership": (
            Edit(
                "        pooled = torch.zeros(graphs, h.shape[1], dtype=h.dtype).index_add(0, graph, h)\n"
                "        pooled = pooled / size[:, None]\n",
                "        member = F.one_hot(graph).to(h.dtype)\n        pooled = (member / size).t() @ h\n",
            ),
        ),
    },
    "policy": {
        "own-log-softmax": (
            Edit(
                "return torch.log_softmax(self.actor(x), dim=-1), self",
                "scores = self.actor(x)\n        return scores - scores.logsumexp(dim=-1, keepdim=True), self",
            ),
        ),
        "chosen-by-sum": (
            Edit(
                "log_prob.gather(1, torch.stack(actions).flatten()[:, None]).squeeze(1)\n    ratio",
                "(log_prob * F.one_hot(torch.stack(actions).flatten(), 3)).sum(dim=1)\n    ratio",
                TASK,
            ),
            Edit("import torch\n", "import torch\nimport torch.nn.functional as F\n", TASK),
        ),
        "square-by-function": (
            Edit("0.5 * (value - returns).pow(2).mean()", "0.5 * torch.nn.functional.mse_loss(value, returns)", TASK),
        ),
        "critic-first": (
            Edit(
                "return torch.log_softmax(self.actor(x), dim=-1), self.critic(x).squeeze(-1)",
                "value = self.critic(x).squeeze(-1)\n        return torch.log_softmax(self.actor(x), dim=-1), value",
            ),
        ),
    },
    "lora": {
        "input-scaled": (
            Edit(
                "        update = self.lora_b(self.lora_a(self.drop(x)))\n"
                "        return result + update * self.scaling\n",
                "        update = self.lora_b(self.lora_a(self.drop(x)) * self.scaling)\n"
                "        return update + result\n",
            ),
        ),
        "mask-added": (
            Edit(
                "scores = scores.masked_fill(hidden[:, None, None, :], -1e4)",
                "scores = scores + hidden[:, None, None, :].to(scores.dtype) * -1e4",
            ),
        ),
        "fused-attention": (
            Edit(
                "        scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5\n"
                "        scores = scores.masked_fill(hidden[:, None, None, :], -1e4)\n"
                "        weights = F.softmax(scores, dim=-1)\n"
                "        context = torch.matmul(weights, v).transpose(1, 2).flatten(2)\n",
                "        context = F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden[:, None, None, :])\n"
                "        context = context.transpose(1, 2).flatten(2)\n",
            ),
        ),
        "only-trained-parameters": (
            Edit("AdamW(model.parameters(), ", "AdamW([p for p in model.parameters() if p.requires_grad], ", TRAIN),
        ),
        "mean-by-matmul": (
            Edit(
                "pooled = (x * kept).sum(dim=1) / kept.sum(dim=1)",
                "pooled = ((kept / kept.sum(dim=1, keepdim=True)).transpose(1, 2) @ x).squeeze(1)",
            ),
        ),
    },
    "gan": {
        "foreach": (Edit("betas=(0.0, 0.9)", "betas=(0.0, 0.9), foreach=True", TRAIN, count=2),),
        "fused": (Edit("betas=(0.0, 0.9)", "betas=(0.0, 0.9), fused=True", TRAIN, count=2),),
        "zeroed-before": (
            Edit(
                '    fake = model.generator(inputs["other"])\n',
                '    optimizer.zero_grad()\n    fake = model.generator(inputs["other"])\n',
                TRAIN,
            ),
            Edit(
                "    optimizer.zero_grad()\n    loss.backward()\n",
                "    loss.backward()\n",
                TRAIN,
                after="def learn_to_draw(",
            ),
        ),
        "without-graph": (
            Edit(
                '    fake = model.generator(inputs["latent"]).detach()\n',
                '    with torch.no_grad():\n        fake = model.generator(inputs["latent"])\n',
                TRAIN,
            ),
        ),
        "hinge-by-clamp": (
            Edit(
                'F.relu(1 - model.discriminator(inputs["image"])).mean()',
                '(1 - model.discriminator(inputs["image"])).clamp(min=0).mean()',
                TRAIN,
            ),
        ),
    },
    "recipe": {
        "schedule-by-hand": (
            Edit(
                "        schedule.step()\n",
                "        for group in optimizer.param_groups:\n            group['lr'] = 2e-3 * rate(step + 1)\n",
                TRAIN,
            ),
        ),
        "average-by-lerp": (
            Edit(
                "kept.mul_(self.decay).add_(parameter, alpha=1 - self.decay)",
                "kept.lerp_(parameter, 1 - self.decay)",
                TRAIN,
            ),
        ),
        "groups-in-other-order": (
            Edit(
                'groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]',
                'groups = [{"params": others, "weight_decay": 0.0}, {"params": decayed, "weight_decay": 0.1}]',
                TRAIN,
            ),
        ),
        "divided-gradients": (Edit("parameter.grad.mul_(1 / self.scale)", "parameter.grad.div_(self.scale)", TRAIN),),
        "multiplied-loss": (Edit("scaler.backward(loss / PARTS)", "scaler.backward(loss * (1 / PARTS))", TRAIN),),
        "parts-loaded-first": (
            Edit(
                "        for part in range(PARTS):\n            loss = task.loss(model, task.batch(step, part))\n",
                "        parts = [task.batch(step, part) for part in range(PARTS)]\n"
                "        for inputs in parts:\n            loss = task.loss(model, inputs)\n",
                TRAIN,
            ),
        ),
        "fused": (Edit("lr=2e-3, ", "lr=2e-3, fused=True, ", TRAIN),),
        "mask-of-own": (
            Edit(
                "mask = nn.Transformer.generate_square_subsequent_mask(series.shape[1])",
                "mask = torch.full((series.shape[1],) * 2, float('-inf')).triu(1)",
            ),
        ),
        "average-behind": (
            Edit(
                "        schedule.step()\n        average.update(model)\n",
                "        average.update(model)\n        schedule.step()\n",
                TRAIN,
            ),
        ),
    },
}
"""Family -> changes of its model or its training."""

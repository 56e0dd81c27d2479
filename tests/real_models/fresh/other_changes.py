"""Harmless changes of the fresh families that hear, rank, act and learn to learn."""

from __future__ import annotations

from tests.real_models.runs import TASK, TRAIN, Edit

CTC: dict[str, tuple[Edit, ...]] = {
    "not-packed": (
        Edit(
            "        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)\n"
            "        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])\n",
            "        x, _ = self.lstm(x)\n",
        ),
    ),
    "sorted-by-hand": (
        Edit(
            "        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)\n",
            "        order = lengths.argsort(descending=True)\n"
            "        packed = pack_padded_sequence(x[order], lengths[order], batch_first=True)\n",
        ),
        Edit("total_length=x.shape[1])\n", "total_length=x.shape[1])\n        x = x[order.argsort()]\n"),
    ),
    "clamped": (
        Edit(
            "F.hardtanh(self.norm(self.conv(x.transpose(1, 2))), 0, 20)",
            "self.norm(self.conv(x.transpose(1, 2))).clamp(0, 20)",
        ),
    ),
    "convolution-of-images": (
        Edit(
            "self.conv(x.transpose(1, 2))",
            "F.conv2d(x.transpose(1, 2)[:, :, None], self.conv.weight[:, :, None], self.conv.bias, (1, 2), (0, 1))"
            ".squeeze(2)",
        ),
    ),
    "softmax-by-sum": (
        Edit(
            "        return self.head(self.out_norm(x)).log_softmax(dim=-1), lengths\n",
            "        x = self.head(self.out_norm(x))\n        return x - x.logsumexp(dim=-1, keepdim=True), lengths\n",
        ),
    ),
    "mean-by-hand": (
        Edit(
            '    return F.ctc_loss(chances.float().transpose(0, 1), inputs["letters"], lengths, '
            'inputs["counts"], blank=0)',
            '    given = (chances.float().transpose(0, 1), inputs["letters"], lengths, inputs["counts"])\n'
            '    terms = F.ctc_loss(*given, blank=0, reduction="none")\n'
            '    return (terms / inputs["counts"]).mean()',
            TASK,
        ),
    ),
    "letters-in-a-row": (
        Edit(
            'inputs["letters"], lengths',
            'torch.cat([row[:n] for row, n in zip(inputs["letters"], inputs["counts"])]), lengths',
            TASK,
        ),
    ),
}
DLRM: dict[str, tuple[Edit, ...]] = {
    "bags-by-index-add": (
        Edit("[table(index, offset) for table", "[summed(table, index, offset) for table"),
        Edit(
            "class Ranker(",
            "def summed(table, index, offset):\n"
            "    ends = torch.cat((offset[1:], offset.new_tensor([len(index)])))\n"
            "    bag = torch.repeat_interleave(torch.arange(len(offset)), ends - offset)\n"
            "    rows = nn.functional.embedding(index, table.weight)\n"
            "    return torch.zeros(len(offset), rows.shape[1]).index_add(0, bag, rows)\n\n\nclass Ranker(",
        ),
    ),
    "products-by-einsum": (
        Edit("torch.bmm(vectors, vectors.transpose(1, 2))", 'torch.einsum("bid,bjd->bij", vectors, vectors)'),
    ),
    "pairs-one-by-one": (
        Edit(
            "        products = torch.bmm(vectors, vectors.transpose(1, 2))\n"
            "        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)\n"
            "        pairs = products[:, rows, columns]\n",
            "        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)\n"
            "        pairs = (vectors[:, rows] * vectors[:, columns]).sum(dim=-1)\n",
        ),
    ),
    "bags-first": (
        Edit("        x = self.bottom(dense)\n        bags", "        bags"),
        Edit("        vectors = torch.stack(", "        x = self.bottom(dense)\n        vectors = torch.stack("),
    ),
    "weighed-by-softplus": (
        Edit(
            "    return F.binary_cross_entropy_with_logits(logits, clicked, pos_weight=torch.tensor(3.0))",
            "    return (3.0 * clicked * F.softplus(-logits) + (1 - clicked) * F.softplus(logits)).mean()",
            TASK,
        ),
    ),
    "logarithm-inside": (
        Edit('    dense = torch.log1p(inputs["dense"])\n', '    dense = inputs["dense"]\n', TASK),
        Edit("x = self.bottom(dense)", "x = self.bottom(torch.log(1 + dense))"),
    ),
    "pairs-by-mask": (
        Edit(
            "        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)\n"
            "        pairs = products[:, rows, columns]\n",
            "        below = torch.ones(products.shape[1:], dtype=torch.bool).tril(-1)\n"
            "        pairs = products[:, below]\n",
        ),
    ),
}
DQN: dict[str, tuple[Edit, ...]] = {
    "own-huber": (
        Edit(
            'F.smooth_l1_loss(values, target, reduction="none")',
            "torch.where((values - target).abs() < 1, 0.5 * (values - target) ** 2, (values - target).abs() - 0.5)",
            TASK,
        ),
    ),
    "target-first": (
        Edit("    target = wanted(model, inputs)\n", "", TASK),
        Edit("    values = model.online", "    target = wanted(model, inputs)\n    values = model.online", TASK),
    ),
    "chosen-by-index": (
        Edit(
            'model.online(inputs["state"]).gather(1, inputs["action"][:, None]).squeeze(1)',
            'model.online(inputs["state"])[torch.arange(8), inputs["action"]]',
            TASK,
        ),
    ),
    "done-by-where": (
        Edit(
            '        return inputs["reward"] + DISCOUNT * (1 - inputs["done"]) * later\n',
            '        return inputs["reward"] + torch.where(inputs["done"].bool(), 0.0, DISCOUNT * later)\n',
            TASK,
        ),
    ),
    "loaded-copy": (
        Edit(
            "        for slow, online in zip(self.slow.parameters(), self.online.parameters(), strict=True):\n"
            "            slow.copy_(online)\n",
            "        self.slow.load_state_dict(self.online.state_dict())\n",
        ),
    ),
    "foreach": (Edit("centered=True)", "centered=True, foreach=True)", TRAIN),),
    "clipped-by-hand": (
        Edit(
            "        torch.nn.utils.clip_grad_value_(model.online.parameters(), 0.05)\n",
            "        for p in model.online.parameters():\n            p.grad.clamp_(-0.05, 0.05)\n",
            TRAIN,
        ),
    ),
    "priorities-kept": (
        Edit(
            "    weight = (inputs",
            "    priorities = (values.detach() - target).abs() + 1e-3\n"
            "    assert priorities.min() > 0\n"
            "    weight = (inputs",
            TASK,
        ),
    ),
    "streams-exchanged": (
        Edit(
            "        return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)\n",
            "        return self.value(x) + (advantage - advantage.mean(dim=1, keepdim=True))\n",
        ),
    ),
}
MAML: dict[str, tuple[Edit, ...]] = {
    "forward-by-hand": (
        Edit("functional_call(model, weights, (x,))", "by_hand(weights, x)", TASK, count=2),
        Edit(
            "def adapted(",
            "def by_hand(w, x):\n"
            '    x = torch.tanh(F.linear(x, w["first.weight"], w["first.bias"]))\n'
            '    x = torch.tanh(F.linear(x, w["second.weight"], w["second.bias"]))\n'
            '    return F.linear(x, w["last.weight"], w["last.bias"]).squeeze(-1)\n\n\ndef adapted(',
            TASK,
        ),
    ),
    "steps-by-sub": (Edit("weight - RATE * g", "torch.sub(weight, g, alpha=RATE)", TASK),),
    "mean-by-division": (Edit("torch.stack(errors).mean()", "sum(errors) / len(errors)", TASK),),
    "all-adapted-first": (
        Edit(
            '    for one in inputs["tasks"]:\n        weights = adapted(model, one["known"])\n',
            '    found = [adapted(model, one["known"]) for one in inputs["tasks"]]\n'
            '    for one, weights in zip(inputs["tasks"], found):\n',
            TASK,
        ),
    ),
    "error-by-squares": (
        Edit(
            "error = F.mse_loss(functional_call(model, weights, (x,)), y)",
            "error = (functional_call(model, weights, (x,)) - y).square().mean()",
            TASK,
        ),
    ),
    "error-before-watched": (
        Edit(
            '        x, y = one["asked"]\n',
            '        x, y = one["asked"]\n'
            "        with torch.no_grad():\n"
            "            before = F.mse_loss(model(x), y)\n"
            "        assert torch.isfinite(before)\n",
            TASK,
        ),
    ),
}
FOREACH_LION = """            for p in group["params"]:
                self.state[p].setdefault("momentum", torch.zeros_like(p))
            grads = [p.grad for p in group["params"]]
            momenta = [self.state[p]["momentum"] for p in group["params"]]
            updates = torch._foreach_mul(momenta, fast)
            torch._foreach_add_(updates, grads, alpha=1 - fast)
            torch._foreach_div_(updates, 1e-3)
            torch._foreach_tanh_(updates)
            torch._foreach_mul_(group["params"], 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(group["params"], updates, alpha=-group["lr"])
            torch._foreach_mul_(momenta, slow)
            torch._foreach_add_(momenta, grads, alpha=1 - slow)


def learn("""
LION = """            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                momentum = state["momentum"]
                update = (fast * momentum + (1 - fast) * p.grad).div(1e-3).tanh()
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"])
                momentum.mul_(slow).add_(p.grad, alpha=1 - slow)


def learn("""
MIXER: dict[str, tuple[Edit, ...]] = {
    "patches-by-einsum": (
        Edit(
            "self.over_patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)",
            "self.over(self.norm1(x))",
        ),
        Edit("import torch.nn as nn\n", "import torch\nimport torch.nn as nn\n"),
        Edit(
            "    def forward(self, x):\n        x = x + self.over(",
            "    def over(self, x):\n"
            "        up, down = self.over_patches.up, self.over_patches.down\n"
            '        x = F.gelu(torch.einsum("bpc,ip->bic", x, up.weight) + up.bias[:, None])\n'
            '        return torch.einsum("bic,pi->bpc", x, down.weight) + down.bias[:, None]\n\n'
            "    def forward(self, x):\n        x = x + self.over(",
        ),
    ),
    "momentum-by-lerp": (
        Edit("momentum.mul_(slow).add_(p.grad, alpha=1 - slow)", "momentum.lerp_(p.grad, 1 - slow)", TRAIN),
    ),
    "foreach-lion": (Edit(LION, FOREACH_LION, TRAIN),),
    "decay-in-update": (
        Edit(
            '                p.mul_(1 - group["lr"] * group["weight_decay"])\n'
            '                p.add_(update, alpha=-group["lr"])\n',
            '                p.sub_(group["lr"] * (update + group["weight_decay"] * p))\n',
            TRAIN,
        ),
    ),
    "clipped-by-hand": (
        Edit(
            "        torch.nn.utils.clip_grad_norm_(master, 1.0)\n",
            "        total = torch.stack([q.grad.norm() for q in master]).norm()\n"
            "        for q in master:\n"
            "            q.grad.mul_(torch.clamp(1.0 / (total + 1e-6), max=1.0))\n",
            TRAIN,
        ),
    ),
    "loss-halved-later": (
        Edit("task.batch(step, part)) / PARTS\n", "task.batch(step, part))\n", TRAIN),
        Edit("        total += loss.item()\n", "        total += loss.item() / PARTS\n", TRAIN),
        Edit("p.grad.float() / SCALE", "p.grad.float() / (SCALE * PARTS)", TRAIN),
    ),
    "copied-together": (
        Edit(
            "    for p, q in zip(model.parameters(), master, strict=True):\n        p.copy_(q)\n",
            "    torch._foreach_copy_(list(model.parameters()), master)\n",
            TRAIN,
        ),
    ),
    "patches-by-unfold": (
        Edit(
            "self.embed(image).flatten(2).transpose(1, 2)",
            "F.linear(F.unfold(image, 4, stride=4).transpose(1, 2), self.embed.weight.flatten(1), self.embed.bias)",
        ),
    ),
}

"""Faults of the fresh families that hear, rank, act and learn to learn: what is planted, and where it shows first."""

from __future__ import annotations

from tests.real_models.faults.plant import OPTIMIZER, OUTSIDE, STEP, built, fault
from tests.real_models.runs import TASK, TRAIN, Edit

CTC = [
    fault(
        "ctc/frames-miscounted",
        ("", "lstm"),
        Edit("lengths = (lengths + 1) // 2", "lengths = lengths // 2  # <- here"),
        near=("packed = pack_padded_sequence(", "x, _ = pad_packed_sequence("),
    ),
    fault(
        "ctc/sum-of-letters",
        OUTSIDE,
        Edit("blank=0)", 'blank=0, reduction="sum") / 3', TASK),
        at="return F.ctc_loss(",
    ),
    fault("ctc/mean-over-batch", OUTSIDE, Edit("sound.mean(dim=1", "sound.mean(dim=0"), at="x = sound - sound.mean("),
    fault("ctc/softmax-over-time", OUTSIDE, Edit("log_softmax(dim=-1)", "log_softmax(dim=1)"), at="log_softmax(dim=1)"),
    fault("ctc/lower-limit", OUTSIDE, Edit(", 0, 20)", ", -1, 20)"), at="x = F.hardtanh("),
    fault("ctc/momentum", "norm", built("model.norm.momentum = 0.01"), at="x = F.hardtanh(self.norm("),
    fault(
        "ctc/bias-of-second-layer",
        "lstm",
        built("model.lstm.bias_ih_l1.add_(0.5)"),
        at="x, _ = pad_packed_sequence(self.lstm(packed)",
    ),
    fault(
        "ctc/letters-shifted",
        OUTSIDE,
        Edit('inputs["letters"], lengths', 'inputs["letters"].clamp(min=2) - 1, lengths', TASK),
        at="return F.ctc_loss(",
    ),
]
DLRM = [
    fault("dlrm/bag-averaged", "tables.0", built("model.tables[0].mode = 'mean'"), at="bags = [table(index, offset)"),
    fault(
        "dlrm/bags-begin-early",
        ("", "tables.0"),
        Edit("length.cumsum(0)[:-1]))", "length.cumsum(0)[:-1] - 1))", TASK),
        at='"offsets": [',
        near="bags = [table(index, offset)",
    ),
    fault(
        "dlrm/pairs-reversed",
        ("", "top", "top.0"),
        Edit("products[:, rows, columns]", "products[:, rows, columns].flip(1)  # <- here"),
        near="return self.top(torch.cat(",
    ),
    fault(
        "dlrm/weight-of-clicks",
        OUTSIDE,
        Edit("torch.tensor(3.0)", "torch.tensor(0.3)", TASK),
        at="return F.binary_cross_entropy_with_logits(",
    ),
    fault(
        "dlrm/counts-not-logarithmic",
        OUTSIDE,
        Edit('torch.log1p(inputs["dense"])', 'inputs["dense"] / 20  # <- here', TASK),
    ),
    fault(
        "dlrm/activation-missing",
        ("bottom", "bottom.3", ""),
        built("model.bottom[3] = torch.nn.Identity()"),
        at="x = self.bottom(dense)",
        near="vectors = torch.stack(",
    ),
    fault(
        "dlrm/columns-exchanged",
        "top.0",
        built("model.top[0].weight[:, [0, 1]] = model.top[0].weight[:, [1, 0]]"),
        at="return self.top(torch.cat(",
    ),
]
SLOW = ("", "slow", "slow.body", "slow.body.0")
USED = ("later = model.slow(", "x = self.body(state)")
DQN = [
    fault(
        "dqn/values-of-online",
        (*SLOW, "online", "online.body", "online.body.0"),
        Edit("later = model.slow(", "later = model.online(", TASK),
        at="later = model.online(",
        near="x = self.body(state)",
    ),
    fault(
        "dqn/chosen-by-slow",
        (*SLOW, "online", "online.body", "online.body.0"),
        Edit("best = model.online(", "best = model.slow(", TASK),
        at="best = model.slow(",
        near="x = self.body(state)",
    ),
    fault("dqn/discount", OUTSIDE, Edit("DISCOUNT * (1", "0.9 * (1", TASK), at='return inputs["reward"]'),
    fault(
        "dqn/end-ignored",
        OUTSIDE,
        Edit('DISCOUNT * (1 - inputs["done"]) * later', "DISCOUNT * later", TASK),
        at='return inputs["reward"]',
    ),
    fault(
        "dqn/renewed-every-step",
        SLOW,
        Edit("if (step + 1) % PERIOD == 0:", "if True:  # <- here", TRAIN),
        at=("            model.synchronize()", "slow.copy_(online)"),
        near=USED,
    ),
    fault(
        "dqn/renewed-before-step",
        SLOW,
        Edit("        optimizer.step()\n", "", TRAIN),
        Edit("            model.synchronize()\n", "            model.synchronize()\n        optimizer.step()\n", TRAIN),
        at=("            model.synchronize()", "slow.copy_(online)", STEP),
        near=USED,
    ),
    fault("dqn/weight-too-strong", OUTSIDE, Edit("** -0.5", "** -1.0", TASK), at='weight = (inputs["chance"]'),
    fault(
        "dqn/mean-over-batch",
        ("online", "slow"),
        Edit("advantage.mean(dim=1", "advantage.mean(dim=0"),
        at="return self.value(x) + advantage",
    ),
    fault("dqn/smoothing", OPTIMIZER, Edit("alpha=0.95", "alpha=0.99", TRAIN), at=STEP),
    fault(
        "dqn/clip-value",
        ("", "clip_grad"),
        Edit("parameters(), 0.05)", "parameters(), 0.02)", TRAIN),
        at="torch.nn.utils.clip_grad_value_(",
    ),
]
MAML = [
    fault(
        "maml/first-order",
        ("", "first", "second", "last"),
        Edit("create_graph=True", "create_graph=False", TASK),
        at=("gradients = torch.autograd.grad(", "weights = {name: weight - RATE * g"),
        near="error = F.mse_loss(",
    ),
    fault(
        "maml/rate", OUTSIDE, Edit("weight - RATE * g", "weight - 0.05 * g", TASK), at="weights = {name: weight - 0.05"
    ),
    fault(
        "maml/asked-what-is-known",
        ("", "first"),
        Edit('x, y = one["asked"]', 'x, y = one["known"]  # <- here', TASK),
        near=("errors.append(F.mse_loss(", "x = torch.tanh(self.first(x))"),
    ),
    fault(
        "maml/one-step-less",
        ("", "first"),
        Edit("range(INNER):", "range(INNER - 1):  # <- here", TASK),
        at="errors.append(F.mse_loss(",
        healthy_at="error = F.mse_loss(",
        near="x = torch.tanh(self.first(x))",
    ),
    fault(
        "maml/weight-detached",
        ("", "first", "second", "last"),
        Edit("weight - RATE * g", "weight.detach() - RATE * g", TASK),
        at="weights = {name: weight.detach()",
    ),
    fault(
        "maml/sum-of-tasks",
        OUTSIDE,
        Edit("torch.stack(errors).mean()", "torch.stack(errors).sum()", TASK),
        at="return torch.stack(errors)",
    ),
    fault(
        "maml/activation-missing",
        ("", "last"),
        Edit("x = torch.tanh(self.second(x))", "x = self.second(x)  # <- here"),
        near="return self.last(x).squeeze(-1)",
    ),
]
MIXER = [
    fault(
        "mixer/momentum-first",
        OPTIMIZER,
        Edit("                momentum.mul_(slow).add_(p.grad, alpha=1 - slow)\n", "", TRAIN),
        Edit(
            '                momentum = state["momentum"]\n',
            '                momentum = state["momentum"]\n'
            "                momentum.mul_(slow).add_(p.grad, alpha=1 - slow)\n",
            TRAIN,
        ),
        at=("momentum.mul_(slow)", "update = (fast * momentum"),
        healthy_at="momentum.mul_(slow)",
    ),
    fault(
        "mixer/betas-exchanged",
        OPTIMIZER,
        Edit('fast, slow = group["betas"]', 'slow, fast = group["betas"]  # <- here', TRAIN),
        at=("update = (fast * momentum", "momentum.mul_(slow)"),
    ),
    fault(
        "mixer/copies-truncated",
        ("", "optimizer"),
        Edit("        p.copy_(q)\n", "        p.copy_(q)\n        q.copy_(p)  # <- here\n", TRAIN),
        near=('p.mul_(1 - group["lr"]', STEP),
    ),
    fault(
        "mixer/clipped-before-unscaling",
        ("", "clip_grad", "optimizer"),
        Edit("p.grad.float() / SCALE", "p.grad.float()", TRAIN),
        Edit(
            "        torch.nn.utils.clip_grad_norm_(master, 1.0)\n",
            "        torch.nn.utils.clip_grad_norm_(master, 1.0)  # <- here\n"
            "        for q in master:\n            q.grad.div_(SCALE)  # <- here\n",
            TRAIN,
        ),
        at="q.grad = p.grad.float()",
    ),
    fault(
        "mixer/gradient-not-cleared",
        ("", "clip_grad", "optimizer"),
        Edit("        p.grad = None\n", "", TRAIN),
        at="q.grad = p.grad.float() / SCALE",
        healthy_at=("p.grad = None",),
        near=("(loss * SCALE).backward()",),
    ),
    fault(
        "mixer/patches-transposed",
        ("", "layers.0", "layers.0.norm1"),
        Edit("self.embed(image).flatten(2)", "self.embed(image).transpose(2, 3).flatten(2)"),
        at="x = self.embed(image)",
        near=("x = x + self.over_patches(", "x = layer(x)"),
    ),
    fault(
        "mixer/other-gelu",
        "layers.0.over_patches",
        Edit("F.gelu(self.up(x))", 'F.gelu(self.up(x), approximate="tanh")'),
        at="return self.down(F.gelu(",
    ),
    fault(
        "mixer/weight-decay",
        OPTIMIZER,
        Edit("weight_decay=0.1", "weight_decay=0.01", TRAIN),
        at=('p.mul_(1 - group["lr"]', STEP),
    ),
]

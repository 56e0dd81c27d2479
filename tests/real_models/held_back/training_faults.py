"""Faults of trainings that msprobe was not tuned on: adversarial, graphs, policies, adapters, schedules."""

from __future__ import annotations

from tests.real_models.cases import ANY
from tests.real_models.faults.plant import OPTIMIZER, OUTSIDE, STEP, built, fault
from tests.real_models.runs import TASK, TRAIN, Edit

TELL = "def learn_to_tell("
GAN = [
    fault(
        "gan/gradients-kept",
        ANY,
        Edit("    optimizer.zero_grad()\n", "", TRAIN, after=TELL),
        at=f"{TELL} >> loss.backward()",
        healthy_at=f"{TELL} >> optimizer.zero_grad()",
    ),
    fault(
        "gan/hinge-sign",
        OUTSIDE,
        Edit("F.relu(1 + model.discriminator(fake))", "F.relu(1 - model.discriminator(fake))", TRAIN),
        at="F.relu(1 - model.discriminator(fake))",
    ),
    fault(
        "gan/penalty-not-learnt",
        ("", "discriminator"),
        Edit("create_graph=True)", "create_graph=False)  # <- here", TRAIN),
        at="return gradient.pow(2).flatten(1)",
        near=f"{TELL} >> loss.backward()",
    ),
    fault(
        "gan/slope",
        "discriminator",
        Edit("F.leaky_relu(self.conv1(x), 0.2)", "F.leaky_relu(self.conv1(x), 0.1)  # <- here"),
    ),
    fault(
        "gan/generator-in-evaluation",
        "generator.norm1",
        Edit(
            '    fake = model.generator(inputs["other"])\n',
            '    model.generator.eval()\n    fake = model.generator(inputs["other"])\n',
            TRAIN,
        ),
        at="x = F.relu(self.norm1(x))",
    ),
    fault(
        "gan/learning-rate",
        OPTIMIZER,
        Edit("lr=1e-3", "lr=4e-3", TRAIN),
        at="def learn_to_draw( >> optimizer.step()",
    ),
]

GNN = [
    fault(
        "gnn/degree-of-source",
        "first",
        Edit("index_add(0, target, torch.ones_like(target", "index_add(0, source, torch.ones_like(target"),
        at="index_add(0, source, torch.ones_like(target",
    ),
    fault(
        "gnn/edges-reversed",
        ("", "first"),
        Edit("source, target = edges", "target, source = edges  # <- here"),
        near="h = self.first(x, source, target)",
    ),
    fault("gnn/degree-power", "first", Edit(".pow(-0.5)", ".pow(-1.0)  # <- here")),
    fault(
        "gnn/normalised-by-source", "second", Edit("total[target] + 1e-16", "total[source] + 1e-16"), at="total[source]"
    ),
    fault("gnn/slope", "second", Edit("received[target], 0.2)", "received[target], 0.01)  # <- here")),
    fault(
        "gnn/sum-for-mean",
        ("", "head"),
        Edit("        pooled = pooled / size[:, None]\n", ""),
        healthy_at="pooled = pooled / size[:, None]",
        at="return self.head(pooled)",
    ),
    fault(
        "gnn/class-weights",
        OUTSIDE,
        Edit("[1.0, 2.0, 0.5, 1.5]", "[1.0, 2.0, 1.5, 0.5]", TASK),
        at="return F.cross_entropy(",
    ),
]

POLICY = [
    fault(
        "policy/value-of-now",
        OUTSIDE,
        Edit("GAMMA * values[time + 1]", "GAMMA * values[time]", TASK),
        at="GAMMA * values[time]",
    ),
    fault(
        "policy/not-standardised",
        OUTSIDE,
        Edit(
            "(advantage - advantage.mean()) / (advantage.std() + 1e-8)",
            "advantage - advantage.mean()",
            TASK,
        ),
        healthy_at="(advantage - advantage.mean()) / (advantage.std() + 1e-8)",
        at=("torch.sign(advantage)", "surrogate = torch.minimum("),
    ),
    fault("policy/clip-range", OUTSIDE, Edit("clamp(0.95, 1.05)", "clamp(0.8, 1.2)", TASK), at="clamp(0.8, 1.2)"),
    fault("policy/entropy-sign", OUTSIDE, Edit("- 0.01 * entropy", "+ 0.01 * entropy", TASK), at="+ 0.01 * entropy"),
    fault("policy/larger-of-both", OUTSIDE, Edit("torch.minimum(", "torch.maximum(", TASK), at="torch.maximum("),
    fault(
        "policy/same-draw",
        OUTSIDE,
        Edit('inputs["draw"][time]', 'inputs["draw"][0]', TASK),
        at='inputs["draw"][0]',
    ),
    fault(
        "policy/not-turned-back",
        OUTSIDE,
        Edit("torch.stack(found[::-1])", "torch.stack(found)  # <- here", TASK),
        near="returns = (advantage + torch.stack(values[:-1]))",
    ),
]

QUERY = "layers.0.attention.query"
LORA = [
    fault(
        "lora/scaling",
        QUERY,
        Edit("self.scaling = alpha / rank", "self.scaling = alpha"),
        at="return result + update * self.scaling",
    ),
    fault(
        "lora/base-dropped",
        (QUERY, f"{QUERY}.base", f"{QUERY}.drop"),
        Edit("result = self.base(x)", "result = self.base(self.drop(x))  # <- here"),
    ),
    fault(
        "lora/base-not-frozen",
        f"{QUERY}.base",
        built("model.layers[0].attention.query.base.weight.requires_grad_(True)"),
        at="result = self.base(x)",
    ),
    fault(
        "lora/mask-padded-behind",
        ("", "layers.0"),
        Edit("F.pad(hidden, (3, 0), value=False)", "F.pad(hidden, (0, 3), value=False)  # <- here"),
        near="x = layer(x, hidden)",
    ),
    fault(
        "lora/adapter-residual",
        "layers.0.adapter",
        Edit("return x + self.up(F.gelu(self.down(x)))", "return self.up(F.gelu(self.down(x)))  # <- here"),
    ),
    fault(
        "lora/mean-of-padded",
        OUTSIDE,
        Edit("/ kept.sum(dim=1)", "/ x.shape[1]  # <- here"),
    ),
    fault(
        "lora/prompt-detached",
        ("", "layers.0"),
        Edit("self.prompt.expand(", "self.prompt.detach().expand("),
        at="self.prompt.detach().expand(",
        near=("x = torch.cat([prompt, x], dim=1)", "x = layer(x, hidden)"),
    ),
    fault(
        "lora/scale",
        "layers.0.attention",
        Edit("/ q.shape[-1] ** 0.5", "/ x.shape[-1] ** 0.5  # <- here"),
    ),
    fault(
        "lora/adapters-exchanged",
        f"{QUERY}.lora_b",
        built(
            "a, b = model.layers[0].attention.query.lora_b.weight, model.layers[0].attention.value.lora_b.weight; "
            "c = a.clone(); a.copy_(b); b.copy_(c)"
        ),
        at="update = self.lora_b(self.lora_a(self.drop(x)))",
    ),
]

CLIP = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n"
UNSCALE = "        scaler.unscale(model.parameters())\n"
RECIPE = [
    fault(
        "recipe/parts-summed",
        OUTSIDE,
        Edit("scaler.backward(loss / PARTS)", "scaler.backward(loss)", TRAIN),
        healthy_at="scaler.backward(loss / PARTS)",
        at="(loss * self.scale).backward()",
    ),
    fault(
        "recipe/clipped-before-unscaled",
        ("clip_grad", ""),
        Edit(UNSCALE + CLIP, CLIP + UNSCALE, TRAIN),
        at=(CLIP[:-1], UNSCALE[:-1], "parameter.grad.mul_(1 / self.scale)"),
    ),
    fault("recipe/schedule-late", OPTIMIZER, Edit("(step + 1) / WARMUP", "max(step, 0.5) / WARMUP", TRAIN), at=STEP),
    fault("recipe/norms-decayed", OPTIMIZER, Edit('"weight_decay": 0.0', '"weight_decay": 0.1', TRAIN), at=STEP),
    fault(
        "recipe/average-decay",
        OUTSIDE,
        Edit("Average(model, 0.9)", "Average(model, 0.99)", TRAIN),
        at="kept.mul_(self.decay).add_(parameter, alpha=1 - self.decay)",
    ),
    fault(
        "recipe/schedule-before-step",
        OPTIMIZER,
        Edit(
            "        optimizer.step()\n        schedule.step()\n",
            "        schedule.step()\n        optimizer.step()\n",
            TRAIN,
        ),
        at=STEP,
    ),
    fault(
        "recipe/first-part-cleared",
        ANY,
        Edit(
            "            loss = task.loss(",
            "            optimizer.zero_grad()  # <- here\n            loss = task.loss(",
            TRAIN,
        ),
        near="(loss * self.scale).backward()",
    ),
    fault(
        "recipe/not-causal",
        ("", "encoder", "encoder.layers.0", "encoder.layers.0.self_attn"),
        Edit("self.encoder(x, mask=mask, is_causal=True)", "self.encoder(x)  # <- here"),
    ),
    fault("recipe/loss-beta", OUTSIDE, Edit("beta=0.5", "beta=1.0", TASK), at="beta=1.0"),
    fault(
        "recipe/positions",
        OUTSIDE,
        Edit("self.positions[: series.shape[1]]", "self.positions[1 : series.shape[1] + 1]  # <- here"),
    ),
    fault("recipe/betas", OPTIMIZER, Edit("betas=(0.9, 0.95)", "betas=(0.95, 0.9)", TRAIN), at=STEP),
    fault(
        "recipe/averaged-too-early",
        OUTSIDE,
        Edit("        average.update(model)\n", "", TRAIN),
        Edit(CLIP, CLIP + "        average.update(model)\n", TRAIN),
        at="kept.mul_(self.decay).add_(parameter, alpha=1 - self.decay)",
    ),
]

TRAINING = [*GAN, *GNN, *POLICY, *LORA, *RECIPE]

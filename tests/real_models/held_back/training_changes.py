"""Harmless changes of the training script that msprobe was not tuned on."""

from __future__ import annotations

from tests.real_models.runs import TRAIN, Edit

START = "        debugger.start(model)\n"
CLIP = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
OWN_OPTIMIZER = """class Adam(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
                state["step"] += 1
                first, second = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                state["mean"].mul_(first).add_(p.grad, alpha=1 - first)
                state["square"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                mean = state["mean"] / (1 - first ** state["step"])
                square = state["square"] / (1 - second ** state["step"])
                p.sub_(group["lr"] * mean / (square.sqrt() + group["eps"]))


def build_optimizer(model, dtype):
    eps = 1e-4 if dtype == "fp16" else 1e-8
    defaults = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": eps, "weight_decay": 0.1}
    return Adam(model.parameters(), defaults)


def unused_optimizer(model, dtype):
"""
WRAPPER = """class Wrapper(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *given, **named):
        return self.module(*given, **named)


def learn("""

TRAINING: dict[str, tuple[Edit, ...]] = {
    "forward-hooks": (
        Edit(
            "    losses = []",
            "    seen = []\n"
            "    for module in model.modules():\n"
            "        module.register_forward_hook(\n"
            "            lambda m, i, o: seen.append(o.detach().abs().max().item()) if torch.is_tensor(o) else None\n"
            "        )\n"
            "    losses = []",
            TRAIN,
        ),
    ),
    "backward-hooks": (
        Edit(
            "    losses = []",
            "    seen = []\n"
            "    for module in model.modules():\n"
            "        if not list(module.children()):\n"
            "            module.register_full_backward_hook(lambda m, i, o: seen.append(len(o)))\n"
            "    losses = []",
            TRAIN,
        ),
    ),
    "deterministic": (
        Edit(
            "    losses = []",
            "    torch.use_deterministic_algorithms(True, warn_only=True)\n    losses = []",
            TRAIN,
        ),
        Edit("    return losses", "    torch.use_deterministic_algorithms(False)\n    return losses", TRAIN),
    ),
    "none-by-hand": (
        Edit(
            "        optimizer.zero_grad()\n",
            "        for p in model.parameters():\n            p.grad = None\n",
            TRAIN,
        ),
    ),
    "cleared-after-step": (
        Edit("        optimizer.zero_grad()\n", "", TRAIN),
        Edit("        optimizer.step()\n", "        optimizer.step()\n        optimizer.zero_grad()\n", TRAIN),
    ),
    "own-clip": (
        Edit(
            CLIP,
            "        gradients = [p.grad for p in model.parameters() if p.grad is not None]\n"
            "        total = torch.sqrt(sum(g.float().pow(2).sum() for g in gradients))\n"
            "        for g in gradients:\n"
            "            g.mul_((1.0 / (total + 1e-6)).clamp(max=1.0).to(g.dtype))\n",
            TRAIN,
        ),
    ),
    "clip-one-by-one": (Edit("model.parameters(), 1.0)", "model.parameters(), 1.0, foreach=False)", TRAIN),),
    "own-adam": (Edit("def build_optimizer(model, dtype):\n", OWN_OPTIMIZER, TRAIN),),
    "wrapped-model": (
        Edit("def learn(", WRAPPER, TRAIN),
        Edit("    model.train()\n", "    model = Wrapper(model)\n    model.train()\n", TRAIN),
    ),
    "graph-retained": (Edit("    loss.backward()", "    loss.backward(retain_graph=True)", TRAIN),),
    "functional-gradient": (
        Edit(
            "    loss.backward()",
            "    parameters = [p for p in model.parameters() if p.requires_grad]\n"
            "    for p, g in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):\n"
            "        p.grad = g",
            TRAIN,
        ),
    ),
    "anomaly-mode": (
        Edit(
            "    loss.backward()",
            "    with torch.autograd.set_detect_anomaly(True):\n        loss.backward()",
            TRAIN,
        ),
    ),
    "loaded-state": (
        Edit(
            "    model.train()\n",
            "    model.load_state_dict({n: v.clone() for n, v in model.state_dict().items()})\n    model.train()\n",
            TRAIN,
        ),
    ),
    "step-with-closure": (Edit("        optimizer.step()", "        optimizer.step(lambda: loss)", TRAIN),),
    "update-norms-logged": (
        Edit(
            "        optimizer.step()\n",
            "        before = [p.detach().clone() for p in model.parameters()]\n"
            "        optimizer.step()\n"
            "        moved = max((p - b).norm().item() for p, b in zip(model.parameters(), before))\n"
            "        assert moved > 0\n",
            TRAIN,
        ),
    ),
    "loss-watched": (
        Edit(
            "    loss.backward()",
            "    assert torch.isfinite(loss).all()\n"
            "    watched = loss.detach().float().mean().exp()\n"
            "    loss.backward()",
            TRAIN,
        ),
    ),
    "validated-inside": (
        Edit(
            "        loss = learn(model, inputs, dtype)\n",
            "        state = torch.get_rng_state()\n"
            "        model.eval()\n"
            "        with torch.no_grad():\n"
            "            task.loss(model, inputs)\n"
            "        model.train()\n"
            "        torch.set_rng_state(state)\n"
            "        loss = learn(model, inputs, dtype)\n",
            TRAIN,
        ),
    ),
    "unused-parameter": (
        Edit(
            "    model.train()\n",
            "    model.train()\n    model.register_parameter('spare', torch.nn.Parameter(torch.ones(3)))\n",
            TRAIN,
        ),
    ),
    "hand-made-gradient": (
        Edit("    loss.backward()", "    torch.autograd.backward([loss], [torch.ones_like(loss)])", TRAIN),
    ),
}

WHERE: dict[str, tuple[str, ...]] = {
    "forward-hooks": ("qwen3_moe", "swin", "lora", "vae"),
    "backward-hooks": ("clip", "convnext", "policy"),
    "deterministic": ("deepseek_v3", "gnn", "wav2vec2"),
    "none-by-hand": ("gemma2", "dit", "bloom"),
    "cleared-after-step": ("distilbert", "gnn", "opt"),
    "own-clip": ("whisper", "swin", "gnn", "opt"),
    "clip-one-by-one": ("qwen3_moe", "vae", "lora"),
    "own-adam": ("gemma2", "dit", "convnext", "policy"),
    "wrapped-model": ("distilbert", "clip", "dit", "lora"),
    "graph-retained": ("bloom", "vae"),
    "functional-gradient": ("deepseek_v3", "gnn", "distilbert"),
    "anomaly-mode": ("whisper", "policy"),
    "loaded-state": ("opt", "wav2vec2"),
    "step-with-closure": ("clip", "convnext"),
    "update-norms-logged": ("swin", "gemma2", "policy"),
    "loss-watched": ("bloom", "lora", "whisper"),
    "validated-inside": ("distilbert", "dit", "gemma2"),
    "unused-parameter": ("vae", "opt"),
    "hand-made-gradient": ("qwen3_moe", "gnn"),
}
"""Name of a change -> the families that are trained with it."""

"""Held-back faults at other levels, tasks and dtypes, and while text is generated."""

from __future__ import annotations

from dataclasses import replace

from tests.real_models.cases import ANY, Case
from tests.real_models.changes import GENERATION
from tests.real_models.faults.combined import in_dtype
from tests.real_models.faults.plant import fault
from tests.real_models.held_back.media_faults import MEDIA
from tests.real_models.held_back.text_faults import TEXT
from tests.real_models.held_back.training_faults import TRAINING
from tests.real_models.runs import Edit

ATTENTION = "model.layers.1.self_attn"
GENERATED = [
    fault(
        "gemma2/cache-rolled-at-a-token",
        ATTENTION,
        *GENERATION,
        Edit(
            "key_states, value_states, self.layer_idx)\n\n",
            "key_states, value_states, self.layer_idx)\n"
            "            if self.layer_idx == 1 and key_states.shape[2] == 14:\n"
            "                value_states = value_states.roll(1, 2)  # <- here\n\n",
        ),
        near="attn_output = torch.matmul(attn_weights, value_states)",
        golden=GENERATION,
    ),
    fault(
        "opt/generation-positions",
        ("model.decoder", "model.decoder.embed_positions"),
        *GENERATION,
        Edit(
            "            position_ids = position_ids[:, past_seen_tokens:]\n",
            "            position_ids = position_ids[:, past_seen_tokens:] - int(past_seen_tokens > 0)  # <- here\n",
        ),
        near="pos_embeds = self.embed_positions(",
        golden=GENERATION,
    ),
    fault(
        "qwen3_moe/generation-cache-key",
        "model.layers.0.self_attn",
        *GENERATION,
        Edit(
            "key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)",
            "old = key_states\n"
            "            key_states, value_states = past_key_values.update(\n"
            "                key_states * 1.0, value_states, self.layer_idx\n"
            "            )\n"
            "            key_states = key_states if old.shape[2] > 1 else key_states.roll(1, 2)  # <- here",
        ),
        near="attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling",
        golden=GENERATION,
    ),
]
SINGLE: dict[str, Case] = {case.name.removeprefix("fault/"): case for case in (*TEXT, *MEDIA, *TRAINING, *GENERATED)}
"""Family and fault -> the case."""


def recorded(name: str, level: str, task: str) -> Case:
    """Return a fault where both runs are recorded at another level or with another task; L1 knows no modules."""
    case = SINGLE[name]
    modules = (ANY,) if level == "L1" else case.modules
    changed, healthy = (replace(run, level=level, task=task) for run in (case.changed, case.healthy))
    return replace(case, name=f"{case.name}-{level}-{task}", changed=changed, healthy=healthy, modules=modules)


LEVELS = [
    *(recorded(name, "L1", "statistics") for name in ("gemma2/cap-value", "dit/wrong-gate", "gnn/slope", "lora/scale")),
    *(recorded(name, "mix", "tensor") for name in ("clip/patches-transposed", "swin/merge-order", "vae/deviation")),
    *(recorded(name, "mix", "md5") for name in ("bloom/scale", "policy/clip-range", "dit/time-scale", "vae/corners")),
    *(recorded(name, "L0", "statistics") for name in ("clip/norm-eps", "convnext/dilation", "lora/adapters-exchanged")),
]
DTYPES = [
    *(
        in_dtype(SINGLE[name], "bf16")
        for name in (
            "qwen3_moe/normalised-over-tokens",
            "gemma2/norm-weight",
            "deepseek_v3/softmax-for-sigmoid",
            "whisper/kernel-flipped",
            "clip/text-not-normalised",
            "dit/modulation",
            "lora/scaling",
            "opt/query-not-scaled",
        )
    ),
    *(in_dtype(SINGLE[name], "autocast") for name in ("swin/window-mask-missing", "distilbert/other-activation")),
    *(in_dtype(SINGLE[name], "fp16") for name in ("dit/wrong-gate", "gemma2/norm-after-residual")),
]
FAULTS = [*SINGLE.values(), *LEVELS, *DTYPES]

"""Planted faults of the training script, and of how modules are called: which module and line are right."""

from __future__ import annotations

from tests.real_models.cases import ANY
from tests.real_models.changes import GENERATION
from tests.real_models.faults.plant import OPTIMIZER, OUTSIDE, STEP, built, fault
from tests.real_models.runs import TASK, TRAIN, Edit

CLIP = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
ZERO = "        optimizer.zero_grad()\n"
TRAINING = [
    fault(
        "llama/update-skipped",
        OPTIMIZER,
        Edit(STEP, "        if step == 1:\n    " + STEP, TRAIN),
        healthy_at=STEP,
    ),
    fault(
        "resnet/late-learning-rate",
        OPTIMIZER,
        Edit(STEP, STEP + '\n        optimizer.param_groups[0]["lr"] = 1e-4', TRAIN),
        at=STEP,
    ),
    fault(
        "bert/same-batch",
        ("", "bert.embeddings", "bert.embeddings.word_embeddings", "bert"),
        Edit("task.batch(step)", "task.batch(0)", TRAIN),
        at=("logits = model(**given).logits", "inputs_embeds = self.word_embeddings(input_ids)"),
        near=("outputs = self.bert(", "embedding_output = self.embeddings("),
    ),
    fault(
        "vit/clip-missing", ("clip_grad", ""), Edit(CLIP, "", TRAIN), healthy_at="clip_grad_norm_(model.parameters()"
    ),
    fault(
        "lstm/gradients-cleared",
        ANY,
        Edit(ZERO, "", TRAIN),
        Edit(CLIP, CLIP + ZERO.replace("\n", "  # <- here\n"), TRAIN),
        healthy_at=("        optimizer.zero_grad()", STEP),
    ),
    fault("unet/loss-halved", OUTSIDE, Edit("    loss.backward()", "    (loss * 0.5).backward()  # <- here", TRAIN)),
    fault(
        "t5/weight-corrupted-later",
        ("", "decoder.block.1.layer.2.DenseReluDense.wo"),
        Edit(
            STEP,
            STEP + "\n        model.decoder.block[1].layer[2].DenseReluDense.wo.weight.data[0] *= 1.5  # <- here",
            TRAIN,
        ),
        at="class T5DenseGatedActDense( >> hidden_states = self.wo(hidden_states)",
    ),
    fault(
        "gpt2/evaluation-mode",
        ("transformer.drop", "transformer.h.0.attn.resid_dropout"),
        Edit("    model.train()", "    model.eval()", TRAIN),
        at=("hidden_states = self.drop(hidden_states)", "attn_output = self.resid_dropout(attn_output)"),
    ),
    fault(
        "gpt2/called-twice",
        ("transformer.h.0.mlp", "transformer.h.0"),
        Edit("self.mlp(hidden_states)", "self.mlp(self.mlp(hidden_states))  # <- here"),
    ),
    fault(
        "llama/head-scaled",
        "lm_head",
        built("model.lm_head.weight *= 1.02"),
        at="logits = self.lm_head(hidden_states)",
    ),
    fault(
        "resnet/relu-before-norm",
        ("layer1.0.relu", "layer1.0.bn1", "layer1.0"),
        Edit(
            "        out = self.bn1(out)\n        out = self.relu(out)\n",
            "        out = self.relu(out)  # <- here\n        out = self.bn1(out)  # <- here\n",
        ),
    ),
    fault(
        "mixtral/wrong-labels",
        OUTSIDE,
        Edit("labels[:, 1:].flatten()", "labels[:, :-1].flatten()", TASK),
        at="return F.cross_entropy(",
    ),
    fault(
        "mamba/frozen-head",
        "lm_head",
        built("model.lm_head.weight.requires_grad_(False)"),
        at="logits = self.lm_head(hidden_states",
    ),
    fault(
        "llama/generation-positions",
        "model",
        *GENERATION,
        Edit(
            "inputs_embeds.device) + past_seen_tokens",
            "inputs_embeds.device) + past_seen_tokens * 2  # <- here",
        ),
        golden=GENERATION,
    ),
    fault(
        "gpt2/generation-scale",
        "transformer.h.1.attn",
        *GENERATION,
        built("model.transformer.h[1].attn.scaling = 0.3"),
        at="attn_weights = torch.matmul(query, key.transpose(-1, -2)) * scaling",
        golden=GENERATION,
    ),
    fault(
        "mixtral/generation-router",
        "model.layers.0.mlp.gate",
        *GENERATION,
        Edit("        router_top_value /= router_top_value.sum(dim=-1, keepdim=True)\n", ""),
        healthy_at="router_top_value /= router_top_value.sum(dim=-1, keepdim=True)",
        golden=GENERATION,
    ),
]

"""Two steps of training of megatron-core's GPTModel, with its data parallelism, schedules and optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.torch_norm import WrappedTorchNorm

from tests.megatron.layouts import EXPERTS, HEADS, HIDDEN, LAYERS, LENGTH, SAMPLES, WORDS, Layout
from tests.megatron.weights import fill

STEPS = 2
SEED = 1234


def initialize(layout: Layout) -> None:
    """Make the groups of ranks of a layout; once in a process."""
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.tp if layout.ep == 1 else 1,
    )


def norm(_: type, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **__: Any) -> torch.nn.Module:
    """Return what Apex's layer norm is to megatron-core: one whose gradients are parts with sequence parallelism."""
    made = torch.nn.LayerNorm(hidden_size, eps)
    for each in made.parameters():
        setattr(each, "sequence_parallel", config.sequence_parallel)  # noqa: B010
    return made


setattr(WrappedTorchNorm, "__new__", norm)  # noqa: B010


def config_of(layout: Layout) -> TransformerConfig:
    experts: dict[str, Any] = {}
    if layout.experts:
        experts = {
            "num_moe_experts": EXPERTS,
            "moe_router_topk": 2,
            "moe_token_dispatcher_type": "alltoall",
            "moe_router_load_balancing_type": "none",
            "add_bias_linear": False,
        }
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        ffn_hidden_size=2 * HIDDEN,
        use_cpu_initialization=True,
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.tp if layout.ep == 1 else 1,
        sequence_parallel=layout.sequence,
        pipeline_dtype=torch.float32,
        hidden_dropout=layout.dropout,
        attention_dropout=0.0,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        **experts,
    )


def model_of(layout: Layout, config: TransformerConfig) -> GPTModel:
    return GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_layer_local_spec(num_experts=EXPERTS if layout.experts else None),
        vocab_size=WORDS,
        max_sequence_length=LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=layout.tied,
        position_embedding_type="rope" if layout.experts else "learned_absolute",
    )


def batches(layout: Layout, step: int) -> Iterator[dict[str, torch.Tensor]]:
    """Yield the micro batches of this rank in a step."""
    source = torch.Generator().manual_seed(100 + step)
    words = torch.randint(WORDS, (SAMPLES, LENGTH + 1), generator=source)
    words = words.chunk(layout.dp)[parallel_state.get_data_parallel_rank()]
    mask = torch.ones(LENGTH, LENGTH).tril() < 0.5
    for each in words.chunk(layout.micro):
        places = torch.arange(LENGTH).expand(len(each), LENGTH)
        yield {
            "input_ids": each[:, :-1].contiguous(),
            "position_ids": places.contiguous(),
            "attention_mask": mask[None, None],
            "labels": each[:, 1:].contiguous(),
        }


def loss_of(losses: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    loss = losses.float().sum() / losses.numel()
    shown = loss.detach().clone()
    dist.all_reduce(shown, group=parallel_state.get_data_parallel_group())
    return loss, {"loss": shown / parallel_state.get_data_parallel_world_size()}


def forward_step(data: Iterator[dict[str, torch.Tensor]], model: Any) -> tuple[torch.Tensor, Any]:
    batch = next(data)
    return model(**batch), partial(loss_of)


def train(layout: Layout, debugger: Any) -> dict[str, Any]:
    """Return the mean loss of each step, where this rank has it, and the parameters after the last one."""
    parallel_state.get_global_memory_buffer().buffer.clear()
    model_parallel_cuda_manual_seed(SEED, force_reset_rng=True)
    config = config_of(layout)
    model = model_of(layout, config)
    cuts = fill(model, layout)
    model = DistributedDataParallel(config, DistributedDataParallelConfig(), model)
    config.finalize_model_grads_func = finalize_model_grads
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="sgd", lr=0.1, weight_decay=0.0, sgd_momentum=0.9, clip_grad=layout.clip), [model]
    )
    run = get_forward_backward_func()
    means = []
    for step in range(STEPS):
        debugger.start(model)
        model.zero_grad_buffer()
        optimizer.zero_grad()
        done = run(
            forward_step_func=forward_step,
            data_iterator=batches(layout, step),
            model=[model],
            num_microbatches=layout.micro,
            seq_length=LENGTH,
            micro_batch_size=SAMPLES // layout.dp // layout.micro,
            forward_only=False,
        )
        optimizer.step()
        debugger.stop()
        debugger.step()
        means += [sum(float(each["loss"]) for each in done) / len(done)] if done else []
    state = {name: each.detach().clone() for name, each in model.module.named_parameters()}
    parameters = {whole: (axis, index, count, state[name]) for name, (whole, axis, index, count) in cuts.items()}
    return {"losses": means, "parameters": parameters}

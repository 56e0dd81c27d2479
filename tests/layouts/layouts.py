"""The layouts in which the model of ``programs`` is trained.

``LAYOUTS`` has each layout by its name. Ranks count tensor parallelism first, then context, expert and data
parallelism, then pipeline stages, as in Megatron. Every layout starts with the same parameters and trains the same
samples, so all layouts of one model (``Layout.model``) compute the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """One way to spread the model.

    Args:
        name: how faults and pairs call it.
        tp: ranks that share each layer.
        sequence: whether norms and dropout work on a part of the sequence on each of the ``tp`` ranks.
        pp: pipeline stages.
        vpp: chunks of the model on each stage.
        cp: ranks that share each sequence.
        zigzag: whether a rank of ``cp`` has an early and a late part of the sequence.
        ep: ranks that share the experts; each has samples of its own.
        dp: ranks with samples of their own, those of ``ep`` included.
        micro: micro batches of a step.
        schedule: the order of micro batches in a pipeline: "gpipe" or "1f1b".
        data: who reduces gradients over ``dp``: "buckets", "ddp", "zero1", "fsdp2" or "hsdp".
        recompute: whether layers are computed again in the backward pass.
        experts: whether every second layer has experts.
        dtype: of parameters and activations.
        fp8: whether linear layers multiply in eight bits, emulated.
    """

    name: str
    tp: int = 1
    sequence: bool = False
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    zigzag: bool = False
    ep: int = 1
    dp: int = 1
    micro: int = 1
    schedule: str = "1f1b"
    data: str = "buckets"
    recompute: bool = False
    experts: bool = False
    dtype: str = "float32"
    fp8: bool = False

    @property
    def size(self) -> int:
        """Return the number of ranks."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def model(self) -> tuple[bool, str, bool]:
        """Return what has to be equal for two layouts to compute the same."""
        return self.experts, self.dtype, self.fp8

    @property
    def single(self) -> str:
        """Return the name of the layout of one process with the same model and the same micro batches."""
        plain = (one for one in LAYOUTS.values() if one.size == 1 and not one.recompute and one.model == self.model)
        return next(one.name for one in plain if one.micro == self.micro)


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("single"),
        Layout("single_micro4", micro=4),
        Layout("single_experts", experts=True),
        Layout("single_experts_micro4", experts=True, micro=4),
        Layout("single_bf16", dtype="bfloat16"),
        Layout("single_bf16_micro4", dtype="bfloat16", micro=4),
        Layout("single_fp8", fp8=True),
        Layout("recompute", recompute=True),
        Layout("tp2", tp=2),
        Layout("tp2_sp", tp=2, sequence=True),
        Layout("tp4", tp=4),
        Layout("tp4_sp", tp=4, sequence=True),
        Layout("tp2_sp_recompute", tp=2, sequence=True, recompute=True),
        Layout("tp2_bf16", tp=2, dtype="bfloat16"),
        Layout("tp2_sp_bf16", tp=2, sequence=True, dtype="bfloat16"),
        Layout("tp2_fp8", tp=2, fp8=True),
        Layout("tp2_dp2_fp8", tp=2, dp=2, fp8=True),
        Layout("pp2_gpipe", pp=2, micro=4, schedule="gpipe"),
        Layout("pp2", pp=2, micro=4),
        Layout("pp2_bf16", pp=2, micro=4, dtype="bfloat16"),
        Layout("pp2_recompute", pp=2, micro=4, recompute=True),
        Layout("pp4_gpipe", pp=4, micro=4, schedule="gpipe"),
        Layout("pp4", pp=4, micro=4),
        Layout("pp2_vpp2", pp=2, vpp=2, micro=4),
        Layout("cp2", cp=2),
        Layout("cp2_zigzag", cp=2, zigzag=True),
        Layout("dp2", dp=2),
        Layout("dp2_micro4", dp=2, micro=4),
        Layout("dp2_ddp", dp=2, data="ddp"),
        Layout("dp2_zero1", dp=2, data="zero1"),
        Layout("dp2_fsdp2", dp=2, data="fsdp2"),
        Layout("dp4_hsdp", dp=4, data="hsdp"),
        Layout("ep2", dp=2, ep=2, experts=True),
        Layout("tp2_experts", tp=2, experts=True),
        Layout("tp2_sp_experts", tp=2, sequence=True, experts=True),
        Layout("pp2_experts", pp=2, micro=4, experts=True),
        Layout("ep2_dp4", dp=4, ep=2, experts=True),
        Layout("ep2_tp2_sp", tp=2, sequence=True, dp=2, ep=2, experts=True),
        Layout("ep2_pp2", pp=2, dp=2, ep=2, micro=4, experts=True),
        Layout("tp2_pp2", tp=2, pp=2, micro=4),
        Layout("tp2_sp_pp2_vpp2", tp=2, sequence=True, pp=2, vpp=2, micro=4),
        Layout("tp2_dp2", tp=2, dp=2),
        Layout("tp2_sp_cp2", tp=2, sequence=True, cp=2),
        Layout("cp2_dp2", cp=2, dp=2),
        Layout("pp2_dp2_zero1", pp=2, dp=2, micro=4, data="zero1"),
    )
}

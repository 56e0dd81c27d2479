"""The layouts in which megatron-core trains its GPTModel."""

from __future__ import annotations

from dataclasses import dataclass

LENGTH, SAMPLES, WORDS = 16, 8, 64
"""Tokens of a sample, samples of a step, and words."""
LAYERS, HIDDEN, HEADS, EXPERTS = 4, 32, 4, 4


@dataclass(frozen=True)
class Layout:
    """One way to spread the model.

    Args:
        name: how faults and pairs call it.
        tp: ranks that share each layer.
        sequence: whether norms and dropout work on a part of the sequence on each of the ``tp`` ranks.
        pp: pipeline stages.
        ep: ranks that share the experts; each has samples of its own.
        dp: ranks with samples of their own, those of ``ep`` included.
        micro: micro batches of a step.
        tied: whether the words go in and out through one parameter.
        experts: whether the layers have experts, and positions are rotations.
        dropout: the share of hidden values that is dropped.
        clip: the norm to which gradients are clipped; 0 for none, so that their scale matters.
    """

    name: str
    tp: int = 1
    sequence: bool = False
    pp: int = 1
    ep: int = 1
    dp: int = 1
    micro: int = 1
    tied: bool = False
    experts: bool = False
    dropout: float = 0.0
    clip: float = 1.0
    cp: int = 1
    vpp: int = 1

    @property
    def size(self) -> int:
        """Return the number of ranks."""
        return self.tp * self.dp * self.pp

    @property
    def model(self) -> tuple[object, ...]:
        """Return what has to be equal for two layouts to compute the same."""
        return self.tied, self.experts, self.dropout, self.clip

    @property
    def single(self) -> str:
        """Return the name of the layout of one process with the same model and the same micro batches."""
        plain = (one for one in LAYOUTS.values() if one.size == 1 and one.model == self.model)
        return next(one.name for one in plain if one.micro == self.micro)


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("single"),
        Layout("single_unclipped", clip=0.0),
        Layout("single_micro4", micro=4, clip=0.0),
        Layout("single_tied", tied=True),
        Layout("single_tied_micro4", tied=True, micro=4),
        Layout("single_experts", experts=True),
        Layout("single_dropout", dropout=0.1),
        Layout("tp2", tp=2),
        Layout("tp2_sp", tp=2, sequence=True),
        Layout("pp2", pp=2, micro=4, clip=0.0),
        Layout("dp2", dp=2, clip=0.0),
        Layout("ep2", dp=2, ep=2, experts=True),
        Layout("tp2_tied", tp=2, tied=True),
        Layout("pp2_tied", pp=2, micro=4, tied=True),
        Layout("tp2_sp_experts", tp=2, sequence=True, experts=True),
        Layout("tp2_dropout", tp=2, dropout=0.1),
    )
}

"""All parts of a Megatron checkpoint by their ranks in the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from msprobe.configcheck.named_tensors import NamedTensors


class RankPosition(NamedTuple):
    """Tensor, pipeline and expert rank."""

    tensor: int
    pipeline: int
    expert: int


@dataclass(frozen=True, slots=True)
class RankGrid:
    """The parts of a checkpoint.

    Attributes:
        cells: for every position one part of the model, or one part per virtual pipeline stage.
        arguments: the arguments of the program; empty when they were not stored.
    """

    cells: Mapping[RankPosition, list[NamedTensors]]
    arguments: Mapping[str, Any]

    @property
    def tensor(self) -> int:
        return max(position.tensor for position in self.cells) + 1

    @property
    def pipeline(self) -> int:
        return max(position.pipeline for position in self.cells) + 1

    @property
    def expert(self) -> int:
        return max(position.expert for position in self.cells) + 1

    @property
    def chunks(self) -> int:
        return max(len(chunks) for chunks in self.cells.values())

    @property
    def gated(self) -> bool:
        """Return whether linear_fc1 holds gate and up projection, one after the other, in every shard."""
        return self.arguments.get("swiglu") is True or self.arguments.get("gated_linear_unit") is True

    def local_experts(self) -> int | None:
        """Return the number of experts per rank; None when the arguments do not determine it."""
        experts = self.arguments.get("num_experts")
        if isinstance(experts, list):
            experts = experts[0] if len(experts) == 1 else None
        return experts // self.expert if isinstance(experts, int) and experts % self.expert == 0 else None

"""All parts of a Megatron checkpoint by their place in the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from msprobe.configcheck.named_tensors import NamedTensors


class Place(NamedTuple):
    """Tensor, pipeline and expert rank."""

    tensor: int
    pipeline: int
    expert: int


@dataclass(frozen=True, slots=True)
class Grid:
    """``cells`` has every place; each holds one part of the model, or one per virtual pipeline stage. ``arguments`` are
    those of the program, empty when they were not stored."""

    cells: Mapping[Place, list[NamedTensors]]
    arguments: Mapping[str, Any]

    @property
    def tensor(self) -> int:
        return max(place.tensor for place in self.cells) + 1

    @property
    def pipeline(self) -> int:
        return max(place.pipeline for place in self.cells) + 1

    @property
    def expert(self) -> int:
        return max(place.expert for place in self.cells) + 1

    @property
    def chunks(self) -> int:
        return max(len(chunks) for chunks in self.cells.values())

    @property
    def gated(self) -> bool:
        """Whether linear_fc1 holds gate and up projection, one behind the other, in every shard."""
        return self.arguments.get("swiglu") is True or self.arguments.get("gated_linear_unit") is True

    def local_experts(self) -> int | None:
        """Experts per rank, where the arguments tell."""
        experts = self.arguments.get("num_experts")
        if isinstance(experts, list):
            experts = experts[0] if len(experts) == 1 else None
        return experts // self.expert if isinstance(experts, int) and experts % self.expert == 0 else None

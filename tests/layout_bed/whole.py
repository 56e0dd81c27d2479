"""The whole model at the end of a training, put together from what each rank has."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import torch

Whole = dict[str, torch.Tensor]


def whole_parameters(results: list[dict[str, Any]]) -> Whole:
    """Return the parameters of the whole model.

    Raises:
        ValueError: copies of a part are not the same on the ranks that have it, or parts are missing.
    """
    parts: dict[str, dict[tuple[int, int, int], list[torch.Tensor]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        for name, (axis, index, count, part) in result["parameters"].items():
            parts[name][axis, index, count].append(part)
    whole = {}
    for name, found in parts.items():
        copies_differ = [key for key, copies in found.items() if any(not torch.equal(copies[0], one) for one in copies)]
        (axis, count), *others = {(axis, count) for axis, _, count in found}
        if copies_differ or others or len(found) != count:
            raise ValueError(f"{name}: parts {sorted(found)}, of which the copies of {copies_differ} differ")
        whole[name] = torch.cat([found[axis, index, count][0] for index in range(count)], dim=axis)
    return whole


def losses(results: list[dict[str, Any]]) -> list[float]:
    """Return the loss of each step; every rank that has it says the same.

    Raises:
        ValueError: they say different things.
    """
    said = [result["losses"] for result in results if result["losses"]]
    if any(one != said[0] for one in said):
        raise ValueError(f"the ranks have different losses: {said}")
    return list(said[0])


def distances(one: Whole, other: Whole) -> tuple[float, float]:
    """Return the largest and the mean difference of an element.

    Raises:
        ValueError: the parameters are not the same ones.
    """
    shapes = [{name: tuple(each.shape) for name, each in whole.items()} for whole in (one, other)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"not the same parameters: {sorted(set(shapes[0].items()) ^ set(shapes[1].items()))}")
    every = torch.cat([(each - other[name]).abs().flatten() for name, each in one.items()])
    return float(every.max()), float(every.mean())


def distance_of_ranks(results: list[dict[str, Any]], others: list[dict[str, Any]]) -> float:
    """Return the largest difference of an element of a rank; infinity where a rank has other parameters."""
    largest = 0.0
    for result, other in zip(results, others, strict=True):
        ours, theirs = result["parameters"], other["parameters"]
        if ours.keys() != theirs.keys():
            return math.inf
        largest = max(largest, *(float((ours[name][-1] - theirs[name][-1]).abs().max()) for name in ours))
    return largest

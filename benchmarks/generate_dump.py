"""Synthetic dumps in the public layout (dump.json, stack.json, construct.json, optional .pt files), as large as asked.

Equal sizes and different seeds make a pair to compare: the seed adds noise of a thousandth to every value, or as much
to as many as is wished. Half of the entries are forward calls with three inputs and one output, the other half their
backward calls. In a chained dump each call gets what the call before returned, as in a training.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

APIS = ("Torch.matmul", "Tensor.add", "Functional.linear", "Torch.mul", "Functional.softmax", "Functional.silu")
CHAIN = ("Functional.linear", "Functional.relu", "Tensor.__add__", "Tensor.__mul__")
WEIGHTS = 64  # of a chain: so many layers share its calls
TENSORS_FORWARD, TENSORS_BACKWARD = 4, 2
NOISE = 1e-3
CALLS_PER_STACK = 4
CALLS_PER_MODULE = 9
STATISTICS_ELEMENTS = 4096
BYTES_PER_ELEMENT = 4


@dataclass(frozen=True, slots=True)
class Wish:
    """``mode`` is statistics, md5 or tensor; ``tensor_mb`` is what all .pt files weigh together in tensor mode.

    ``lost`` leaves out every so-manieth call; later calls of the same function close up. 0 leaves out none.
    ``modules`` puts every ``CALLS_PER_MODULE`` calls into a recorded module, whose records count among the entries.
    ``noise`` is relative to each value, and ``share`` of the tensors have it. ``chained`` hands values from call to
    call.
    """

    entries: int
    mode: str = "statistics"
    seed: int = 0
    tensor_mb: float = 0.0
    lost: int = 0
    modules: bool = False
    noise: float = NOISE
    share: float = 1.0
    chained: bool = False

    @property
    def elements(self) -> int:
        """Elements of every tensor."""
        if self.mode != "tensor":
            return STATISTICS_ELEMENTS
        tensors = (self.entries // 2) * (TENSORS_FORWARD + TENSORS_BACKWARD)
        return max(1, int(self.tensor_mb * 1e6 / BYTES_PER_ELEMENT / tensors))


class Leaves:
    """Makes tensor descriptions, and writes their data in tensor mode."""

    def __init__(self, wish: Wish, data_folder: Path) -> None:
        self.wish = wish
        self.data_folder = data_folder
        self.values = random.Random(1)
        self.noise = random.Random(1000 + wish.seed)
        self.save = _saver(wish) if wish.mode == "tensor" else None

    def tensor(self, name: str, slot: str) -> dict[str, Any]:
        noise = self.wish.noise * self.wish.seed * self.noise.uniform(-1, 1)
        if self.wish.share < 1.0 and self.noise.random() >= self.wish.share:
            noise = 0.0
        draw, shake = self.values.uniform, 1 + noise
        statistics = {"Max": draw(1, 5), "Min": draw(-5, -1), "Mean": draw(-0.1, 0.1), "Norm": draw(10, 90)}
        leaf: dict[str, Any] = {
            "type": "torch.Tensor",
            "dtype": "torch.float32",
            "shape": [self.wish.elements],
            **{key: value * shake for key, value in statistics.items()},
            "requires_grad": True,
        }
        if self.wish.mode == "md5":
            leaf["md5"] = f"{self.values.getrandbits(32):08x}"
        if self.save is not None:
            leaf["data_name"] = f"{name}.{slot}.pt"
            self.save(self.data_folder / leaf["data_name"])
        return leaf


def write(folder: Path, wish: Wish) -> Path:
    """Write ``step0/rank0`` below ``folder`` and return ``step0``."""
    rank = folder / "step0" / "rank0"
    data_folder = rank / "dump_tensor_data"
    (data_folder if wish.mode == "tensor" else rank).mkdir(parents=True)
    per_module = CALLS_PER_MODULE if wish.modules else 0
    calls = wish.entries // 2 * per_module // (per_module + 1) if per_module else wish.entries // 2
    names = list(_forward_names(calls, CHAIN if wish.chained else APIS))
    construct = _construct(names) if wish.modules else {}
    entries = _chained_entries if wish.chained else _entries
    document = {
        "task": "tensor" if wish.mode == "tensor" else "statistics",
        "level": "L1",
        "framework": "pytorch",
        "dump_data_dir": str(data_folder) if wish.mode == "tensor" else None,
        "data": entries(_with_modules(names, construct), Leaves(wish, data_folder)),
    }
    if wish.lost:
        renamed = dict(_closed_up(names, wish.lost))
        document["data"] = {renamed[name]: body for name, body in document["data"].items() if name in renamed}
        names = [name for name in renamed.values() if name.endswith("forward")]
    _save(rank / "dump.json", document)
    _save(rank / "stack.json", dict(_stacks(names)))
    _save(
        rank / "construct.json", construct | {_twin(name): above and _twin(above) for name, above in construct.items()}
    )
    return rank.parent


def _forward_names(count: int, apis: Sequence[str]) -> Iterator[str]:
    for number in range(count):
        yield f"{apis[number % len(apis)]}.{number // len(apis)}.forward"


def _closed_up(names: Sequence[str], lost: int) -> Iterator[tuple[str, str]]:
    """The name of each call that is left, and the one it has then; forward and backward."""
    counted: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if position % lost:
            api = name.rsplit(".", 2)[0]
            number = counted[api] = counted.get(api, -1) + 1
            for phase in ("forward", "backward"):
                yield f"{name.removesuffix('forward')}{phase}", f"{api}.{number}.{phase}"


def _construct(calls: Sequence[str]) -> dict[str, Any]:
    """Parents of the forward calls, each module after its calls."""
    parents: dict[str, Any] = {}
    for first in range(0, len(calls), CALLS_PER_MODULE):
        module = f"Module.layers.{first // CALLS_PER_MODULE}.Block.forward.0"
        parents |= dict.fromkeys(calls[first : first + CALLS_PER_MODULE], module)
        parents[module] = None
    return parents


def _with_modules(calls: Sequence[str], construct: dict[str, Any]) -> list[str]:
    return list(construct) or list(calls)


def _twin(name: str) -> str:
    return name.replace("forward", "backward")


def _entries(names: Sequence[str], leaves: Leaves) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name in names:
        data[name] = {
            "input_args": [leaves.tensor(name, "input.0"), leaves.tensor(name, "input.1"), {"type": "int", "value": 1}],
            "input_kwargs": {"alpha": {"type": "float", "value": 1.0}, "weight": leaves.tensor(name, "input.weight")},
            "output": [leaves.tensor(name, "output.0")],
        }
    for name in reversed(names):
        backward = _twin(name)
        data[backward] = {
            "input": [leaves.tensor(backward, "input.0")],
            "output": [leaves.tensor(backward, "output.0")],
        }
    return data


def _chained_entries(names: Sequence[str], leaves: Leaves) -> dict[str, Any]:
    """Records of calls of which each gets what the one before returned; ``linear`` has a weight and a bias too."""
    weights = [[leaves.tensor("", "weight"), leaves.tensor("", "bias")] for _ in range(WEIGHTS)]
    data: dict[str, Any] = {}
    value = residual = leaves.tensor("", "first")
    for number, name in enumerate(names):
        beside = [weights[number // len(CHAIN) % WEIGHTS], [], [residual], [{"type": "float", "value": 0.5}]]
        made = leaves.tensor(name, "output.0")
        inputs = [value, *beside[number % len(CHAIN)]]
        data[name] = {"input_args": inputs, "input_kwargs": {}, "output": [made]}
        if not number % len(CHAIN):
            residual = value
        value = made
    gradient = leaves.tensor("", "first")
    for name in reversed(names):
        made = leaves.tensor(name, "gradient")
        data[_twin(name)] = {"input": [gradient], "output": [made]}
        gradient = made
    return data


def _stacks(names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for index, first in enumerate(range(0, len(names), CALLS_PER_STACK)):
        frames = [
            f"File model.py, line {index % 900}, in forward, \n y = self.layer{index % 97}(x)",
            "File train.py, line 20, in <module>, \n loss = model(x)",
        ]
        yield str(index), [list(names[first : first + CALLS_PER_STACK]), frames]


def _saver(wish: Wish) -> Any:
    """A function that writes one tensor: the same random values for every seed, and noise of the seed on top."""
    import torch

    values = torch.randn(wish.elements, generator=torch.Generator().manual_seed(1))
    noise = torch.Generator().manual_seed(1000 + wish.seed)

    def save(path: Path) -> None:
        shake = NOISE * wish.seed * torch.randn(wish.elements, generator=noise)
        torch.save(values + shake, path)

    return save


def _save(path: Path, document: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as stream:
        json.dump(document, stream, indent=1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--mode", choices=("statistics", "md5", "tensor"), default="statistics")
    parser.add_argument("--seed", type=int, default=0, help="0 and 1 make a pair")
    parser.add_argument("--tensor-mb", type=float, default=0.0, help="tensor mode: what all .pt files weigh together")
    parser.add_argument("--modules", action="store_true", help="put the calls into modules")
    parser.add_argument("--noise", type=float, default=NOISE, help="of the values of seed 1, relative to each")
    parser.add_argument("--share", type=float, default=1.0, help="how many of the tensors have this noise")
    parser.add_argument("--chained", action="store_true", help="hand values from call to call; statistics only")
    options = parser.parse_args(arguments)
    wish = Wish(
        options.entries,
        options.mode,
        options.seed,
        options.tensor_mb,
        modules=options.modules,
        noise=options.noise,
        share=options.share,
        chained=options.chained,
    )
    print(write(options.folder, wish))
    return 0


if __name__ == "__main__":
    sys.exit(main())

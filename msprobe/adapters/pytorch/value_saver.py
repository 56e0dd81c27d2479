"""``SingleSave``: named values of a reinforcement learning loop as .npy files, outside any collection.

    saver = SingleSave("dump")
    saver.save({"prompts": ids, "log_probs": [first, second]})
    saver.step()

    dump/data/{name}/step{s}/rank{r}/micro_step{m}/{name}[.key].npy and {name}.json with shape and statistics

The micro step counts the calls for one name within a step. Nested lists and dicts add their keys to the file name.
bfloat16 becomes float32, which holds its values exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msprobe.core.capture.containers import items_of
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.host import require_local
from msprobe.core.log import logger
from msprobe.core.store.journal import dumps
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder, make_folder_below, replacement, write_atomic


class SingleSave:
    """Saves values. There is one per process: constructing it again returns the same one, and warns of another path.

    Args:
        dump_path: where ``data`` lies.
        fmk: only ``pytorch`` in this version.

    Raises:
        MsprobeException: another framework, or the path is a URL.
    """

    _instance: SingleSave | None = None

    def __new__(cls, dump_path: str, fmk: str = "pytorch") -> SingleSave:
        if fmk != "pytorch":
            raise MsprobeException(0, f"SingleSave: fmk is pytorch in this version, got {argument_text(fmk)}")
        require_local(dump_path, "SingleSave: dump_path")
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._begin(Path(dump_path).absolute())
        elif cls._instance._root != Path(dump_path).absolute():
            logger.warning("SingleSave writes to %s already; %s is not used", cls._instance._root, dump_path)
        return cls._instance

    def _begin(self, root: Path) -> None:
        """Set up the one object of the process; ``__init__`` would run at every construction."""
        self._root = root
        self._step = 0
        self._micro_steps: dict[str, Iterator[int]] = {}

    def save(self, data: dict[str, Any]) -> None:
        """Write each value of ``data``; what is no tensor, number, list or dict is left out with a warning."""
        if not isinstance(data, dict):
            raise MsprobeException(
                0, f"SingleSave.save: expected a dict of names and values, got {type(data).__name__}"
            )
        for name, value in data.items():
            micro = next(self._micro_steps.setdefault(str(name), itertools.count()))
            self.save_ex({name: value}, micro)

    def save_ex(self, data: dict[str, Any], micro_batch: int = 0) -> None:
        """Write each value of ``data`` as ``save`` does, with the micro step of the caller."""
        for name, value in data.items():
            base = file_name(str(name), "")
            folder = self._root / "data" / base / f"step{self._step}" / f"rank{_rank()}" / f"micro_step{micro_batch}"
            make_folder_below(self._root, folder)
            facts = [_write_array(folder, base, keys, array) for keys, array in _named_arrays(value, ())]
            if facts:
                write_atomic(
                    folder / f"{base}.json", [dumps({"data": facts[0] if len(facts) == 1 else facts}, indent=4)]
                )

    def save_config(self, data: dict[str, Any]) -> None:
        """Write the settings of the run beside the data."""
        make_folder(self._root)
        write_atomic(self._root / "configurations.json", [dumps(data, indent=4)])

    def step(self) -> None:
        """End the step: the next values belong to the next one."""
        self._step += 1
        self._micro_steps.clear()


def _named_arrays(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu()
        yield keys, (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    elif isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        yield keys, np.asarray(value)
    elif isinstance(value, (dict, list, tuple)):
        for key, part in items_of(value):
            yield from _named_arrays(part, (*keys, str(key)))
    else:
        logger.warning("SingleSave: %s cannot be saved and is left out", type(value).__name__)


def _write_array(folder: Path, name: str, keys: tuple[str, ...], array: Any) -> dict[str, Any]:
    path = folder / file_name(".".join([name, *keys]), ".npy")
    with replacement(path) as temporary, open(temporary, "wb") as file:
        np.save(file, array, allow_pickle=False)
    numbers = array.astype(np.float64) if array.size and array.dtype.kind in "biuf" else None
    facts: dict[str, Any] = {"file": path.name} if keys else {}
    if numbers is not None:
        norm = float(np.linalg.norm(numbers))
        facts |= {"max": float(numbers.max()), "min": float(numbers.min()), "mean": float(numbers.mean()), "norm": norm}
    return {**facts, "shape": list(array.shape)}


def _rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0

"""``SingleSave``: named values of a reinforcement learning loop as .npy files, outside any collection.

    saver = SingleSave("dump")                      # fmk="mindspore" in a program of MindSpore
    saver.save({"prompts": ids, "log_probs": [first, second]})
    saver.step()

    dump/data/{name}/step{s}/rank{r}/micro_step{m}/{name}[.key].npy and {name}.json with shape and statistics

The micro step counts the calls for one name within a step. Nested lists and dicts add their keys to the file name.
bfloat16 becomes float32, which holds its values exactly; the JSON file then says ``"dtype": "bfloat16"``.

Once it is constructed it never raises: what cannot be written costs one log line, and the program goes on.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from msprobe.core.capture.containers import DEPTH_LIMIT, key_text, parts_of
from msprobe.core.errors import MsprobeException, argument_text, error_text
from msprobe.core.host import require_local
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.core.store.journal import dumps
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import disk_remedy, make_folder, make_folder_below, replacement_file, write_atomic
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.native import measuring

FRAMEWORKS = {"pytorch": "msprobe.adapters.pytorch.value_saver", "mindspore": "msprobe.adapters.mindspore.value_saver"}
_PACKAGES = {"mindspore": "mindspore", "torch": "pytorch"}  # MSAdapter's tensors are those of MindSpore
_RANKS = ("RANK", "RANK_ID")  # torchrun, Ray and verl; msrun and Ascend launchers
_OWN_DTYPES = "biufc"
_LONGEST_SUFFIX = ".json.1234567890.tmp"  # of a file that is being written

Leaf = tuple[tuple[str, ...], Any, str]
"""Keys on the way to a value, its elements, and the name of its type where numpy has another one."""


class TensorReader(Protocol):
    """What the module ``value_saver`` of an adapter has."""

    def array_of(self, value: Any) -> tuple[Any, str] | None:
        """Return the elements of a tensor, and its type where numpy lacks it; None for what is no tensor with data."""
        ...

    def process_rank(self) -> int | None:
        """Return the rank of this process; None where no communication was set up."""
        ...


class SingleSave:
    """Saves values. There is one per process and path: constructing it again with the same path returns the same one.

    Args:
        dump_path: where ``data`` lies.
        fmk: ``pytorch`` or ``mindspore``, which says the rank. Tensors of either are saved.

    Raises:
        MsprobeException: another framework, or the path is a URL.
    """

    _instance: SingleSave | None = None
    """The last one that was constructed; a test sets None to begin anew."""
    _by_path: ClassVar[dict[Path, SingleSave]] = {}

    def __new__(cls, dump_path: str, fmk: str = "pytorch") -> SingleSave:
        if fmk not in FRAMEWORKS:
            raise MsprobeException(0, f"SingleSave: fmk is one of {', '.join(FRAMEWORKS)}, got {argument_text(fmk)}")
        path: Any = dump_path
        if not isinstance(path, (str, os.PathLike)) or not str(path):
            raise MsprobeException(0, f"SingleSave: dump_path is the path of a folder, got {argument_text(dump_path)}")
        require_local(dump_path, "SingleSave: dump_path")
        root = Path(dump_path).absolute()
        if cls._instance is None:
            cls._by_path.clear()
        cls._instance = cls._by_path.get(root)
        if cls._instance is None:
            cls._instance = cls._by_path[root] = super().__new__(cls)
            cls._instance._begin(root, fmk)
        return cls._instance

    def _begin(self, root: Path, fmk: str) -> None:
        """Set up the one object of the path; ``__init__`` would run at every construction."""
        self._root = root
        self._framework = fmk
        self._step = 0
        self._lock = threading.Lock()
        self._micro_steps: dict[str, Iterator[int]] = {}
        self._places: set[tuple[str, int]] = set()

    def save(self, data: dict[str, Any]) -> None:
        """Write each value of ``data``; what is no tensor, number or container of them is left out with a log line."""
        for name, value in self._items("save", data):
            with self._lock:
                micro = next(self._micro_steps.setdefault(name, itertools.count()))
            self._save(name, value, micro)

    def save_ex(self, data: dict[str, Any], micro_batch: int = 0) -> None:
        """Write each value of ``data`` as ``save`` does, with the micro step of the caller."""
        number: Any = micro_batch
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
            self._tell(f"save_ex: micro_batch is a number from 0 on, got {argument_text(micro_batch)}")
            return
        for name, value in self._items("save_ex", data):
            self._save(name, value, int(micro_batch))

    def save_config(self, data: dict[str, Any]) -> None:
        """Write the settings of the run beside the data, as ``configurations.json``."""
        try:
            make_folder(self._root)
            write_atomic(self._root / "configurations.json", [dumps(data, indent=4)])
        except OSError as error:
            let_through(error)
            self._tell_disk(error)
        except Exception as error:  # noqa: BLE001  (whatever an object of the user does)
            let_through(error)
            self._tell(f"save_config: the settings cannot be written: {error_text(error)}")

    def step(self) -> None:
        """End the step: the next values belong to the next one."""
        with self._lock:
            self._step += 1
            self._micro_steps.clear()
            self._places.clear()

    def _items(self, method: str, data: Any) -> list[tuple[str, Any]]:
        if not isinstance(data, dict):
            self._tell(f"{method}: data is a dict of names and values, got {type(data).__name__}; nothing is saved")
            return []
        return [(key_text(name), value) for name, value in dict.items(data)]

    def _save(self, name: str, value: Any, micro: int) -> None:
        """Write one value; never raise, because this runs in the middle of a training."""
        with self._lock:
            known = (name, micro) in self._places
            self._places.add((name, micro))
        if known:
            self._tell(
                f"{name}: micro step {micro} is saved twice in one step, the later values stay; count micro_batch"
            )
        try:
            self._write(name, value, micro)
        except OSError as error:
            let_through(error)
            self._tell_disk(error)
        except Exception as error:  # noqa: BLE001  (whatever a tensor of the user does)
            let_through(error)
            self._tell(f"{name}: its value cannot be saved: {error_text(error)}")

    def _write(self, name: str, value: Any, micro: int) -> None:
        base = _folder_name(name)
        folder = self._root / "data" / base / f"step{self._step}" / f"rank{self._rank()}" / f"micro_step{micro}"
        facts: list[dict[str, Any]] = []
        used: set[str] = set()
        for keys, array, dtype in self._leaves(name, value, (), ()):
            if not facts:
                make_folder_below(self._root, folder)
            file = _unused(".".join([base, *keys]), used)
            with replacement_file(folder / file) as opened:
                np.save(opened, array, allow_pickle=False)
            facts.append(({"file": file} if keys else {}) | _facts(array) | ({"dtype": dtype} if dtype else {}))
        if facts:
            write_atomic(folder / f"{base}.json", [dumps({"data": facts[0] if len(facts) == 1 else facts}, indent=4)])

    def _leaves(self, name: str, value: Any, keys: tuple[str, ...], around: tuple[int, ...]) -> Iterator[Leaf]:
        """Yield the tensors and numbers in ``value``, which lies in the containers with the ids ``around``."""
        found = _array_of(value)
        if found is not None:
            yield keys, *found
            return
        parts = None if id(value) in around or len(around) >= DEPTH_LIMIT else _parts_of(value)
        if parts is None:
            place = ".".join([name, *keys])
            self._tell(f"{place}: {type(value).__name__} is no tensor, number or container, and is left out")
            return
        for key, part in parts:
            yield from self._leaves(name, part, (*keys, key), (*around, id(value)))

    def _rank(self) -> int:
        loaded = any(sys.modules.get(package) for package, name in _PACKAGES.items() if name == self._framework)
        rank = _reader(self._framework).process_rank() if loaded else None
        texts = [os.environ.get(name, "") for name in _RANKS] if rank is None else []
        return next((int(text) for text in texts if text.isascii() and text.isdigit()), rank or 0)

    def _tell(self, text: str) -> None:
        if first_time((self._root, text)):
            logger.warning("SingleSave: %s", text)

    def _tell_disk(self, error: OSError) -> None:
        if first_time((self._root, error.errno)):
            logger.warning("SingleSave: %s cannot be written: %s. %s", self._root, error, disk_remedy(error))


def _reader(framework: str) -> TensorReader:
    return cast(TensorReader, importlib.import_module(FRAMEWORKS[framework]))


@lru_cache(maxsize=256)
def _framework_of(kind: Any) -> str | None:
    """Return the framework that a class comes from, itself or one of its bases."""
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return next((framework for package, framework in _PACKAGES.items() if package in packages), None)


def _array_of(value: Any) -> tuple[Any, str] | None:
    """Return the elements of a tensor, array or number, and its type where numpy lacks it; None for everything else."""
    framework = _framework_of(value.__class__)
    if _is_jagged(value):
        return None
    if framework is not None and (found := _reader(framework).array_of(value)) is not None:
        return found
    if not isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
        return None
    array = np.asarray(value)
    if array.dtype.kind == "V" and array.dtype.names is None:  # ml_dtypes: bfloat16, float8
        return array.astype(np.float32), array.dtype.name
    return (array, "") if array.dtype.kind in _OWN_DTYPES else None


def _parts_of(value: Any) -> list[tuple[str, Any]] | None:
    """Return the keys and parts of a container, or the sequences of a jagged tensor; None for what is neither."""
    if isinstance(value, dict):
        return [(key_text(key), part) for key, part in dict.items(value)]  # 1 and "1" are two keys
    parts = value.unbind() if _is_jagged(value) else parts_of(value)
    if parts is None:
        return None
    return [(str(key), part) for key, part in (parts.items() if isinstance(parts, dict) else enumerate(parts))]


def _is_jagged(value: Any) -> bool:
    return _framework_of(value.__class__) == "pytorch" and bool(getattr(value, "is_nested", False))


def _facts(array: Any) -> dict[str, Any]:
    """Return the documented facts of a value: statistics, where it has elements with an order, and shape."""
    numbers = dict(zip(("max", "min", "mean", "norm"), _statistics(array), strict=True))
    return {key: number for key, number in numbers.items() if number is not None} | {"shape": list(array.shape)}


def _statistics(array: Any) -> Sequence[Any]:
    dtype = find_dtype(array.dtype.name)
    if measuring is None or dtype is None or dtype.code < 0 or array.size == 0:
        return statistics(array, precision="high")
    dense = np.ascontiguousarray(array)
    return measuring.summary(dense.ctypes.data, dense.size, dtype.code, True)


def _folder_name(name: str) -> str:
    """Return the folder of a name: the name where it is safe, never a folder above or this one."""
    return file_name(name if name.strip(".") else f"/{name}", _LONGEST_SUFFIX).removesuffix(_LONGEST_SUFFIX)


def _unused(name: str, used: set[str]) -> str:
    """Return a file name that none of ``used`` has (the keys ``1`` and ``"1"`` have one text), and add it to them."""
    tries = itertools.chain([name], (f"{name}~{number}" for number in itertools.count(2)))
    file = next(file for each in tries if (file := file_name(each, ".npy")) not in used)
    used.add(file)
    return file

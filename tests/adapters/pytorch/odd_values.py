"""Values that nobody should pass to a model and somebody does: objects that raise or lie, and every kind of tensor.

``SINGLE`` has a maker for each; ``build`` puts made values into containers as a recipe says, fresh every time, so
that a program can run twice on equal values.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.adapters.pytorch.random_tensors import DTYPES, RandomTensor


def refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("leave me alone")


def odd(base: type = object, **methods: Any) -> type:
    return type("Odd", (base,), methods)


class RefusesAttributes:
    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


class RefusesItsClass:
    @property
    def __class__(self) -> Any:
        raise ValueError("class")


class RefusesHash(type):
    def __hash__(cls) -> int:
        raise ValueError("hash")

    def __eq__(cls, other: object) -> bool:
        raise ValueError("eq")


class OfOddType(metaclass=RefusesHash):
    pass


class EndlessList(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        while True:
            yield 1

    def __len__(self) -> int:
        return 10**12


class EndlessTuple(tuple[Any, ...]):
    __iter__ = EndlessList.__iter__  # type: ignore[assignment]
    __len__ = EndlessList.__len__  # type: ignore[assignment]


class EndlessDict(dict[Any, Any]):
    __iter__ = EndlessList.__iter__  # type: ignore[assignment]
    __len__ = EndlessList.__len__  # type: ignore[assignment]

    def items(self) -> Any:
        return ((1, 1) for _ in EndlessList())


class EndlessMapping(Mapping[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        return key

    def __iter__(self) -> Iterator[Any]:
        return itertools.count()

    def __len__(self) -> int:
        return 3


class OddMapping(Mapping[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        raise ValueError(key)

    def __iter__(self) -> Iterator[Any]:
        raise ValueError("iter")

    def __len__(self) -> int:
        return 3


class FewerFields(tuple[Any, ...]):
    _fields = ("a",)


class NoFields(tuple[Any, ...]):
    _fields = 5


@dataclasses.dataclass
class Refusing:
    a: int = 1

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


class Number(enum.IntEnum):
    ONE = 1


class Word(str, enum.Enum):
    A = "a"


class RefusingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise RuntimeError("not this one")


class PlainSubclass(torch.Tensor):
    pass


class WithoutMemory(torch.Tensor):
    @staticmethod
    def __new__(cls) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (2, 3))

    @classmethod
    def __torch_dispatch__(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("no arithmetic")


def own_list() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def own_dict() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["me"] = value
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(3000):
        value = [value]
    return value


def generator() -> Iterator[int]:
    yield 1
    yield 2


def fake() -> Any:
    with FakeTensorMode():
        return torch.empty(3, 4)


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(3)


def emptied_view() -> torch.Tensor:
    value = torch.ones(10)[2:]
    value.untyped_storage().resize_(0)
    return value


def nested(layout: torch.layout) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


def quantized(dtype: torch.dtype) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, dtype)


def sparse(convert: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return convert(torch.eye(4))


OBJECTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "int": lambda: 3,
    "text": lambda: "text",
    "repr raises": odd(__repr__=refuse, __str__=refuse),
    "eq and hash raise": odd(__eq__=refuse, __hash__=refuse),
    "len and iter raise": odd(__len__=refuse, __iter__=refuse, __bool__=refuse),
    "attributes raise": RefusesAttributes,
    "class raises": RefusesItsClass,
    "type cannot be hashed": OfOddType,
    "endless list": EndlessList,
    "endless tuple": EndlessTuple,
    "endless dict": EndlessDict,
    "endless mapping": EndlessMapping,
    "list that raises": lambda: odd(list, __iter__=refuse, __len__=refuse)([1]),
    "dict that raises": lambda: odd(dict, items=refuse, __iter__=refuse, __len__=refuse)(a=1),
    "str that raises": lambda: odd(str, __str__=refuse, __len__=refuse, __getitem__=refuse)("x"),
    "int that raises": lambda: odd(int, __repr__=refuse, bit_length=refuse, __int__=refuse)(3),
    "float that raises": lambda: odd(float, __repr__=refuse, __float__=refuse)(0.5),
    "mapping that raises": OddMapping,
    "key that raises": lambda: {odd(__str__=refuse, __repr__=refuse)(): 1},
    "odd keys": lambda: {"\ud800": 1, ("a", 1): 2, 1: 2, None: 3, 1.5: 4, b"\xff": 5},
    "fewer fields than items": lambda: FewerFields([1, 2]),
    "no fields": lambda: NoFields([1, 2]),
    "dataclass that raises": Refusing,
    "dataclass type": lambda: Refusing,
    "IntEnum": lambda: Number.ONE,
    "str Enum": lambda: Word.A,
    "list in itself": own_list,
    "dict in itself": own_dict,
    "deep": deep,
    "generator": generator,
    "set": lambda: {1, 2},
    "complex": lambda: 1j,
    "bytes": lambda: b"\xff" * 10_000,
    "range": lambda: range(10**9),
    "slice": lambda: slice(torch.tensor(1), None, odd()()),
    "huge int": lambda: -(10**5000),
    "nan": lambda: float("nan"),
    "surrogate": lambda: "\ud800\0\n",
    "module": lambda: torch.nn.Linear(1, 1),
    "lazy module": lambda: torch.nn.LazyLinear(2),
    "namespace": lambda: types.SimpleNamespace(a=1),
    "deque": lambda: collections.deque([1]),
    "torch.Generator": torch.Generator,
    "storage": lambda: torch.ones(1).untyped_storage(),
    "object array": lambda: np.array([1, "a", None], object),
    "text array": lambda: np.array(["a"]),
    "time array": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "record array": lambda: np.zeros(2, [("a", "i4")]),
    "numpy complex": lambda: np.complex64(1j),
    "numpy longdouble": lambda: np.longdouble(1),
    "numpy void": lambda: np.void(b"ab"),
    "empty array": lambda: np.zeros((0, 3)),
}
TENSORS: dict[str, Callable[[], Any]] = {
    "0-d": lambda: torch.tensor(1.5),
    "empty": lambda: torch.empty(0, 3),
    "with gradient": lambda: torch.ones(3, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "uninitialised parameter": torch.nn.UninitializedParameter,
    "transposed part": lambda: torch.arange(12.0).reshape(3, 4)[::2, 1::2].t(),
    "expanded": lambda: torch.ones(1).expand(100, 100),
    "overlapping": lambda: torch.as_strided(torch.ones(10), (3, 3), (1, 2)),
    "huge strides": lambda: torch.as_strided(torch.ones(1), (1, 1), (2**40, 2**50)),
    "negative view": lambda: torch.ones(3, dtype=torch.complex64).conj().imag,
    "conjugate view": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "nan and inf": lambda: torch.tensor([float("nan"), float("inf"), -0.0]),
    "meta": lambda: torch.empty(3, device="meta"),
    "fake": fake,
    "inference": inference,
    "emptied view": emptied_view,
    "zero tensor": lambda: torch._efficientzerotensor((2,)),
    "functional": lambda: torch._to_functional_tensor(torch.ones(2)),
    "coo": lambda: sparse(torch.Tensor.to_sparse),
    "coo not coalesced": lambda: torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,), check_invariants=True),
    "csr": lambda: sparse(torch.Tensor.to_sparse_csr),
    "csc": lambda: sparse(torch.Tensor.to_sparse_csc),
    "bsr": lambda: sparse(lambda it: it.to_sparse_bsr((2, 2))),
    "nested": lambda: nested(torch.strided),
    "jagged": lambda: nested(torch.jagged),
    "subclass": lambda: torch.ones(2).as_subclass(PlainSubclass),
    "subclass that raises": lambda: torch.ones(2).as_subclass(RefusingTensor),
    "subclass without memory": WithoutMemory,
    "mkldnn": lambda: torch.ones(2, 2).to_mkldnn(),
    **{f"quantized {dtype}": lambda dtype=dtype: quantized(dtype) for dtype in (torch.qint8, torch.quint4x2)},
    **{str(dtype): lambda dtype=dtype: torch.zeros(16, dtype=torch.uint8).view(dtype) for dtype in DTYPES},
}
SINGLE = {**OBJECTS, **TENSORS}
"""A maker for each single value."""

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Box:
    inside: Any
    beside: Any = None


CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "dict": lambda parts: {f"key{number}": part for number, part in enumerate(parts)},
    "ordered dict": lambda parts: collections.OrderedDict(enumerate(parts)),
    "view of a dict": lambda parts: types.MappingProxyType(dict(enumerate(parts))),
    "named tuple": lambda parts: Pair(parts, parts[:1]),
    "dataclass": lambda parts: Box(parts),
}


Recipe = str | RandomTensor | tuple[str, list[Any]]


def build(recipe: Recipe) -> Any:
    """The value of a recipe: the name of a single value, a tensor, or that of a container with those of its parts."""
    if isinstance(recipe, str):
        return SINGLE[recipe]()
    if isinstance(recipe, RandomTensor):
        return recipe.build()
    return CONTAINERS[recipe[0]]([build(part) for part in recipe[1]])

"""The calls of one request in a loop over the requests of a batch; the other calls stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.compare.inputs.request_rows import RequestOption, request_rows
from msprobe.compare.requests.request_loops import without_other_requests
from msprobe.core.store.reader import Dump, Place

ATTENTION = "Module.attention.Attention.forward.0"


def dump(requests: dict[str, int], *shapes: tuple[str, list[int]]) -> Dump:
    """A dump of one module that makes these calls: function and shape of the result."""
    data: dict[str, Any] = {}
    for number, (function, shape) in enumerate(shapes):
        tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape}
        data[f"Torch.{function}.{number}.forward"] = {"input_args": [], "output": [tensor]}
    data[ATTENTION] = {"input_args": [], "output": []}
    scheduled = [{"id": name, "tokens": count, "position": 0} for name, count in requests.items()]
    construct: dict[str, Any] = {name: ATTENTION for name in data if name != ATTENTION}
    header = {"scheduled_tokens": {"requests": scheduled}}
    place = Place(Path("dump.json"), 0, "rank", 0)
    return Dump(place, "statistics", "mix", "pytorch", data, construct=construct, header=header)


def kept(of: Dump, request: str) -> list[str]:
    rows = request_rows(of.header, RequestOption(request))
    assert rows is not None
    return [name.split(".")[2] for name in without_other_requests(of, rows).data if name != ATTENTION]


def test_the_share_of_the_request_is_kept_with_what_the_batch_is_given() -> None:
    loop = [("matmul", [4, 3, 3]), ("relu", [3, 8]), ("matmul", [4, 5, 5]), ("relu", [5, 8])]
    calls = dump({"a": 3, "b": 5}, ("relu", [8, 8]), *loop, ("relu", [8, 8]))
    assert kept(calls, "a") == ["0", "1", "2", "5"]
    assert kept(calls, "b") == ["0", "3", "4", "5"]


def test_calls_for_the_whole_batch_are_no_loop() -> None:
    assert kept(dump({"a": 3, "b": 5}, ("relu", [8, 4]), ("relu", [8, 4])), "a") == ["0", "1"]


def test_shapes_of_another_order_are_no_loop() -> None:
    assert kept(dump({"a": 3, "b": 5}, ("relu", [5, 4]), ("relu", [3, 4])), "a") == ["0", "1"]


def test_a_damaged_name_is_no_call_of_a_loop() -> None:
    calls = dump({"a": 3, "b": 5}, ("relu", [3, 8]), ("relu", [5, 8]))
    damaged = "Torch.relu.0x1f.forwards"
    calls.data[damaged] = calls.data["Torch.relu.0.forward"]
    assert kept(calls, "a") == ["0", "0x1f"]

"""The calls of one request where a module computes the requests of a batch one after the other, in a loop.

Attention without a kernel for packed batches makes its calls once per request. They are those of the requests in the
order of the batch, where a module makes a call a multiple of as many times as there are requests, and the results of
each share are as long as the tokens of its request, or as the tokens so far. The calls of the others are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msprobe.compare.inputs.request_rows import RequestRows
from msprobe.compare.records.entries import parent_of, phase_of, stem_of
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor, values_below

_FORWARD = "forward"


def without_other_requests(dump: Dump, rows: RequestRows) -> Dump:
    """Return a dump without the calls that loops make for other requests; the dump itself where there are none."""
    if rows.requests < 2:
        return dump
    children: dict[tuple[str | None, str], list[str]] = {}
    for name in dump.data:
        if phase_of(name) == _FORWARD:
            children.setdefault((parent_of(dump.construct, name), stem_of(name)), []).append(name)
    others = {name for names in children.values() for name in _of_others(names, dump.data, rows)}
    if not others:
        return dump
    left_out = {name for name in dump.data if _is_below(name, others, dump)}
    kept = {name: body for name, body in dump.data.items() if name not in left_out}
    return replace(dump, data=kept)


def _of_others(names: Sequence[str], data: Mapping[str, Any], rows: RequestRows) -> Iterator[str]:
    """Yield the calls of one function in one module call that belong to other requests.

    Calls for the whole batch, before and after the loop, are none of them.
    """
    shapes = {name: _shapes(data[name]) for name in names}
    inside = [name for name in names if shapes[name] and not _holds_batch(shapes[name], rows)]
    each, rest = divmod(len(inside), rows.requests)
    if rest or not each:
        return
    shares = [inside[number * each : (number + 1) * each] for number in range(rows.requests)]
    if all(_fits(shapes[name], rows, number) for number, share in enumerate(shares) for name in share):
        yield from (name for number, share in enumerate(shares) if number != rows.number for name in share)


def _shapes(body: Any) -> list[list[int]]:
    return [leaf.raw["shape"] for leaf in values_below(body.get("output")) if is_tensor(leaf.raw)]


def _holds_batch(shapes: Sequence[Sequence[int]], rows: RequestRows) -> bool:
    """Return whether a result is as long as the batch, and as no request of it."""
    batch = {rows.packed, rows.padded, rows.contexts} - {*rows.all_tokens, *rows.all_contexts}
    return any(batch & set(shape[:-1]) for shape in shapes)


def _fits(shapes: Sequence[Sequence[int]], rows: RequestRows, number: int) -> bool:
    """Return whether all results are as long as a request, or as its tokens so far."""
    lengths = {rows.all_tokens[number], rows.all_contexts[number]}
    return all(lengths & set(shape) for shape in shapes)


def _is_below(name: str, others: set[str], dump: Dump) -> bool:
    """Return whether a call is one of those left out, or is made in one."""
    visited: set[str] = set()
    at: str | None = name
    while at is not None and at not in visited:
        if at in others:
            return True
        visited.add(at)
        at = parent_of(dump.construct, at)
    return False

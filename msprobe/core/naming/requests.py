"""The requests of a server in the header of dump.json: the field ``scheduled_tokens``.

    {"requests": [{"id": "a", "tokens": 3, "position": 0}, {"id": "b", "tokens": 1, "position": 12}], "only": "b"}

The requests stand in the order of the batch. ``tokens`` is how many rows of the batch belong to the request,
``position`` which token of the request the first of them is, from 0. ``only`` is there where tensors as long as the
batch were cut to the rows of one request while they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

SCHEDULED_TOKENS = "scheduled_tokens"
"""The key in the header."""


def find_request(request: str, known: Iterable[str]) -> str | None:
    """Return the id among the known ones that ``request`` means; None where there is none.

    Servers put a prefix such as ``chatcmpl-`` before the id of their client: when no id is equal, the only id that ends
    in ``-`` and ``request`` is meant.
    """
    names = list(known)
    if request in names:
        return request
    prefixed = [name for name in names if name.endswith(f"-{request}")]
    return prefixed[0] if len(prefixed) == 1 else None

"""Check the model of ``start(model=...)``: one model, or several in a list or tuple."""

from __future__ import annotations

from typing import Any

from msprobe.core.errors import MsprobeException


def headed_models(model: Any, kind: type, called: str, prefix: str) -> list[tuple[str, Any]]:
    """Return each model with the prefix of its children's names: ``prefix``, or ``prefix.position`` in a list.

    Args:
        kind: the class of models.
        called: the name of that class in messages, such as ``torch.nn.Module``.

    Raises:
        MsprobeException: a part is no model, or the list is empty.
    """
    parts: list[Any] = list(model) if isinstance(model, (list, tuple)) else [model]
    if not parts:
        raise MsprobeException(0, f"start(model=...): the list of models is empty; give a {called}")
    for position, part in enumerate(parts):
        if not isinstance(part, kind):
            where = f" at position {position}" if part is not model else ""
            raise MsprobeException(
                0,
                f"start(model=...): expected a {called} or a list or tuple of them, got {type(part).__name__}{where}",
            )
    return [(prefix if part is model else f"{prefix}.{position}", part) for position, part in enumerate(parts)]


def counted_model(model: Any, kind: type, called: str) -> Any:
    """Return the model whose calls ``token_range`` counts: the first of several.

    Raises:
        MsprobeException: it is no model, or the list is empty.
    """
    first = model[0] if isinstance(model, (list, tuple)) and model else model
    if not isinstance(first, kind):
        raise MsprobeException(
            0, f"start(model=...): token_range counts the calls of a {called}, got {type(first).__name__}"
        )
    return first

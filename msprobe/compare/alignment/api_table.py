"""Names of MindSpore functions and the PyTorch functions they stand for: the published pairs of mindstudio-probe.

``Mint.*`` and ``MintFunctional.*`` carry PyTorch's names already; the others are in ``api_table.tsv``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_MINT = {"Mint": "Torch", "MintFunctional": "Functional", "MintDistributed": "Distributed"}


def pytorch_name(stem: str) -> str:
    """The name of the PyTorch function (``Torch.add``) for that of a MindSpore one; an unknown name stays."""
    prefix, dot, rest = stem.partition(".")
    if dot and prefix in _MINT:
        return f"{_MINT[prefix]}.{rest}"
    return _table().get(stem, stem)


@cache
def _table() -> dict[str, str]:
    text = Path(__file__).with_name("api_table.tsv").read_text(encoding="utf-8")
    pairs = (line.split("\t", 1) for line in text.splitlines()[1:] if line)
    return dict(pairs)

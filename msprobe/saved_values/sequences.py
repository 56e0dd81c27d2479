"""Values of sequences compared token by token: log-probabilities of rollout against training, token ids.

A mask says which positions are tokens of the response. Each side has its own mask, so that padding on the other side,
or of another length, moves nothing: the n-th token of one side is compared with the n-th of the other.

With d = log p_golden - log p_target for each token, golden being the training and target the rollout:

    gap        mean of -d, the mean difference of the log-probabilities
    KL (k3)    mean of exp(d) - 1 - d, an estimate of KL(target || golden) for tokens that the target sampled: unbiased,
               never negative, of low variance

Source: J. Schulman, "Approximating KL Divergence" (2020). The verdict is that of ``numerics/token_verdict.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.numerics.token_verdict import judge_tokens

Array = NDArray[Any]
ALL = "all"


@dataclass(frozen=True, slots=True)
class SequenceGap:
    """How far one sequence of two sides is apart.

    Attributes:
        sequence: its row; ``all`` for the tokens of all sequences together.
        tokens: how many tokens were compared; both counts where they differ.
        mean_gap: mean of target minus golden; None for token ids.
        largest_gap: the largest difference of one token, without sign.
        worst_token: where that is, counted within the response.
        kl: the estimate k3 of KL(target || golden), in nats; None for values above 0, which are no log-probabilities.
        first_token: the first token that differs by more than its tolerance, counted within the response; None if none
            does, or if all share a small difference.
        level: the verdict; ``missing`` where one side lacks the value.
        note: why it could not be compared, or how it differs.
    """

    sequence: int | str
    tokens: str
    mean_gap: float | None
    largest_gap: float | None
    worst_token: int | None
    kl: float | None
    first_token: int | None
    level: str
    note: str


def not_compared(note: str, level: str = "error") -> SequenceGap:
    """Return the row of a value whose tokens could not be compared."""
    return SequenceGap(ALL, "", None, None, None, None, None, level, note)


def compare_sequences(
    target: Array, golden: Array, masks: tuple[Array, Array], dtypes: tuple[str, str] = ("", "")
) -> list[SequenceGap]:
    """Compare the masked tokens of two arrays, sequence by sequence, and last those of all of several sequences.

    Args:
        target, golden: values of shape (sequences, tokens), or (tokens,) for one; the number of tokens may differ.
        masks: for each side the mask of its shape; what is not 0 is a token.
        dtypes: the types in which the values were computed, where they are not those of the arrays.

    Raises:
        ReadError: the shapes do not fit.
    """
    for side, mask, name in ((target, masks[0], "target"), (golden, masks[1], "golden")):
        if side.ndim not in (1, 2) or side.shape != mask.shape:
            raise ReadError(
                f"values of shape {list(side.shape)} do not fit a mask of shape {list(mask.shape)} in the {name}"
            )
    n, b, of_n, of_b = (np.atleast_2d(each) for each in (target, golden, *masks))
    if len(n) != len(b):
        raise ReadError(f"{len(n)} sequences against {len(b)}")
    names = dtypes[0] or target.dtype.name, dtypes[1] or golden.dtype.name
    tokens = [(n[row][of_n[row] != 0], b[row][of_b[row] != 0]) for row in range(len(n))]
    gaps = [_gap(row, *pair, names) for row, pair in enumerate(tokens)]
    whole = [pair for pair in tokens if pair[0].size == pair[1].size]
    if len(gaps) > 1 and whole and all(gap.level == "pass" for gap in gaps):
        together = [np.concatenate(side) for side in zip(*whole, strict=True)]
        gaps.append(replace(_gap(0, together[0], together[1], names), sequence=ALL))
    return gaps


def _gap(row: int, n: Array, b: Array, dtypes: tuple[str, str]) -> SequenceGap:
    common = min(n.size, b.size)
    tokens = str(common) if n.size == b.size else f"{n.size} / {b.size}"
    n_common, b_common = n[:common], b[:common]
    verdict = judge_tokens(n_common, b_common, *dtypes)
    level, note, first = verdict.level, verdict.reason, verdict.first
    if n.size != b.size:
        level, first = "error", common if first is None else first
        note = "; ".join(filter(None, [f"{n.size} tokens against {b.size}", note]))
    elif n.size == 0:
        note = "no token of the mask"
    if n.dtype.kind in "biu" and b.dtype.kind in "biu":
        return SequenceGap(row, tokens, None, None, None, None, first, level, note)
    gap = n_common.astype(np.float64) - b_common.astype(np.float64)
    known = np.flatnonzero(np.isfinite(gap))
    if known.size == 0:
        return SequenceGap(row, tokens, None, None, None, None, first, level, note)
    gap = gap[known]
    worst = int(np.abs(gap).argmax())
    with np.errstate(over="ignore"):
        logarithms = known.size == common and n_common.max() <= 0 and b_common.max() <= 0
        kl = float(np.mean(np.expm1(-gap) + gap)) if logarithms else None
    return SequenceGap(
        row, tokens, float(gap.mean()), float(abs(gap[worst])), int(known[worst]), kl, first, level, note
    )

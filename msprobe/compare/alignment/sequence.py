"""Sequence matching: like exact matching, but an extra or missing call does not shift the calls after it.

Where the forward calls of both sides are not the same list, they are aligned (see ``changed_calls``), and backward
entries follow their forward call.
"""

from __future__ import annotations

from msprobe.compare.alignment.protocol import SAME, Alignment, Side


class SequenceMatch:
    """See the module text."""

    def align(self, target: Side, golden: Side) -> Alignment:
        if target.keys == golden.keys:
            return SAME
        from msprobe.compare.alignment.changed_calls import changed_pairs  # only where calls differ

        return Alignment(changed_pairs(target, golden))

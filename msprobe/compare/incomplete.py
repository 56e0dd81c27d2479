"""What a comparison left out, in sentences beside its verdict: what one side lacks as a whole, and values that could
not be compared."""

from __future__ import annotations

from msprobe.compare.not_compared import not_compared
from msprobe.compare.run import EXEMPTIONS, Comparison


def incomplete(comparison: Comparison) -> list[str]:
    """Return the sentences; none where everything was compared."""
    notes = [note for exemption in EXEMPTIONS for note in exemption.notes(comparison.table)]
    return not_compared(comparison) + notes

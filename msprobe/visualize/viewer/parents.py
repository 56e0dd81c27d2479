"""Parents as indexes. Unknown parents and circles are replaced, so that every node is below a root."""

from __future__ import annotations

from collections.abc import Sequence


def parent_indexes(names: Sequence[str], ups: Sequence[str | None]) -> list[int]:
    """Return the index of each node's parent, -1 for a root.

    A node without a known parent is put below the root, and so is one member of each circle: no node is lost.
    """
    index_of = {name: index for index, name in enumerate(names)}
    root = next((index for index, up in enumerate(ups) if not up), -1)
    parents = [-1 if index == root else index_of.get(up or "", root) for index, up in enumerate(ups)]
    if any(0 <= parent <= index for index, parent in enumerate(parents)):  # never so where children come first
        _cut_circles(parents, root)
    return parents


def _cut_circles(parents: list[int], root: int) -> None:
    done = bytearray(len(parents))
    for start in range(len(parents)):
        path, node = set[int](), start
        while node >= 0 and not done[node]:
            if node in path:
                parents[node] = root if node != root else -1
                break
            path.add(node)
            node = parents[node]
        for node in path:
            done[node] = 1

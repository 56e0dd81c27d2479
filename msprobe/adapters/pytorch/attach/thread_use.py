"""What the threads of an attached program are for: some train, others prepare data."""

from __future__ import annotations

import threading

from msprobe.adapters.pytorch.attach.collection import Collection


class ThreadUse(threading.local):
    """What this thread is inside of: calls of modules, compiled functions, data loaders; whether it calls models,
    whether it has made, or used, what trains any, and whether nothing of it is recorded."""

    inside = 0
    in_compiled = 0
    loading = 0
    calls = False
    trains = False
    left_out = False

    def prepares_data(self, collection: Collection, *, trained: bool, optimized: bool) -> bool:
        """Return whether a call of a model in this thread makes data for another one; then nothing of it is recorded.

        Args:
            collection: what records.
            trained: whether the model is trained.
            optimized: whether the program has an optimizer, without which nobody can tell.
        """
        before, self.trains = self.left_out, self.trains or trained
        self.left_out = optimized and not self.trains and threading.current_thread() is not threading.main_thread()
        if self.left_out is not before:
            collection.leave_out_thread(self.left_out)
        return self.left_out

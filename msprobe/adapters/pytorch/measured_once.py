"""Large CPU tensors are measured once per version: what a recorded call made is the next call's argument.

A claim says what is known of one memory (a storage) while its witness, a tensor that lies in it, is alive. Only memory
that came into being inside a recorded call can have remembered numbers: whatever a call was given is claimed as foreign
before the call runs, so that what it merely hands on is told from what it makes. Numbers count for the tensors that
share the witness's version counter, at the version at which they were taken, where a fingerprint of the memory is the
same. Whoever takes the memory in hand past the counter (``escapes``) ends that for good.

Nothing is kept alive: a weak reference keeps the shell of a tensor, so that its address stays its own, not its memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from msprobe.adapters.pytorch.tensor_memory import AsItIs

VARIABLE = "MSPROBE_MEASURE_ONCE"
LARGE = 1 << 18
"""Bytes from which on one measurement saved pays for remembering, at the pace of float32 on a fast processor."""
Span = tuple[int, int, int]
"""Address, elements and dtype code, as the kernel takes them."""
Kernel = Callable[[int, int, int, bool], Any]
_LEAST = LARGE // 16
_WeakRef: Any = torch._C._WeakTensorRef
_storage: Callable[[torch.Tensor], int] = torch._C._storage_id


class _Claim:
    """``numbers`` by span and kernel function, or None when the memory is foreign or has escaped."""

    __slots__ = ("numbers", "root", "witness")

    def __init__(self, witness: torch.Tensor, numbers: dict[Any, Any] | None) -> None:
        self.witness = _WeakRef(witness)
        self.root = witness._cdata
        self.numbers = numbers


class MeasuredOnce:
    """The memory of measurements of one session; it is open while calls are observed, and empty otherwise.

    Args:
        fingerprint: the kernel's; None where there is none, and then nothing is remembered.
    """

    def __init__(self, fingerprint: Callable[[int, int, int], int] | None) -> None:
        self._fingerprint = fingerprint
        self._claims: dict[int, _Claim] = {}
        self._open = False

    @classmethod
    def wanted(cls) -> bool:
        """Whether the environment lets tensors be measured once: all but ``MSPROBE_MEASURE_ONCE=0``."""
        return os.environ.get(VARIABLE, "").strip() != "0"

    @property
    def possible(self) -> bool:
        return self._fingerprint is not None

    def open(self) -> None:
        self._open = self._fingerprint is not None

    def close(self) -> None:
        self._open = False
        self.clear()

    def clear(self) -> None:
        """Know nothing of any tensor."""
        self._claims = {}

    def created(self, value: Any) -> None:
        """``value`` is what a call of torch's own has returned, or the gradients it passes on: what does not lie in the
        memory of an argument is new. The arguments have been measured, the value not yet.
        """
        if not self._open:
            return
        if type(value) is torch.Tensor:  # nearly always, and small
            if value.numel() >= _LEAST:
                self._made(value)
        elif isinstance(value, (tuple, list)):
            for part in value:
                if type(part) is not torch.Tensor:
                    self.created(part)
                elif part.numel() >= _LEAST:
                    self._made(part)

    def measure(
        self, tensor: torch.Tensor, span: Span, kernel: Kernel, high: bool, plain: torch.Tensor | None = None
    ) -> Any:
        """``kernel(*span, high)``, or what it gave for this version of ``tensor``.

        ``span`` is the memory of ``tensor``, or of ``plain``, which has its elements in the same memory or in a copy.
        """
        claim = self._claim(tensor) if self._open else None
        if claim is None or claim.numbers is None or not _counted_by(claim, tensor) or _in_job():
            return kernel(*span, high)
        if self._fingerprint is None or (plain is not None and _storage(plain) != _storage(tensor)):
            return kernel(*span, high)
        key, now = (*span, kernel, high), (tensor._version, self._fingerprint(*span))
        known = claim.numbers.get(key)
        if known is not None and known[0] == now:
            return known[1]
        numbers = kernel(*span, high)
        claim.numbers[key] = (now, numbers)
        return numbers

    def forget(self, tensor: torch.Tensor) -> None:
        """The memory of ``tensor`` may be written unseen from now on."""
        if not self._open:
            return
        with AsItIs():
            claim = self._claim(tensor)
        if claim is not None:
            claim.numbers = None

    def _made(self, tensor: torch.Tensor) -> None:
        if tensor.numel() * tensor.element_size() < LARGE or not tensor.is_cpu:
            return
        try:
            key = _storage(tensor)
            known = self._claims.get(key)
            if (known is None or known.witness.expired()) and not tensor.is_inference() and not _in_job():
                base = tensor._base
                if base is None or tensor.is_contiguous():  # as large as it says, and so is what it is a view of
                    self._claims[key] = _Claim(tensor if base is None else base, {})
        except RuntimeError:
            return  # sparse, functorch: nothing that the kernel reads

    def _claim(self, tensor: torch.Tensor) -> _Claim | None:
        try:
            key = _storage(tensor)
        except RuntimeError:
            return None
        claim = self._claims.get(key)
        if claim is None or claim.witness.expired():
            claim = self._claims[key] = _Claim(tensor, None)
        return claim


def _counted_by(claim: _Claim, tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` has the version counter of the witness: it is the witness, or a view of it."""
    if tensor._cdata == claim.root:
        return True
    base = tensor._base
    return base is not None and base._cdata == claim.root


def _in_job() -> bool:
    """Communication writes whenever it likes, past every counter."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()

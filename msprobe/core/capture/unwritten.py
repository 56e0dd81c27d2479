"""Memory that a program has got and that nobody has written: what lies in it are no values.

``torch.empty``, ``mint.empty`` and their relatives return what happens to lie in the memory; on a device that differs
from run to run. ``UnwrittenMemory`` knows such memory from the call that made it until something is written there.
Where the framework counts writes, a write by an operation of it is seen by the count. Other writes (kernels that get
the address, collectives, numpy) are seen by a sample of the bytes. Where a program writes part by part, in ways that
are known, a tensor counts as written once all of its elements are (``partial_writes``); any other write counts as one
of the whole memory. The memory is sampled only while it is known, which is rare.

``observe_maker``, ``observe_writer`` and ``observe_change`` wrap the functions of a framework that make and write it.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msprobe.core.capture.partial_writes import writes_all
from msprobe.core.capture.wrap import copy_signature
from msprobe.core.interruption import ignored, let_through

_SAMPLES = 64
_PURGE = 256


class Lifetime(Protocol):
    """Knows how long a memory is in use; it holds nothing alive."""

    def expired(self) -> bool:
        """Return whether the memory is free again."""
        ...

    def is_that_of(self, tensor: Any) -> bool:
        """Return whether ``tensor``, at the same address, lies in this memory, which was not free in between."""
        ...


class Elements(Protocol):
    """Knows which elements of a memory are written."""

    def mark(self, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Mark what a call of ``api`` has written; return False where this is not known."""
        ...

    def cover(self, tensor: Any) -> bool:
        """Return whether every element of ``tensor`` is written."""
        ...

    def copy(self) -> Elements:
        """Return the same of a copy of the memory."""
        ...


class UnwrittenMemory(ABC):
    """The memory that the program has got and not written; it holds nothing alive.

    The abstract methods say what a framework tells of a tensor. They may raise RuntimeError where it tells nothing.

    Attributes:
        known: the memories by address, always the same dict: while it is empty there is nothing to ask.
    """

    def __init__(self) -> None:
        self.known: dict[int, _Memory] = {}

    @abstractmethod
    def is_plain(self, tensor: Any) -> bool:
        """Return whether ``tensor`` is a tensor of the framework, of which the other methods can be asked."""

    @abstractmethod
    def is_sampled(self, tensor: Any) -> bool:
        """Return whether the memory of a plain tensor can be sampled."""

    @abstractmethod
    def base(self, tensor: Any) -> int:
        """Return the address at which the memory of ``tensor`` begins."""

    @abstractmethod
    def size(self, tensor: Any) -> int:
        """Return the bytes of the memory of ``tensor``."""

    @abstractmethod
    def element_size(self, tensor: Any) -> int:
        """Return the bytes of an element."""

    @abstractmethod
    def elements(self, tensor: Any) -> int:
        """Return the number of elements."""

    @abstractmethod
    def writes(self, tensor: Any) -> int:
        """Return how often ``tensor`` was written, as far as the framework counts it; 0 where it does not."""

    @abstractmethod
    def lifetime(self, tensor: Any) -> Lifetime:
        """Return what knows how long the memory of ``tensor`` is in use."""

    @abstractmethod
    def sample(self, tensor: Any, size: int) -> Any:
        """Return some bytes of the memory of ``tensor``, spread over all its ``size`` bytes."""

    @abstractmethod
    def is_same_sample(self, sample: Any, earlier: Any) -> bool:
        """Return whether two samples of one memory have the same bytes."""

    @abstractmethod
    def written_elements(self, tensor: Any, size: int) -> Elements | None:
        """Return the elements of the memory of ``tensor``, none of them written; None where there are too many."""

    @property
    def knows_any(self) -> bool:
        """Whether any memory is known."""
        return bool(self.known)

    def is_written(self, tensor: Any) -> bool:
        """Return whether ``tensor`` has memory that somebody has written; True for what is no plain tensor."""
        return not self.is_plain(tensor) or (self.size(tensor) > 0 and not self.holds(tensor))

    def add(self, tensor: Any) -> None:
        """Know ``tensor`` as memory that nobody has written; anything but a tensor with memory is ignored."""
        try:
            if not self.is_plain(tensor) or not self.is_sampled(tensor):
                return
            size = self.size(tensor)
            if size:
                self._purge()
                memory = _Memory(self, tensor, size)
                self.known[memory.base] = memory
        except RuntimeError as error:  # of functorch, of a mode without memory, of a device that cannot be asked
            let_through(error)
            return

    def add_copy(self, memory: _Memory, tensor: Any) -> None:
        """Know ``tensor``, whose memory is a copy of ``memory``, as that is known."""
        try:
            if self.is_plain(tensor) and memory.is_as_large(tensor):
                copy = memory.copy_at(tensor)
                self.known[copy.base] = copy
        except RuntimeError as error:
            let_through(error)
            return

    def forget(self, tensors: Iterable[Any]) -> None:
        """Know nothing of the memory of ``tensors`` any more: something writes it that nothing counts."""
        for tensor in tensors if self.known else ():
            if self.is_plain(tensor):
                with ignored(RuntimeError):  # it has no address
                    self.known.pop(self.base(tensor), None)

    def holds(self, tensor: Any) -> bool:
        """Return whether there is memory of ``tensor`` that nobody has written."""
        memory = self.memory_of(tensor)
        return memory is not None and not memory.covers(tensor)

    def begin_write(self, api: str, tensor: Any) -> _Memory | None:
        """Return the memory of which a call of ``api``, which is about to write ``tensor``, writes a part.

        The result is None where the memory is not known, or written as a whole.
        """
        if not self.known or not self.is_plain(tensor):
            return None
        try:
            if writes_all(api) and self.elements(tensor) * self.element_size(tensor) >= self.size(tensor):
                return None
            return self.memory_of(tensor)
        except RuntimeError as error:
            let_through(error)
            return None

    def end_write(self, memory: _Memory, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Know what a call of ``api`` has written; ``begin_write`` returned ``memory`` before it."""
        try:
            base = self.base(args[0])
            if self.known.get(memory.base) is not memory or (base != memory.base and not memory.is_as_large(args[0])):
                return
            del self.known[memory.base]
            memory.lie_at(base, args[0])
            if memory.note_write(api, args, kwargs):
                self.known[base] = memory
        except RuntimeError as error:
            let_through(error)
            return

    def memory_of(self, tensor: Any) -> _Memory | None:
        """Return the memory of ``tensor`` if it is known, and forget it if it was written in an unknown way."""
        if not self.known or not self.is_plain(tensor):
            return None
        try:
            base = self.base(tensor)
            memory = self.known.get(base)
            if memory is None:
                return None
            if memory.lifetime.is_that_of(tensor) and memory.unchanged(tensor):
                return memory
        except RuntimeError as error:
            let_through(error)
            return None
        self.known.pop(base, None)
        return None

    def _purge(self) -> None:
        """Drop memory that is free again, where much is known."""
        if len(self.known) >= _PURGE:
            for base in [base for base, memory in list(self.known.items()) if memory.lifetime.expired()]:
                self.known.pop(base, None)


class _Memory:
    """One memory, as it was when it was made, or when a known part of it was written."""

    __slots__ = ("_framework", "_sample", "_size", "_writes", "_written", "base", "lifetime")

    def __init__(self, framework: UnwrittenMemory, tensor: Any, size: int) -> None:
        self._framework = framework
        self.base, self.lifetime = framework.base(tensor), framework.lifetime(tensor)
        self._writes = framework.writes(tensor)
        self._size = size
        self._sample = framework.sample(tensor, size)
        self._written: Elements | None = None

    def unchanged(self, tensor: Any) -> bool:
        """Return whether nothing else has been written."""
        framework = self._framework
        writes = framework.writes(tensor)  # 0 for what counts for itself: ``data`` of a tensor, some views
        if writes not in (0, self._writes) or framework.size(tensor) != self._size:
            return False
        return framework.is_same_sample(framework.sample(tensor, self._size), self._sample)

    def is_as_large(self, tensor: Any) -> bool:
        """Return whether the memory of ``tensor`` has the size of this one."""
        return self._framework.size(tensor) == self._size

    def lie_at(self, base: int, tensor: Any) -> None:
        """Lie at ``base`` from now on, where ``tensor`` lies: some writes go to a copy that replaces the memory."""
        if base != self.base:
            self.base, self.lifetime = base, self._framework.lifetime(tensor)

    def copy_at(self, tensor: Any) -> _Memory:
        """Return what is known of ``tensor``, a copy of this memory."""
        copy = _Memory(self._framework, tensor, self._size)
        copy._written = None if self._written is None else self._written.copy()
        return copy

    def covers(self, tensor: Any) -> bool:
        """Return whether all elements of ``tensor`` are written."""
        return self._written is not None and self._written.cover(tensor)

    def note_write(self, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Know what a call has written; return False where this is not known."""
        framework, tensor = self._framework, args[0]
        if self._written is None:
            self._written = framework.written_elements(tensor, self._size)
        if self._written is None or not self._written.mark(api, args, kwargs):
            return False
        self._writes = max(framework.writes(tensor), self._writes)
        self._sample = framework.sample(tensor, self._size)
        return True


def sample_step(size: int) -> int:
    """Return the distance of the bytes of a sample of ``size`` bytes."""
    return max(size // _SAMPLES, 1)


def host_sample(base: int, size: int) -> bytes:
    """Return a sample of the memory of ``size`` bytes at the address ``base`` of this process."""
    return bytes((ctypes.c_char * size).from_address(base)[:: sample_step(size)])  # type: ignore[arg-type]


Surroundings = Callable[[], AbstractContextManager[Any]]
"""Returns a context in which the tool may use functions of the framework, unseen."""


def observe_maker(
    original: Callable[..., Any], unwritten: UnwrittenMemory, counts: Callable[..., bool], unseen: Surroundings
) -> Callable[..., Any]:
    """Return ``original`` so that ``unwritten`` knows its result.

    Args:
        original: returns memory that nobody has written.
        unwritten: knows the memory from then on.
        counts: returns whether a call, by its positional arguments, counts.
        unseen: the surroundings in which the memory is looked at.
    """

    def made(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if counts(args):
            with unseen():
                unwritten.add(result)
        return result

    copy_signature(made, original)
    return made


def observe_writer(
    original: Callable[..., Any], api: str, unwritten: UnwrittenMemory, unseen: Surroundings
) -> Callable[..., Any]:
    """Return ``original``, which writes its first argument, so that ``unwritten`` knows what it has written.

    Args:
        original: one of ``WRITERS``.
        api: its name there.
        unwritten: knows the memory.
        unseen: the surroundings in which the memory is looked at.
    """

    def written(*args: Any, **kwargs: Any) -> Any:
        if not args or not unwritten.known:
            return original(*args, **kwargs)
        with unseen():
            memory = unwritten.begin_write(api, args[0])
        result = original(*args, **kwargs)
        with unseen():
            if memory is not None:
                unwritten.end_write(memory, api, args, kwargs)
            else:
                unwritten.forget(args[:1])
        return result

    copy_signature(written, original)
    return written


def observe_copier(
    original: Callable[..., Any], unwritten: UnwrittenMemory, unseen: Surroundings, unrecorded: Surroundings
) -> Callable[..., Any]:
    """Return ``original``, which returns a copy of the memory of its first argument, so that the copy is known too.

    Args:
        original: the function that copies.
        unwritten: knows the memory.
        unseen: the surroundings in which the memory is looked at.
        unrecorded: those in which known memory is copied, as operators inside would be recorded with its content.
    """

    def copied(*args: Any, **kwargs: Any) -> Any:
        if not args or not unwritten.known:
            return original(*args, **kwargs)
        with unseen():
            memory = unwritten.memory_of(args[0])
        if memory is None:
            return original(*args, **kwargs)
        with unrecorded():
            result = original(*args, **kwargs)
        with unseen():
            unwritten.add_copy(memory, result)
        return result

    copy_signature(copied, original)
    return copied


def observe_change(
    original: Callable[..., Any], unwritten: UnwrittenMemory, unseen: Surroundings
) -> Callable[..., Any]:
    """Return ``original``, which changes its first argument in a way that is not known, so that its memory counts as
    written afterwards.
    """

    def changed(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if args and unwritten.known:
            with unseen():
                unwritten.forget(args[:1])
        return result

    copy_signature(changed, original)
    return changed

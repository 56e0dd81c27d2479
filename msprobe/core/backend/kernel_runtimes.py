"""What a framework's runtime must offer where it dumps kernels: around one call, or whole steps by itself."""

from __future__ import annotations

from typing import Protocol

from msprobe.core.backend.mindspore_modes import RuntimeFacts


class NpuRuntime(Protocol):
    """Controls the part of an NPU's runtime that dumps kernels. Every method may raise RuntimeError."""

    def synchronize(self) -> None:
        """Wait until the device has done everything that was launched."""
        ...

    def init_dump(self) -> None:
        """Begin a dump; nothing is written before ``set_dump``."""
        ...

    def set_dump(self, path: str) -> None:
        """Dump what runs from now on, as the acl.json at ``path`` says."""
        ...

    def finalize_dump(self) -> None:
        """End the dump that ``init_dump`` began."""
        ...


class KernelDump(Protocol):
    """Files of kernels that a framework's runtime writes by itself while the program runs.

    The runtime was asked for them when this object was made.
    """

    @property
    def facts(self) -> RuntimeFacts:
        """Return the state of the framework that the request was made for."""
        ...

    @property
    def substitute(self) -> bool:
        """Return whether the runtime was asked for something else, as the device cannot do what the configuration says.

        The rest is done when the files are imported.
        """
        ...

    def refresh(self) -> None:
        """Make the request again when the state of the framework has changed since. Raises ConfigError."""
        ...

    def settle(self) -> None:
        """Wait until everything that was launched has run. Raises RuntimeError when a kernel has failed."""
        ...

    def start(self) -> None:
        """Write what runs from now on."""
        ...

    def stop(self) -> None:
        """Write nothing more until the next ``start``."""
        ...

    def step(self) -> None:
        """Begin a new step."""
        ...

    def withdraw(self) -> None:
        """Take the request back, so that programs that this one starts do not find it."""
        ...

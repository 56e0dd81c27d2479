"""What a tool that is not msprobe records differently under the same names."""

from __future__ import annotations

from enum import Enum


class Otherwise(Enum):
    """What another tool records differently; the value names it in a note, before its number."""

    FUNCTION_GRADIENTS = "gradients in backward calls of functions (it writes those of an autograd node)"
    MODULE_GRADIENTS = "gradients in backward calls of modules with several results or one tensor in several places"
    BACKWARD_CALLS = "values of backward calls that it does not record (calls in place, for example)"
    CALLS = "values of calls that it does not record (torch._foreach, torch._VF)"
    LATER_CALLS = "values of functions behind a recomputation that ended early, where it records none"
    PARAMETER_GRADIENTS = "gradients of parameters whose module is not called"
    SUMMED_GRADIENTS = "gradients of parameters from the second micro batch on (it writes the sum so far)"
    ARGUMENTS = "arguments of types that it writes as null"
    BUFFERS = "buffers of communication that hold no data yet"
    CUT_OFF = "results of the last call, of which it recorded the arguments alone (the end of a scope)"
    CHECKSUMS = "checksums taken after a change in place (the statistics agree)"
    NO_STATISTICS = "tensors of which it computes no statistics or checksum"
    SOME_STATISTICS = "tensors compared without Mean or Norm, which it does not compute for their dtype"

    @property
    def is_judged(self) -> bool:
        """Return whether such rows are judged by what both sides have."""
        return self is Otherwise.SOME_STATISTICS

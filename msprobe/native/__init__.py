"""Optional compiled statistics: `from msprobe.native import fused` gives the kernel or None, never an error.

`fused` is a `loader.Kernel`. Every function has a Python equivalent: `msprobe.core.tensors.numpy_ops` for the
statistics, `msprobe.core.tensors.checksum` for the checksums.
"""

from __future__ import annotations

from msprobe.native.loader import Kernel, load

fused: Kernel | None = load()

__all__ = ["Kernel", "fused"]

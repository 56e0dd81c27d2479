"""Builds the optional kernel `msprobe.native._fused`; everything else is in pyproject.toml.

Without a C compiler, or with MSPROBE_NATIVE=0, the installation goes on without the kernel and the pure Python path
is used; such a wheel has the tag of pure Python, so that its name does not promise the kernel. One wheel serves every
CPython from 3.10 on (stable ABI), except free-threaded builds, which have no stable ABI.
"""

import os
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# No fused multiply-add across statements: the same input gives the same statistics on every processor.
FLAGS = ["-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wno-psabi"]
HEADERS = (
    "halves",
    "blocks",
    "reduce",
    "decode",
    "checksums",
    "difference",
    "elements",
    "exchange",
    "moments",
    "rounding",
    "similarity",
    "strided",
    "weights",
)
KERNEL = Extension(
    "msprobe.native._fused",
    sources=["msprobe/native/fused.c"],
    depends=[f"msprobe/native/{name}.h" for name in HEADERS],
    extra_compile_args=FLAGS,
    py_limited_api=not FREE_THREADED,
    optional=True,
)
# The kernel uses vector extensions of gcc and clang.
WANTED = sys.platform != "win32" and os.environ.get("MSPROBE_NATIVE", "").strip() != "0"


class Wheel(bdist_wheel):
    """A wheel that is named after what was built."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag of the platform where the kernel was compiled, else that of pure Python."""
        built = any(map(os.path.exists, self.get_finalized_command("build_ext").get_outputs()))
        return super().get_tag() if built else ("py3", "none", "any")


# An editable installation that is an entry of the path, and not a hook behind the path: a folder of the same name
# without __init__.py, such as a clone that somebody works beside, does not hide it.
options = {"editable_wheel": {"mode": "compat"}}
if WANTED and not FREE_THREADED:
    options["bdist_wheel"] = {"py_limited_api": "cp310"}
setup(ext_modules=[KERNEL] if WANTED else [], options=options, cmdclass={"bdist_wheel": Wheel})

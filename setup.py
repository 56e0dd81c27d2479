"""Builds the optional kernel `msprobe.native._fused`; everything else is in pyproject.toml.

Without a C compiler, or with MSPROBE_NATIVE=0, the installation goes on without the kernel and the pure Python path
is used. One wheel serves every CPython from 3.10 on (stable ABI), except free-threaded builds, which have no stable
ABI.
"""

import os
import sys
import sysconfig

from setuptools import Extension, setup

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

setup(
    ext_modules=[KERNEL] if WANTED else [],
    options={} if FREE_THREADED or not WANTED else {"bdist_wheel": {"py_limited_api": "cp310"}},
)

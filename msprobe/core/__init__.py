from typing import Any


def __getattr__(name: str) -> Any:
    if not name[:1].isupper():  # a submodule being imported: no older name is written so, and the table is not read
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from msprobe.legacy_paths import extra

    return extra(__name__, name)

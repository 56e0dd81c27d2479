from typing import Any


def __getattr__(name: str) -> Any:
    from msprobe.legacy_paths import extra

    return extra(__name__, name)

"""A location as the user gives it: a path of this machine, or the URL of an object store.

A URL (``s3://bucket/run``, ``memory://run``) becomes a path of universal_pathlib, which offers the methods of
``pathlib.Path`` on every file system that fsspec knows; the packages are imported for URLs alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import cast

from msprobe.core.errors import MsprobeException, error_text

PathLike = str | os.PathLike[str]
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_path(value: object) -> bool:
    """Return whether a value names a file or folder, in place of holding its content."""
    return isinstance(value, (str, os.PathLike))


def is_url(location: PathLike) -> bool:
    """Return True for ``protocol://...``."""
    return isinstance(location, str) and _URL.match(location) is not None


def opened(location: PathLike) -> Path:
    """The path that ``location`` names.

    Raises:
        MsprobeException: a package for this kind of URL is missing, or the store refuses it.
    """
    if not isinstance(location, str) or not is_url(location):
        return cast(Path, location) if _is_remote(location) else Path(location)
    protocol = location.partition("://")[0]
    try:
        from upath import UPath

        path = UPath(location)
        path.fs  # noqa: B018  (connects: tells a missing driver here and not in the middle)
    except ImportError as error:
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR,
            f"{location}: {error_text(error)}; URLs need the extra `remote` (pip install 'msprobe[remote]') "
            f"and the fsspec driver of {protocol}://",
        ) from error
    except ValueError as error:
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"{location}: {error_text(error)}") from error
    return cast(Path, path)


def local(output: PathLike, what: str = "output") -> Path:
    """The folder or file of this machine that results are written to. ``what`` names it in the message.

    Raises:
        MsprobeException: it is a URL.
    """
    if is_url(output) or _is_remote(output):
        reason = f"{what} {output}: results are written to a folder of this machine (or one that it shares)"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    return Path(output)


def local_file(output: PathLike, what: str) -> Path:
    """The file of this machine that a report is written to; asked for before the work, not after it.

    Raises:
        MsprobeException: it is a URL, or a folder.
    """
    path = local(output, what)
    if path.is_dir():
        reason = f"{what} {output}: a folder is there; give the name of a file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    return path


def _is_remote(location: object) -> bool:
    """A path of universal_pathlib that the caller made."""
    return not isinstance(location, os.PathLike) and hasattr(location, "iterdir")

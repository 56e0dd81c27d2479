"""Turn the locations that users give into paths: paths of this machine, or URLs of an object store.

A URL (``s3://bucket/run``, ``memory://run``) becomes a path of universal_pathlib, which offers the methods of
``pathlib.Path`` on every file system that fsspec supports. These packages are imported only for URLs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from msprobe.core.distribution import install_command
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.host import is_url
from msprobe.core.store.safe_files import is_device

PathLike = str | os.PathLike[str]


def is_path(value: object) -> bool:
    """Return whether a value names a file or folder; else it is the content itself."""
    return isinstance(value, (str, os.PathLike))


def opened(location: PathLike) -> Path:
    """Return the path that ``location`` names.

    Raises:
        MsprobeException: a package for this kind of URL is missing, or the store refuses it.
    """
    if not isinstance(location, str) or not is_url(location):
        return cast(Path, location) if _is_remote(location) else Path(location)
    protocol = location.partition("://")[0]
    try:
        from upath import UPath

        path = UPath(location)
        path.fs  # noqa: B018  (connects: a missing driver is reported here and not later)
    except ImportError as error:
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR,
            f"{location}: {error_text(error)}; URLs need the extra `remote` ({install_command('remote')}) "
            f"and the fsspec driver of {protocol}://",
        ) from error
    except ValueError as error:
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, f"{location}: {error_text(error)}") from error
    return cast(Path, path)


def local(output: PathLike, what: str = "output") -> Path:
    """Return the folder or file of this machine that results are written to; ``what`` names it in the message.

    Raises:
        MsprobeException: it is a URL.
    """
    if is_url(output) or _is_remote(output):
        reason = f"{what} {output}: results are written to a folder of this machine (or one that it shares)"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    return Path(output)


def local_file(output: PathLike, what: str) -> Path:
    """Return the file of this machine that a report is written to; call it before the comparison, not after it.

    Raises:
        MsprobeException: it is a URL, a folder or a device.
    """
    path = local(output, what)
    if path.is_dir():
        reason = f"{what} {output}: a folder is there; give the name of a file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    if is_device(path):
        reason = f"{what} {output}: a device is there, which a file would replace; give the name of a file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    return path


def _is_remote(location: object) -> bool:
    """Return whether the caller made a path of universal_pathlib."""
    return not isinstance(location, os.PathLike) and hasattr(location, "iterdir")

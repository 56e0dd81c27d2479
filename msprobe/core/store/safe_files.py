"""Write files and folders safely: complete or absent, private, and never through a symlink below the dump.

A file is written beside its target and renamed over it (``write_atomic``, ``replacement``): a process that is killed
leaves the whole file or none of that name, and at most a hidden file that ends in ``.tmp``.

Permissions are private, unless ``MSPROBE_FILE_MODE`` allows more:

    MSPROBE_FILE_MODE=640     files 0640, folders 0750: the group may read

Whoever may read files may enter folders. The umask of the process applies as usual. The permissions of existing folders
are not changed.

Symlinks below a dump are removed and never followed, so that nothing is written or removed outside the dump. What a
removed symlink points to stays as it is. The path of the dump itself belongs to the user and may contain symlinks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from msprobe.core.interruption import ignored, let_through
from msprobe.core.log import logger

P = TypeVar("P")
VARIABLE = "MSPROBE_FILE_MODE"
PRIVATE = 0o600

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


def file_mode(text: str | None) -> int:
    """Return the permissions of files for a value of ``MSPROBE_FILE_MODE``.

    The value has three octal digits: 6, then 0, 4 or 6 twice. Another value is private, and a warning is logged.
    """
    if not text:
        return PRIVATE
    if re.fullmatch("0?6[046]{2}", text) is None:
        logger.warning(
            "%s=%s is not used, files stay private (600): give 640, 644, 660, 664 or 666",
            VARIABLE,
            text,
        )
        return PRIVATE
    return int(text, 8)


def folder_mode(files: int) -> int:
    """Return the permissions of folders for files with the permissions ``files``."""
    return files | (files & 0o444) >> 2


def disk_remedy(error: OSError, setting: str = "dump_path") -> str:
    """Return what to do about an error of the disk, as a sentence without a point.

    Args:
        error: the error.
        setting: what says where files are written.
    """
    if error.errno in (None, errno.ENOSPC, errno.EDQUOT):  # torch's writer gives no number
        return f"Free some space or choose another {setting}"
    if error.errno == errno.ENOENT and _is_refused(error):
        return f"The file system lets nobody make anything there: choose another {setting}"
    if error.errno in (errno.ENOENT, errno.ESTALE):
        return "The folder was removed while it was in use: leave it until the program ends"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"Give this user the right to write there or choose another {setting}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "Allow more open files (ulimit -n)"
    return f"Choose another {setting}"


def _is_refused(error: OSError) -> bool:
    """Return whether something cannot be made although its folder is there, as below ``/proc``."""
    path = error.filename
    return isinstance(path, str) and error.filename2 is None and Path(os.path.dirname(path) or ".").is_dir()


_DEVICES = Path("/dev")
_SHARED_MEMORY = _DEVICES.joinpath("shm")
FILE_MODE = file_mode(os.environ.get(VARIABLE))
FOLDER_MODE = folder_mode(FILE_MODE)


def write_atomic(path: Path, chunks: Iterable[bytes]) -> int:
    """Replace ``path`` by the joined ``chunks`` in one step and return the size in bytes.

    Raises:
        OSError: the disk is full or the folder cannot be written, or the path is a device, which a file would replace
            (``/dev/null``); the old file, if any, is untouched.
    """
    refuse_device(path)
    temporary = f"{path.parent}/.{path.name}.{os.getpid()}.tmp"  # a name of its own: chunks may come from another file
    size = 0
    with _renamed(temporary, path), os.fdopen(create_new(temporary), "wb", 1 << 20) as file:
        for chunk in chunks:
            size += file.write(chunk)
    return size


@contextlib.contextmanager
def _renamed(temporary: str, path: str | Path) -> Iterator[None]:
    """Rename a file when the block ends, which closes it before; remove it where the block raises.

    An error of the disk names ``path``: the user knows nothing of the temporary file, and a full disk names no file.
    """
    try:
        yield
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            error.filename, error.filename2 = str(path), None
        with ignored(OSError):
            os.unlink(temporary)
        raise


def temporary_beside(path: str) -> str:
    """Return the path of a hidden file in the folder of ``path``. Each thread of each process has one per folder."""
    return f"{path.rpartition('/')[0] or '.'}/.{os.getpid()}-{threading.get_ident()}.tmp"


@contextlib.contextmanager
def replacement(path: str | Path) -> Iterator[str]:
    """Yield a new, empty file that becomes ``path`` when the block ends; it is removed where the block raises.

    Raises:
        OSError: the file cannot be created or renamed, or ``path`` is a device.
    """
    refuse_device(path)
    temporary = temporary_beside(str(path))
    with _renamed(temporary, path):
        os.close(create_new(temporary))
        yield temporary


@contextlib.contextmanager
def replacement_file(path: str | Path, buffering: int = -1) -> Iterator[BinaryIO]:
    """Yield a new file, open for writing, that becomes ``path`` when the block ends; see ``replacement``.

    It is opened once: ext4 takes an empty file that is opened anew and truncated for one whose content is replaced, and
    writes it to the disk at once when it is closed.

    Args:
        path: the file.
        buffering: as ``open`` has it.

    Raises:
        OSError: as ``replacement``.
    """
    refuse_device(path)
    temporary = temporary_beside(str(path))
    with _renamed(temporary, path), open(create_new(temporary), "wb", buffering) as file:
        yield file


def refuse_device(path: str | Path) -> None:
    """Refuse a path that a new file must not replace.

    Raises:
        OSError: it is a device, such as ``/dev/null``, or no path at all.
    """
    _refuse_nul(path)
    if is_device(path):
        raise OSError(errno.EEXIST, "is a device and no file", str(path))


def _refuse_nul(path: str | Path) -> None:
    """Raise OSError for a path with a NUL character, as a settings file may have; Python has a ValueError for it."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "holds a NUL character", str(path))


def is_device(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is a device, or a link in the folder of devices, such as ``/dev/stdout``.

    A link in shared memory is none: files lie there, although the folder of devices has it.
    """
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError) as error:
        let_through(error)
        return False
    if not stat.S_ISLNK(mode):
        return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    above = Path(path).absolute().parents
    return _DEVICES in above and _SHARED_MEMORY not in above


def regular(path: P) -> P:
    """Return the path of a file to read; to read a pipe or a device, which a link may lead to, may never end.

    Raises:
        OSError: it is a pipe, a socket or a device, or does not exist.
    """
    if isinstance(path, Path):  # and no path of another store
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "is a pipe or a device and no file", str(path))
    return path


def create_new(path: Path | str) -> int:
    """Create and open a file at ``path``. A file or link of that name is unlinked first; what it points to stays."""
    try:
        return os.open(path, _NEW, FILE_MODE)
    except FileExistsError:
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise
        os.unlink(path)
        return os.open(path, _NEW, FILE_MODE)


def open_private(path: Path, flags: int) -> int:
    """Open ``path`` with os.open ``flags``; a new file gets the mode of files."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def make_folder(folder: Path) -> None:
    """Create ``folder`` and its missing parents with the mode of folders. An existing folder keeps its own.

    Raises:
        OSError: it cannot be created, or is no path at all.
    """
    _refuse_nul(folder)
    if not stat.S_ISDIR(mode_of(folder)):
        make_folder(folder.parent)
        try:
            os.mkdir(folder, FOLDER_MODE)
        except OSError as error:
            let_through(error)
            if not stat.S_ISDIR(mode_of(folder)):  # else another process was faster
                raise


def make_folder_below(root: Path, folder: Path) -> None:
    """Create ``folder``, which is below ``root``, and the folders between them; symlinks among them are replaced.

    Raises:
        OSError: a folder cannot be created, or a symlink cannot be removed.
    """
    make_folder(root)
    for part in folder.relative_to(root).parts:
        root = root.joinpath(part)
        remove_symlink(root)
        make_folder(root)


def mode_of(path: Path, follow: bool = True) -> int:
    """Return the mode of what is at ``path``; 0 where there is nothing.

    ``Path.exists``, ``is_dir`` and the like would take what a handler of the program raises for this answer.
    """
    try:
        return os.stat(path, follow_symlinks=follow).st_mode
    except (OSError, ValueError) as error:
        let_through(error)
        return 0


def remove_symlink(path: Path) -> None:
    """Remove ``path`` if it is a symlink; what it points to stays.

    Raises:
        OSError: the symlink cannot be removed.
    """
    try:
        target = os.readlink(path)
    except OSError as error:  # no symlink, or no such path
        let_through(error)
        return
    try:
        path.unlink()
    except OSError as error:
        let_through(error)
        if stat.S_ISLNK(mode_of(path, follow=False)):
            raise
        return  # another process has put its folder there in the meantime
    logger.warning("%s was a link to %s: it is replaced, and what it led to stays as it is", path, target)

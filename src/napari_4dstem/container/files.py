"""Safe handling of files on disk: replace as a whole or not at all, know network mounts, lock.

Nothing here knows about encoded scans.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from napari_4dstem.errors import SaveError

NETWORK_TYPES: Final = frozenset(
    (
        "9p", "acfs", "afpfs", "afs", "beegfs", "ceph", "cifs", "davfs", "davfs2", "glusterfs",
        "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "pvfs2", "smb2", "smb3", "smbfs",
        "sshfs", "vboxsf", "vmhgfs", "webdav",
    )
)  # fmt: skip
"""File systems whose files may shrink or vanish while they are mapped, which ends the process."""
_NETWORK_FUSE: Final = (
    "sshfs", "s3fs", "rclone", "gcsfuse", "glusterfs", "ceph", "davfs", "goofys",
    "vmhgfs", "juicefs", "smbnetfs", "curlftpfs", "afp",
)  # fmt: skip
_MOUNTS = Path("/proc/mounts")

if sys.platform != "win32":  # there, a mapped file cannot be replaced anyway
    import fcntl


def mount_type(path: Path, mounts: str) -> str:
    """Return the type of the file system that holds `path`, "" if unknown.

    Parameters
    ----------
    path
        An absolute path without links.
    mounts
        Text in the form of ``/proc/mounts``.
    """
    best, found = -1, ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(_unescape(fields[1]))
        # Of several mounts on one point, the last one hides the others.
        if len(point.parts) >= best and path.is_relative_to(point):
            best, found = len(point.parts), fields[2]
    return found


def _unescape(text: str) -> str:
    for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(code, character)
    return text


def is_on_network(path: Path, mounts: str | None = None) -> bool:
    """Return whether a file lies on a network file system and must not be mapped.

    Parameters
    ----------
    path
        The file.
    mounts
        Text in the form of ``/proc/mounts``; by default that file, if the system has one.
    """
    resolved = path.resolve()
    if str(resolved).startswith("\\\\"):
        return True
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(errors="surrogateescape")
        except OSError:
            return False
    kind = mount_type(resolved, mounts)
    fuse = kind.removeprefix("fuse.")
    return kind in NETWORK_TYPES or (fuse != kind and fuse.startswith(_NETWORK_FUSE))


def lock_shared(file: IO[bytes]) -> None:
    """Mark a file as in use for as long as any duplicate of its descriptor (a mapping) lives."""
    if sys.platform != "win32":
        # Some network file systems have no locks: the mark is then missing, nothing worse.
        with suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)


def is_in_use(path: Path) -> bool:
    """Return whether a file is marked as in use, by this or another process."""
    if sys.platform != "win32" and path.is_file():
        try:
            with path.open("rb") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False  # no locks there
    return False


@contextmanager
def replacing(path: Path, nbytes: int) -> Iterator[IO[bytes]]:
    """Write a file under a temporary name and move it to `path` when all of it is on disk.

    Parameters
    ----------
    path
        The file to make or replace; a link is followed.
    nbytes
        Its size, for the check of free space.

    Yields
    ------
    file
        Unbuffered binary file, readable and writable.

    Raises
    ------
    SaveError
        If anything on disk goes wrong; `path` is as it was and the temporary file is gone.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        _check_place(target, nbytes)
        try:
            with temporary.open("x+b", buffering=0) as file:
                yield file
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
    except OSError as error:
        raise _save_error(error, path) from error


def write_all(file: IO[bytes], offset: int, data: bytes | memoryview) -> None:
    """Write all of `data` at `offset`; a raw file may take only a part at a time."""
    rest = memoryview(data)
    if not rest.nbytes:
        return
    file.seek(offset)
    rest = rest.cast("B")
    while rest.nbytes:
        written = file.write(rest[: 1 << 26])
        rest = rest[written:]


def _check_place(target: Path, nbytes: int) -> None:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    free = shutil.disk_usage(target.parent).free
    if free < nbytes:
        raise SaveError(
            "There is not enough room on the disk",
            where=target,
            expected=f"{nbytes} bytes free",
            found=f"{free} bytes free",
            action="Free some space or save to another disk; nothing was written",
        )


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    # The data are safe already; this only makes the new name survive a power cut.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _save_error(error: OSError, path: Path) -> SaveError:
    advice = {
        errno.ENOSPC: "Free some space or save to another disk",
        errno.EDQUOT: "Your disk quota is used up: free some space or save elsewhere",
        errno.EFBIG: "The file would be larger than allowed here: save to another disk",
        errno.EACCES: "You may not write there: choose another folder",
        errno.EPERM: "You may not write there: choose another folder",
        errno.EROFS: "This disk is read-only: choose another folder",
        errno.ENOENT: "Create the folder first, or choose another",
        errno.ENOTDIR: "Choose a folder that exists",
        errno.EISDIR: "This is a folder: choose a file name",
        errno.ENAMETOOLONG: "Choose a shorter name",
    }
    return SaveError(
        "The file could not be saved, what was there before is unchanged",
        where=path,
        found=error.strerror or str(error),
        action=advice.get(error.errno or 0, "Try again, or save to another disk"),
    )

"""Detector files: what is in them (`inspect`), is it ours (`sniff`), read patterns (`open_source`).

Each format is one module with these three functions; here is only the choice among them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from napari_4dstem.errors import SourceError
from napari_4dstem.sources import arina, npy
from napari_4dstem.sources.base import FileIdentity, OpenOptions, Source, SourceInfo

__all__ = ["FileIdentity", "OpenOptions", "Source", "SourceInfo", "inspect", "open_source", "sniff"]


class _Format(Protocol):
    """What a format's module offers."""

    def sniff(self, path: Path) -> bool: ...
    def inspect(self, path: Path, options: OpenOptions) -> SourceInfo: ...
    def open_source(self, path: Path, options: OpenOptions) -> Source: ...


_FORMATS: tuple[_Format, ...] = (arina, npy)
_DEFAULTS = OpenOptions()


def sniff(path: str | Path) -> bool:
    """Tell quickly whether `path` is a detector file that we read. Never raises.

    Looks at the name, the first bytes and, in an HDF5 file, for the groups that a Dectris detector
    writes. A file of the right name that is empty or cut short counts as ours: opening it says why
    it cannot be read.
    """
    path = Path(path)
    return any(module.sniff(path) for module in _FORMATS)


def inspect(path: str | Path, options: OpenOptions = _DEFAULTS) -> SourceInfo:
    """Read the headers of a detector file and say what is in it.

    Parameters
    ----------
    path
        An Arina master (``NAME_master.h5``), one of its data files, or a NumPy file.
    options
        What the user says about the scan; the answer takes it into account.

    Returns
    -------
    SourceInfo
        If not ``ready``, with a reason and an action.

    Raises
    ------
    SourceError
        The file is of no known format, or its headers cannot be read.
    """
    path = Path(path)
    return _format_of(path).inspect(path, options)


def open_source(path: str | Path, options: OpenOptions = _DEFAULTS) -> Source:
    """Open a detector file for reading patterns. Parameters and errors as in :func:`inspect`.

    Raises
    ------
    NotReadyError
        It cannot be opened as it stands; the text says why and what to do.
    """
    path = Path(path)
    return _format_of(path).open_source(path, options)


def _format_of(path: Path) -> _Format:
    for module in _FORMATS:
        if module.sniff(path):
            return module
    if not path.exists():
        raise SourceError("There is no such file", where=path, action="Check the path")
    if path.is_dir():
        raise SourceError(
            "This is a folder", where=path, action="Choose the file NAME_master.h5 inside it"
        )
    raise SourceError(
        "This file is in no format that can be read here",
        where=path,
        expected="a Dectris Arina master (NAME_master.h5), one of its data files, or a .npy file",
        action="Choose another file, or convert it to .npy",
    )

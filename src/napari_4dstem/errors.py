"""The project's own errors: what happened, where, what was expected, what was found, what to do.

Every error that a user can meet is one of these; its text is complete enough to act on.
"""

from __future__ import annotations

from pathlib import Path


class FourDStemError(Exception):
    """Base of all our errors.

    Parameters
    ----------
    what
        One sentence: what went wrong.
    where
        File (or file and dataset) concerned.
    expected, found
        What the program looked for and what it met instead.
    action
        What the user can do next, as an imperative sentence.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | Path | None = None,
        expected: str | None = None,
        found: str | None = None,
        action: str | None = None,
    ) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.expected = expected
        self.found = found
        self.action = action
        super().__init__(self._text())

    def _text(self) -> str:
        parts = [self.what.rstrip(".")]
        if self.where is not None:
            parts[0] += f" ({self.where})"
        if self.expected is not None:
            parts.append(f"Expected: {self.expected.rstrip('.')}")
        if self.found is not None:
            parts.append(f"Found: {self.found.rstrip('.')}")
        if self.action is not None:
            parts.append(self.action.rstrip("."))
        return ". ".join(parts) + "."


class UsageError(FourDStemError, ValueError):
    """An argument that cannot mean anything sensible."""


class SourceError(FourDStemError):
    """A detector file cannot be read as what it claims to be."""


class NotReadyError(SourceError):
    """A file of a known format that cannot be opened yet: incomplete or ambiguous."""


class DamagedDataError(SourceError):
    """One or more recorded patterns, or coded chunks, are damaged."""


class SourceChangedError(SourceError):
    """A source file was replaced or rewritten while it was open."""


class ContainerError(FourDStemError):
    """A file is no readable ``.ans4d`` file, or is damaged where it matters."""


class SaveError(FourDStemError):
    """Writing a file failed; the target is as it was before."""


class MemoryRefused(FourDStemError, MemoryError):
    """An operation would need more memory than it may use; nothing was allocated."""


class ReleasedError(FourDStemError):
    """The acquisition was released: its data are no longer in memory."""


class CancelledError(FourDStemError):
    """The user, or the closing program, cancelled the operation."""


class MissingDependencyError(FourDStemError, ImportError):
    """An optional package that this operation needs is not installed."""


class DeviceError(FourDStemError):
    """A device that was asked for is not there or cannot be used."""

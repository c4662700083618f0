"""What the load panel shows about a file: made off the GUI thread, shown by the panel as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_4dstem.errors import FourDStemError
from napari_4dstem.plugin.load_panel.banner import Tone
from napari_4dstem.plugin.load_panel.load_texts import encoded_facts, facts, missing_text

if TYPE_CHECKING:
    from napari_4dstem.sources import OpenOptions, SourceInfo


@dataclass(frozen=True)
class FileReport:
    """What is known about a file with the options chosen.

    Attributes
    ----------
    path
        The file.
    ready
        Whether it can be opened like this.
    headline, text, tone
        For the banner.
    facts
        Label, text and tooltip of each line.
    info
        What the source's headers say; None for an encoded file or an error.
    """

    path: Path
    ready: bool
    headline: str
    text: str
    tone: Tone
    facts: tuple[tuple[str, str, str], ...] = ()
    info: SourceInfo | None = None


def report_on(path: Path, options: OpenOptions | None = None) -> FileReport:
    """Look at the headers of a file; never raises.

    Parameters
    ----------
    path
        Any file.
    options
        Choices made so far; None: none.
    """
    try:
        if path.suffix.lower() == ".ans4d":
            return _encoded(path)
        return _source(path, options)
    except Exception as error:  # noqa: BLE001 - shown to the user, who can choose another file
        return error_report(path, error)


def error_report(path: Path, error: Exception) -> FileReport:
    """Say in plain words why a file cannot be opened."""
    if isinstance(error, FourDStemError):
        details = [
            f"Expected: {error.expected}" if error.expected else "",
            f"Found: {error.found}" if error.found else "",
            error.action or "",
        ]
        text = ". ".join(part.rstrip(".") for part in details if part)
        return FileReport(path, False, error.what, text + "." if text else "", "error")
    reason = error.strerror if isinstance(error, OSError) else None
    text = reason or f"{type(error).__name__}: {error}"
    return FileReport(path, False, "This file cannot be read", text, "error")


def _encoded(path: Path) -> FileReport:
    from napari_4dstem.container import open_container

    opened = open_container(path)
    problems = "\n".join(opened.header.problems)
    lines = tuple(encoded_facts(opened.header, path.stat().st_size))
    tone: Tone = "attention" if problems else "good"
    return FileReport(path, True, "Ready to open", problems, tone, lines)


def _source(path: Path, options: OpenOptions | None) -> FileReport:
    from napari_4dstem.sources import OpenOptions, inspect

    info = inspect(path, options or OpenOptions())
    lines = tuple(facts(info))
    notes = [missing_text(info), *info.problems]
    if not info.ready:
        text = "\n".join(part for part in (_sentence(info.action), *notes) if part)
        headline = _sentence(info.reason).rstrip(".")
        return FileReport(path, False, headline, text, "attention", lines, info)
    guess = "Its scan shape is a guess: please check it below." if info.scan_shape_guessed else ""
    text = "\n".join(part for part in (guess, *notes) if part)
    tone: Tone = "attention" if text else "good"
    return FileReport(path, True, "Ready to open", text, tone, lines, info)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]

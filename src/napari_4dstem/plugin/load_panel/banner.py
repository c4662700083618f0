"""A short message inside a panel: prominent enough to be read, quiet enough not to shout."""

from __future__ import annotations

from typing import Literal

from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QColor, QPalette
from qtpy.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

Tone = Literal["plain", "good", "attention", "error"]
_COLOURS: dict[Tone, QColor] = {
    "plain": QColor("#8090a0"),
    "good": QColor("#3fa66a"),
    "attention": QColor("#e0a030"),
    "error": QColor("#d9534f"),
}


class Banner(QFrame):
    """A headline and a line of explanation with a coloured edge.

    Parameters
    ----------
    parent
        Qt parent.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tone: Tone = "plain"
        self.setObjectName("n4-banner")
        self.headline, self.text = QLabel(), QLabel()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 6, 8, 6)
        layout.setSpacing(3)
        for label in (self.headline, self.text):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            layout.addWidget(label)
        self._apply_theme()

    def say(self, headline: str, text: str = "", *, tone: Tone = "plain") -> None:
        """Show a message.

        Parameters
        ----------
        headline
            What is the case, in one sentence.
        text
            What the user can do about it, or more detail.
        tone
            Colour of the edge.
        """
        self.tone = tone
        self.headline.setText(headline)
        self.text.setText(text)
        self.text.setVisible(bool(text))
        self._apply_theme()

    def _apply_theme(self) -> None:
        colour = _COLOURS[self.tone]
        ink = self.palette().color(QPalette.ColorRole.WindowText).name()
        tint = f"rgba({colour.red()}, {colour.green()}, {colour.blue()}, 36)"
        self.setStyleSheet(
            f"#n4-banner {{ background: {tint}; border: none;"
            f" border-left: 4px solid {colour.name()}; border-radius: 2px; }}"
            f"QLabel {{ background: transparent; color: {ink}; }}"
        )
        self.headline.setStyleSheet("font-weight: 600;")

    def changeEvent(self, event: QEvent | None) -> None:
        """Follow a new theme."""
        super().changeEvent(event)
        # our own style sheet arrives as StyleChange too: act only on a new colour of text
        kinds = (QEvent.Type.PaletteChange, QEvent.Type.StyleChange)
        built = hasattr(self, "headline")
        if event is not None and event.type() in kinds and built and self._ink_changed():
            self._apply_theme()

    def _ink_changed(self) -> bool:
        return self.palette().color(QPalette.ColorRole.WindowText).name() not in self.styleSheet()

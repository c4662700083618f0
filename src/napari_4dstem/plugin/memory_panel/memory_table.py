"""The table of the memory dock: one row per acquisition, with its button; readable when narrow."""

from __future__ import annotations

from collections.abc import Sequence

from qtpy.QtCore import QModelIndex, QPoint, QSize, Qt, Signal
from qtpy.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPalette, QResizeEvent
from qtpy.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QMenu,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from napari_4dstem.plugin.memory_panel.memory_model import ScanRow

NARROW_HEADING = "Scan: encoded of full size"
COLUMNS = ("Scan", "Encoded", "Full size", "Place", "State", "")
_NAME, _ENCODED, _FULL, _PLACE, _STATE, _BUTTON = range(6)
# Below this width all texts move into the first column, in two lines.
_NARROW_PX = 470
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_SUMMARY = Qt.ItemDataRole.UserRole
_STATE_TEXT = Qt.ItemDataRole.UserRole + 1


class ScanTable(QTableWidget):
    """Rows of text with a button each; Ctrl+C copies rows, the context menu more.

    Parameters
    ----------
    parent
        Qt parent.
    """

    pressed_action = Signal(int)
    """Row whose button was pressed."""
    report_wanted = Signal()
    """The whole report is to be copied."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, len(COLUMNS), parent)
        self.rows: tuple[ScanRow, ...] = ()
        self.narrow = False
        self._least_button = 58
        self.setAccessibleName("Scans and the memory they take")
        self.setHorizontalHeaderLabels(list(COLUMNS))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setStyleSheet(
            "QTableView::item { padding: 0px 5px; } QHeaderView::section { padding: 2px 5px; }"
        )
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # scan numbers stand at the end
        self.setItemDelegateForColumn(_NAME, _NameDelegate(self))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self.setTabKeyNavigation(False)  # Tab leads on to the buttons
        self._set_up_headers()

    def _set_up_headers(self) -> None:
        header, rows = self.horizontalHeader(), self.verticalHeader()
        assert header is not None and rows is not None
        header.setHighlightSections(False)
        header.setMinimumSectionSize(24)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(_NAME, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(_BUTTON, QHeaderView.ResizeMode.Fixed)
        rows.setVisible(False)
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        for column in range(len(COLUMNS)):
            self._cell_heading(column).setTextAlignment(_alignment(column))

    def set_rows(self, rows: Sequence[ScanRow]) -> None:
        """Show `rows`; selection and scroll position stay while their number does."""
        if tuple(rows) == self.rows:
            return
        self.rows = tuple(rows)
        if len(rows) != self.rowCount():
            self.setRowCount(len(rows))
        for number, row in enumerate(rows):
            for column, text in enumerate(row.cells):
                self._set_text(number, column, text)
            name = self._cell(number, _NAME)
            name.setData(_SUMMARY, row.summary)
            name.setData(_STATE_TEXT, row.state)
            name.setToolTip(f"{row.name}\n{row.summary} · {row.state}")
            self._set_button(number, row)
        self._fit_height()

    def _set_text(self, row: int, column: int, text: str) -> None:
        item = self._cell(row, column)
        if item.text() != text:
            item.setText(text)

    def _cell_heading(self, column: int) -> QTableWidgetItem:
        heading = self.horizontalHeaderItem(column)
        assert heading is not None
        return heading

    def _cell(self, row: int, column: int) -> QTableWidgetItem:
        item = self.item(row, column)
        if item is None:
            item = QTableWidgetItem()
            item.setTextAlignment(_alignment(column))
            self.setItem(row, column, item)
        return item

    def _set_button(self, number: int, row: ScanRow) -> None:
        button = self.button(number)
        if button is None:
            button = QPushButton()
            button.setStyleSheet("margin: 2px 0px;")
            button.clicked.connect(self._clicked)
            self.setCellWidget(number, _BUTTON, button)
        if button.text() != row.action:
            button.setText(row.action)
            words = button.fontMetrics().horizontalAdvance(row.action)
            self.setColumnWidth(_BUTTON, max(self._least_button, words + 20))
        button.setToolTip(row.hint)
        button.setAccessibleName(f"{row.action} {row.name}")
        button.setEnabled(row.enabled)

    def _clicked(self) -> None:
        # A closure per button would keep the table alive for ever; the sender tells the row.
        sender = self.sender()
        for number in range(self.rowCount()):
            if self.button(number) is sender:
                self.pressed_action.emit(number)
                return

    def button(self, row: int) -> QPushButton | None:
        """Return the button of a row."""
        widget = self.cellWidget(row, _BUTTON)
        return widget if isinstance(widget, QPushButton) else None

    # -- size ------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Move texts under the name when there is too little width for all columns."""
        super().resizeEvent(event)
        narrow = self.width() < _NARROW_PX
        if narrow != self.narrow:
            self.narrow = narrow
            for column in (_ENCODED, _FULL, _PLACE, _STATE):
                self.setColumnHidden(column, narrow)
            self._cell_heading(_NAME).setText(NARROW_HEADING if narrow else COLUMNS[_NAME])
            self._fit_height()

    def _fit_height(self) -> None:
        """Be as high as the rows: the dock scrolls as a whole."""
        line = self.fontMetrics().height()
        height = 2 * line + 10 if self.narrow else line + 12
        for row in range(self.rowCount()):
            self.setRowHeight(row, height)
        header = self.horizontalHeader()
        assert header is not None
        self.setFixedHeight(header.sizeHint().height() + height * self.rowCount() + 2)

    # -- text ------------------------------------------------------------------------------

    def text_of(self, rows: Sequence[int]) -> str:
        """Return rows as tab-separated text, with the headings."""
        lines = [COLUMNS[:_BUTTON], *(self.rows[number].cells for number in rows)]
        return "\n".join("\t".join(line) for line in lines)

    def copy(self) -> None:
        """Copy the selected rows, or all if none is selected."""
        chosen = sorted({index.row() for index in self.selectedIndexes()})
        copy_text(self.text_of(chosen or range(self.rowCount())))

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Copy on Ctrl+C."""
        if event is not None and event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)

    def menu_at(self, position: QPoint) -> QMenu:
        """Return the context menu of the row at `position`."""
        menu = QMenu(self)
        row = self.rowAt(position.y())
        if row >= 0:
            action = menu.addAction(f"{self.rows[row].action} {self.rows[row].name}")
            assert action is not None
            action.setEnabled(self.rows[row].enabled)
            action.triggered.connect(lambda: self.pressed_action.emit(row))
            menu.addSeparator()
        menu.addAction("Copy rows", self.copy)
        menu.addAction("Copy memory report", self.report_wanted.emit)
        return menu

    def _show_menu(self, position: QPoint) -> None:
        menu = self.menu_at(position)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.mapToGlobal(position))


def copy_text(text: str) -> None:
    """Put text on the clipboard."""
    clipboard = QGuiApplication.clipboard()
    assert clipboard is not None
    clipboard.setText(text)


def _alignment(column: int) -> Qt.AlignmentFlag:
    return _RIGHT if column in (_ENCODED, _FULL) else _LEFT


class _NameDelegate(QStyledItemDelegate):
    """Draws the whole row in two lines while the table is narrow."""

    def paint(
        self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex
    ) -> None:
        """Draw a cell."""
        table = self.parent()
        if painter is None or not isinstance(table, ScanTable) or not table.narrow:
            super().paint(painter, option, index)
            return
        style = table.style()
        assert style is not None
        self.initStyleOption(option, index)
        name, option.text = option.text, ""
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, table)
        box = option.rect.adjusted(4, 3, -6, -3)
        upper = box.adjusted(0, 0, 0, -box.height() // 2)
        lower = box.adjusted(0, box.height() // 2, 0, 0)
        state, summary = str(index.data(_STATE_TEXT)), str(index.data(_SUMMARY))
        metrics, elide = option.fontMetrics, Qt.TextElideMode
        ink = table.palette().color(QPalette.ColorRole.WindowText)
        painter.save()
        painter.setPen(ink)
        room = box.width() - metrics.horizontalAdvance(state) - 10
        painter.drawText(upper, _LEFT, metrics.elidedText(name, elide.ElideMiddle, room))
        ink.setAlphaF(0.75)
        painter.setPen(ink)
        painter.drawText(upper, _RIGHT, state)
        painter.drawText(lower, _LEFT, metrics.elidedText(summary, elide.ElideRight, box.width()))
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        """Return the size of a cell; names are elided rather than widen the dock."""
        return QSize(60, super().sizeHint(option, index).height())

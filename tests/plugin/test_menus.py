"""What the manifest offers is found where a user looks for it: in napari's own menu bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

MANIFEST = Path(__file__).resolve().parents[2] / "src" / "napari_4dstem" / "napari.yaml"


def entries(menu: Any, above: str = "") -> Iterator[str]:
    """Yield the path of every entry of a menu and of its submenus."""
    menu.aboutToShow.emit()  # napari fills some menus only then
    for action in menu.actions():
        path = f"{above} > {action.text().replace('&', '')}"
        if action.menu() is None:
            yield path
        else:
            yield from entries(action.menu(), path)


def test_every_command_is_in_the_menu_bar(make_napari_viewer: Callable[..., Any]) -> None:
    viewer = make_napari_viewer()
    found = [
        path
        for action in viewer.window._qt_window.menuBar().actions()
        for path in entries(action.menu(), action.text().replace("&", ""))
    ]
    contributions = yaml.safe_load(MANIFEST.read_text())["contributions"]
    titles = {c["id"]: c["title"] for c in contributions["commands"]}
    wanted = {
        titles[item["command"]]
        for items in contributions["menus"].values()
        for item in items
        if "command" in item
    }
    wanted |= {w["display_name"] for w in contributions["widgets"]}
    wanted |= {s["display_name"] for s in contributions["sample_data"]}
    wanted |= {s["label"] for s in contributions["submenus"]}
    missing = [w for w in wanted if not any(w in path for path in found)]
    assert not missing, "\n".join(found)


def test_every_command_but_the_reader_can_be_reached() -> None:
    """A command that no menu, widget or sample names would exist in the manifest only."""
    contributions = yaml.safe_load(MANIFEST.read_text())["contributions"]
    used = {item.get("command") for items in contributions["menus"].values() for item in items}
    for point in ("readers", "widgets", "sample_data"):
        used |= {entry["command"] for entry in contributions[point]}
    assert {c["id"] for c in contributions["commands"]} <= used

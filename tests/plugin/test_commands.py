"""Menu commands, run the way napari runs them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from napari_4dstem.plugin import docks
from napari_4dstem.plugin.commands import explore
from napari_4dstem.plugin.sessions import session_for
from tests.plugin.gui import pump, wait
from tests.plugin.scans import disk_scan, save


@pytest.fixture
def viewer(make_napari_viewer):
    made = make_napari_viewer(show=True)
    yield made
    session_for(made).close()


def run(command):
    from napari._app_model import get_app_model

    get_app_model().commands.execute_command(f"napari-4dstem.{command}").result()
    pump(0.1)


def shown(viewer):
    return {name.partition(" (")[0] for name in viewer.window.dock_widgets}


def test_the_panels_open_from_the_menu(viewer):
    run("open_scan")
    assert shown(viewer) == {docks.LOAD}
    run("show_memory")
    assert shown(viewer) == {docks.LOAD, docks.MEMORY}
    run("start_explorer")
    run("start_explorer")
    assert shown(viewer) == {docks.LOAD, docks.MEMORY, docks.EXPLORER}


def test_unload_all_from_the_menu(viewer, tmp_path):
    session = explore(viewer)
    paths = [save(disk_scan((6, 7, 20, 24), seed=i), tmp_path, f"scan{i}") for i in range(2)]
    opened = [session.open(path) for path in paths]
    wait(lambda: all(a.state == "encoded" for a in opened), 60)
    run("release_all")
    wait(lambda: all(a.state == "released" for a in opened))


def test_the_sample_opens_from_the_menu(viewer):
    layer = viewer.open_sample("napari-4dstem", "sto")[0]
    session = session_for(viewer)
    wait(lambda: session.acquisition is not None)
    wait(lambda: session.images and all(i.exact for i in session.images.values()), 60)
    assert layer.data.shape == (32, 32, 96, 96)
    adf = session.images["ADF"].values
    assert np.unravel_index(adf.argmax(), adf.shape) == (8, 24)
    assert docks.EXPLORER in shown(viewer)


def test_explore_opens_a_file_from_the_console(viewer, tmp_path):
    data = disk_scan((6, 7, 20, 24))
    session = explore(viewer, save(data, tmp_path))
    assert session is session_for(viewer)
    np.testing.assert_array_equal(viewer.layers["scan"].data[2, 3], data[2, 3])


def test_a_file_that_is_not_ready_opens_the_load_panel(viewer, tmp_path, shared_data):
    alone = tmp_path / "sim_sto_master.h5"
    shutil.copy(shared_data / "sim_sto" / "sim_sto_master.h5", alone)
    assert viewer.open(str(alone), plugin="napari-4dstem") == []
    wait(lambda: docks.LOAD in shown(viewer))
    panel = next(w for n, w in viewer.window.dock_widgets.items() if docks.LOAD in n)
    wait(lambda: panel.report is not None)
    assert panel.path == alone
    assert "data_000001" in panel.banner.headline.text() + panel.banner.text.text()


def test_an_interrupted_scan_is_opened_from_the_load_panel(viewer, shared_data):
    """The panel that napari makes, beside the explorer, in a window that keeps its size."""
    viewer.window.resize(1280, 800)
    viewer.open(str(shared_data / "sim_sto" / "sim_sto_master.h5"), plugin="napari-4dstem")
    session = session_for(viewer)
    wait(lambda: docks.EXPLORER in shown(viewer) and session.acquisition is not None)
    pump(0.5)
    interrupted = shared_data / "sim_variants" / "var_truncated_master.h5"
    assert viewer.open(str(interrupted), plugin="napari-4dstem") == []
    wait(lambda: docks.LOAD in shown(viewer))
    panel = next(w for n, w in viewer.window.dock_widgets.items() if docks.LOAD in n)
    wait(lambda: panel.report is not None)
    pump(0.3)
    assert panel.window().height() <= 800
    assert panel.form.partial.isVisible()
    panel.form.partial.setChecked(True)
    wait(lambda: panel.open_button.isEnabled())
    panel.open_button.click()
    wait(lambda: session.acquisition.name == "var_truncated")
    wait(lambda: session.acquisition.state == "encoded")
    assert session.acquisition.scan_shape == (8, 8)
    assert session.acquisition.valid.sum() == 50
    assert len(session.acquisitions) == 2


def test_opening_without_panels_is_a_preference(viewer, shared_data):
    from napari.settings import get_plugin_settings

    settings = get_plugin_settings("napari-4dstem")
    settings.opening.open_docks = False
    try:
        path = str(shared_data / "sim_sto" / "sim_sto_master.h5")
        viewer.open(path, plugin="napari-4dstem")
        session = session_for(viewer)
        wait(lambda: session.acquisition is not None)
        pump(0.2)
        assert docks.EXPLORER not in shown(viewer)
    finally:
        settings.opening.open_docks = True

"""The command line as its users meet it: results, messages, exit codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray

from napari_4dstem.cli import main
from napari_4dstem.cli.imaging import exact_float
from napari_4dstem.errors import UsageError
from tests.plugin.scans import disk_scan, save
from tests.sources.arina_files import Writer, write_sidecar
from tests.test_architecture import run_without

COMMANDS = ("info", "encode", "decode", "verify", "image", "view", "memory")
PROGRAM = [sys.executable, "-c", "from napari_4dstem.cli import main; main()"]
CIRCLE = "circle:9,11,5"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """Runs a command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str | Path, code: int = 0) -> Result:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        out, err = self._capsys.readouterr()
        assert end.value.code == code, out + err
        assert "Traceback" not in err
        return Result(code, out, err)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture(scope="module")
def scan() -> NDArray[Any]:
    return disk_scan((4, 5, 16, 24))


@pytest.fixture
def source(scan: NDArray[Any], tmp_path: Path) -> Path:
    return save(scan, tmp_path)


@pytest.fixture(scope="module")
def encoded_bytes(scan: NDArray[Any], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("encoded")
    with pytest.raises(SystemExit):
        main(["encode", str(save(scan, folder)), "-o", str(folder / "x.ans4d")])
    return (folder / "x.ans4d").read_bytes()


@pytest.fixture
def encoded(encoded_bytes: bytes, tmp_path: Path) -> Path:
    (tmp_path / "x.ans4d").write_bytes(encoded_bytes)
    return tmp_path / "x.ans4d"


def circle_sum(scan: NDArray[Any]) -> NDArray[np.int64]:
    rows, columns = np.mgrid[: scan.shape[-2], : scan.shape[-1]]
    inside = (rows - 9) ** 2 + (columns - 11) ** 2 <= 25
    result: NDArray[np.int64] = scan[..., inside].sum(axis=-1, dtype=np.int64)
    return result


# ---- help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command: str, cli: Cli) -> None:
    text = cli(command, "--help").out
    assert f"napari-4dstem {command}" in text.split("Examples")[1]
    assert cli(command, "-h").out == text


def test_the_first_help_page_lists_the_commands(cli: Cli) -> None:
    text = cli("--help").out
    assert all(f" {command} " in text for command in COMMANDS)
    assert "Exit codes" in text


def test_the_version_is_that_of_the_package(cli: Cli) -> None:
    from importlib.metadata import version

    assert cli("--version").out == f"napari-4dstem {version('napari-4dstem')}\n"


def test_help_loads_nothing_that_takes_time() -> None:
    code = """
import sys
from napari_4dstem.cli import main
try:
    main(["image", "--help"])
except SystemExit:
    heavy = {"numpy", "h5py", "numba", "pydantic", "torch", "napari", "qtpy", "tifffile"}
    print("loaded:", heavy & set(sys.modules))
"""
    result = run_without((), code)
    # typer itself may need pydantic, as its newer versions do.
    assert "loaded: set()" in result.stdout.replace("{'pydantic'}", "set()"), result.stdout


# ---- results


def test_info_of_a_source(cli: Cli, scan: NDArray[Any], tmp_path: Path) -> None:
    mask = np.zeros(scan.shape[2:], np.uint32)
    mask[3, 4] = 1
    master = Writer(per_file=8).write(tmp_path, scan.reshape(-1, 16, 24), mask=mask)
    write_sidecar(master, NumPixelsX=5, NumPixelsY=4, PixelSize=0.05, HighTension=200e3)
    text = cli("info", master).out
    for words in ("4 x 5 (sidecar)", "20, each 16 x 24 uint16", "1 pixels", "200 keV", "~0.05 nm"):
        assert words in text
    facts = cli("info", master, "--json").json
    assert (facts["scan_shape"], facts["detector_shape"]) == ([4, 5], [16, 24])
    assert facts["full_bytes"] == scan.nbytes
    assert facts["masked_pixels"] == 1
    assert facts["calibration"]["scan_step"][0]["origin"] == "file (nominal)"


def test_info_says_what_stands_in_the_way(cli: Cli, scan: NDArray[Any], tmp_path: Path) -> None:
    path = save(scan.reshape(20, 16, 24), tmp_path)
    text = cli("info", path).out
    assert "no: The file does not say how its 20 frames form a scan" in text
    assert "4 x 5" in text
    facts = cli("info", path, "--json").json
    assert facts["ready"] is False
    assert [4, 5] in facts["scan_shape_candidates"]
    assert cli("info", path, "--scan-shape", "4x5", "--json").json["ready"] is True


def test_info_of_an_encoded_scan(cli: Cli, encoded: Path, scan: NDArray[Any]) -> None:
    text = cli("info", encoded).out
    assert "20, each 16 x 24 uint16" in text
    assert "scan.npy" in text
    facts = cli("info", encoded, "--json").json
    assert facts["full_bytes"] == scan.nbytes
    assert facts["stored_bytes"] == encoded.stat().st_size
    assert facts["missing_positions"] == 0


@pytest.mark.parametrize("kind", ["source", "encoded"])
def test_image_is_the_exact_sum(
    kind: str, cli: Cli, request: pytest.FixtureRequest, scan: NDArray[Any], tmp_path: Path
) -> None:
    file = request.getfixturevalue(kind)
    facts = cli("image", file, "--detector", CIRCLE, "-o", tmp_path / "bf.npy", "--json").json
    image, expected = np.load(tmp_path / "bf.npy"), circle_sum(scan)
    assert image.dtype == np.int64
    assert np.array_equal(image, expected)
    assert facts["images"] == [
        {
            "detector": CIRCLE,
            "sum": int(expected.sum()),
            "min": int(expected.min()),
            "max": int(expected.max()),
        }
    ]


def test_the_image_of_the_simulated_scan(cli: Cli, shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "sim_sto" / "sim_sto_master.h5"
    cli("image", file, "--detector", "circle:51,43,17.5", "-o", tmp_path / "bf.npy")
    cli("image", file, "--detector", "circle:51,43,17.5", "-o", tmp_path / "bf.tif")
    expected = np.load(shared_data / "sim_sto" / "sim_sto_expected.npz")["bf"]
    assert np.array_equal(np.load(tmp_path / "bf.npy"), expected)
    with tifffile.TiffFile(tmp_path / "bf.tif") as tiff:
        assert np.array_equal(tiff.asarray(), expected)
        assert tiff.imagej_metadata is not None
        assert tiff.imagej_metadata["unit"] == "nm"
        pixels, units = tiff.pages[0].tags["XResolution"].value
        assert units / pixels == pytest.approx(0.02440625, rel=1e-4)


def test_several_detectors_give_a_stack(
    cli: Cli, source: Path, scan: NDArray[Any], tmp_path: Path
) -> None:
    detectors = ["-d", "rect:2,9,3,20", "-d", CIRCLE, "-d", "point:7,8"]
    expected = np.stack(
        [scan[:, :, 2:9, 3:20].sum((2, 3)), circle_sum(scan), scan[:, :, 7, 8]]
    ).astype(np.int64)
    cli("image", source, *detectors, "-o", tmp_path / "all.npy")
    assert np.array_equal(np.load(tmp_path / "all.npy"), expected)
    cli("image", source, *detectors, "-o", tmp_path / "all.tif")
    with tifffile.TiffFile(tmp_path / "all.tif") as tiff:
        assert np.array_equal(tiff.asarray(), expected)
        assert tiff.imagej_metadata is not None
        assert tiff.imagej_metadata["Labels"] == detectors[1::2]


def test_the_mask_is_the_users_choice(cli: Cli, scan: NDArray[Any], tmp_path: Path) -> None:
    frames = scan.reshape(-1, 16, 24).copy()
    frames[7, 10, 11] = 65535  # an overload inside the detector
    stored = np.zeros((16, 24), np.uint32)
    stored[9, 11] = 1
    master = Writer().write(tmp_path, frames, mask=stored)
    own = np.zeros((16, 24), bool)
    own[8:10, 10:12] = True
    np.save(tmp_path / "own.npy", own)
    for choice, masked in (("file", stored > 0), (str(tmp_path / "own.npy"), own), ("none", None)):
        command = ["image", master, "--scan-shape", "4x5", "-d", CIRCLE, "--mask", choice]
        cli(*command, "-o", tmp_path / "bf.npy", "--overwrite")
        counts = frames.astype(np.int64)
        if masked is not None:
            counts[:, masked] = 0
            counts[counts == 65535] = 0
        assert np.array_equal(np.load(tmp_path / "bf.npy").ravel(), circle_sum(counts))


def test_positions_without_data_are_told_and_nan_in_a_tiff(
    cli: Cli, scan: NDArray[Any], tmp_path: Path
) -> None:
    path = save(scan.reshape(20, 16, 24)[:18], tmp_path)
    command = ["image", path, "--scan-shape", "4x5", "--partial", "-d", CIRCLE, "-o"]
    result = cli(*command, tmp_path / "bf.tif")
    assert "2 of 20 scan positions have no data" in result.err
    image = tifffile.imread(tmp_path / "bf.tif")
    assert np.isnan(image.ravel()[18:]).all()
    assert np.array_equal(image.ravel()[:18], circle_sum(scan).ravel()[:18])


def test_a_tiff_is_exact_or_refused() -> None:
    valid = np.ones((1, 2), bool)
    assert exact_float(np.array([[2**24, 3]]), valid).dtype == np.float32
    assert exact_float(np.array([[2**24 + 1, 3]]), valid).dtype == np.float64
    with pytest.raises(UsageError, match="too large for a TIFF"):
        exact_float(np.array([[2**53 + 1, 3]]), valid)
    assert exact_float(np.array([[0.5, np.nan]]), valid).dtype == np.float32
    assert exact_float(np.array([[0.1, 1e300]]), valid).dtype == np.float64
    values = exact_float(np.array([[5, 7]]), np.array([[True, False]]))
    assert values[0, 0] == 5 and np.isnan(values[0, 1])


def test_there_and_back(cli: Cli, source: Path, scan: NDArray[Any], tmp_path: Path) -> None:
    encoded = tmp_path / "x.ans4d"
    facts = cli("encode", source, "-o", encoded, "--json").json
    assert facts["file_bytes"] == encoded.stat().st_size
    assert facts["full_bytes"] == scan.nbytes
    assert "equal" in cli("verify", encoded, "--against", source).out
    for name in ("back.npy", "back.h5"):
        facts = cli("decode", encoded, "-o", tmp_path / name, "--json").json
        assert facts["shape"] == list(scan.shape)
        check = cli("verify", encoded, "--against", tmp_path / name, "--json").json
        assert check["intact"] and check["against"]["equal"]
        assert check["against"]["patterns_compared"] == 20
    assert np.array_equal(np.load(tmp_path / "back.npy"), scan)
    with h5py.File(tmp_path / "back.h5") as file:
        assert np.array_equal(file["entry/data/data"], scan)


def test_options_of_the_source(cli: Cli, scan: NDArray[Any], tmp_path: Path) -> None:
    """Two frames before the scan, one more after every row."""
    lines = np.concatenate([scan, scan[:, :1] + 7], axis=1).reshape(-1, 16, 24)
    path = save(np.concatenate([lines[:2] + 9, lines]), tmp_path)
    options = ["--scan-shape", "4x5", "--frame-offset", "2", "--flyback", "1"]
    encoded = tmp_path / "x.ans4d"
    cli("encode", path, "-o", encoded, *options)
    cli("verify", encoded, "--against", path, *options)
    cli("decode", encoded, "-o", tmp_path / "back.npy")
    assert np.array_equal(np.load(tmp_path / "back.npy"), scan)
    wrong = ["--scan-shape", "4x5", "--frame-offset", "1", "--flyback", "1"]
    result = cli("verify", encoded, "--against", path, *wrong, "--json", code=5).json
    assert result["against"]["patterns_different"] == 20


def test_memory(cli: Cli) -> None:
    assert "RAM" in cli("memory").out
    (ram, *_) = cli("memory", "--json").json["bars"]
    assert sum(part["nbytes"] for part in ram["parts"]) + ram["free"] == ram["total"]


# ---- what goes wrong


def test_verify_names_damage(cli: Cli, encoded: Path, source: Path) -> None:
    stream = bytearray(encoded.read_bytes())
    from napari_4dstem.container import open_container

    first = open_container(encoded).scan.chunk(0, 0).tobytes()
    at = bytes(stream).index(first)
    stream[at + len(first) // 2] ^= 4
    encoded.write_bytes(stream)
    result = cli("verify", encoded, code=5)
    assert "1 of" in result.out and "coded pieces are damaged" in result.out
    facts = cli("verify", encoded, "--against", source, "--json", code=5).json
    assert not facts["intact"]
    assert facts["damaged_pieces"] == [{"block": 0, "tile": 0, "reason": "wrong checksum"}]
    assert facts["missing_positions"] == facts["against"]["missing_here"] == 20


def test_verify_says_where_the_first_difference_is(
    cli: Cli, encoded: Path, scan: NDArray[Any], tmp_path: Path
) -> None:
    other = scan.copy()
    other[3, 1, 2, 3] += 1
    other[1, 4, 15, 6] += 5
    other[1, 4, 15, 7] += 5
    path = save(other, tmp_path, "other")
    result = cli("verify", encoded, "--against", path, code=5)
    assert "DIFFERENT" in result.out
    facts = cli("verify", encoded, "--against", path, "--json", code=5).json["against"]
    assert facts["patterns_different"] == 2
    assert facts["first_difference"] == {
        "row": 1,
        "column": 4,
        "pixel": [15, 6],
        "found": str(scan[1, 4, 15, 6]),
        "expected": str(other[1, 4, 15, 6]),
    }


def test_verify_against_another_scan(cli: Cli, encoded: Path, tmp_path: Path) -> None:
    other = save(disk_scan((5, 4, 16, 24)), tmp_path, "other")
    assert "two different scans" in cli("verify", encoded, "--against", other, code=5).out


@pytest.mark.parametrize(
    ("words", "code", "messages"),
    [
        (["info", "nowhere_master.h5"], 1, ["no such file", "nowhere_master.h5", "to do"]),
        (["info", "."], 1, ["This is a folder"]),
        (["info", "notes.txt"], 1, ["in no format that can be read"]),
        (["encode", "frames.npy", "-o", "x.ans4d"], 1, ["scan shape", "2 x 10"]),
        (["encode", "scan.npy", "-o", "x.h5"], 2, [".ans4d"]),
        (["encode", "scan.npy", "-o", "scan.npy"], 2, [".ans4d"]),
        (["encode", "scan.npy", "-o", "new/x.ans4d"], 1, ["folder does not exist"]),
        (["encode", "scan.npy", "-o", "x.ans4d", "--scan-shape", "12"], 2, ["for example 256x512"]),
        (["encode", "scan.npy", "-o", "x.ans4d", "--scan-shape", "0x5"], 2, ["rows x columns"]),
        (["encode", "scan.npy", "-o", "x.ans4d", "--flyback", "-1"], 2, ["--flyback"]),
        (["encode", "scan.npy"], 2, ["--output"]),
        (["decode", "notes.txt", "-o", "x.h5"], 1, ["in no format that can be read"]),
        (["decode", "broken.ans4d", "-o", "x.h5"], 1, ["broken.ans4d"]),
        (["decode", "scan.npy", "-o", "x.mat"], 2, [".h5 or .hdf5 or .npy"]),
        (["verify", "scan.npy"], 2, ["Only encoded scans", "napari-4dstem encode"]),
        (["verify", "broken.ans4d"], 1, ["broken.ans4d"]),
        (["verify", "gone.ans4d"], 1, ["cannot be read", "gone.ans4d"]),
        (["image", "scan.npy", "-o", "x.npy"], 2, ["--detector"]),
        (["image", "scan.npy", "-o", "x.npy", "-d", "circle:5"], 2, ["circle:ROW,COL,RADIUS"]),
        (["image", "scan.npy", "-o", "x.npy", "-d", "point:99,3"], 2, ["outside the 16 x 24"]),
        (["image", "scan.npy", "-o", "x.png", "-d", CIRCLE], 2, [".npy or .tif"]),
        (["image", "scan.npy", "-o", "x.npy", "-d", "mask:gone.npy"], 2, ["gone.npy"]),
        (["image", "scan.npy", "-o", "x.npy", "-d", CIRCLE, "--mask", "no.npy"], 2, ["no.npy"]),
        (["image", "scan.npy", "-o", "x.npy", "-d", CIRCLE, "--mask", "scan.npy"], 2, ["mask"]),
        (["view", "nowhere.ans4d"], 1, ["no such file"]),
        (["view"], 2, ["FILE"]),
        (["look"], 2, ["No such command"]),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_errors_say_what_to_do_and_leave_nothing(
    words: list[str],
    code: int,
    messages: list[str],
    cli: Cli,
    scan: NDArray[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    save(scan, tmp_path)
    save(scan.reshape(20, 16, 24), tmp_path, "frames")
    Path("notes.txt").write_text("these are no counts")
    Path("broken.ans4d").write_bytes(b"\x89HDF but not really" * 100)
    before = sorted(tmp_path.iterdir())
    result = cli(*words, code=code)
    assert result.out == ""
    text = " ".join(result.err.replace("│", " ").split())
    assert all(message in text for message in messages), text
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["encode"], "x.ans4d"),
        (["decode"], "x.npy"),
        (["decode"], "x.h5"),
        (["image", "-d", CIRCLE], "x.tif"),
    ],
)
def test_nothing_is_overwritten_unasked(
    command: list[str], name: str, cli: Cli, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / name
    target.write_bytes(b"important")
    result = cli(*command, source, "-o", target, code=1)
    assert "exists already" in result.err and "--overwrite" in result.err
    assert target.read_bytes() == b"important"
    cli(*command, source, "-o", target, "--overwrite")
    assert target.read_bytes() != b"important"


def test_json_stands_alone_on_stdout(cli: Cli, scan: NDArray[Any], tmp_path: Path) -> None:
    """Remarks about an incomplete scan go elsewhere."""
    path = save(scan.reshape(20, 16, 24)[:18], tmp_path)
    partial = ["--scan-shape", "4x5", "--partial", "--json"]
    result = cli("encode", path, "-o", tmp_path / "x.ans4d", *partial)
    assert result.json["missing_positions"] == 2
    assert "18 of 20 scan positions were recorded" in result.err
    assert "Wrote" not in result.err


def test_progress_is_shown_on_a_terminal(source: Path, tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    command = [*PROGRAM, "encode", str(source), "-o", str(tmp_path / "x.ans4d"), "--json"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                piece = os.read(screen, 65536)
            except OSError:  # the other end was closed
                break
            if not piece:
                break
            shown += piece
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["scan_shape"] == [4, 5]
    os.close(screen)
    assert process.returncode == 0
    assert b"Encoding" in shown and b"20/20" in shown


def test_ctrl_c_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    # A file with a hole in it: 4 GiB of zeros that take no room, and minutes to read.
    path = tmp_path / "large.npy"
    large = np.lib.format.open_memmap(path, "w+", np.uint16, (1024, 512, 64, 64))
    del large
    command = [*PROGRAM, "encode", str(path), "-o", str(tmp_path / "x.ans4d")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(3)
        assert process.poll() is None, "it was done too early to be interrupted"
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - begun < 10
    assert process.returncode == 130, err
    assert "Cancelled" in err and "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["large.npy"]


@pytest.mark.parametrize("name", ["back.h5", "back.npy"])
def test_ctrl_c_while_decoding_leaves_the_old_file(name: str, source: Path, tmp_path: Path) -> None:
    """The signal comes from the first report of progress: in the middle of writing."""
    (tmp_path / name).write_bytes(b"old")
    code = f"""
import os, signal
from napari_4dstem.cli import converting, main
bar = converting.progress_bar
class Interrupting:
    def __init__(self, what):
        pass
    def __enter__(self):
        return lambda done, total: os.kill(os.getpid(), signal.SIGINT)
    def __exit__(self, *error):
        pass
converting.progress_bar = Interrupting
main(["decode", {str(source)!r}, "-o", {str(tmp_path / name)!r}, "--overwrite"])
"""
    result = run_without((), code)
    assert result.returncode == 130, result.stderr
    assert "Cancelled" in result.stderr and "Traceback" not in result.stderr
    assert (tmp_path / name).read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "scan.npy"])


@pytest.mark.parametrize(
    ("words", "name"),
    [(["encode"], "x.ans4d"), (["decode"], "x.h5"), (["image", "-d", CIRCLE], "x.npy")],
)
def test_a_full_disk_is_an_error_like_any_other(
    words: list[str], name: str, source: Path, tmp_path: Path
) -> None:
    code = f"""
import resource
from napari_4dstem.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
main({[*words, str(source), "-o", str(tmp_path / name)]!r})
"""
    result = run_without((), code)
    assert result.returncode == 1, result.stderr
    assert "could not be saved" in result.stderr and "save to another disk" in result.stderr
    assert "Traceback" not in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["scan.npy"]


def test_without_hdf5plugin_only_what_needs_it_fails(source: Path, tmp_path: Path) -> None:
    image, back = str(tmp_path / "bf.npy"), str(tmp_path / "back.h5")
    for words, code in (
        (["image", str(source), "-d", CIRCLE, "-o", image], 0),
        (["decode", str(source), "-o", back], 1),
    ):
        call = f"from napari_4dstem.cli import main\nmain({words!r})"
        result = run_without(("hdf5plugin", "napari", "qtpy", "torch"), call)
        assert result.returncode == code, result.stderr
    assert "hdf5plugin" in result.stderr and ".npy" in result.stderr
    assert not Path(back).exists()


# ---- view


def test_view_without_napari_says_what_is_missing(source: Path) -> None:
    code = f"from napari_4dstem.cli import main\nmain(['view', {str(source)!r}])"
    result = run_without(("napari",), code)
    assert result.returncode == 1
    assert "needs napari" in result.stderr and "pip install" in result.stderr
    assert "Traceback" not in result.stderr


def test_view_without_a_screen_says_so(source: Path) -> None:
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    environment = {k: v for k, v in os.environ.items() if k not in screens}
    result = subprocess.run(
        [*PROGRAM, "view", source],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert "no screen" in result.stderr


@pytest.mark.gui
@pytest.mark.slow
def test_view_opens_the_explorer(encoded: Path, source: Path, tmp_path: Path) -> None:
    """In a process of its own, which a timer ends as a user would: by closing the window."""
    code = f"""
from napari.qt import get_qapp
from qtpy.QtCore import QTimer
app = get_qapp()
def look():
    import napari
    from napari_4dstem.plugin import session_for
    viewer = napari.current_viewer()
    session = session_for(viewer)
    print("open:", sorted(a.name for a in session.acquisitions), session.acquisition.name)
    viewer.close()
QTimer.singleShot(1500, look)
from napari_4dstem.cli import main
main(["view", {str(encoded)!r}, {str(source)!r}])
"""
    environment = os.environ | {"NAPARI_CONFIG": str(tmp_path / "settings.yaml")}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "open: ['scan', 'x'] scan" in result.stdout

"""``.ans4d`` files: what is written comes back, whatever happens to the file is noticed."""

import gc
import json
import shutil
import struct
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from napari_4dstem.codec.decode_cpu import CpuDecoder
from napari_4dstem.codec.encode import ScanEncoder, plan_coding
from napari_4dstem.container import (
    ContainerHeader,
    Orientation,
    PlaneOrientation,
    SourceIdentity,
    decoded_blocks,
    open_container,
    verify,
    write,
)
from napari_4dstem.container.table import FORMAT_VERSION, USER_BLOCK, parse_table
from napari_4dstem.errors import CancelledError, ContainerError, SaveError, UsageError
from napari_4dstem.ledger import HostAllocator, Ledger

SCAN, CAMERA = (17, 70), (13, 11)
NETWORK = "server:/ / nfs4 rw 0 0"


def make_patterns(seed=0):
    rng = np.random.default_rng(seed)
    mean = 20 * np.exp(-((np.arange(13)[:, None] - 6) ** 2 + (np.arange(11) - 4) ** 2) / 8)
    return rng.poisson(mean, (*SCAN, *CAMERA)).astype(np.uint16)


def encode(data, recorded=None, **kwargs):
    recorded = np.ones(data.shape[:2], bool) if recorded is None else recorded
    patterns = data.reshape(-1, *data.shape[2:])
    plan = plan_coding(patterns[::17], recorded, **kwargs)
    encoder = ScanEncoder(plan, HostAllocator(Ledger(), "test"))
    for block in range(plan.layout.n_blocks):
        encoder.encode_block(block, patterns[plan.layout.block_positions(block)])
    return encoder.finish()


def decode(scan):
    layout = scan.layout
    out = np.zeros((*layout.scan_shape, *layout.detector_shape), layout.dtype)
    flat = out.reshape(-1, *layout.detector_shape)
    for positions, patterns in decoded_blocks(scan, CpuDecoder(scan)):
        flat[positions] = patterns
    return out


@pytest.fixture(scope="module")
def data():
    return make_patterns()


@pytest.fixture(scope="module")
def scan(data):
    return encode(data)


@pytest.fixture(scope="module")
def saved(scan, tmp_path_factory):
    mask = np.zeros(CAMERA, bool)
    mask[2, 3] = True
    header = ContainerHeader.of(
        scan,
        mask=mask,
        calibration='{"beam_energy": 300}',
        source=SourceIdentity(name="scan_master.h5", size=123456),
        orientation=Orientation(camera=PlaneOrientation(transpose=True, flip_rows=True)),
        overload="65535",
        problems=("one data file is missing",),
        metadata={"camera": "Arina", "µ": "é"},
    )
    path = tmp_path_factory.mktemp("saved") / "scan.ans4d"
    write(path, scan, header)
    return path


@pytest.fixture
def copy(saved, tmp_path):
    return Path(shutil.copy(saved, tmp_path / "copy.ans4d"))


def table_of(path):
    return parse_table(path.read_bytes()[:USER_BLOCK], path)[0]


def rewrite_table(path, change=None, *, version=FORMAT_VERSION):
    """Change the table of a file and give it a right checksum again."""
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<I", data, 12)
    table = json.loads(data[20 : 20 + length])
    if change is not None:
        change(table)
    body = json.dumps(table).encode()
    head = struct.pack("<8sII", bytes(data[:8]), version, len(body))
    data[:USER_BLOCK] = bytes(USER_BLOCK)
    data[: 20 + len(body)] = head + struct.pack("<I", zlib.crc32(head + body)) + body
    path.write_bytes(data)


def rewrite_array(path, name, change):
    """Change an array of a file and give it a right checksum again."""
    entry = table_of(path).find(name)
    data = bytearray(path.read_bytes())
    array = np.frombuffer(data, entry.dtype, int(np.prod(entry.shape)), entry.offset)
    change(array.reshape(entry.shape))
    crc = zlib.crc32(array.data)
    path.write_bytes(data)
    rewrite_table(path, lambda t: next(a for a in t["arrays"] if a["name"] == name).update(crc=crc))


def listing(folder):
    return [entry.name for entry in folder.iterdir()]


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


# ------------------------------------------------------------------ there and back


def test_everything_comes_back(data, saved):
    opened = open_container(saved)
    np.testing.assert_array_equal(decode(opened.scan), data)
    header = opened.header
    assert header.scan_shape == SCAN
    assert header.detector_shape == CAMERA
    assert header.dtype == np.uint16
    assert header.calibration == '{"beam_energy": 300}'
    assert np.argwhere(header.mask).tolist() == [[2, 3]]
    assert header.source == SourceIdentity(name="scan_master.h5", size=123456)
    assert header.orientation.camera == PlaneOrientation(transpose=True, flip_rows=True)
    assert header.problems == ("one data file is missing",)
    assert header.metadata == {"camera": "Arina", "µ": "é"}
    assert header.writer.startswith("napari-4dstem")
    assert opened.mapped
    assert not opened.scan.trusted


def test_the_short_cuts_come_back(scan, saved):
    got, expected = open_container(saved).scan.index, scan.index
    for name in ("sum_pattern", "max_pattern", "nodata_count", "masked"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    assert [row.dtype for row in got.tile_sum] == [row.dtype for row in expected.tile_sum]
    assert len({row.dtype for row in got.tile_sum}) > 1
    for a, b in zip(got.tile_sum, expected.tile_sum, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_short_cuts_can_be_left_where_they_are(copy):
    flip(copy, table_of(copy).find("index/sum_pattern").offset)
    opened = open_container(copy, with_index=False)
    assert opened.scan.index is None
    assert opened.problems == ()  # nobody looked at them
    assert open_container(copy).problems != ()


def test_every_block_is_followed_by_readable_bytes(saved):
    scan = open_container(saved).scan
    assert scan.layout.n_blocks > 1
    for block, stored in enumerate(scan.blocks):
        assert stored.size == 4 * int(scan.chunk_off[block, -1]) + 128
        assert not stored.flags.writeable


def test_a_scan_without_any_position(tmp_path, data):
    scan = encode(data, np.zeros(SCAN, bool))
    write(tmp_path / "none.ans4d", scan, ContainerHeader.of(scan))
    opened = open_container(tmp_path / "none.ans4d")
    assert opened.scan.layout.n_positions == 0
    assert verify(tmp_path / "none.ans4d").intact


def test_a_scan_that_was_opened_can_be_saved_again(saved, tmp_path):
    opened = open_container(saved)
    write(tmp_path / "again.ans4d", opened.scan, opened.header)
    assert (tmp_path / "again.ans4d").read_bytes() == saved.read_bytes()


def test_the_same_scan_gives_the_same_file(scan, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, scan, ContainerHeader.of(scan))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_header_of_another_scan_is_refused(scan, tmp_path):
    header = ContainerHeader.of(scan).model_copy(update={"scan_shape": (70, 17)})
    with pytest.raises(UsageError, match="scan_shape"):
        write(tmp_path / "x.ans4d", scan, header)
    with pytest.raises(UsageError, match="mask"):
        write(tmp_path / "x.ans4d", scan, ContainerHeader.of(scan, mask=np.zeros((2, 3), bool)))


# ---------------------------------------------------------------------- as HDF5


def test_any_hdf5_program_reads_it(scan, saved):
    with h5py.File(saved) as file:
        assert file.userblock_size == USER_BLOCK
        np.testing.assert_array_equal(file["positions"], scan.layout.positions)
        np.testing.assert_array_equal(file["chunk_off"], scan.chunk_off)
        np.testing.assert_array_equal(file["freq"], scan.model.freq)
        np.testing.assert_array_equal(file["index/sum_pattern"], scan.index.sum_pattern)
        start = int(file["block_base"][1])
        first = scan.blocks[1][:-128]
        np.testing.assert_array_equal(file["stream"][start : start + first.size], first)
        assert json.loads(file["details"][...].tobytes())["source"]["name"] == "scan_master.h5"
        assert file.attrs["format"] == b"ans4d"


def test_hdf5_and_the_table_agree_about_every_array(saved):
    entries = {a.name: a for a in table_of(saved).arrays}
    seen = set()

    def visit(name, item):
        strings = [item.attrs.get_id(key).get_type() for key in item.attrs]
        assert not any(t.is_variable_str() for t in strings if isinstance(t, h5py.h5t.TypeStringID))
        if isinstance(item, h5py.Dataset):
            entry = entries[name]
            assert (item.shape, item.dtype.newbyteorder("<").str) == (entry.shape, entry.dtype)
            assert item.id.get_offset() == entry.offset
            assert item.chunks is None
            assert item.compression is None
            assert entry.nbytes < 4096 or entry.offset % 4096 == 0
            seen.add(name)

    with h5py.File(saved) as file:
        file.visititems(visit)
        assert file.id.get_access_plist().get_libver_bounds()[0] is not None
    assert seen == set(entries)


def test_it_opens_without_hdf5(saved):
    code = """
        import sys
        for name in ("h5py", "hdf5plugin", "torch", "napari", "qtpy"):
            sys.modules[name] = None
        from napari_4dstem.container import open_container
        print(open_container(sys.argv[1]).scan.layout.n_positions)
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(saved)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(answer.stdout) == SCAN[0] * SCAN[1]


# -------------------------------------------------------------------- network


def test_on_a_network_it_is_read_instead_of_mapped(data, copy):
    ledger = Ledger()
    opened = open_container(copy, allocator=HostAllocator(ledger, "net"), mounts=NETWORK)
    assert not opened.mapped
    stored = table_of(copy).find("stream").nbytes
    assert ledger.total(owner="net") >= stored
    copy.unlink()
    np.testing.assert_array_equal(decode(opened.scan), data)
    del opened
    gc.collect()
    assert ledger.total(owner="net") == 0


# ------------------------------------------------------------------- refusals


@pytest.mark.parametrize("content", [b"", b"ANS4D\r\n", b"hello world" * 9, b"ANS4D\r\n\x1a" * 4])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "foreign.ans4d"
    path.write_bytes(content)
    with pytest.raises(ContainerError, match=r"foreign\.ans4d"):
        open_container(path)


def test_other_hdf5_files_are_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(5)
    with pytest.raises(ContainerError, match="not an encoded scan"):
        open_container(tmp_path / "other.h5")


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(ContainerError, match=r"cannot be read.*No such file"):
        open_container(tmp_path / "no.ans4d")
    with pytest.raises(ContainerError, match=r"cannot be read.*directory"):
        open_container(tmp_path)


def test_a_newer_version_is_refused_by_name(copy):
    rewrite_table(copy, version=7)
    with pytest.raises(ContainerError, match=r"format version 7.*Update napari-4dstem"):
        open_container(copy)


def test_an_unknown_requirement_is_refused_by_name(copy):
    rewrite_table(copy, lambda t: t.update(requires=["table-sets"]))
    with pytest.raises(ContainerError, match="'table-sets'"):
        open_container(copy)


def test_unknown_arrays_and_fields_are_ignored(data, copy):
    def add(table):
        table["new field"] = 3
        table["arrays"].append(
            {"name": "extra", "dtype": "<c8", "shape": [9], "offset": 1 << 50, "crc": 1}
        )

    rewrite_table(copy, add)
    opened = open_container(copy)
    assert opened.problems == ()
    np.testing.assert_array_equal(decode(opened.scan), data)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["arrays"][0].update(shape=[1 << 60]),
        lambda t: t["arrays"][0].update(shape=[-1]),
        lambda t: t["arrays"][0].update(offset=1 << 62),
        lambda t: t["arrays"][0].update(offset=10),
        lambda t: t["arrays"][0].update(dtype="O"),
        lambda t: t["arrays"][0].update(dtype="<f8"),
        lambda t: t["arrays"].pop(0),
        lambda t: t.update(scan_shape=[1 << 40, 1 << 40]),
        lambda t: t.update(scan_shape=[3, 3]),
        lambda t: t.update(detector_shape=[11, 13]),
        lambda t: t.update(dtype="<u8"),
        lambda t: t.update(dtype="O"),
        lambda t: t.update(dtype="<f4"),
        lambda t: t.update(passes=3),
        lambda t: t.update(passes=0),
        lambda t: t.update(tile=7),
        lambda t: t.update(tile=32),
        lambda t: t["values"].update(kind="f64"),
        lambda t: t["values"].update(scale=float("nan")),
        lambda t: t.pop("values"),
        lambda t: t.update(arrays={}),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(copy, change):
    rewrite_table(copy, change)
    with pytest.raises(ContainerError):
        open_container(copy)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("chunk_off", (0, 0), 1),
        ("chunk_off", (0, 1), 0xFFFFFFF0),
        ("chunk_off", (1, -1), 0),
        ("chunk_mode", (0, 0), 4),
        ("chunk_mode", (0, 0), 3),
        ("block_base", (0,), 4),
        ("block_base", (-1,), 1 << 63),
        ("block_pos", (1,), 1 << 40),
        ("positions", (0,), 17 * 70),
        ("positions", (0,), 5),
        ("class_map", (0, 0), 200),
        ("classes", (0, 0), 3),
        ("freq", (0, 0), 4000),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(copy, name, place, value):
    def change(array):
        array[place] = value

    rewrite_array(copy, name, change)
    with pytest.raises(ContainerError, match=r"copy\.ans4d"):
        open_container(copy)


def test_a_file_cut_off_is_refused(saved, tmp_path):
    data, stream = saved.read_bytes(), table_of(saved).find("stream")
    path = tmp_path / "cut.ans4d"
    for keep in (0, 7, 19, 900, USER_BLOCK - 1, USER_BLOCK, stream.offset, stream.end - 1):
        path.write_bytes(data[:keep])
        with pytest.raises(ContainerError, match=r"cut\.ans4d"):
            open_container(path)


# -------------------------------------------------------------------- damage


def test_bytes_after_the_end_are_reported(data, copy):
    copy.write_bytes(copy.read_bytes() + b"more")
    opened = open_container(copy)
    assert "instead of" in opened.problems[0]
    np.testing.assert_array_equal(decode(opened.scan), data)
    assert not verify(copy).intact


@pytest.mark.parametrize("name", ["positions", "block_pos", "freq", "chunk_off", "chunk_crc"])
def test_damage_without_which_nothing_decodes_is_refused(copy, name):
    flip(copy, table_of(copy).find(name).offset + 3)
    with pytest.raises(ContainerError, match=f"'{name}'.*is damaged"):
        open_container(copy)


@pytest.mark.parametrize("part", ["sum_pattern", "max_pattern", "nodata_count", "masked"])
def test_a_damaged_short_cut_is_dropped_and_reported(data, copy, part):
    flip(copy, table_of(copy).find(f"index/{part}").offset + 3)
    opened = open_container(copy)
    assert opened.scan.index is None
    assert part in opened.header.problems[-1]
    np.testing.assert_array_equal(decode(opened.scan), data)


@pytest.mark.parametrize("part", ["tile_sum_1", "tile_sum_2", "tile_width"])
def test_damaged_tile_sums_are_dropped_and_the_rest_kept(scan, copy, part):
    flip(copy, table_of(copy).find(f"index/{part}").offset + 3)
    opened = open_container(copy)
    assert opened.scan.index.tile_sum is None
    np.testing.assert_array_equal(opened.scan.index.sum_pattern, scan.index.sum_pattern)
    assert "tile sums" in opened.problems[-1]


@pytest.mark.parametrize(
    ("part", "field", "value"), [("mask", "mask", None), ("calibration", "calibration", "")]
)
def test_damaged_facts_are_left_out_and_reported(copy, part, field, value):
    flip(copy, table_of(copy).find(part).offset + 3)
    opened = open_container(copy)
    assert getattr(opened.header, field) == value
    assert part in opened.problems[0]


def test_damaged_details_are_left_out_and_reported(copy):
    flip(copy, table_of(copy).find("details").offset + 3)
    opened = open_container(copy)
    assert opened.header.source is None
    assert "details" in opened.problems[0]


def test_a_damaged_chunk_makes_its_block_missing_and_nothing_else(data, copy):
    scan = open_container(copy).scan
    start = table_of(copy).find("stream").offset + int(4 * scan.chunk_off[0, -1])
    del scan
    flip(copy, start + 200)  # in block 1
    opened = open_container(copy)
    got = decode(opened.scan)
    inside = np.zeros(SCAN, bool)
    inside.reshape(-1)[opened.scan.layout.block_positions(1)] = True
    np.testing.assert_array_equal(opened.scan.valid, ~inside)
    np.testing.assert_array_equal(got[~inside], data[~inside])
    report = verify(copy)
    assert [(d.block, d.reason) for d in report.damaged] == [(1, "wrong checksum")]
    np.testing.assert_array_equal(report.missing, inside)
    assert "scan positions are missing: rows" in str(report)


def test_a_chunk_that_does_not_decode_is_found_even_with_a_right_checksum(copy):
    scan = open_container(copy).scan
    table = table_of(copy)
    at = table.find("stream").offset
    length = 4 * int(scan.chunk_off[0, 1])
    del scan
    flip(copy, at + 130)
    crc = zlib.crc32(copy.read_bytes()[at : at + length])

    def change(array):
        array[0, 0] = crc

    rewrite_array(copy, "chunk_crc", change)
    report = verify(copy)
    assert [(d.block, d.tile, d.reason) for d in report.damaged] == [(0, 0, "does not decode")]


def test_verify_notices_a_flipped_bit_wherever_it_is(copy):
    intact = copy.read_bytes()
    rng = np.random.default_rng(5)
    table = table_of(copy)
    places = [int(p) for p in rng.integers(0, len(intact), 60)]
    places += [e.offset + int(rng.integers(0, e.nbytes)) for e in table.arrays if e.nbytes]
    places += [begin for begin, _ in table.gaps()] + [0, 9, 13, 17, 21, USER_BLOCK - 1]
    for place in places:
        flip(copy, place)
        try:
            noticed = not verify(copy).intact
        except ContainerError:
            noticed = True
        assert noticed, f"byte {place}"
        copy.write_bytes(intact)
    assert verify(copy).intact


def test_verify_reports_progress_and_can_be_cancelled(saved):
    seen = []
    report = verify(saved, progress=lambda done, total: seen.append((done, total)))
    blocks = open_container(saved).scan.layout.n_blocks
    assert seen == [(done, blocks) for done in range(1, blocks + 1)]
    assert report.n_chunks == blocks * 4
    with pytest.raises(CancelledError):
        verify(saved, cancelled=lambda: True)


# --------------------------------------------------------------------- saving


def test_saving_onto_an_open_file_is_refused(scan, copy):
    opened = open_container(copy)
    header = ContainerHeader.of(scan)
    with pytest.raises(SaveError, match=r"is open.*another name"):
        write(copy, scan, header)
    with pytest.raises(SaveError, match="is open"):
        write(copy, opened.scan, opened.header)
    block = opened.scan.blocks[0]
    del opened
    gc.collect()
    with pytest.raises(SaveError, match="is open"):  # one of its arrays is still in use
        write(copy, scan, header)
    del block
    gc.collect()
    write(copy, scan, header)
    assert open_container(copy).header.calibration == ""


def test_saving_onto_a_file_open_in_another_process_is_refused(scan, copy):
    code = """
        import sys
        from napari_4dstem.container import open_container
        opened = open_container(sys.argv[1])
        print("open", flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(copy)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(SaveError, match="is open"):
            write(copy, scan, ContainerHeader.of(scan))
        other.stdin.close()
        other.wait(30)
    write(copy, scan, ContainerHeader.of(scan))


@pytest.mark.parametrize("limit", [1000, 70_000, 100_000])
def test_a_full_disk_leaves_everything_as_it_was(saved, copy, limit):
    """The largest file size allowed stands for a full disk: writing fails half-way."""
    before = copy.read_bytes()
    code = """
        import resource, sys
        from napari_4dstem.container import open_container, write
        from napari_4dstem.errors import SaveError
        opened = open_container(sys.argv[1])
        limit = int(sys.argv[3])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            write(sys.argv[2], opened.scan, opened.header)
        except SaveError as error:
            print(error)
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(saved), str(copy), str(limit)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "could not be saved" in answer.stdout
    assert "save to another disk" in answer.stdout
    assert answer.stderr == ""
    assert copy.read_bytes() == before
    assert listing(copy.parent) == [copy.name]


def test_cancelling_and_interrupting_leave_nothing_behind(scan, tmp_path):
    path = tmp_path / "scan.ans4d"
    answers = iter([False, True])
    with pytest.raises(CancelledError):
        write(path, scan, ContainerHeader.of(scan), cancelled=lambda: next(answers))

    def interrupt(done, total):
        assert listing(tmp_path) != []
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, scan, ContainerHeader.of(scan), progress=interrupt)
    assert listing(tmp_path) == []


def test_saving_reports_its_progress(scan, tmp_path):
    seen = []
    write(
        tmp_path / "scan.ans4d",
        scan,
        ContainerHeader.of(scan),
        progress=lambda done, total: seen.append(done / total),
    )
    assert len(seen) == scan.layout.n_blocks
    assert seen == sorted(seen)
    assert 0.9 < seen[-1] <= 1


def test_saving_where_there_is_no_folder(scan, tmp_path):
    with pytest.raises(SaveError, match="Create the folder first"):
        write(tmp_path / "no" / "scan.ans4d", scan, ContainerHeader.of(scan))

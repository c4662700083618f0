"""Classes, tables and the schedule derived from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_4dstem.codec.layout import ScanLayout
from napari_4dstem.codec.model import CONSTANT, ESCAPE, PixelModel, make_schedule
from napari_4dstem.codec.statistics import Sample, build_model, round_frequencies
from napari_4dstem.codec.value_map import ValueMap
from napari_4dstem.errors import ContainerError
from tests.codec.cases import counts


def layout_of(camera: tuple[int, int], tile: int = 8, dtype: str = "u2") -> ScanLayout:
    block_pos = np.array([0, 1], np.uint64)
    return ScanLayout((1, 1), camera, np.dtype(dtype), 1, tile, np.zeros(1, np.uint32), block_pos)


def sampled_model(shape: tuple[int, int, int, int], dose: float, dtype: str = "u2") -> PixelModel:
    data = counts(shape, dose, dtype)
    data[:, :, 0, 3] = data[:, :, 5, :] = np.iinfo(dtype).max
    patterns = data.reshape(-1, *shape[2:])
    return build_model(Sample(patterns, ValueMap("uint", nodata=int(np.iinfo(dtype).max))))[0]


@pytest.mark.parametrize("dose", [3, 1_000, 1e6, 1e9])
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_a_model_of_any_sample_keeps_the_limits_of_the_format(dose: float, dtype: str) -> None:
    model = sampled_model((7, 9, 29, 43), dose, dtype)
    make_schedule(model, layout_of((29, 43), dtype=dtype))
    assert len(model.classes) <= 64
    assert model.constant.sum() == 44


@pytest.mark.parametrize("tile", [8, 16, 32])
def test_every_coded_pixel_has_exactly_one_place_in_the_schedule(tile: int) -> None:
    model = sampled_model((7, 9, 29, 43), 1_000)
    layout = layout_of((29, 43), tile)
    steps = make_schedule(model, layout)
    seen = np.zeros((29, 43), int)
    for t in range(layout.n_tiles):
        rect = layout.tile_at(t)
        inside = slice(steps.tile_start[t], steps.tile_start[t + 1])
        assert steps.tile_planes[t] == steps.shift[inside].sum(dtype=int)
        order = list(zip(steps.cls[inside], steps.pixel[inside], strict=True))
        assert order == sorted(order)
        for s in range(inside.start, inside.stop):
            row, first = divmod(int(steps.pixel[s]), 43)
            width = rect.c1 - rect.c0
            assert steps.local[s] == (row - rect.r0) * width + first - rect.c0
            for i in range(steps.size[s]):
                if steps.fields[s] >> i & 1:
                    assert model.class_map[row, first + i] == steps.cls[s]
                    seen[row, first + i] += 1
    np.testing.assert_array_equal(seen, ~model.constant)


def test_the_decoding_table_inverts_the_frequencies() -> None:
    model = sampled_model((7, 9, 29, 43), 1_000)
    steps = make_schedule(model, layout_of((29, 43)))
    for k, table in enumerate(steps.table):
        symbol, freq, rank = table & 0xFF, (table >> 8 & 0xFFF) + 1, table >> 20
        np.testing.assert_array_equal(np.bincount(symbol, minlength=256), model.freq[k])
        np.testing.assert_array_equal(freq, model.freq[k][symbol])
        np.testing.assert_array_equal(steps.cum[k][symbol] + rank, np.arange(4096))


def test_the_filler_is_the_most_frequent_symbol_but_no_escape() -> None:
    freq = np.zeros((1, 256), np.uint16)
    freq[0, [3, 9, ESCAPE]] = 48, 48, 4000
    model = PixelModel(np.zeros((2, 3), np.uint8), np.array([[1, 0]], np.uint8), freq)
    assert make_schedule(model, layout_of((2, 3))).filler.tolist() == [3]


@given(st.integers(0, 2**32 - 1), st.floats(1e-4, 1), st.sampled_from([1, 100, 10**12]))
def test_rounded_frequencies_are_a_valid_table(seed: int, share: float, most: int) -> None:
    rng = np.random.default_rng(seed)
    histogram = rng.integers(0, most, 256, endpoint=True) * (rng.random(256) < share)
    freq = round_frequencies(histogram).astype(int)
    assert freq.sum() == 4096
    assert 1 <= freq[ESCAPE] <= 4095


@pytest.mark.parametrize("only", [0, 77, ESCAPE])
def test_a_histogram_of_one_symbol(only: int) -> None:
    histogram = np.zeros(256, np.int64)
    histogram[only] = 10**9
    freq = round_frequencies(histogram).astype(int)
    assert freq.sum() == 4096
    assert freq[only] >= 4094
    assert 1 <= freq[ESCAPE] <= 4095


def valid_parts() -> dict[str, np.ndarray]:
    freq = np.zeros((2, 256), np.uint16)
    freq[:, 0], freq[:, ESCAPE] = 4095, 1
    return {
        "class_map": np.zeros((4, 9), np.uint8),
        "classes": np.array([[2, 0], [1, 3]], np.uint8),
        "freq": freq,
    }


@pytest.mark.parametrize(
    ("part", "at", "value"),
    [
        ("class_map", (0, 0), 2),
        ("classes", (0, 0), 3),
        ("classes", (0, 1), 1),
        ("freq", (0, 0), 4094),
        ("freq", (1, ESCAPE), 0),
    ],
)
def test_contradicting_tables_are_refused(part: str, at: tuple[int, int], value: int) -> None:
    parts = valid_parts()
    PixelModel(**parts)
    parts[part][at] = value
    with pytest.raises(ContainerError, match="tables"):
        PixelModel(**parts)


def test_an_escape_alone_is_refused() -> None:
    parts = valid_parts()
    parts["freq"][0, [0, ESCAPE]] = 0, 4096
    with pytest.raises(ContainerError, match="escape"):
        PixelModel(**parts)


@pytest.mark.parametrize("column", [1, 3])
def test_pixels_of_one_symbol_with_different_classes_are_refused(column: int) -> None:
    parts = valid_parts()
    parts["class_map"][0, column] = 1
    with pytest.raises(ContainerError, match="different classes"):
        make_schedule(PixelModel(**parts), layout_of((4, 9)))
    parts["class_map"][0, column] = CONSTANT
    make_schedule(PixelModel(**parts), layout_of((4, 9)))


def test_more_low_bits_than_the_values_have_are_refused() -> None:
    model = PixelModel(**valid_parts())
    make_schedule(model, layout_of((4, 9), dtype="u2"))
    with pytest.raises(ContainerError, match="low bits"):
        make_schedule(model, layout_of((4, 9), dtype="u1"))


def test_a_model_for_another_camera_is_refused() -> None:
    with pytest.raises(ContainerError, match="fit the camera"):
        make_schedule(PixelModel(**valid_parts()), layout_of((9, 4)))

"""Which pixels belong to which shape, against rules written out pixel by pixel."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_4dstem.detectors import (
    FORMS,
    Annulus,
    Circle,
    Mask,
    Point,
    Polygon,
    Rectangle,
    Shape,
    parse,
    tile_cover,
)
from napari_4dstem.errors import UsageError

PLANE = (13, 18)

# Positions of every kind: whole and half pixels (ties), and any float around the plane.
position = st.one_of(
    st.integers(-4, 22).map(float),
    st.integers(-8, 44).map(lambda n: n / 2),
    st.floats(-30, 40, allow_nan=False),
)
center = st.tuples(position, position)
radius = st.one_of(
    st.integers(0, 30).map(float),
    st.floats(0, 40),
    st.sampled_from([math.sqrt(2), math.sqrt(5), math.sqrt(0.5)]),
)
ring = st.tuples(radius, radius).map(sorted)


def squared_distances(at: tuple[float, float], plane: tuple[int, int]) -> np.ndarray:
    return np.array(
        [
            [(float(r) - at[0]) ** 2 + (float(c) - at[1]) ** 2 for c in range(plane[1])]
            for r in range(plane[0])
        ]
    )


def nearest(at: tuple[float, float]) -> tuple[int, int]:
    row, col = (math.floor(Fraction(x) + Fraction(1, 2)) for x in at)
    return row, col


@given(center, radius)
def test_circle_holds_d_up_to_r_or_else_the_nearest_pixel(at, r):
    expected = squared_distances(at, PLANE) <= r * r
    row, col = nearest(at)
    if not expected.any() and 0 <= row < PLANE[0] and 0 <= col < PLANE[1]:
        expected[row, col] = True
    circle = Circle(at, r)
    assert np.array_equal(circle.mask(PLANE), expected)
    assert (circle.empty_reason(PLANE) is None) == expected.any()


@given(center, ring)
def test_annulus_holds_inner_excluded_to_outer_included(at, radii):
    inner, outer = radii
    mask = Annulus(at, inner, outer).mask(PLANE)
    squared = squared_distances(at, PLANE)
    if inner > 0:
        assert np.array_equal(mask, (squared > inner * inner) & (squared <= outer * outer))
    else:
        assert np.array_equal(mask, Circle(at, outer).mask(PLANE))


@given(center, st.floats(0.75, 20), st.floats(0, 60))
def test_bright_and_dark_field_partition_the_circle(at, r, more):
    # From 0.71 px on every circle about any centre holds a pixel centre.
    bright = Circle(at, r).mask(PLANE)
    dark = Annulus(at, r, r + more).mask(PLANE)
    whole = Circle(at, r + more).mask(PLANE)
    assert not (bright & dark).any()
    assert np.array_equal(bright | dark, whole)


def test_bright_and_dark_field_partition_the_camera():
    at, plane = (51.25, 43.5), (96, 104)
    bright, dark = Circle(at, 17.5).mask(plane), Annulus(at, 17.5, 400).mask(plane)
    assert np.array_equal(bright.astype(int) + dark, np.ones(plane, int))


def test_centre_belongs_to_the_annulus_without_inner_radius():
    assert Annulus((5, 7), 0, 2).mask(PLANE)[5, 7]
    assert not Annulus((5, 7), 1e-9, 2).mask(PLANE)[5, 7]


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (Circle((-3, 5), 0.2), "lies outside the 13 x 18 camera"),
        (Circle((-0.6, 5), 0.05), "lies outside the 13 x 18 camera"),
        (Circle((40, 40), 3), "lies outside the 13 x 18 camera"),
        (Annulus((5, 5), 2.01, 2.02), "holds no pixel of the 13 x 18 camera"),
        (Annulus((5, 5), 100, 120), "holds no pixel of the 13 x 18 camera"),
        (Point((13, 0)), "lies outside the 13 x 18 camera"),
        (Rectangle(2, 2, 0, 5), "holds no pixel of the 13 x 18 camera"),
        (Circle((-0.4, 17.4), 0.05), None),
        (Point((12.4, -0.5)), None),
    ],
)
def test_empty_shapes_say_so(shape, reason):
    assert shape.empty_reason(PLANE) == reason
    assert shape.mask(PLANE).any() == (reason is None)
    assert (shape.bounding_box(PLANE) is None) == (reason is not None)


def test_empty_region_is_named_after_its_plane():
    assert Point((13, 0)).empty_reason(PLANE, "scan") == "lies outside the 13 x 18 scan"


@given(st.tuples(*[st.integers(-3, 25)] * 4))
def test_rectangle_is_a_slice(edges):
    r0, r1 = sorted(edges[:2])
    c0, c1 = sorted(edges[2:])
    expected = np.zeros(PLANE, bool)
    expected[max(r0, 0) : max(r1, 0), max(c0, 0) : max(c1, 0)] = True
    assert np.array_equal(Rectangle(r0, r1, c0, c1).mask(PLANE), expected)


def inside_even_odd(vertices, row: int, col: int) -> bool:
    """The documented rule in fractions: edges crossed strictly to the right, top end included."""
    inside = False
    for (ra, ca), (rb, cb) in zip(vertices, vertices[1:] + vertices[:1], strict=True):
        ra, ca, rb, cb = (Fraction(x) for x in (ra, ca, rb, cb))
        if (ra <= row) == (rb <= row):
            continue
        if ca + (row - ra) * (cb - ca) / (rb - ra) > col:
            inside = not inside
    return inside


@given(st.lists(center, min_size=3, max_size=7))
def test_polygon_is_the_even_odd_rule_in_fractions(vertices):
    mask = Polygon(tuple(vertices)).mask((7, 9))
    expected = [[inside_even_odd(vertices, r, c) for c in range(9)] for r in range(7)]
    assert np.array_equal(mask, np.array(expected))


@given(st.tuples(*[st.integers(-3, 25)] * 4))
def test_polygon_of_corners_is_the_half_open_rectangle(edges):
    r0, r1 = sorted(edges[:2])
    c0, c1 = sorted(edges[2:])
    corners = ((r0, c0), (r0, c1), (r1, c1), (r1, c0))
    assert np.array_equal(
        Polygon(corners).mask(PLANE),
        Rectangle(r0, r1, c0, c1).mask(PLANE),
    )


@given(center, st.lists(center, min_size=3, max_size=3))
def test_triangles_that_share_edges_share_no_pixel(apex, corners):
    # Even-odd parity of the fan equals the outline, pixel by pixel, boundaries included.
    fan = [Polygon((apex, corners[i], corners[(i + 1) % 3])).mask(PLANE) for i in range(3)]
    assert np.array_equal(fan[0] ^ fan[1] ^ fan[2], Polygon(tuple(corners)).mask(PLANE))


def test_polygon_that_crosses_itself_has_a_hole():
    star = Polygon(
        tuple(
            (20 + 18 * math.cos(k * 0.8 * math.pi), 20 + 18 * math.sin(k * 0.8 * math.pi))
            for k in range(5)
        )
    )
    mask = star.mask((40, 41))
    assert not mask[20, 20]
    assert mask[35, 20]


def test_mask_keeps_its_own_copy_and_fits_one_plane_only():
    array = np.zeros((3, 5), np.uint8)
    array[1, 2] = 1
    shape = Mask(array)
    array[:] = 1
    assert shape.mask((3, 5)).sum() == 1
    shape.mask((3, 5))[:] = True
    assert shape.mask((3, 5)).sum() == 1
    with pytest.raises(UsageError, match=r"shape \(5, 3\)"):
        shape.mask((5, 3))
    assert shape == Mask(shape.array)
    assert hash(shape) == hash(Mask(shape.array))
    assert shape != Mask(np.zeros((3, 5), bool))
    assert shape.bounding_box((3, 5)) == (1, 2, 2, 3)


@pytest.mark.parametrize(
    "bad", [np.zeros(4, bool), np.full((2, 3), 2), np.zeros((2, 3)), np.zeros((0, 3), bool)]
)
def test_mask_of_something_else_is_refused(bad):
    with pytest.raises(UsageError, match="two-dimensional"):
        Mask(bad)


shapes = st.one_of(
    center.map(Point),
    st.builds(Circle, center, radius),
    st.tuples(center, ring).map(lambda t: Annulus(t[0], *t[1])),
    st.tuples(*[st.integers(-9, 9)] * 4).map(
        lambda e: Rectangle(min(e[:2]), max(e[:2]), min(e[2:]), max(e[2:]))
    ),
    st.lists(center, min_size=3, max_size=5).map(lambda v: Polygon(tuple(v))),
)


@given(shapes)
def test_text_forms_read_back_to_the_same_shape(shape: Shape):
    again = parse(shape.to_text())
    assert again == shape
    assert hash(again) == hash(shape)
    assert type(again) is type(shape)


@given(shapes)
def test_bounding_box_is_the_smallest(shape: Shape):
    mask = shape.mask(PLANE)
    box = shape.bounding_box(PLANE)
    if box is None:
        assert not mask.any()
        return
    r0, r1, c0, c1 = box
    part = mask[r0:r1, c0:c1]
    assert part.sum() == mask.sum()
    assert part[0].any()
    assert part[-1].any()
    assert part[:, 0].any()
    assert part[:, -1].any()


@given(shapes, st.integers(1, 20))
def test_tile_cover_sorts_every_tile(shape: Shape, tile: int):
    mask = shape.mask(PLANE)
    cover = tile_cover(mask, tile)
    inside, boundary, number = [], [], 0
    for r in range(0, PLANE[0], tile):
        for c in range(0, PLANE[1], tile):
            part = mask[r : r + tile, c : c + tile]
            if part.all():
                inside.append(number)
            elif part.any():
                boundary.append(number)
            number += 1
    assert cover.inside.tolist() == inside
    assert cover.boundary.tolist() == boundary
    assert cover.inside.dtype == cover.boundary.dtype == np.intp


def test_mask_file_round_trip(tmp_path: Path):
    array = np.arange(12).reshape(3, 4) % 3 == 0
    np.save(tmp_path / "a,b.npy", array)
    shape = parse(f"mask:{tmp_path / 'a,b.npy'}")
    assert np.array_equal(shape.mask((3, 4)), array)
    assert parse(shape.to_text()) == shape
    with pytest.raises(UsageError, match=r"numpy\.save"):
        Mask(array).to_text()


def test_unreadable_mask_files_are_named(tmp_path: Path):
    (tmp_path / "junk.npy").write_bytes(b"no array")
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(2))
    for name in ("junk.npy", "missing.npy", "two.npz"):
        with pytest.raises(UsageError, match=name):
            parse(f"mask:{tmp_path / name}")


@pytest.mark.parametrize(
    "text",
    ["", "circle", "circle:", "circle:1,2", "circle:1,2,3,4", "circle:a,b,c", "disk:1,2,3",
     "polygon:1,2,3,4", "polygon:1,2,3,4,5", "mask:", "rect:1,2,3", "point:1", "51,43,17.5"],
)  # fmt: skip
def test_bad_text_shows_every_form(text: str):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert all(form in str(caught.value) for form in FORMS)


@pytest.mark.parametrize(
    "text",
    ["circle:1,2,-3", "circle:nan,2,3", "circle:1,inf,3", "annulus:1,2,5,4", "rect:5,2,0,3",
     "circle:1,2,1e300", "polygon:1,2,3,4,5,nan"],
)  # fmt: skip
def test_impossible_shapes_are_refused(text: str):
    with pytest.raises(UsageError):
        parse(text)


def test_parse_reads_the_forms_people_type():
    assert parse("circle:51,43,17.5") == Circle((51, 43), 17.5)
    assert parse(" Annulus: 51, 43, 24, 44 ") == Annulus((51, 43), 24, 44)
    assert parse("rect:0,8,0,12") == Rectangle(0, 8, 0, 12)
    assert parse("point:3,4") == Point((3, 4))
    assert parse("polygon:0,0,0,8,8,8") == Polygon(((0, 0), (0, 8), (8, 8)))


def test_descriptions_carry_units():
    assert Circle((51, 43), 17.5).describe() == "circle at (51, 43), radius 17.5 px"
    assert (
        Circle((51, 43), 17.5).describe("mrad", 1.2604) == "circle at (51, 43), radius 22.06 mrad"
    )
    assert Annulus((51, 43), 24, 44).describe() == "annulus at (51, 43), radii 24 to 44 px"
    assert Rectangle(0, 8, 2, 14).describe("nm", 0.5) == "rectangle at (0, 2), 4 x 6 nm"
    assert Point((3.4, 3.5)).describe() == "pixel (3, 4)"
    assert "3 vertices" in Polygon(((0, 0), (0, 8), (8, 8))).describe()
    assert Mask(np.ones((2, 3), bool)).describe() == "mask of 6 pixels"


def test_dragging_makes_new_shapes_that_stay_possible():
    ring = Annulus((5, 6), 3, 8)
    assert ring.with_center((1, 2)) == Annulus((1, 2), 3, 8)
    assert ring.with_inner(9).inner == 8
    assert ring.with_inner(-1).inner == 0
    assert ring.with_outer(2).outer == 3
    assert ring == Annulus((5, 6), 3, 8)
    assert Circle((1, 2), 3).with_radius(-4).radius == 0
    assert Circle((1, 2), 3).with_center((4, 5)) == Circle((4, 5), 3)
    assert Point((1, 2)).with_center((4, 5)) == Point((4, 5))
    box = Rectangle(2, 6, 3, 10)
    assert box.center == (3.5, 6)
    assert box.with_center((4.6, 5)) == Rectangle(3, 7, 2, 9)
    assert Rectangle.between((6.2, 1), (2.4, 4.6)) == Rectangle(2, 7, 1, 6)
    triangle = Polygon(((0, 0), (0, 8), (8, 8)))
    assert triangle.with_center((5, 5)) == Polygon(((1, 1), (1, 9), (9, 9)))
    assert triangle.with_vertex(1, (2, 9)) == Polygon(((0, 0), (2, 9), (8, 8)))


def test_numpy_numbers_become_plain_ones():
    circle = Circle(np.array([3.0, 4.0]), np.float32(2.5))
    assert circle == Circle((3, 4), 2.5)
    assert circle.to_text() == "circle:3,4,2.5"

"""Makes the golden ``.ans4d`` files: ``python -m tests.golden.make_golden``.

The files in this folder stay as they are for ever: a later version must read them. The true values
are made from a seed by `truth`, with integer arithmetic on raw random bits only, which give the
same numbers on every platform and with every version of NumPy. Run this only to add a new case, or
(before the first release) after a change of the format, and say why in the commit.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
CASES: dict[str, tuple[tuple[int, int, int, int], str]] = {
    "u8": ((5, 7, 13, 11), "u1"),
    "u16": ((20, 37, 13, 11), "u2"),
    "u32": ((4, 6, 13, 11), "u4"),
    "i16": ((6, 5, 13, 11), "i2"),
    "f32scaled": ((5, 6, 13, 11), "f4"),
    "f32raw": ((3, 4, 13, 11), "f4"),
    "partial": ((18, 40, 9, 10), "u2"),
    "raw_and_empty": ((5, 8, 16, 20), "u2"),
    "dark": ((9, 8, 37, 21), "u2"),
    "line": ((1, 530, 9, 12), "u2"),
}
"""Shape (scan rows, scan columns, camera rows, camera columns) and dtype of each case."""


def truth(name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the patterns of a case and which positions were recorded."""
    shape, dtype = CASES[name]
    raw = np.random.PCG64(zlib.crc32(name.encode())).random_raw((*shape, 2)).astype(np.uint64)
    bits, extra = raw[..., 0], raw[..., 1]
    rows, columns = np.ogrid[: shape[2], : shape[3]]
    distance = (rows - shape[2] // 2) ** 2 + (columns - shape[3] // 2) ** 2
    # Counts: how many of some bits are set; many bits in a central disk, few outside.
    n_bits = np.maximum(40 - 2 * distance, 1).astype(np.uint64)
    counts = np.bitwise_count(bits & ((np.uint64(1) << n_bits) - np.uint64(1))).astype(np.int64)
    recorded = np.ones(shape[:2], bool)
    values = _variant(name, counts, extra.astype(np.int64) & 0xFFFFFFFF, recorded)
    data = values.astype(dtype)
    data[~recorded] = 0
    return data, recorded


def _variant(
    name: str, counts: NDArray[np.int64], extra: NDArray[np.int64], recorded: NDArray[np.bool_]
) -> NDArray[Any]:
    """Turn plain counts into what the case is about."""
    values: NDArray[Any] = counts
    rare = extra % 97 == 0
    if name == "u16":
        values = counts * 5  # low bits kept apart
        values[rare] = 65535  # overloads
        values[:, :, 2, 3] = 65535  # a masked pixel: constant, not coded
    elif name == "u32":
        values = counts * 3000 + extra % 3000
        values[rare] = extra[rare]  # up to 2^32 - 1
    elif name == "i16":
        values = counts * 3 - 40
        values[rare] = -32768
    elif name == "f32scaled":
        values = counts * np.float32(0.25)
    elif name == "f32raw":
        values = (extra.astype(np.uint32) & np.uint32(0xBFFFFFFF)).view(np.float32)
        values[0, 0, 0, :3] = (np.nan, np.inf, -0.0)
    elif name == "partial":
        recorded[3, 5:19] = False  # a hole
        recorded[11, 22:] = False  # interrupted there
        recorded[12:] = False
    elif name == "dark":
        values = (extra % 60 == 0) + (extra % 900 == 0) * 2
    elif name == "raw_and_empty":
        values[..., :8, :8] = extra[..., :8, :8] & 0xFFFF  # does not compress
        values[..., 8:, 16:] = 0  # dead
        values[..., 3, 18] = 65535  # constant in the sample, but not everywhere
        values[4, 7, 3, 18] = 1
    return values


def make(name: str) -> None:
    """Encode one case into this folder."""
    from napari_4dstem.codec.encode import ScanEncoder, plan_coding
    from napari_4dstem.container import ContainerHeader, SourceIdentity, write
    from napari_4dstem.ledger import HostAllocator, Ledger

    data, recorded = truth(name)
    patterns = data.reshape(-1, *data.shape[2:])
    places = np.flatnonzero(recorded)
    sample = patterns[places if name != "raw_and_empty" else places[:20]]
    mask = (sample == 65535).all(axis=0) if data.dtype == np.uint16 else None
    nodata = 65535 if name == "u16" else None
    plan = plan_coding(sample, recorded, nodata=nodata, masked=mask)
    encoder = ScanEncoder(plan, HostAllocator(Ledger(), name))
    for block in range(plan.layout.n_blocks):
        encoder.encode_block(block, patterns[plan.layout.block_positions(block)])
    scan = encoder.finish()
    header = ContainerHeader.of(
        scan,
        mask=mask,
        source=SourceIdentity(name=f"{name}.npy", size=data.nbytes),
        overload="the largest value of the data type" if nodata else "",
        writer="golden file",
    )
    write(FOLDER / f"{name}.ans4d", scan, header)


def main() -> None:
    """Make all files, and the checksums of their true values."""
    for name in CASES:
        make(name)
    sums = {name: zlib.crc32(truth(name)[0].tobytes()) for name in CASES}
    (FOLDER / "truth.json").write_text(json.dumps(sums, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The Arina-type files with known answers, and how each is opened."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EIGER = "dectris_testfiles/eiger2_simread7_2datafiles_4images"


@dataclass(frozen=True)
class Case:
    """One file of the manifest.

    Parameters
    ----------
    file
        Name in the folder of shared data.
    scan_shape
        That it is opened with.
    options
        Further options, as of `napari_4dstem.open`.
    part
        Name of the part of the manifest's answer that holds for the recorded patterns.
    """

    file: str
    scan_shape: tuple[int, int]
    options: dict[str, Any] = field(default_factory=dict)
    part: str | None = None

    def __str__(self) -> str:
        return Path(self.file).stem

    @property
    def flags(self) -> list[str]:
        """The options as the command line takes them."""
        flags = []
        if "scan_shape" in self.options:
            flags += ["--scan-shape", "{}x{}".format(*self.options["scan_shape"])]
        return flags + ["--partial"] * ("partial" in self.options)

    def answer(self, shared_data: Path) -> dict[str, Any]:
        manifest = json.loads((shared_data / "manifest.json").read_text())
        (entry,) = [e for e in manifest["files"] if e["file"] == self.file]
        expected: dict[str, Any] = entry["expected"]
        return expected if self.part is None else expected[self.part]


CASES = (
    Case("sim_sto/sim_sto_master.h5", (32, 32)),
    Case("sim_variants/var_8x12_roi64x96_u8_master.h5", (8, 12)),
    Case("sim_variants/var_master_only_master.h5", (8, 8)),
    Case("sim_variants/var_truncated_master.h5", (8, 8), {"partial": True}),
    Case("arina_real/test_00_master.h5", (4, 4)),
    *(
        Case(f"{_EIGER}_{kind}_data_00000{i}.h5", (1, 2), {"scan_shape": (1, 2)})
        for kind in ("bslz4", "bslz4_uint8", "lz4")
        for i in (1, 2)
    ),
    Case(
        "dectris_testfiles/large_001/test_master.h5",
        (50, 100),
        {"partial": True, "scan_shape": (50, 100)},
        "data_000001",
    ),
)


def check_patterns(patterns: NDArray[Any], case: Case, answer: dict[str, Any]) -> None:
    """Compare the recorded patterns (n, H, W), in the order of the frames, with the manifest."""
    if case.part is not None:
        # Two data files of equal contents are there; the answer is that of one.
        first, second = np.split(patterns, 2)
        assert np.array_equal(first, second)
        patterns = first
    stored = answer.get("stored_shape", answer["shape"])
    assert patterns.shape == (int(np.prod(stored[:-2])), *stored[-2:])
    assert patterns.dtype == np.dtype(answer["dtype"])
    assert int(patterns.sum(dtype=np.int64)) == answer["int64_sum"]
    assert (int(patterns.min()), int(patterns.max())) == (answer["min"], answer["max"])
    assert int((patterns == np.iinfo(patterns.dtype).max).sum()) == answer["count_dtype_max"]
    digest = hashlib.sha256(patterns.tobytes()).hexdigest()
    assert digest == answer["sha256_of_C_order_little_endian_bytes"]
    for place, value in answer.get("pixels", []):
        *frame, row, column = place
        number = frame[0] if len(frame) == 1 else frame[0] * case.scan_shape[1] + frame[1]
        assert patterns[number, row, column] == value
    sums = patterns[: len(answer["first_frame_sums"])].sum(axis=(1, 2), dtype=np.int64)
    assert sums.tolist() == answer["first_frame_sums"]

"""Make the sample acquisition of the package from our own simulated SrTiO3 scan.

The scan was simulated, so its true calibration is known. The nominal camera length in its sidecar
is 38 % off, as such values often are; the sample carries the true steps instead.

    python scripts/make_sample.py ../shared/data/sim_sto/sim_sto_master.h5

The same source always gives the same bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import napari_4dstem as n4
from napari_4dstem.calibration import Calibration, Quantity
from napari_4dstem.container import open_container, write

TARGET = Path(__file__).parents[1] / "src" / "napari_4dstem" / "data" / "sim_sto.ans4d"

TRUE = Calibration(
    beam_energy=Quantity(300.0, "keV", "measured"),
    scan_step=(Quantity(0.02440625, "nm", "measured"),) * 2,
    camera_step=(Quantity(1.2604, "mrad", "measured"),) * 2,
    convergence_angle=Quantity(22.0, "mrad", "measured"),
)


def make_sample(source: Path, target: Path) -> None:
    """Encode `source` into `target`, with the true calibration."""
    with tempfile.TemporaryDirectory() as folder:
        encoded = Path(folder) / "scan.ans4d"
        with n4.load(source) as acquisition:
            acquisition.calibration = TRUE
            acquisition.save(encoded)
        opened = open_container(encoded)
        # The version of the day would make every sample another file.
        header = opened.header.model_copy(update={"writer": "napari-4dstem"})
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, opened.scan, header)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="sim_sto_master.h5")
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    options = parser.parse_args()
    make_sample(options.source, options.output)
    print(f"Wrote {options.output}, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()

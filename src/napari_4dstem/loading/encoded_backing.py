"""The backing of an encoded scan, by the device that decodes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from napari_4dstem.codec.encoded_scan import EncodedScan
from napari_4dstem.codec.protocol import BlockDecoder
from napari_4dstem.errors import DeviceError, MemoryRefused, UsageError
from napari_4dstem.imaging.blocks import CodedBlocks
from napari_4dstem.loading.backing import Backing, Place
from napari_4dstem.residency.sizes import format_bytes
from napari_4dstem.torch_import import require_torch

MakeEncoded = Callable[[EncodedScan, Place, str], Backing]
"""Makes a backing from a scan, the place where its bytes lie, and its owner in the ledger."""


def backing_maker(device: str) -> MakeEncoded:
    """Return what makes the backing of an encoded scan for a device of `resolve_device`."""
    return on_host if device == "cpu" else partial(on_device, device=device)


def on_host(scan: EncodedScan, place: Place, owner: str = "") -> Backing:
    """Return the backing of a scan that is decoded where it lies, by the CPU."""

    def make(*, count_nodata: bool) -> BlockDecoder:
        # Imported here: opening a file must not wait for the compiler to load.
        from napari_4dstem.codec.decode_cpu import CpuDecoder

        return CpuDecoder(scan, count_nodata=count_nodata)

    return Backing(
        "encoded",
        place,
        CodedBlocks(scan, partial(make, count_nodata=False)),
        CodedBlocks(scan, partial(make, count_nodata=True), raw_values=True),
        scan=scan,
    )


def on_device(scan: EncodedScan, place: Place, owner: str, *, device: str) -> Backing:
    """Copy a scan to a torch device and return its backing; closing that frees the copy.

    The bytes at `place` are kept: saving needs them.

    Raises
    ------
    MemoryRefused
        If they do not fit on the device.
    """
    from napari_4dstem.codec.oracle import TorchOracle

    torch = require_torch()
    try:
        decoder = TorchOracle(scan, device, owner=owner)
    except torch.OutOfMemoryError as error:
        error.__traceback__ = None  # it holds what was copied so far
        raise MemoryRefused(
            f"The encoded scan does not fit in the memory of {device}",
            found=f"{format_bytes(scan.nbytes)} needed",
            action="Unload another scan, or open it with device='cpu'",
        ) from None
    raw_values = decoder.counting_nodata()
    return Backing(
        "encoded",
        "GPU",
        CodedBlocks(scan, lambda: decoder),
        CodedBlocks(scan, lambda: raw_values, raw_values=True),
        scan=scan,
        on_device=decoder,
    )


def resolve_device(name: str) -> str:
    """Return the device that a user's choice means: ``cpu``, ``cuda:N`` or ``mps``.

    Parameters
    ----------
    name
        ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``. "auto" is the CPU as long as there are
        no fast decoders for other devices.

    Raises
    ------
    UsageError
        For any other name.
    MissingDependencyError
        If the device needs torch, and there is none.
    DeviceError
        If the device is not there.
    """
    if name in ("auto", "cpu"):
        return "cpu"
    kind, _, number = name.partition(":")
    if kind not in ("cuda", "mps") or (number and not (kind == "cuda" and number.isdecimal())):
        raise UsageError(
            "Unknown device", expected="auto, cpu, cuda, cuda:0, cuda:1 ... or mps", found=name
        )
    torch = require_torch()
    action = "Choose device='cpu', or install the torch build for it"
    if kind == "mps":
        if not torch.backends.mps.is_available():
            raise DeviceError("There is no Apple GPU that torch can use", action=action)
        return "mps"
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found <= int(number or 0):
        raise DeviceError(
            f"There is no GPU {name!r} that torch can use",
            found=f"{found} NVIDIA GPUs, torch {torch.__version__}",
            action=action,
        )
    return f"cuda:{number or torch.cuda.current_device()}"

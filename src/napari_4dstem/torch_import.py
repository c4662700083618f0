"""The one place that imports torch: only when a tensor or a torch device is asked for."""

from __future__ import annotations

from types import ModuleType

from napari_4dstem.errors import MissingDependencyError


def require_torch() -> ModuleType:
    """Import and return torch.

    Raises
    ------
    MissingDependencyError
        With how to install it.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "This needs PyTorch, which is not installed",
            found=str(error),
            action="Install it with: pip install torch",
        ) from error
    return torch

"""The shape of the source: who may import whom, what an import drags in, how long things get."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "napari_4dstem"
MODULES = sorted(p for p in SOURCE.rglob("*.py") if p.name != "_version.py")

LONGEST_MODULE = 400
LONGEST_FUNCTION = 60  # the aim is 40: a kernel or a widget's layout may need a little more

# What `import napari_4dstem` must not need, and must not load where it is there.
HEAVY = (
    "PyQt6",
    "PySide6",
    "hdf5plugin",
    "magicgui",
    "napari",
    "npe2",
    "pyqtgraph",
    "qtpy",
    "scipy",
    "superqt",
    "torch",
    "vispy",
)

_BLOCKER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " is blocked by the test")

sys.meta_path.insert(0, Blocked())
"""


def run_without(blocked: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new process in which the top-level packages `blocked` cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", _BLOCKER.format(blocked=set(blocked)) + code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_module_imports_only_what_lies_below_it() -> None:
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_blocker_blocks() -> None:
    result = run_without(("torch",), "import torch")
    assert result.returncode != 0
    assert "torch is blocked" in result.stderr


def test_every_library_module_imports_without_napari_qt_torch_and_hdf5plugin() -> None:
    names = [
        ".".join(p.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for p in MODULES
        if "plugin" not in p.relative_to(SOURCE).parts
    ]
    assert "napari_4dstem.errors" in names
    result = run_without(
        HEAVY, f"import importlib\nfor name in {names!r}:\n    importlib.import_module(name)"
    )
    assert result.returncode == 0, result.stderr


def test_the_reader_imports_without_torch_numba_and_qt() -> None:
    blocked = ("torch", "numba", "qtpy", "PyQt6", "PySide6", "pyqtgraph", "superqt", "vispy")
    result = run_without(blocked, "import napari_4dstem.plugin.reader")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    assert lines <= LONGEST_MODULE
    long = {name: n for name, n in _function_lengths(ast.parse(text)) if n > LONGEST_FUNCTION}
    assert not long


def _function_lengths(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the name of each function and its lines, its docstring left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                doc = node.body[0]
                assert doc.end_lineno is not None
                length -= doc.end_lineno - doc.lineno + 1
            yield node.name, length

"""Every public name is there, documented, and its examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import napari_4dstem as n4

# Everything below the screens; the plugin's examples need a viewer.
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(n4.__path__, "napari_4dstem.")
    if not name.startswith("napari_4dstem.plugin")
)


def test_names_are_there_and_listed() -> None:
    assert len(set(n4.__all__)) == len(n4.__all__)
    assert set(n4.__all__) <= set(dir(n4))
    for name in n4.__all__:
        assert getattr(n4, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        n4.nonsense  # noqa: B018 - looking it up is the test


@pytest.mark.parametrize("name", sorted(set(n4.__all__) - {"__version__", "errors", "plugin"}))
def test_names_are_documented(name: str) -> None:
    thing = getattr(n4, name)
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        public = [
            member
            for member, value in vars(thing).items()
            if not member.startswith("_") and (callable(value) or isinstance(value, property))
        ]
        assert all(inspect.getdoc(getattr(thing, member)) for member in public)


def test_the_examples_are_found() -> None:
    finder = doctest.DocTestFinder()
    examples = [t for t in finder.find(n4.Acquisition, "Acquisition") if t.examples]
    assert examples
    assert len(MODULES) > 40


@pytest.mark.parametrize("name", ["napari_4dstem", *MODULES])
def test_examples(name: str) -> None:
    module: ModuleType = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0

"""mkdocs hook: one page of API reference for every public module, so that none is forgotten."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

SOURCE = Path(__file__).resolve().parents[2] / "src"
PACKAGE = SOURCE / "napari_4dstem"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    assert config.nav is not None
    config.nav.append({"API": [{name: f"api/{name}.md"} for name in _modules()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in _modules():
        text = f"# `{name}`\n\n::: {name}\n    options:\n      show_root_heading: false\n"
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def _modules() -> list[str]:
    """Return the dotted names of the public modules that hold anything."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(SOURCE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if path.stat().st_size and not any(part.startswith("_") for part in parts):
            names.append(".".join(parts))
    return names

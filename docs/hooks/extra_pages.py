"""mkdocs hook: pages that are made from other files of the repository.

One page of API reference for every public module, so that none is forgotten, and the repository's
own CONTRIBUTING and CHANGELOG.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src"
COPIED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    assert config.nav is not None
    config.nav.append({"API": [{name: f"api/{name}.md"} for name in _modules()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, original in COPIED.items():
        # Links in these files count from the top of the repository.
        text = (REPOSITORY / original).read_text().replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for name in _modules():
        text = f"# `{name}`\n\n::: {name}\n    options:\n      show_root_heading: false\n"
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def _modules() -> list[str]:
    """Return the dotted names of the public modules that hold anything."""
    names = []
    for path in sorted((SOURCE / "napari_4dstem").rglob("*.py")):
        parts = list(path.relative_to(SOURCE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if path.stat().st_size and not any(part.startswith("_") for part in parts):
            names.append(".".join(parts))
    return names

"""What a user gets: the wheel and sdist, their metadata, and the manifest as installed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "napari_4dstem"


def run(command: Sequence[str | Path], folder: Path) -> str:
    result = subprocess.run(
        [str(c) for c in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_imported_package_is_a_dependency() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    declared = {re.split(r"[^\w.-]", w)[0].lower().replace("_", "-") for w in wanted}
    providers = metadata.packages_distributions()

    for path in SOURCE.rglob("*.py"):
        for name in _imported_packages(path):
            if name in sys.stdlib_module_names or name == "napari_4dstem":
                continue
            names = {p.lower().replace("_", "-") for p in providers.get(name, [name])}
            if name == "pynvml":
                names.add("nvidia-ml-py")
            assert names & declared, f"{path.name} imports {name}, which nothing declares"


def _imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_the_manifest_at_the_top_is_the_packaged_one() -> None:
    top = REPOSITORY / "napari.yaml"
    assert top.is_symlink()
    assert top.resolve() == SOURCE / "napari.yaml"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the wheel (built from the sdist) and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, REPOSITORY]
    run(command, folder)
    return folder


@pytest.fixture(scope="module")
def clean_python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that holds the built wheel, and our dependencies but not us.

    The dependencies are links into the environment of the tests, so that nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "napari_4dstem" not in entry.name and entry.suffix != ".pth":
            (dependencies / entry.name).symlink_to(entry)
    purelib = run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], folder
    )
    (Path(purelib.strip()) / "dependencies.pth").write_text(f"{dependencies}\n")
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    run([*pip, "--no-index", wheel], folder)
    return python


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_data(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (meta,) = (n for n in names if n.endswith(".dist-info/METADATA"))
        header = archive.read(meta).decode()
    in_source = {
        f"napari_4dstem/{p.relative_to(SOURCE)}"
        for p in SOURCE.rglob("*")
        if p.suffix in (".py", ".ans4d", ".yaml", ".typed")
    }
    assert in_source <= names
    assert {n.partition("/")[0].partition("-")[0] for n in names} == {"napari_4dstem"}
    assert "License-Expression: BSD-3-Clause" in header
    assert "Classifier: Framework :: napari" in header
    assert any(n.endswith("licenses/LICENSE") for n in names)


@pytest.mark.slow
def test_the_sdist_holds_what_a_packager_needs(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "src/napari_4dstem/napari.yaml"} <= names


@pytest.mark.slow
def test_the_installed_manifest_is_valid_and_every_command_can_be_imported(
    clean_python: Path,
) -> None:
    where = run(
        [clean_python, "-c", "import napari_4dstem.errors as e; print(e.__file__)"],
        clean_python.parent,
    )
    assert Path(where.strip()).is_relative_to(clean_python.parents[1])
    command = [clean_python, "-m", "npe2", "validate", "--imports", "napari-4dstem"]
    assert "valid" in run(command, clean_python.parent)


@pytest.mark.slow
def test_the_console_script_starts(clean_python: Path) -> None:
    assert "Usage" in run([clean_python.with_name("napari-4dstem"), "--help"], clean_python.parent)

"""Replacing files as a whole, network mounts, marks of use."""

import os
import stat
from pathlib import Path

import pytest

from napari_4dstem.container.files import (
    is_in_use,
    is_on_network,
    lock_shared,
    mount_type,
    replacing,
    write_all,
)
from napari_4dstem.errors import SaveError

MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
server:/data /data nfs4 rw,hard 0 0
/dev/sdb1 /data/local ext4 rw 0 0
//server/share /mnt/my\040share cifs rw 0 0
me@host: /home/me/remote fuse.sshfs rw 0 0
/dev/sdc1 /media/stick fuseblk rw 0 0
portal /run/doc fuse.portal rw 0 0
bad line
server:/old /over nfs rw 0 0
/dev/sdd1 /over xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/scan.ans4d", "ext4", False),
        ("/tmp/scan.ans4d", "tmpfs", False),
        ("/data/scan.ans4d", "nfs4", True),
        ("/database/scan.ans4d", "ext4", False),
        ("/data/local/a/scan.ans4d", "ext4", False),
        ("/mnt/my share/scan.ans4d", "cifs", True),
        ("/home/me/remote/scan.ans4d", "fuse.sshfs", True),
        ("/media/stick/scan.ans4d", "fuseblk", False),
        ("/run/doc/scan.ans4d", "fuse.portal", False),
        ("/over/scan.ans4d", "xfs", False),
    ],
)
def test_mounts(path, kind, network):
    assert mount_type(Path(path), MOUNTS) == kind
    assert is_on_network(Path(path), MOUNTS) is network


def test_a_link_counts_as_what_it_points_to(tmp_path):
    (tmp_path / "link").symlink_to("/data/scan.ans4d")
    assert is_on_network(tmp_path / "link", MOUNTS)


def test_the_tests_own_folder_is_local(tmp_path):
    assert not is_on_network(tmp_path / "file")


def test_replaces_a_file_and_keeps_its_permissions(tmp_path):
    target = tmp_path / "file"
    target.write_bytes(b"old")
    target.chmod(0o640)
    with replacing(target, 3) as file:
        write_all(file, 0, b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert listing(tmp_path) == ["file"]


def test_follows_a_link(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with replacing(tmp_path / "link", 3) as file:
        write_all(file, 0, b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def listing(folder):
    return [entry.name for entry in folder.iterdir()]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SaveError("full")])
def test_leaves_all_as_it_was_on_any_error(tmp_path, error):
    target = tmp_path / "file"
    target.write_bytes(b"old")
    kind = error if isinstance(error, type) else type(error)

    def write_and_fail():
        with replacing(target, 3) as file:
            write_all(file, 0, b"new")
            raise error

    with pytest.raises(kind):
        write_and_fail()
    assert target.read_bytes() == b"old"
    assert listing(tmp_path) == ["file"]


def test_checks_the_free_space_first(tmp_path):
    with (
        pytest.raises(SaveError, match=r"not enough room.*Free some space"),
        replacing(tmp_path / "file", 1 << 60),
    ):
        pytest.fail("it must not get this far")
    assert listing(tmp_path) == []


def test_names_what_is_wrong_with_the_place(tmp_path):
    with (
        pytest.raises(SaveError, match="Create the folder first"),
        replacing(tmp_path / "no" / "file", 1),
    ):
        pytest.fail("it must not get this far")
    with pytest.raises(SaveError, match="This is a folder"), replacing(tmp_path, 1):
        pytest.fail("it must not get this far")


def test_mark_of_use_lives_as_long_as_a_duplicate_of_the_file(tmp_path):
    path = tmp_path / "file"
    assert not is_in_use(path)
    path.write_bytes(b"x")
    assert not is_in_use(path)
    with path.open("rb") as file:
        lock_shared(file)
        copy = os.dup(file.fileno())
    assert is_in_use(path)
    os.close(copy)
    assert not is_in_use(path)

"""Archives unpack into their folder, whatever is in them."""

import errno
import io
import os
import tarfile
import zipfile

import pytest

from espnet_srupp.recipe.archive import unpack
from espnet_srupp.recipe.errors import RecipeError


def tar(path, *members, mode="w:gz"):
    """A tar archive of (name, type, link target or content)."""
    with tarfile.open(path, mode) as file:
        for name, kind, value in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(value)
                file.addfile(info, io.BytesIO(value))
            else:
                info.linkname = value
                file.addfile(info)
    return path


REGULAR, LINK = tarfile.REGTYPE, tarfile.SYMTYPE


def too_long():
    """tarfile's filter does not see where "evil" leads before Python 3.12.11."""
    folder, members, real, short = "d" * 247, [], "", ""
    for name in "abcdefghijklmnop":
        real, short = f"{real}{folder}/", f"{short}{name}/"
        up = real.removesuffix(f"{folder}/")
        members += [(real, tarfile.DIRTYPE, ""), (f"{up}{name}", LINK, folder)]
    end = f"{short}{'l' * 254}"
    members += [(end, LINK, "../" * 16), ("above", LINK, f"{end}/..")]
    evil = ("evil", tarfile.LNKTYPE, "above/secret"), ("evil", REGULAR, b"x")
    return [*members, *evil]


HOSTILE = {
    "absolute": [("{outside}/evil", REGULAR, b"x")],
    "dots": [("a/../../evil", REGULAR, b"x")],
    "link to outside": [("a", LINK, "../.."), ("a/evil", REGULAR, b"x")],
    "absolute link": [("a", LINK, "{outside}"), ("a/evil", REGULAR, b"x")],
    "hard link": [("a", tarfile.LNKTYPE, "../secret")],
    "through a link": [("a", LINK, "b"), ("a/evil", REGULAR, b"x")],
    "linked to through a link": [("a", LINK, "b"), ("c", LINK, "a/../../evil")],
    "a link in the place of a folder": [("a/b", REGULAR, b"x"), ("a", LINK, "b")],
    "a path that links make too long": too_long(),
    "device": [("a", tarfile.CHRTYPE, "")],
    "pipe": [("a", tarfile.FIFOTYPE, "")],
}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_unpacks_a_tar(tmp_path, mode):
    members = [
        ("a/b.txt", REGULAR, b"content"),
        ("a/c.txt", LINK, "b.txt"),
        ("d/e/f.txt", LINK, "../../a/c.txt"),
        ("d/g.txt", tarfile.LNKTYPE, "a/b.txt"),
    ]
    unpack(tar(tmp_path / "x.tar", *members, mode=mode), tmp_path / "out")
    for name in ("a/c.txt", "d/e/f.txt", "d/g.txt"):
        assert (tmp_path / "out" / name).read_bytes() == b"content"


def test_unpacks_a_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("a/b.txt", "content")
    unpack(tmp_path / "x.zip", tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"content"


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_nothing_of_a_tar_lands_outside(tmp_path, members):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    out = outside / "out"
    out.mkdir()
    hostile = [
        (name.format(outside=outside), kind, value)
        if kind == REGULAR
        else (name, kind, value.format(outside=outside))
        for name, kind, value in members
    ]
    with pytest.raises(RecipeError, match="x.tar is not safe to unpack"):
        unpack(tar(tmp_path / "x.tar", *hostile), out)
    assert sorted(os.listdir(outside)) == ["out", "secret"]
    assert (outside / "secret").read_bytes() == b""
    assert not (out / "a/evil").exists()


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil-of-a-test"])
def test_nothing_of_a_zip_lands_outside(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr(name, "x")
    with pytest.raises(RecipeError, match="x.zip is not safe to unpack"):
        unpack(tmp_path / "x.zip", tmp_path / "out")
    assert os.listdir(tmp_path) == ["x.zip"]


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("fault", ["truncated", "corrupt", "no archive"])
def test_a_bad_tar_is_named(tmp_path, mode, fault):
    content = os.urandom(100_000)
    path = tar(tmp_path / "x.tar", ("a", REGULAR, content), mode=mode)
    data = bytearray(path.read_bytes())
    if fault == "truncated":
        del data[len(data) // 2 :]
    elif fault == "corrupt":
        data[len(data) // 2 : len(data) // 2 + 2000] = bytes(2000)
    else:
        data = b"not an archive"
    path.write_bytes(data)
    with pytest.raises(RecipeError, match="x.tar is corrupt or truncated") as error:
        unpack(path, tmp_path / "out")
    assert "\n" not in str(error.value)


def test_a_tar_whose_last_member_is_a_zip_is_a_tar(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("inner", "x")
    members = [("a", REGULAR, b"content"), ("b.zip", REGULAR, content.getvalue())]
    unpack(tar(tmp_path / "x.tar", *members, mode="w"), tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["a", "b.zip"]


def test_a_link_to_what_an_archive_does_not_hold_is_named(tmp_path):
    path = tar(tmp_path / "x.tar", ("a", tarfile.LNKTYPE, "missing"))
    with pytest.raises(RecipeError, match="x.tar is corrupt or truncated .*missing"):
        unpack(path, tmp_path / "out")


def test_a_corrupt_zip_is_named(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", "content " * 1000)
    path.write_bytes(path.read_bytes().replace(b"content", b"CONTENT", 1))
    with pytest.raises(RecipeError, match="x.zip is corrupt or truncated"):
        unpack(path, tmp_path / "out")


def test_a_missing_archive_is_named(tmp_path):
    with pytest.raises(RecipeError, match="x.tar is missing"):
        unpack(tmp_path / "x.tar", tmp_path / "out")


@pytest.mark.parametrize("name, value", [("mtime", "1e30"), ("path", "a\0b")])
def test_a_time_or_a_name_that_no_file_can_have_is_named(tmp_path, name, value):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as file:
        info = tarfile.TarInfo("a")
        info.pax_headers = {name: value}
        file.addfile(info)
    with pytest.raises(RecipeError, match="x.tar is corrupt or truncated"):
        unpack(path, tmp_path / "out")


def refuse(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_makes_no_archive_corrupt(tmp_path, monkeypatch):
    path = tar(tmp_path / "x.tar", ("a", REGULAR, b"content"))
    monkeypatch.setattr(tarfile.TarFile, "extract", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        unpack(path, tmp_path / "out")


def test_a_python_that_cannot_unpack_safely_is_told(tmp_path, monkeypatch):
    path = tar(tmp_path / "x.tar", ("a", REGULAR, b"content"))
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(RecipeError, match="cannot unpack safely: use 3.10.12"):
        unpack(path, tmp_path / "out")

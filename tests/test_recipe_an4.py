"""AN4 is prepared as by ESPnet's recipe, and only from an archive that holds it."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from espnet_srupp.recipe import datadir, sound
from espnet_srupp.recipe.corpora import an4
from espnet_srupp.recipe.errors import RecipeError

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT.parent / "shared" / "data" / "an4.tar.gz"
CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
needs_archive = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is absent")

# the real one


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("an4")
    an4.prepare(folder / "data", folder / "downloads", ARCHIVE)
    return folder


@needs_archive
@pytest.mark.parametrize(
    "name, utterances, speakers, words",
    [
        ("train_nodev", 848, 66, 4851),
        ("train_dev", 100, 8, 591),
        ("test", 130, 10, 773),
    ],
)
def test_sets_have_the_size_of_espnet_s(prepared, name, utterances, speakers, words):
    data = datadir.read(prepared / "data" / name)
    assert len(data.text) == utterances
    assert len(set(data.utt2spk.values())) == speakers
    assert sum(len(line.split()) for line in data.text.values()) == words


@needs_archive
def test_transcripts_are_words_and_nothing_else(prepared):
    for name in ("train_nodev", "train_dev", "test"):
        text = datadir.read(prepared / "data" / name).text
        letters = {letter for line in text.values() for letter in line}
        assert letters <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ '")


@needs_archive
def test_ids_put_the_speaker_first_and_the_first_hundred_are_train_dev(prepared):
    dev = datadir.read(prepared / "data" / "train_dev")
    rest = datadir.read(prepared / "data" / "train_nodev")
    assert dev.text["fash-an251-b"] == "YES"
    assert dev.utt2spk["fash-an251-b"] == "fash"
    assert dev.wav["fash-an251-b"].endswith("/wav/an4_clstk/fash/an251-fash-b.wav")
    assert max(dev.text) < min(rest.text)


@needs_archive
def test_the_audio_is_there(prepared):
    data = datadir.read(prepared / "data" / "test")
    samples, rate = sound.load(data.wav["fcaw-an406-b"], "fcaw-an406-b")
    assert rate == 16000 and len(samples) > 16000


# a small one of the same layout

FILES = {
    "etc/an4_train.fileids": "an4_clstk/bb/an1-bb-b\nan4_clstk/aa/an2-aa-b\n",
    "etc/an4_train.transcription": "<s> YES </s> (an1-bb-b)\n<s> A B </s> (an2-aa-b)\n",
    "etc/an4_test.fileids": "an4test_clstk/cc/cen1-cc-b\n",
    "etc/an4_test.transcription": "ERASE C (cen1-cc-b)\n",
    "wav/an4_clstk/bb/an1-bb-b.wav": "1",
    "wav/an4_clstk/aa/an2-aa-b.wav": "2",
    "wav/an4test_clstk/cc/cen1-cc-b.wav": "3",
}


def pack(path, files, top="an4"):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return path


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Makes AN4 two training and one test utterance, and this the directory."""
    for name, content in FILES.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(content)
    monkeypatch.setattr(an4, "SHA256", an4.content_sha256(tmp_path / "root"))
    monkeypatch.setattr(an4, "TRAIN_DEV", 1)
    monkeypatch.setattr(
        an4, "PARTS", {"train": ("an4_clstk", 2), "test": ("an4test_clstk", 1)}
    )
    monkeypatch.chdir(tmp_path)


def prepare(archive):
    an4.prepare(Path("data"), Path("downloads"), archive)


@pytest.mark.parametrize("top", ["an4", f"an4-{an4.COMMIT}"])
def test_any_top_folder_and_further_files_are_taken(small, top):
    prepare(pack(Path("x.tgz"), {**FILES, "etc/an4_test.transcription2": "A"}, top))
    assert datadir.read(Path("data/train_dev")).text == {"aa-an2-b": "A B"}
    assert datadir.read(Path("data/train_nodev")).text == {"bb-an1-b": "YES"}
    test = datadir.read(Path("data/test"))
    assert test.text == {"cc-cen1-b": "ERASE C"}
    path = f"downloads/an4/{top}/wav/an4test_clstk/cc/cen1-cc-b.wav"
    assert test.wav == {"cc-cen1-b": path}


def test_what_is_unpacked_is_not_unpacked_again(small):
    prepare(pack(Path("x.tgz"), FILES))
    before = os.stat("downloads/an4").st_ino
    prepare(None)
    assert os.stat("downloads/an4").st_ino == before


def test_an_archive_that_is_named_is_read_though_an4_is_there(small):
    prepare(pack(Path("x.tgz"), FILES))
    with pytest.raises(RecipeError, match=r"x.tgz holds other audio"):
        prepare(pack(Path("x.tgz"), FILES | {"wav/an4_clstk/aa/an2-aa-b.wav": "0"}))
    prepare(None)


def test_a_file_that_was_lost_since_is_named_with_what_to_remove(small):
    prepare(pack(Path("x.tgz"), FILES))
    (lost,) = Path("downloads").rglob("cen1-cc-b.wav")
    lost.unlink()
    with pytest.raises(RecipeError, match="downloads/an4 lacks wav/.*: remove it and"):
        prepare(None)


OTHER = {
    "another word": (
        {"etc/an4_test.transcription": "ERASE D (cen1-cc-b)\n"},
        "holds oth",
    ),
    "another sample": ({"wav/an4_clstk/aa/an2-aa-b.wav": "0"}, "holds other audio"),
    "a file less": (
        {"wav/an4_clstk/aa/an2-aa-b.wav": None},
        "lacks wav/.*/an2-aa-b.wav",
    ),
    "no lists": ({"etc/an4_train.fileids": None}, "does not hold AN4.*--archive"),
}


@pytest.mark.parametrize("change, message", OTHER.values(), ids=OTHER)
def test_another_content_is_refused_and_leaves_nothing(small, change, message):
    files = {n: c for n, c in {**FILES, **change}.items() if c is not None}
    with pytest.raises(RecipeError, match=f"x.tgz {message}"):
        prepare(pack(Path("x.tgz"), files))
    assert os.listdir("downloads") == []
    assert not Path("data").exists()


def test_a_missing_archive_is_named(small):
    with pytest.raises(RecipeError, match="x.tgz is missing"):
        prepare(Path("x.tgz"))


def test_without_an_archive_it_is_fetched_from_its_origin(small, monkeypatch):
    def fetch(url, target):
        assert url == (
            "https://codeload.github.com/cmusphinx/an4/tar.gz/"
            "b567d132f43304e70a2b2eca6077f22255311812"
        )
        target.parent.mkdir()
        pack(target, FILES)

    monkeypatch.setattr(an4, "download", fetch)
    prepare(None)
    assert Path("downloads/an4-b567d13.tar.gz").exists()
    assert len(datadir.read(Path("data/test")).text) == 1


# run.sh


@pytest.mark.parametrize("given, kept", [({}, "200000"), ({CAPACITY: "7"}, "7")])
def test_kernels_of_all_batches_are_kept_unless_told_otherwise(tmp_path, given, kept):
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\necho "${CAPACITY}"\n')
    python.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    surroundings = {"PATH": path, "VIRTUAL_ENV": str(tmp_path), **given}
    script = ROOT / "recipes" / "an4" / "asr1" / "run.sh"
    told = subprocess.check_output([script], env=surroundings, text=True)
    assert told.strip() == kept

"""AISHELL-1 is prepared without spaces, and taken for whole only when it is."""

import tarfile
from pathlib import Path

import pytest

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.corpora import aishell, manifests
from espnet_srupp.recipe.errors import RecipeError

ARCHIVE = Path(__file__).parents[2] / "shared" / "data" / "aishell1_excerpt.tar.gz"
pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is absent")
SIZES = {"train": 3, "dev": 1, "test": 2}


@pytest.fixture
def excerpt(tmp_path, monkeypatch):
    with tarfile.open(ARCHIVE) as file:
        file.extractall(tmp_path / "disk", filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "disk" / "data_aishell"


def prepare(folder, partial):
    aishell.prepare(Path("data"), Path("downloads"), folder, partial)


@pytest.mark.parametrize("given", [".", ".."])
def test_sets_are_the_parts(excerpt, given):
    prepare(Path(excerpt, given).resolve(), True)
    sets = {name: datadir.read(Path("data", name)) for name in SIZES}
    assert {name: len(made.text) for name, made in sets.items()} == SIZES
    utterance = "BAC009S0764W0121"
    assert sets["test"].text[utterance] == "甚至出现交易几乎停滞的情况"
    assert sets["test"].utt2spk[utterance] == "S0764"
    path = excerpt / "wav/test/S0764" / f"{utterance}.wav"
    assert sets["test"].wav[utterance] == str(path)


def test_the_whole_is_as_many_utterances_as_the_corpus_has():
    assert sum(aishell.SIZES.values()) == 141_600


def test_an_excerpt_is_not_the_whole(excerpt, capsys):
    with pytest.raises(RecipeError, match="3 of 120098 of train, 1 of 14326 of dev"):
        prepare(excerpt, False)
    assert not Path("data").exists()
    prepare(excerpt, True)
    assert "NOT THE WHOLE CORPUS" in capsys.readouterr().out


def test_audio_without_a_transcript_is_left_out_and_told(excerpt, capsys):
    known = excerpt / "wav/train/S0002/BAC009S0002W0122.wav"
    (known.parent / "BAC009S0002W0999.wav").write_bytes(known.read_bytes())
    prepare(excerpt, True)
    assert len(datadir.read(Path("data/train")).text) == 3
    assert "No transcript: BAC009S0002W0999" in capsys.readouterr().out


def test_a_missing_part_is_named(excerpt):
    (excerpt / "wav/dev").rename(excerpt / "wav/x")
    with pytest.raises(RecipeError, match="data_aishell lacks wav/dev: .*some of each"):
        prepare(excerpt, True)


def test_archives_of_speakers_that_are_not_unpacked_are_told(excerpt):
    unpacked, packed = (excerpt / f"wav/{s}.tar.gz" for s in ("S0002", "S0003"))
    unpacked.touch()
    prepare(excerpt, True)
    packed.touch()
    with pytest.raises(RecipeError, match="1 archives .* as S0003.tar.gz, are not unp"):
        prepare(excerpt, True)


def test_a_folder_of_another_name_is_named(excerpt):
    other = excerpt.rename(excerpt.parent / "other")
    with pytest.raises(RecipeError, match="other must be called data_aishell"):
        prepare(other, True)


def test_a_missing_transcript_is_named(excerpt):
    (excerpt / "transcript/aishell_transcript_v0.8.txt").unlink()
    with pytest.raises(RecipeError, match="aishell_transcript_v0.8.txt"):
        prepare(excerpt, True)


def test_without_a_folder_it_is_fetched(excerpt, monkeypatch):
    def hand_out(url, target, sha256):
        assert url == "https://www.openslr.org/resources/33/data_aishell.tgz"
        target.write_bytes(ARCHIVE.read_bytes())

    monkeypatch.setattr(manifests, "download", hand_out)
    monkeypatch.setattr(aishell, "SIZES", SIZES)
    prepare(None, False)
    wav = datadir.read(Path("data/dev")).wav
    assert wav == {
        "BAC009S0724W0121": "downloads/data_aishell/wav/dev/S0724/BAC009S0724W0121.wav"
    }

"""LibriSpeech's sets are ESPnet's, of all parts or of those that are there."""

import gzip
import tarfile
from pathlib import Path

import pytest

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.corpora import librispeech, manifests
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.stamp import stamp

ARCHIVE = Path(__file__).parents[2] / "shared" / "data" / "librispeech_excerpt.tar"
pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is absent")


@pytest.fixture(scope="module")
def excerpt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    with tarfile.open(ARCHIVE) as file:
        file.extractall(folder, filter="data")
    return folder / "LibriSpeech"


def prepare(folder, partial):
    librispeech.prepare(Path("data"), Path("downloads"), folder, partial)


def test_the_whole_is_as_many_utterances_as_the_corpus_has():
    assert sum(librispeech.SIZES.values()) == 292_367


def test_an_excerpt_gives_the_sets_of_its_parts(excerpt, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("data/dev_other").mkdir(parents=True)
    stamp(Path("data/dev_other"))
    prepare(excerpt, True)
    assert sorted(path.name for path in Path("data").iterdir()) == [
        *("dev", "dev_clean", "test_clean", "train_960"),
    ]
    train = datadir.read(Path("data/train_960"))
    assert len(train.text) == 188 and set(train.utt2spk.values()) == {"19", "26", "27"}
    assert train.segments is None
    utterance = "26-495-0000"
    assert train.text[utterance].startswith(
        "IN SIXTEEN SIXTY FIVE WRITTEN BY A CITIZEN"
    )
    path = excerpt / "train-clean-100/26/495/26-495-0000.flac"
    assert train.wav[utterance] == str(path)
    assert datadir.read(Path("data/dev")) == datadir.read(Path("data/dev_clean"))
    said = capsys.readouterr().out
    assert "188 of 28539 of train-clean-100" in said
    assert "0 of 148688 of train-other-500" in said


@pytest.fixture
def seven(tmp_path, monkeypatch):
    """A LibriSpeech of one utterance in each of its seven parts."""
    audio = b""
    with tarfile.open(ARCHIVE) as file:
        member = next(m for m in file if m.name.endswith("61-70968-0000.flac"))
        audio = file.extractfile(member).read()
    root = tmp_path / "disk" / "LibriSpeech"
    for reader, part in enumerate(librispeech.SIZES, 1):
        chapter = root / part / f"{reader}" / "9"
        chapter.mkdir(parents=True)
        (chapter / f"{reader}-9-0000.flac").write_bytes(audio)
        (chapter / f"{reader}-9.trans.txt").write_text(f"{reader}-9-0000 A {part}\n")
    monkeypatch.setattr(librispeech, "SIZES", dict.fromkeys(librispeech.SIZES, 1))
    monkeypatch.chdir(tmp_path)
    return root


def test_a_whole_corpus_gives_espnet_s_sets(seven):
    prepare(seven.parent, False)
    sets = {path.name: datadir.read(path).text for path in Path("data").iterdir()}
    assert {name: [*texts.values()] for name, texts in sets.items()} == {
        "train_960": ["A train-clean-100", "A train-clean-360", "A train-other-500"],
        "dev": ["A dev-clean", "A dev-other"],
        "dev_clean": ["A dev-clean"],
        "dev_other": ["A dev-other"],
        "test_clean": ["A test-clean"],
        "test_other": ["A test-other"],
    }


def test_without_a_folder_the_seven_archives_are_fetched(seven, monkeypatch):
    fetched = []

    def hand_out(url, target, sha256):
        fetched.append((url, sha256))
        part = target.name.removesuffix(".tar.gz")
        target.parent.mkdir(exist_ok=True)
        with tarfile.open(target, "w:gz") as archive:
            archive.add(seven / part, f"LibriSpeech/{part}")

    monkeypatch.setattr(manifests, "download", hand_out)
    prepare(None, False)
    assert ("https://www.openslr.org/resources/12/dev-clean.tar.gz") in dict(fetched)
    assert len({sha256 for _, sha256 in fetched}) == 7
    assert datadir.read(Path("data/test_other")).wav == {
        "7-9-0000": "downloads/LibriSpeech/test-other/7/9/7-9-0000.flac"
    }


def test_a_missing_part_is_named(seven):
    (seven / "test-other").rename(seven / "x")
    with pytest.raises(RecipeError, match="LibriSpeech lacks test-other: .*--partial"):
        prepare(seven, False)
    assert not Path("data").exists()


def test_a_missing_file_makes_a_corpus_not_whole(seven, monkeypatch):
    with open(seven / "test-other/7/9/7-9.trans.txt", "a") as file:
        file.write("7-9-0001 B\n")
    monkeypatch.setitem(librispeech.SIZES, "test-other", 2)
    with pytest.raises(RecipeError, match="1 of 2 of test-other .utterances.*partial"):
        prepare(seven, False)
    assert not Path("data").exists()


def test_a_damaged_file_is_named(seven):
    (seven / "test-other/7/9/7-9-0000.flac").write_bytes(b"no audio")
    with pytest.raises(RecipeError, match="cannot read .*7-9-0000.flac"):
        prepare(seven, True)


def test_an_empty_text_for_language_models_is_no_text(tmp_path):
    path = tmp_path / "librispeech-lm-norm.txt.gz"
    path.touch()
    with pytest.raises(RecipeError, match="norm.txt.gz is empty: remove it, and it is"):
        list(librispeech.sentences(tmp_path, None))
    path.write_bytes(gzip.compress(b"A LINE\n"))
    assert list(librispeech.sentences(tmp_path, None)) == ["A LINE\n"]


def test_checksums_are_those_that_torchaudio_checks():
    from torchaudio.datasets.librispeech import _CHECKSUMS

    ours = {f"{part}.tar.gz": digest for part, digest in librispeech.SHA256.items()}
    assert ours == {url.rpartition("/")[2]: d for url, d in _CHECKSUMS.items()}

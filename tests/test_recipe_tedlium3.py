"""TED-LIUM 3's utterances are ESPnet's, shown on a stand-in made of LibriSpeech."""

import tarfile
from pathlib import Path

import pytest

from espnet_srupp.recipe import audio, datadir
from espnet_srupp.recipe.corpora import manifests, tedlium3
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.stamp import stamp
from espnet_srupp.recipe.table import read_table

ARCHIVE = Path(__file__).parents[2] / "shared" / "data" / "tedlium3_standin.tar.gz"
needs_archive = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is absent")
TALK = "StandinLibri1688_142285"


@pytest.fixture
def standin(tmp_path, monkeypatch):
    with tarfile.open(ARCHIVE) as file:
        file.extractall(tmp_path / "disk", filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "disk" / "TEDLIUM_release-3"


def prepare(folder, partial=True):
    tedlium3.prepare(Path("data"), Path("downloads"), folder, partial)


@needs_archive
def test_sets_are_the_talks_of_the_legacy_split(standin):
    prepare(standin.parent)
    sets = {name: datadir.read(Path("data", name)) for name in tedlium3.SIZES}
    sizes = {name: (len(s.wav), len(s.text)) for name, s in sets.items()}
    assert sizes == {"train": (1, 10), "dev": (1, 10), "test": (1, 10)}
    dev = sets["dev"]
    assert dev.wav == {TALK: str(standin / f"legacy/dev/sph/{TALK}.sph")}
    utterance = f"{TALK}-0002912-0003195"
    assert dev.text[utterance] == "you don't mean that you thought me so silly"
    assert dev.segments[utterance] == (TALK, 29.12, 31.95)
    assert dev.utt2spk[utterance] == TALK
    assert not any("ignore_time" in line for s in sets.values() for line in s.text)


def test_an_id_has_the_times_cut_off_as_by_awk():
    assert tedlium3.utterance_id("T", 4.35, 8.41) == "T-0000434-0000841"


@needs_archive
def test_only_training_segments_are_padded(standin):
    prepare(standin)
    train = datadir.read(Path("data/train")).segments
    talk = "StandinLibri26_496"
    assert train[f"{talk}-0001558-0002845"] == (talk, 15.43, 28.55)


@needs_archive
def test_every_segment_lies_in_its_talk(standin):
    stm = standin / f"legacy/train/stm/{'StandinLibri26_496'}.stm"
    stm.write_text(stm.read_text().replace("134.23", "134.30"))
    prepare(standin)
    audio.format_audio(Path("data/train"), Path("dump"), 16000, "flac", 1)
    lengths = read_table(Path("dump/utt2num_samples"))
    assert lengths["StandinLibri26_496-0000050-0001508"] == str(round(14.83 * 16000))


@needs_archive
def test_a_stand_in_is_not_the_whole(standin, capsys):
    with pytest.raises(RecipeError, match=r"10 of 268263 of train, .*nces\)"):
        prepare(standin, False)
    (standin / "legacy/test").rename(standin / "x")
    Path("data/test").mkdir(parents=True)
    stamp(Path("data/test"))
    prepare(standin)
    assert "10 of 507 of dev, 0 of 1155 of test" in capsys.readouterr().out
    assert not Path("data/test").exists()


def cut_audio(root):
    path = next(root.rglob("dev/sph/*.sph"))
    path.write_bytes(path.read_bytes()[:500_000])


@needs_archive
def test_a_truncated_talk_of_training_can_be_left_out(standin, capsys):
    path = next(standin.rglob("train/sph/*.sph"))
    again = path.with_name("Other.sph"), path.parents[1] / "stm" / "Other.stm"
    again[0].write_bytes(path.read_bytes())
    stm = next(standin.rglob("train/stm/*.stm")).read_text()
    again[1].write_text(stm.replace("StandinLibri26_496", "Other"))
    path.write_bytes(path.read_bytes()[:500_000])
    prepare(standin)
    train = datadir.read(Path("data/train"))
    assert set(train.wav) == {"Other"} == set(train.utt2spk.values())
    assert len(train.text) == 10
    assert f"{path} is truncated, and left out" in capsys.readouterr().out
    with pytest.raises(RecipeError, match="496.sph is truncated: .*--partial true"):
        prepare(standin, False)


@needs_archive
def test_training_behind_links_to_folders_is_seen(standin):
    train = standin / "legacy" / "train"
    for kind in ("sph", "stm"):
        (train / kind).rename(standin / kind)
        (train / kind).symlink_to(standin / kind)
    before = tedlium3.content(standin)
    (path,) = (standin / "stm").iterdir()
    path.write_text(path.read_text() + "\n")
    assert tedlium3.content(standin) != before
    assert before.split()[0] == "6"


def remove_audio(root):
    next(root.rglob("dev/sph/*.sph")).unlink()


def empty_audio(root):
    next(root.rglob("dev/sph/*.sph")).write_bytes(b"")


def cut_transcript(root):
    next(root.rglob("dev/stm/*.stm")).write_text(f"{TALK} 1 {TALK} 0.50\n")


@needs_archive
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_audio, f"{TALK}.sph is truncated"),
        (remove_audio, "0 sphere files and 1 STM"),
        (empty_audio, f"{TALK}.sph"),
        (cut_transcript, "cannot read"),
    ],
)
def test_damage_is_named(standin, damage, said):
    damage(standin)
    with pytest.raises(RecipeError, match=said):
        prepare(standin)
    assert not Path("data").exists()


@needs_archive
def test_without_a_folder_it_is_fetched(standin, monkeypatch):
    def hand_out(url, target, sha256):
        assert url == "https://www.openslr.org/resources/51/TEDLIUM_release-3.tgz"
        assert sha256 == tedlium3.SHA256
        target.write_bytes(ARCHIVE.read_bytes())

    monkeypatch.setattr(manifests, "download", hand_out)
    monkeypatch.setattr(tedlium3, "SIZES", dict.fromkeys(tedlium3.SIZES, 10))
    prepare(None, False)
    wav = datadir.read(Path("data/dev")).wav
    assert wav == {TALK: f"downloads/TEDLIUM_release-3/legacy/dev/sph/{TALK}.sph"}


def test_checksum_is_the_one_that_torchaudio_checks():
    from torchaudio.datasets.tedlium import _RELEASE_CONFIGS

    assert tedlium3.SHA256 == _RELEASE_CONFIGS["release3"]["checksum"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("they 're in it", "they're in it", id="apostrophe"),
        pytest.param("rock 'n 'roll", "rock'n 'roll", id="two as ESPnet joins them"),
        pytest.param("'cause i can", "'cause i can", id="at the start"),
        pytest.param("a <unk> b", "a [unk] b", id="unknown word"),
        pytest.param("{NOISE} a", "[NOISE] a", id="noise"),
        pytest.param("read(2) it", "read it", id="pronunciation"),
        pytest.param("a <sil> b", "a b", id="silence"),
        pytest.param("a b (Talk-1-2)", "a b", id="name of the utterance"),
        pytest.param("<sil>", "", id="no words"),
    ],
)
def test_words(text, words):
    assert tedlium3.words(text) == words


@pytest.mark.parametrize(
    ("times", "result"),
    [
        pytest.param([(1, 2), (3, 4)], [(0.85, 2.1), (2.85, 4.1)], id="apart"),
        pytest.param([(1, 2), (2.1, 4)], [(0.85, 2.025), (2.025, 4.1)], id="close"),
        pytest.param([(0.1, 4.95)], [(0, 5)], id="at the ends"),
    ],
)
def test_padding(times, result):
    assert tedlium3.padded(times, length=5.0) == result

"""Bad data: each kind is left out and listed, or stopped at."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from test_recipe_mpeg import silence

from espnet_srupp.recipe import audio, datadir, faults
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import DataError, RecipeError
from espnet_srupp.recipe.table import read_table

FS = 16000
SETS = {"train": 30, "dev": 12, "test": 4}
OPTIONS = [
    *("--corpus", "mini", "--train_set", "train", "--valid_set", "dev"),
    *("--test_sets", "test", "--nj", "1", "--token_type", "char", "--stage", "2"),
]


def noise(seed, seconds=1.0):
    return np.random.default_rng(seed).uniform(-0.3, 0.3, int(seconds * FS))


def make_corpus(tmp_path, monkeypatch):
    """Sets of one second of noise each, called HELLO."""
    monkeypatch.chdir(tmp_path)
    Path("wav").mkdir()
    for name, count in SETS.items():
        data = DataDir({}, {}, {})
        for n in range(count):
            utterance = f"{name}-{n:02}"
            data.wav[utterance] = f"wav/{utterance}.flac"
            data.text[utterance], data.utt2spk[utterance] = "HELLO", utterance
            soundfile.write(data.wav[utterance], noise(n), FS)
        datadir.write(data, Path("data") / name)
    Path("conf").mkdir()
    Path("conf/train.yaml").write_text("encoder: srupp\n")
    return tmp_path


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    return make_corpus(tmp_path, monkeypatch)


def truncate(path):
    path.write_bytes(path.read_bytes()[:2000])


def write(samples, rate=FS, **options):
    return lambda path: soundfile.write(path, samples, rate, format="WAV", **options)


AUDIO = {
    "missing": Path.unlink,
    "corrupt": lambda path: path.write_text("<html>"),
    "truncated": truncate,
    "no length": lambda path: path.write_bytes(silence(32) * 9 + silence(64) * 9),
    "no samples": write(np.zeros(0)),
    "silent": write(np.full(FS, 3 / 32768)),
    "of another rate": write(noise(0), 8000),
    "several channels": write(np.stack([noise(0), noise(1)], 1)),
    "not a number": write(np.full(FS, np.nan), subtype="FLOAT"),
}


def line(name, old, new):
    """A change of the lines of a table of the training set."""

    def change(corpus):
        path = corpus / "data" / "train" / name
        old_bytes, new_bytes = (
            text if isinstance(text, bytes) else text.encode() for text in (old, new)
        )
        assert path.read_bytes().count(old_bytes) == 1
        path.write_bytes(path.read_bytes().replace(old_bytes, new_bytes))

    return change


def everywhere(old, new):
    def change(corpus):
        for name in ("wav.scp", "text", "utt2spk"):
            line(name, f"{old} ", f"{new} ")(corpus)

    return change


TEXT = {
    "control character": line("text", "train-07 HELLO", "train-07 HEL\x0bLO"),
    "replacement": line("text", "train-07 HELLO", "train-07 HEL\ufffdLO"),
    "not UTF-8": line("text", "train-07 HELLO", b"train-07 \xdcBER"),
    "empty line": line("text", "train-07 HELLO", "train-07 "),
    "twice": everywhere("train-08", "train-07"),
    "unmatched": line("text", "train-07 HELLO\n", ""),
    "command": line("wav.scp", "wav/train-07.flac", "touch pwned |"),
    "name": line("wav.scp", "wav/train-07.flac", "wav/\x1b[2Jx.flac"),
}


def kinds(found):
    return {key: fault.kind for key, fault in found.items()}


@pytest.mark.parametrize("kind", AUDIO)
def test_bad_audio_is_left_out_and_listed(corpus, kind, capsys):
    AUDIO[kind](corpus / "wav" / "train-07.flac")
    audio.format_audio(Path("data/train"), Path("dump/train"), FS, "flac", nj=1)
    expected = {"truncated": {"truncated", "corrupt"}}.get(kind, {kind})
    (dropped,) = Path("dump/train/dropped").read_text().splitlines()
    assert dropped.startswith("train-07 wav/train-07.flac (utterance train-07) ")
    said = capsys.readouterr().out
    assert any(
        f"1 of 30 utterances of data/train left out: 1 {k}" in said for k in expected
    )
    left = datadir.read(Path("dump/train"))
    assert len(left.text) == 29 and "train-07" not in left.text
    assert len(read_table(Path("dump/train/utt2num_samples"))) == 29


@pytest.mark.parametrize("kind", TEXT)
def test_bad_lines_are_left_out_and_listed(corpus, kind):
    TEXT[kind](corpus)
    audio.format_audio(Path("data/train"), Path("dump/train"), FS, "flac", nj=1)
    (dropped,) = Path("dump/train/dropped").read_text().splitlines()
    assert dropped.startswith("train-07 data/train")
    left = datadir.read(Path("dump/train"))
    assert "train-07" not in left.text
    assert len(left.text) == (28 if kind == "twice" else 29)
    assert not Path("pwned").exists()


def test_bad_audio_is_left_out_at_every_speed(corpus):
    truncate(corpus / "wav" / "train-07.flac")
    source, target = Path("data/train"), Path("data/train_sp")
    audio.perturb_speed(source, target, [0.9, 1.0], FS, nj=1)
    assert len(datadir.read(target).text) == 58
    assert Path("data/train_sp/dropped").read_text().startswith("train-07 wav/")


def test_what_is_left_out_takes_nothing_along_that_has_its_id_at_a_speed(corpus):
    TEXT["empty line"](corpus)
    everywhere("train-00", "sp0.9-train-07")(corpus)
    source, target = Path("data/train"), Path("data/train_sp")
    audio.perturb_speed(source, target, [0.9, 1.0], FS, nj=1)
    left = datadir.read(target).text
    assert len(left) == 58
    assert {"sp0.9-train-07", "sp0.9-sp0.9-train-07"} <= left.keys()


def test_an_id_too_long_for_a_file_at_a_speed_is_left_out_before_audio_is_made(corpus):
    # as long as may be, and a letter more than has room for sp0.9-
    everywhere("train-07", "train-07" + "7" * 186)(corpus)
    everywhere("train-08", "train-08" + "8" * 187)(corpus)
    # of a speaker as well
    line("utt2spk", " train-09\n", f" train-09{'9' * 187}\n")(corpus)
    source, target = Path("data/train"), Path("data/train_sp")
    audio.perturb_speed(source, target, [0.9, 1.0], FS, nj=1)
    left = datadir.read(target).text
    assert len(left) == 56
    assert not any(u.endswith("-09") or "train-08" in u for u in left)
    assert "'sp0.9-train-08888888...'" in Path("data/train_sp/dropped").read_text()


def test_other_rates_are_told_before_their_other_speeds_are_made(corpus):
    given = Path("data/train"), Path("data/train_sp"), [0.9, 1.0]
    with pytest.raises(RecipeError, match=f"is sampled at {FS} Hz, not at 44100 Hz"):
        audio.perturb_speed(*given, nj=1, fs=44100)
    assert not Path("data/train_sp").exists()
    audio.perturb_speed(*given, nj=1, fs=FS)
    assert len(datadir.read(Path("data/train_sp")).text) == 60


@pytest.mark.parametrize("work", ["speeds", "format"])
def test_faults_of_tables_are_told_before_audio_is_read(corpus, monkeypatch, work):
    TEXT["empty line"](corpus)
    monkeypatch.setattr(audio, "hear", lambda *_: 1 / 0)
    source, target = Path("data/train"), Path("x")
    with pytest.raises(RecipeError, match="1 of 30 .* train-07 has an empty"):
        if work == "speeds":
            audio.perturb_speed(source, target, [0.9], FS, nj=1, strict=True)
        else:
            audio.format_audio(source, target, FS, "flac", nj=1, whole=True)


def test_segments_are_left_out_one_by_one(corpus):
    data = DataDir(
        {"a": "wav/train-01.flac", "b": "wav/train-02.flac"},
        {f"u{n:02}": "HELLO" for n in range(22)},
        {f"u{n:02}": "s" for n in range(22)},
        {f"u{n:02}": ("a", n / 50, n / 50 + 0.5) for n in range(20)},
    )
    # one ends after its recording, one lies in a recording that cannot be read
    data.segments |= {"u20": ("a", 0.5, 1.5), "u21": ("b", 0.0, 1.0)}
    datadir.write(data, Path("data/cut"))
    truncate(corpus / "wav" / "train-02.flac")
    audio.format_audio(Path("data/cut"), Path("dump/cut"), FS, "flac", nj=1)
    dropped = read_table(Path("dump/cut/dropped"))
    assert dropped.keys() == {"u20", "u21"}
    assert len(datadir.read(Path("dump/cut")).text) == 20


def test_segments_after_a_bad_one_are_kept(corpus):
    ids = [f"u{n:02}" for n in range(20)]
    times = {u: ("a", n / 50, n / 50 + 0.5) for n, u in enumerate(ids)}
    data = DataDir({"a": "wav/train-01.flac"}, *(dict.fromkeys(ids, "A"),) * 2, times)
    data.segments["u05"] = ("a", 0.5, 1.5)
    datadir.write(data, Path("data/cut"))
    audio.perturb_speed(Path("data/cut"), Path("data/cut_sp"), [0.9], FS, nj=1)
    left = datadir.read(Path("data/cut_sp"))
    assert len(left.wav) == 19
    assert all(Path(path).exists() for path in left.wav.values())


def test_strict_stops_and_leaves_nothing(corpus):
    truncate(corpus / "wav" / "train-07.flac")
    with pytest.raises(RecipeError, match="1 of 30 .* cannot be used, wav/train-07"):
        audio.format_audio(Path("data/train"), Path("d/t"), FS, "flac", 1, strict=True)
    assert not Path("d/t").exists()


def test_strict_stops_before_other_speeds_are_there(corpus):
    truncate(corpus / "wav" / "train-07.flac")
    source, target = Path("data/train"), Path("data/train_sp")
    with pytest.raises(RecipeError, match="1 of 30 .* cannot be used, wav/train-07"):
        audio.perturb_speed(source, target, [0.9, 1.0], FS, nj=1, strict=True)
    assert not target.exists()


def test_more_than_a_tenth_stops_in_any_case(corpus):
    for n in range(4):
        truncate(corpus / "wav" / f"train-{n:02}.flac")
    with pytest.raises(RecipeError, match="4 of 30 .*more than a tenth.*train-00"):
        audio.format_audio(Path("data/train"), Path("d/t"), FS, "flac", 1)


def test_what_resampling_leaves_no_sample_of_is_left_out(corpus):
    write([0.5], 3 * FS)(corpus / "wav" / "train-07.flac")
    target = Path("dump/train")
    audio.format_audio(Path("data/train"), target, FS, "flac", 1, resample=True)
    assert read_table(target / "dropped").keys() == {"train-07"}


def test_a_test_set_stays_whole(corpus):
    AUDIO["silent"](corpus / "wav" / "dev-01.flac")
    source, target = Path("data/dev"), Path("dump/dev")
    audio.format_audio(source, target, FS, "flac", 1, whole=True)
    assert len(datadir.read(target).text) == 12
    truncate(corpus / "wav" / "dev-02.flac")
    # fewer than a tenth
    with pytest.raises(RecipeError, match="1 of 12 .*dev-02"):
        audio.format_audio(source, target, FS, "flac", 1, whole=True)


@pytest.mark.parametrize("bad, stops", [(1, False), (2, True)])
def test_the_limit_is_a_tenth(bad, stops):
    found = {f"u{n}": DataError("x", "silent") for n in range(bad)}
    if stops:
        with pytest.raises(RecipeError, match="2 of 11"):
            faults.settle(found, 9, Path("s"), strict=False)
    else:
        faults.settle(found, 9, Path("s"), strict=False)

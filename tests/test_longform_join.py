"""Recordings are joined sample by sample, and told is what cannot be joined."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from data.small_recordings import (
    RATE,
    audio,
    join,
    noise,
    provenance,
    write_chapters,
)

from espnet_srupp.longform.__main__ import main
from espnet_srupp.recipe import datadir, sound
from espnet_srupp.recipe.audio import format_audio
from espnet_srupp.recipe.corpora import an4

pytestmark = pytest.mark.usefixtures("in_process")
ARCHIVE = Path(__file__).parents[2] / "shared" / "data" / "an4.tar.gz"


@pytest.fixture
def chapters(tmp_path):
    return write_chapters(tmp_path)


def test_utterances_are_joined_in_order_and_the_rest_is_kept(chapters):
    assert join(chapters, "--num-utts", "3") == 0
    data = datadir.read(chapters / "target")
    assert data.text == {
        "1-20-long0001": "ONE TWO THREE",
        "1-20-long0002": "FOUR",
        "1-21-long0001": "FIVE",
    }
    assert data.utt2spk == dict.fromkeys(data.text, "1")
    assert data.segments is None
    made = audio(chapters)
    first = [noise(100 * (n + 1), n) for n in range(3)]
    np.testing.assert_array_equal(made["1-20-long0001"], np.concatenate(first))
    np.testing.assert_array_equal(made["1-20-long0002"], noise(400, 3))
    np.testing.assert_array_equal(made["1-21-long0001"], noise(500, 4))


def test_a_gap_is_of_zeros_and_provenance_counts_it(chapters):
    assert join(chapters, "--num-utts", "2", "--gap", "0.05") == 0
    zeros = np.zeros(50, np.int16)
    expected = np.concatenate([noise(300, 2), zeros, noise(400, 3)])
    np.testing.assert_array_equal(audio(chapters)["1-20-long0002"], expected)
    assert provenance(chapters)[:4] == [
        ("1-20-long0001", "1-20-0000", "0", "100", "0.000000", "0.100000"),
        ("1-20-long0001", "1-20-0001", "150", "200", "0.150000", "0.200000"),
        ("1-20-long0002", "1-20-0002", "0", "300", "0.000000", "0.300000"),
        ("1-20-long0002", "1-20-0003", "350", "400", "0.350000", "0.400000"),
    ]


def test_the_length_is_given_in_seconds(chapters):
    assert join(chapters, "--target-seconds", "0.301") == 0
    assert list(audio(chapters)) == ["1-20-long0001", "1-20-long0002", "1-21-long0001"]
    assert len(audio(chapters)["1-20-long0001"]) == 600


def test_texts_can_do_without_blanks(chapters, capsys):
    assert join(chapters, "--num-utts", "2", "--no-space") == 0
    assert datadir.read(chapters / "target").text["1-20-long0001"] == "ONETWO"
    assert "--no-space" not in capsys.readouterr().out
    text = chapters / "source" / "text"
    text.write_text(text.read_text().replace(" ", " \u3000"))
    assert join(chapters, "--num-utts", "2", "--no-space") == 0
    assert datadir.read(chapters / "target").text["1-20-long0001"] == "ONETWO"
    # which nobody would guess
    assert join(chapters, "--num-utts", "2") == 0
    assert "has a blank: where the script has none, give" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (["一二", "三", "OK", "四"], "一二三"),
        (["一二", "A B", "四"], "一二A B"),
        (["一 二", "三 四"], "一 二 三 四"),
        (["一二", "NO", "OK"], "一二 NO"),
    ],
    ids=["unspaced", "mostly unspaced", "spaced", "mostly Latin"],
)
def test_a_script_without_blanks_gets_none(chapters, texts, joined, capsys):
    ids = datadir.read(chapters / "source").text
    lines = dict(zip(ids, texts, strict=False))
    text = [f"{u} {lines.get(u, texts[-1])}\n" for u in ids]
    (chapters / "source" / "text").write_text("".join(text))
    assert join(chapters, "--num-utts", "2") == 0
    assert datadir.read(chapters / "target").text["1-20-long0001"] == joined


def test_blanks_are_not_asked_about_where_a_text_has_one(chapters, capsys):
    ids = datadir.read(chapters / "source").text
    texts = "".join(f"{u} {'ONE TWO' if n == 0 else 'A'}\n" for n, u in enumerate(ids))
    (chapters / "source" / "text").write_text(texts)
    assert join(chapters, "--num-utts", "2") == 0
    assert "--no-space" not in capsys.readouterr().out


def test_the_same_command_gives_the_same_bytes(chapters, processes):
    def digests():
        files = sorted(p for p in (chapters / "target").rglob("*") if p.is_file())
        return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    assert join(chapters, "--num-utts", "2", "--nj", "2") == 0
    first = digests()
    assert join(chapters, "--num-utts", "2", "--nj", "1") == 0
    assert digests() == first
    assert len(first) == 11


def test_stage_3_takes_it_as_it_is(chapters):
    assert join(chapters, "--num-utts", "3") == 0
    format_audio(chapters / "target", chapters / "dump", RATE, "flac", 1)
    for name in ("wav.scp", "text", "utt2spk", "spk2utt", "utt2num_samples"):
        made = (chapters / "target" / name).read_text()
        assert (chapters / "dump" / name).read_text() == made
    for name in ("feats_type", "audio_format"):
        # stage 12 reads them, so it needs no stage 3
        made = (chapters / "target" / name).read_text()
        assert (chapters / "dump" / name).read_text() == made


def test_ids_of_no_group_are_named_and_the_rest_joined(chapters, capsys):
    assert join(chapters, "--num-utts", "3", "--group", "(1-20)") == 1
    assert "1-21-0004 is not matched by --group" in capsys.readouterr().err
    assert "1-21-0004" not in {row[1] for row in provenance(chapters)}


@pytest.mark.parametrize("file", ["text", "wav.scp"])
def test_missing_transcript_or_audio_is_named(chapters, capsys, file):
    path = chapters / "source" / file
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert join(chapters, "--num-utts", "3") == 1
    assert "1-20-0000 is in " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--num-utts", "0"], "--num-utts 0 is not a number above 0"),
        (["--num-utts", "2", "--nj", "0"], "--nj 0 is not a number above 0"),
        (["--target-seconds", "inf"], "--target-seconds inf is not a number above 0"),
        (["--target-seconds", "nan"], "--target-seconds nan is not a number above 0"),
        (["--num-utts", "2", "--gap", "-1"], "--gap -1.0 is not 0 or more"),
        (["--num-utts", "2", "--gap", "inf"], "--gap inf is not 0 or more"),
        (["--num-utts", "2", "--whole"], "not allowed with argument"),
        ([], "one of the arguments --num-utts --target-seconds --whole is required"),
        (["--whole"], "has no segments, which --whole needs"),
        (["--whole", "--gap", "1"], "leave out --gap and --group"),
        (["--whole", "--group", "()"], "leave out --gap and --group"),
    ],
)
def test_wrong_options_are_told(chapters, capsys, words, sentence):
    assert join(chapters, *words) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("absolute", [0, 1], ids=["source", "target"])
@pytest.mark.parametrize("target", ["source", "."], ids=["itself", "its-folder"])
def test_the_source_is_not_replaced_however_it_is_called(
    chapters, monkeypatch, capsys, target, absolute
):
    monkeypatch.chdir(chapters)
    paths = ["source", target]
    paths[absolute] = str(chapters / paths[absolute])
    assert main(["join", *paths, "--num-utts", "2"]) == 1
    assert "would be replaced" in capsys.readouterr().err
    datadir.read(chapters / "source")


def test_a_target_in_a_folder_that_cannot_be_made_is_told(chapters, capsys):
    (chapters / "target").touch()
    words = [str(chapters / "source"), str(chapters / "target" / "new")]
    assert main(["join", *words, "--num-utts", "2"]) == 1
    assert "error: the folder of TARGET, " in capsys.readouterr().err


def test_a_target_that_wav_scp_could_not_tell_is_told_first(chapters, capsys):
    words = [str(chapters / "source"), str(chapters / "\udce9")]
    assert main(["join", *words, "--num-utts", "2"]) == 1
    assert "\\udce9 is not UTF-8: rename it" in capsys.readouterr().err


def test_what_join_did_not_make_is_not_replaced(chapters, capsys):
    (chapters / "target").mkdir()
    (chapters / "target" / "precious").touch()
    assert join(chapters, "--num-utts", "2") == 1
    assert "was not made by join" in capsys.readouterr().err
    assert (chapters / "target" / "precious").exists()


@pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is absent")
def test_an4_is_joined_by_threes(tmp_path, processes):
    an4.prepare(tmp_path / "data", tmp_path / "downloads", ARCHIVE)
    (tmp_path / "data/test").rename(tmp_path / "source")
    assert join(tmp_path, "--num-utts", "3") == 0
    source, target = (datadir.read(tmp_path / n) for n in ("source", "target"))
    # 130 utterances of 10 speakers
    assert len(target.text) == 50
    assert sum(len(text.split()) for text in target.text.values()) == 773
    rows = [row[:4] for row in provenance(tmp_path)]
    assert [row[1] for row in rows][:6] == [
        *("fcaw-an406-b", "fcaw-an407-b", "fcaw-an408-b"),
        *("fcaw-an409-b", "fcaw-an410-b", "fcaw-cen1-b"),
    ]
    assert {row[1] for row in rows} == source.text.keys()
    for recording, utterance, start, samples in rows[::13]:
        part = sound.load(source.wav[utterance], utterance)[0]
        joined = sound.load(target.wav[recording], recording)[0]
        assert len(part) == int(samples)
        np.testing.assert_array_equal(joined[int(start) :][: len(part)], part)


def test_a_gap_is_rounded_to_a_sample(chapters):
    assert join(chapters, "--num-utts", "2", "--gap", "0.0506") == 0
    assert provenance(chapters)[1][2] == "151"


def test_the_longest_recording_is_told(chapters, capsys):
    assert join(chapters, "--num-utts", "3") == 0
    told = "target: 5 utterances in 3 recordings, the longest 0.6 s\n"
    assert told in capsys.readouterr().out

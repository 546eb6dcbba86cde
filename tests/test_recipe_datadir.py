"""A data directory is read back as written, and each fault in it is named."""

import os

import pytest

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError

GOOD = {
    "wav.scp": "a-1 wav/with a blank.wav\nb-1 b.wav\n",
    "text": "a-1 HELLO WORLD\nb-1 ÜBER  ALL\n",
    "utt2spk": "a-1 a\nb-1 b\n",
}
FAULTS = {
    "no file": ("text", None, r"text is missing.*--stage 1"),
    "empty file": ("text", "", r"text is empty"),
    "empty line": ("text", "a-1 A\n\nb-1 B\n", r"text line 2 is empty"),
    "empty transcript": ("text", "a-1 A\nb-1\n", r"text line 2: b-1 has an empty tran"),
    "blank transcript": ("text", "a-1 A\nb-1  \n", r"text line 2: b-1 has an empty tr"),
    "no path": ("wav.scp", "a-1 a\nb-1\n", r"wav.scp line 2: b-1 has nothing after it"),
    "twice": ("text", "a-1 A\na-1 A\nb-1 B\n", r"text line 2: a-1 is there twice"),
    "twice, apart": (
        "text",
        "a-1 A\nb-1 B\na-1 A\n",
        r"text line 3: a-1 is there twice",
    ),
    "unsorted": (
        "text",
        "b-1 B\na-1 A\n",
        r"text line 2: a-1 comes after b-1.*LC_ALL=C",
    ),
    "BOM": ("text", b"\xef\xbb\xbfa-1 A\nb-1 B\n", r"line 1 begins with a byte order"),
    "latin 1": ("text", b"a-1 A\nb-1 \xdc\n", r"text line 2 is not UTF-8"),
    "command": ("wav.scp", "a-1 a\nb-1 x b |\n", r"wav.scp: b-1 is a command"),
    "no text": ("text", "a-1 A\n", r"b-1 is in wav.scp and not in text"),
    "no audio": ("wav.scp", "a-1 a\n", r"b-1 is in text and not in wav.scp"),
    "no speaker": ("utt2spk", "b-1 b\n", r"a-1 is in wav.scp and not in utt2spk"),
    "slash": ("utt2spk", "a-1 a\nb-1 ../b\n", r"the id '../b' .* holds a .*slash"),
    "bad segment": (
        "segments",
        "a-1 a-1 0\nb-1 b-1 0 1\n",
        r"segments: 'a-1 0'",
    ),
    "bad time": (
        "segments",
        "a-1 a-1 0 x\nb-1 b-1 0 1\n",
        r"segments: 'a-1 0 x'",
    ),
    "no recording": (
        "segments",
        "a-1 c 0 1\nb-1 b-1 0 1\n",
        r"a-1 lies in c, which is",
    ),
    "no length": (
        "segments",
        "a-1 a-1 2 2\nb-1 b-1 0 1\n",
        r"a-1 goes from 2.0 to 2.0",
    ),
    "unsegmented": ("segments", "a-1 a-1 0 1\n", r"b-1 is in text and not in segments"),
}


def write_raw(directory, files):
    directory.mkdir()
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        (directory / name).write_bytes(content)


@pytest.mark.parametrize("end", ["\n", "\r\n", " \t\n"])
def test_reads_what_kaldi_writes(tmp_path, end):
    files = {name: text.replace("\n", end) for name, text in GOOD.items()}
    write_raw(tmp_path / "set", files)
    data = datadir.read(tmp_path / "set")
    assert data.wav == {"a-1": "wav/with a blank.wav", "b-1": "b.wav"}
    assert data.text == {"a-1": "HELLO WORLD", "b-1": "ÜBER ALL"}
    assert data.utt2spk == {"a-1": "a", "b-1": "b"}
    assert data.segments is None


def test_reads_back_what_it_writes_sorted_in_the_c_locale(tmp_path):
    # in other locales than C, upper case and non-letters sort elsewhere
    order = ["A-b", "A_b", "Z", "a", "a-b", "ab", "é", "語"]
    names = order[::-1]
    data = DataDir(
        {"r2": "r 2.wav"},
        {name: name.upper() for name in names},
        {name: "s" for name in names},
        {name: ("r2", 0.1 + 0.2, 1e3 / 3) for name in names},
    )
    datadir.write(data, tmp_path / "set")
    assert datadir.read(tmp_path / "set") == data
    text = (tmp_path / "set/text").read_text(encoding="utf-8").splitlines()
    assert [line.split()[0] for line in text] == order
    assert (tmp_path / "set/spk2utt").read_text() == f"s {' '.join(order)}\n"


@pytest.mark.parametrize("name, content, message", FAULTS.values(), ids=FAULTS)
def test_reading_names_file_and_culprit(tmp_path, name, content, message):
    files = {**GOOD, name: content}
    if content is None:
        del files[name]
    write_raw(tmp_path / "set", files)
    with pytest.raises(RecipeError, match=message):
        datadir.read(tmp_path / "set")


@pytest.mark.parametrize(
    ("text", "message"),
    [("b-1 B\na-1 A\n", "a-1 comes after b-1"), ("\nb-1 B\na-1 A\n", "text line 1 is")],
)
def test_what_is_not_sorted_is_blamed_on_its_own_file(tmp_path, text, message):
    wav = GOOD["wav.scp"].replace("b-1", "\nb-1")
    write_raw(tmp_path / "set", {**GOOD, "wav.scp": wav, "text": text})
    with pytest.raises(RecipeError, match=message):
        datadir.read(tmp_path / "set", {})


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(
        RecipeError, match="set is missing: write it, or make it .--stage 1"
    ):
        datadir.read(tmp_path / "set")


@pytest.mark.parametrize("name", ["a b", "a\u3000b", "", "a/b", "é" * 101])
def test_an_id_that_the_files_cannot_hold_is_refused(tmp_path, name):
    data = DataDir({name: "x.wav"}, {name: "X"}, {name: "s"})
    with pytest.raises(RecipeError, match=f"the id '{name[:20]}"):
        datadir.write(data, tmp_path / "set")
    assert os.listdir(tmp_path) == []


def test_an_empty_transcript_is_not_written(tmp_path):
    data = DataDir({"a": "x.wav"}, {"a": " "}, {"a": "s"})
    with pytest.raises(RecipeError, match="a has an empty transcript"):
        datadir.write(data, tmp_path / "set")


def write_set(path, *utterances, segments=None):
    made = DataDir({}, {}, {}, segments)
    for utterance in utterances:
        made.wav[utterance] = f"{utterance}.wav"
        made.text[utterance] = f"TEXT OF {utterance}"
        made.utt2spk[utterance] = utterance
    datadir.write(made, path)


def write_segmented(path, wav, segments, text=None):
    write_raw(
        path,
        {
            "wav.scp": wav,
            "text": text or "".join(f"{u} TEXT OF {u}\n" for u in segments),
            "utt2spk": "".join(f"{u} s\n" for u in segments),
            "segments": "".join(f"{u} {r} 0 1\n" for u, r in segments.items()),
        },
    )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"r2 sph2pipe r2.sph |", "command"),
        (b"r2 r\x012.wav", "control character"),
        (b"r2", "empty line"),
        (b"r2 \xff.wav", "not UTF-8"),
        (b"r2 a.wav\nr2 b.wav", "twice"),
        (b"r3 r3.wav", "unmatched"),
    ],
)
def test_the_fault_of_a_recording_is_one_of_each_of_its_segments(tmp_path, line, kind):
    segments = {f"r{n}-{m}": f"r{n}" for n in (1, 2) for m in range(3)}
    # one that has a recording's id, not its own, has no part in its fault
    segments["r2"] = "r1"
    write_segmented(
        tmp_path / "a", b"r1 r1.wav\n" + line, dict(sorted(segments.items()))
    )
    faults = {}
    data = datadir.read(tmp_path / "a", faults)
    assert list(data.text) == ["r1-0", "r1-1", "r1-2", "r2"]
    assert data.wav == {"r1": "r1.wav"}
    kinds = {utterance: fault.kind for utterance, fault in faults.items()}
    assert kinds == dict.fromkeys(["r2-0", "r2-1", "r2-2"], kind)
    with pytest.raises(RecipeError, match="wav.scp"):
        datadir.read(tmp_path / "a")


def test_the_fault_of_an_utterance_is_none_of_the_recording_with_its_id(tmp_path):
    segments = {"r1": "r1", "r2": "r1", "r3": "r2"}
    wav = "r1 r1.wav\nr2 r2.wav\n"
    write_segmented(tmp_path / "a", wav, segments, "r1\nr2\nr3 THREE\n")
    faults = {}
    assert datadir.read(tmp_path / "a", faults).text == {"r3": "THREE"}
    assert faults.keys() == {"r1", "r2"}


@pytest.mark.parametrize(
    "line",
    [b"r2 sph2pipe r2.sph |", b"r2 r\x01.wav", b"r2", b"r2 \xff", b"", b"r2 a\nr2 b"],
)
def test_a_recording_without_segments_costs_nothing(tmp_path, line):
    write_segmented(tmp_path / "a", b"r1 r1.wav\n" + line + b"\n", {"u": "r1"})
    faults = {}
    data = datadir.read(tmp_path / "a", faults)
    assert data.text == {"u": "TEXT OF u"}
    assert data.wav == {"r1": "r1.wav"}
    assert datadir.read(tmp_path / "a") == data
    assert faults == {}


def test_a_byte_order_mark_is_the_fault_of_the_utterance_behind_it(tmp_path):
    text = b"\xef\xbb\xbfa-1 A\nb-1 B\n"
    write_raw(tmp_path / "a", {**GOOD, "text": text})
    faults = {}
    assert datadir.read(tmp_path / "a", faults).text == {"b-1": "B"}
    assert {u: fault.kind for u, fault in faults.items()} == {
        "a-1": "control character"
    }


def test_sets_are_put_together(tmp_path):
    write_set(tmp_path / "a", "1", "3")
    write_set(tmp_path / "b", "2")
    datadir.combine([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    write_set(tmp_path / "all", "1", "2", "3")
    for name in ("wav.scp", "text", "utt2spk", "spk2utt"):
        made, expected = (tmp_path / d / name for d in ("c", "all"))
        assert made.read_bytes() == expected.read_bytes()


def test_sets_with_segments_are_put_together(tmp_path):
    write_set(tmp_path / "a", "1", segments={"1": ("1", 0.0, 1.0)})
    write_set(tmp_path / "b", "2", segments={"2": ("2", 0.5, 1.5)})
    datadir.combine([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    made = datadir.read(tmp_path / "c")
    assert made.segments == {"1": ("1", 0.0, 1.0), "2": ("2", 0.5, 1.5)}


def test_sets_that_share_an_id_are_not_put_together(tmp_path):
    write_set(tmp_path / "a", "1", "2")
    write_set(tmp_path / "b", "2", "3")
    with pytest.raises(RecipeError, match=r"2 is in .*b and in a set"):
        datadir.combine([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_sets_with_and_without_segments_are_not_put_together(tmp_path, order):
    write_set(tmp_path / "a", "1", segments={"1": ("1", 0.0, 1.0)})
    write_set(tmp_path / "b", "2")
    with pytest.raises(RecipeError, match=r"segments.*--speed_perturb_factors"):
        datadir.combine([tmp_path / name for name in order], tmp_path / "c")


def test_what_is_bad_is_not_put_together_and_strict_stops_at_it(tmp_path):
    write_set(tmp_path / "a", *map(str, range(10)))
    write_set(tmp_path / "b", "a")
    text = tmp_path / "a/text"
    text.write_text(text.read_text().replace("3 ", "3 \x00"))
    datadir.combine([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert datadir.read(tmp_path / "c").text.keys() == set("012456789a")
    with pytest.raises(RecipeError, match=r"3.*U\+0000"):
        datadir.combine([tmp_path / "a", tmp_path / "b"], tmp_path / "d", strict=True)
    assert not (tmp_path / "d").exists()


def test_blanks_of_all_kinds_are_one_blank(tmp_path):
    write_raw(
        tmp_path / "a", GOOD | {"text": "a-1 \u3000A\u3000B\nb-1 A \t B\u00a0C\u3000\n"}
    )
    assert datadir.read(tmp_path / "a").text == {"a-1": "A B", "b-1": "A B C"}


def test_a_segment_before_the_beginning_is_named(tmp_path):
    lines = {"wav.scp": "r r.wav", "text": "a A", "utt2spk": "a s"}
    for name, line in {**lines, "segments": "a r -0.5 1.0"}.items():
        (tmp_path / name).write_text(f"{line}\n")
    with pytest.raises(RecipeError, match="a goes from -0.5 to 1.0 s: correct"):
        datadir.read(tmp_path)


@pytest.mark.parametrize("path", ["touch pwned |", "wav/\x1b[2Jx.flac"])
def test_what_would_be_refused_is_not_written(tmp_path, path):
    with pytest.raises(RecipeError):
        datadir.write(DataDir({"a": path}, {"a": "A"}, {"a": "s"}), tmp_path / "set")
    assert not (tmp_path / "set").exists()

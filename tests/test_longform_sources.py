"""What is to be transcribed is found, named once, and bad input is told."""

import os

import pytest

from espnet_srupp.longform.sources import Source, find


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "wav.scp").write_text("a a.wav\nb dir/b 2.wav\n")
    return folder


def found(*inputs):
    problems = []
    return find(map(str, inputs), problems), problems


def test_recordings_of_a_data_directory_keep_their_ids(data):
    assert found(data) == ([Source("a", "a.wav"), Source("b", "dir/b 2.wav")], [])


def test_segments_are_what_is_transcribed(data):
    (data / "segments").write_text("a-1 a 0.5 2\na-2 a 2 3.5\n")
    expected = [Source("a-1", "a.wav", 0.5, 2.0), Source("a-2", "a.wav", 2.0, 3.5)]
    assert found(data) == (expected, [])


def test_files_are_named_by_their_stem_without_blanks():
    names = [source.name for source in found("x/a talk.1.flac", "b.wav", "b\tc.mp3")[0]]
    assert names == ["a_talk.1", "b", "b_c"]


def test_a_name_is_there_once(data):
    sources, problems = found("x/a.wav", "y/a.flac", data, "z/c.wav")
    assert [source.path for source in sources] == ["x/a.wav", "dir/b 2.wav", "z/c.wav"]
    assert [problem.split(", ")[0] for problem in problems] == [
        "y/a.flac and x/a.wav have the same name a: left out y/a.flac",
        "a.wav and x/a.wav have the same name a: left out a.wav",
    ]


def test_a_file_name_that_is_not_utf8_is_told_and_the_rest_is_found():
    sources, problems = found(b"x/\xe9.wav".decode("utf-8", "surrogateescape"), "b.wav")
    assert sources == [Source("b", "b.wav")]
    assert problems == ["the name x/\\udce9.wav is not UTF-8: rename it"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        pytest.param("wav.scp", "a a.wav\na b.wav\n", "line 2: a is there", id="twice"),
        pytest.param("wav.scp", "a\n", "a has nothing", id="no path"),
        pytest.param("wav.scp", "a/b c.wav\n", "a/b holds a slash", id="slash"),
        pytest.param("wav.scp", "a b\0.wav\n", "the character U+0000", id="NUL"),
        pytest.param("segments", "s a x y\n", "'a x y' is not", id="no times"),
        pytest.param("wav.scp", None, "has no wav.scp", id="no list"),
    ],
)
def test_a_bad_directory_is_told_and_the_rest_is_found(data, name, content, said):
    (data / name).unlink(missing_ok=True)
    if content is not None:
        (data / name).write_text(content)
    sources, (problem,) = found(data, "z.wav")
    assert sources == [Source("z", "z.wav")]
    assert said in problem and str(data) in problem


@pytest.mark.parametrize(
    "wrong", ["c 0.0 to 1.0", "a 2.0 to 1.0", "a 1.0 to 1.0", "a -1.0 to 1.0"]
)
def test_a_bad_segment_is_told_and_the_rest_is_found(data, wrong):
    recording, start, _, end = wrong.split()
    (data / "segments").write_text(f"s {recording} {start} {end}\nt b 0 1\n")
    sources, (problem,) = found(data)
    assert sources == [Source("t", "dir/b 2.wav", 0.0, 1.0)]
    assert f"s goes from {start} to {end} s of {recording}" in problem


def test_state_changes_with_the_audio(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"one")
    source, changed = Source("a", str(path)), path.stat().st_mtime_ns
    before = source.state()
    assert source.state() == before
    for content, later in ((b"more", 0), (b"two", 1)):
        path.write_bytes(content)
        os.utime(path, ns=(changed, changed + later))
        assert source.state() != before


def test_what_cannot_be_read_is_told_and_the_rest_is_found(tmp_path):
    (tmp_path / "wav.scp").mkdir()
    sources, problems = found(tmp_path, "b.wav")
    assert sources == [Source("b", "b.wav")]
    assert len(problems) == 1 and str(tmp_path / "wav.scp") in problems[0]


def test_state_can_be_written_whatever_the_folder_is_called(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "a.wav").write_bytes(b"")
    (tmp_path / "a.wav").symlink_to(folder / "a.wav")
    Source("a", str(tmp_path / "a.wav")).state()["path"].encode("utf-8")

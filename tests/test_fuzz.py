"""Parsers of what others wrote: any bytes give a result or a clean error.

The suite draws a few hundred examples of each; `python3 tests/test_fuzz.py SECONDS
[TEST ...]` (make fuzz: ten minutes) goes on with new ones for that long with each.
"""

import io
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from espnet_srupp.recipe import arguments, config, datadir
from espnet_srupp.recipe.archive import unpack
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.table import read_table

pytestmark = pytest.mark.once

CLEAN = (RecipeError, OSError)  # what run.sh tells in one sentence
LONG = __name__ == "__main__"
quick = settings(
    derandomize=not LONG,
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=list(HealthCheck),
)
WORDS = [
    *("a", "b", "a-1", "é", "語", "-rf", "--x", "'", '"', "$(x)", ";", "..", "/", "\\"),
    *(" ", "  ", "\t", "\r", "\n", "\n\n", "\x00", "\x0b", "\x85", "\u2028", "\ufeff"),
    *("0", "1.5", "nan", "inf", "-1", "1e999", "|", "x.wav", "a.flac", "\u00a0"),
]
mixed = st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=30).map(
    lambda words: "".join(words).encode("utf-8", "surrogatepass")
)
rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d", "é", "-e", "'f", "語"]),
        st.sampled_from(["\t", " ", "  "]),
        st.text(max_size=8) | st.sampled_from(["a 0 1", "b 1 nan", "x.wav", "ls |"]),
    ),
    max_size=8,
).map(lambda lines: "".join(f"{k}{s}{v}\n" for k, s, v in sorted(lines)))
tables = (
    mixed
    | st.binary(max_size=60)
    | rows.map(lambda text: text.encode("utf-8", "replace"))
)


@given(
    wav=tables,
    text=tables,
    utt2spk=tables,
    segments=st.none() | tables,
    same=st.booleans(),
)
@example(wav=b"a b\na\n", text=b"", utt2spk=b"", segments=b"", same=False)
@example(wav=b"a\t\x00", text=b"a", utt2spk=b"a", segments=b"a", same=False)
@example(
    wav=b"a a.wav\nb b.wav\n",
    text=b"a A\nb\n",
    utt2spk=b"a s\nb s\n",
    segments=b"a b 0 1\nb a 0 1\n",
    same=False,
)
@quick
def test_data_directories(wav, text, utt2spk, segments, same):
    contents = {"wav.scp": wav, "text": text, "utt2spk": utt2spk, "segments": segments}
    if same:
        contents |= {"text": wav, "utt2spk": wav}
    with TemporaryDirectory() as name:
        path = Path(name) / "set"
        path.mkdir()
        for file, content in contents.items():
            if content is not None:
                (path / file).write_bytes(content)
        try:
            strict = datadir.read(path)
        except RecipeError:
            strict = None
        faults = {}
        try:
            data = datadir.read(path, faults)
        except RecipeError:
            assert strict is None
            return
        # nothing is left out in silence
        audio = "wav.scp" if segments is None else "segments"
        for file in (audio, "text", "utt2spk"):
            broken = {}
            table = read_table(path / file, broken)
            assert table.keys() | broken.keys() <= data.text.keys() | faults.keys()
        # what is good is found by both, and survives a file
        assert (strict is None) == bool(faults)
        assert strict in (None, data)
        if data.text:
            datadir.write(data, Path(name) / "again")
            again = datadir.read(Path(name) / "again")
            assert again == data


yaml_words = st.sampled_from(
    [
        *(
            "a: ",
            "b",
            "- ",
            "{",
            "}",
            "[",
            "]",
            "&x ",
            "*x",
            "<<: ",
            "!!python/name:os",
        ),
        *("!!bool ", "!!timestamp ", "!!int ", "!!float ", "!!binary ", "!!set ", "? "),
        *(
            "2001-99-99",
            "0x",
            "0b2",
            "1:99",
            "1_0",
            "~",
            "|\n",
            ">\n",
            "%YAML 9",
            "---",
        ),
        *(
            "\n",
            "\n  ",
            ": ",
            ", ",
            "'",
            '"',
            "\\x",
            "#",
            "\t",
            "\x00",
            "é",
            "[" * 2000,
        ),
    ]
)


@given(
    content=st.lists(yaml_words | st.text(max_size=3), max_size=20).map("".join)
    | st.binary(max_size=40)
)
@example(content="!!float ")
@quick
def test_configurations(content):
    with TemporaryDirectory() as name:
        path = Path(name) / "train.yaml"
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        try:
            found = config.read(str(path))
        except RecipeError:
            return
        assert not any(isinstance(value, dict) and value for value in found.values())


def archive(kind):
    """A good archive with a folder, a file, a link and a name of other letters."""
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
            for name in ("top/a.txt", "top/é 'b'.txt", "-rf"):
                file.writestr(name, "hello " * 20)
        return made.getvalue()
    with tarfile.open(fileobj=made, mode=f"w:{kind}") as file:
        for name in ("top/a.txt", "top/é 'b'.txt", "-rf"):
            member = tarfile.TarInfo(name)
            member.size = 120
            file.addfile(member, io.BytesIO(b"hello " * 20))
        link = tarfile.TarInfo("top/link")
        link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
        file.addfile(link)
    return made.getvalue()


ARCHIVES = {kind: archive(kind) for kind in ("", "gz", "bz2", "xz", "zip")}


@given(
    kind=st.sampled_from(list(ARCHIVES)),
    edits=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.sampled_from(["flip", "cut", "insert", "zero"]),
            st.binary(min_size=1, max_size=8)
            | st.sampled_from([b"../", b"/etc/", b"\xff" * 8, b"PK\x05\x06"]),
        ),
        min_size=1,
        max_size=4,
    ),
)
@example(kind="zip", edits=[(0.634765625, "flip", b"\x01")])  # encrypted
@example(kind="zip", edits=[(0.640625, "flip", b"\x01")])  # of unknown compression
@example(kind="zip", edits=[(0.75, "flip", b"\x80")])  # a name that is not UTF-8
@example(kind="zip", edits=[(0.92578125, "flip", b"\x00")])  # an empty name
@quick
def test_archives(kind, edits):
    content = bytearray(ARCHIVES[kind])
    for place, edit, data in edits:
        at = int(place * len(content))
        match edit:
            case "flip":
                content[at : at + len(data)] = data
            case "cut":
                del content[at:]
            case "insert":
                content[at:at] = data
            case "zero":
                content[at : at + 64] = bytes(64)
    with TemporaryDirectory() as name:
        inside = Path(name) / "outer" / "inside"
        inside.mkdir(parents=True)
        path = Path(name) / "archive"
        path.write_bytes(content)
        try:
            unpack(path, inside)
        except CLEAN:
            pass
        assert {p.name for p in Path(name).iterdir()} == {"outer", "archive"}
        assert [p.name for p in inside.parent.iterdir()] == ["inside"]


REQUIRED = "--corpus mini --train_set train --valid_set dev --test_sets test".split()
values = (
    st.sampled_from(["", "true", "1", "-1", "0", "nan", "inf", "1e400k", "16k", "1 2"])
    | st.sampled_from(["a=b", "a=b a=c", "'", '"x', "--a 1", "a\\", "\n", "é"])
    | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
)


@given(
    words=st.lists(
        st.tuples(st.sampled_from([*Options.__dataclass_fields__, "no"]), values),
        max_size=4,
    ),
    joined=st.booleans(),
)
@quick
def test_command_lines(words, joined):
    given_words = list(REQUIRED)
    for name, value in words:
        given_words += [f"--{name}={value}"] if joined else [f"--{name}", value]
    try:
        found = arguments.parse(given_words, Path("."))
    except (*CLEAN, SystemExit):
        return
    # what all stages take of them
    assert found.rate > 0
    assert all(number > 0 for number in (*found.skips, *found.joined))
    for duration in (found.min_wav_duration, found.max_wav_duration):
        int(duration * found.rate)


def main() -> None:
    seconds, *names = sys.argv[1:]
    for name in names or [name for name in globals() if name.startswith("test_")]:
        start, count = time.monotonic(), 0
        while time.monotonic() - start < float(seconds):
            globals()[name]()
            count += quick.max_examples
        print(f"{name}: {count} examples, all read or refused", flush=True)


if __name__ == "__main__":
    main()

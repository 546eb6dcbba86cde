"""Kaldi's data directory: wav.scp, text, utt2spk, spk2utt and segments."""

from dataclasses import dataclass
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir


@dataclass
class DataDir:
    """A set of utterances.

    Attributes:
        wav: recording id to the path of its audio; without segments a recording is an
            utterance. A relative path is relative to the current directory.
        text: utterance id to transcript, which is never empty.
        utt2spk: utterance id to speaker id.
        segments: utterance id to (recording id, start in seconds, end in seconds), or
            None where every recording is one utterance.
    """

    wav: dict[str, str]
    text: dict[str, str]
    utt2spk: dict[str, str]
    segments: dict[str, tuple[str, float, float]] | None = None


def read(path: Path) -> DataDir:
    """Reads a data directory and checks that its files agree.

    Args:
        path: the directory; it holds wav.scp, text, utt2spk and perhaps segments.

    Returns:
        What the files say; spk2utt follows from utt2spk and is not read.

    Raises:
        RecipeError: a file is missing, badly encoded or not sorted in the C locale, an
            id is there twice or missing from one of the files, a transcript is empty,
            wav.scp holds a command, or a segment has no length. Names file and line.
    """
    path = Path(path)
    if not path.is_dir():
        raise RecipeError(f"{path} is missing: make it with stage 1 (--stage 1)")
    wav = read_table(path / "wav.scp")
    for number, (key, value) in enumerate(wav.items(), 1):
        if value.endswith("|"):
            raise RecipeError(
                f"{path / 'wav.scp'} line {number}: {key} is a command ('{value}'), "
                "which is not run here: write its output to a file and give its path"
            )
    data = DataDir(wav, read_table(path / "text"), read_table(path / "utt2spk"))
    if (path / "segments").exists():
        data.segments = read_segments(path / "segments")
    check(data, path)
    return data


def write(data: DataDir, path: Path) -> None:
    """Writes a data directory, all of it or nothing; an old one is replaced.

    Args:
        data: what to write, in any order.
        path: the directory.

    Raises:
        RecipeError: as for `read`, or the disk is full.
    """
    with atomic_dir(path) as directory:
        write_files(data, directory, path)


def write_files(data: DataDir, directory: Path, path: Path) -> None:
    """Writes the files into `directory`, which errors call `path`."""
    check(data, path)
    write_table(data.wav, directory / "wav.scp")
    write_table(data.text, directory / "text")
    write_table(data.utt2spk, directory / "utt2spk")
    spk2utt: dict[str, list[str]] = {}
    for utterance, speaker in sorted(data.utt2spk.items()):
        spk2utt.setdefault(speaker, []).append(utterance)
    write_table({k: " ".join(v) for k, v in spk2utt.items()}, directory / "spk2utt")
    if data.segments is not None:
        # repr keeps every digit that read needs to give the same number back
        rows = {k: f"{r} {a!r} {b!r}" for k, (r, a, b) in data.segments.items()}
        write_table(rows, directory / "segments")


def combine(sources: list[Path], target: Path) -> None:
    """Writes several data directories as one.

    Raises:
        RecipeError: as for `read`, they share an id, or some have segments and others
            have none.
    """
    made = read(sources[0])
    for source in sources[1:]:
        more = read(source)
        if (more.segments is None) != (made.segments is None):
            raise RecipeError(
                f"of {sources[0]} and {source} one has segments and the other has "
                'none: cut them into files by --speed_perturb_factors "1.0"'
            )
        names = ("wav", "text", "utt2spk") + ("segments",) * bool(made.segments)
        for name in names:
            mine, others = getattr(made, name), getattr(more, name)
            if shared := sorted(mine.keys() & others.keys()):
                raise RecipeError(
                    f"{shared[0]} is in {source} and in a set it is put together with: "
                    "rename one"
                )
            mine |= others
    write(made, target)


def tables(path: Path) -> list[Path]:
    """The files of a data directory that all else follows from."""
    found = [path / name for name in ("wav.scp", "text", "utt2spk", "segments")]
    return [table for table in found if table.name != "segments" or table.exists()]


def read_table(path: Path) -> dict[str, str]:
    """Reads lines of "key value", sorted by key in the C locale, each key once."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except FileNotFoundError:
        raise RecipeError(
            f"{path} is missing: make it with stage 1 (--stage 1)"
        ) from None
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise RecipeError(
            f"{path} line {number} is not UTF-8: convert it with iconv"
        ) from error
    if lines[-1] == "":
        lines.pop()
    table: dict[str, str] = {}
    last = ""
    for number, line in enumerate(lines, 1):
        where = f"{path} line {number}"
        key, _, value = line.replace("\t", " ").strip().partition(" ")
        if not key:
            raise RecipeError(f"{where} is empty: remove it")
        if not value:
            what = "an empty transcript" if path.name == "text" else "nothing after it"
            raise RecipeError(f"{where}: {key} has {what}: fill it in or remove {key}")
        if key in table:
            raise RecipeError(f"{where}: {key} is there twice: remove or rename one")
        # code points and UTF-8 bytes have the same order, which is the C locale's
        if key < last:
            raise RecipeError(
                f"{where}: {key} comes after {last}: sort the files of {path.parent} "
                "with LC_ALL=C sort"
            )
        table[key] = value.strip()
        last = key
    if not table:
        raise RecipeError(f"{path} is empty: make it again with stage 1 (--stage 1)")
    return table


def write_table(table: dict, path: Path) -> None:
    lines = (f"{key} {value}\n" for key, value in sorted(table.items()))
    path.write_text("".join(lines), encoding="utf-8")


def read_segments(path: Path) -> dict[str, tuple[str, float, float]]:
    segments = {}
    for number, (utterance, value) in enumerate(read_table(path).items(), 1):
        try:
            recording, start, end = value.split()
            segments[utterance] = (recording, float(start), float(end))
        except ValueError:
            raise RecipeError(
                f"{path} line {number}: '{value}' is not 'recording start end' with "
                f"times in seconds: correct {utterance}"
            ) from None
    return segments


def check(data: DataDir, path: Path) -> None:
    """Checks that the tables of `data` agree; errors say it lies in `path`."""
    for utterance, text in data.text.items():
        if not text.strip():
            raise RecipeError(
                f"{path / 'text'}: {utterance} has an empty transcript: fill it in or "
                f"remove {utterance}"
            )
    for key in [*data.wav, *data.text, *data.utt2spk.values()]:
        if key.split() != [key] or "/" in key:
            raise RecipeError(
                f"{path}: the id '{key}' is empty or holds a blank or a slash: "
                "rename it"
            )
    audio, source = data.wav, "wav.scp"
    if data.segments is not None:
        check_segments(data, path / "segments")
        audio, source = data.segments, "segments"
    for name, keys in (("text", data.text), ("utt2spk", data.utt2spk)):
        for utterance in sorted(audio.keys() ^ keys.keys()):
            has, lacks = (source, name) if utterance in audio else (name, source)
            raise RecipeError(
                f"{path}: {utterance} is in {has} and not in {lacks}: add it there or "
                "remove it"
            )


def check_segments(data: DataDir, path: Path) -> None:
    for utterance, (recording, start, end) in data.segments.items():
        if recording not in data.wav:
            raise RecipeError(
                f"{path}: {utterance} lies in {recording}, which is not in wav.scp: "
                "add it there or remove the segment"
            )
        if not 0 <= start < end:
            raise RecipeError(
                f"{path}: {utterance} goes from {start} to {end} s: correct its times"
            )

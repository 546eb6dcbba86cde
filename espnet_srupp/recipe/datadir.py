"""Kaldi's data directory: wav.scp, text, utt2spk, spk2utt and segments."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import Faults, note, settle
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.letters import check_letters, check_wav, single_blanks
from espnet_srupp.recipe.stamp import stamp
from espnet_srupp.recipe.table import STAGE_1, read_table, write_table


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


def read(path: Path, faults: Faults | None = None) -> DataDir:
    """Reads a data directory and checks that its files agree.

    Recordings that no segment lies in are no part of it, whatever their lines hold.

    Args:
        path: the directory; it holds wav.scp, text, utt2spk and perhaps segments.
        faults: takes what is wrong with single utterances, which are left out then;
            without it the first fault is raised.

    Returns:
        What the files say; spk2utt follows from utt2spk and is not read.

    Raises:
        RecipeError: a file is missing, empty or not sorted in the C locale.
        DataError: a line is badly encoded, an id is there twice or missing from one of
            the files, a transcript is empty, wav.scp holds a command, or a segment has
            no length. Names file and line.
    """
    if not path.is_dir():
        raise RecipeError(f"{path} is missing: write it, or make it ({STAGE_1})")
    found: Faults = {}
    data = read_files(path, found)
    check(data, path, found)
    if faults is None and found:
        raise next(iter(found.values()))
    if faults is not None:
        faults |= found
    return without(data, found)


def read_files(path: Path, faults: Faults) -> DataDir:
    """Reads the tables, and checks the lines of recordings.

    Their faults are those of their utterances, whose ids may be other recordings'.
    """
    segmented = (path / "segments").exists()
    lost: Faults = {} if segmented else faults
    wav = read_table(path / "wav.scp", lost)
    text = single_blanks(read_table(path / "text", faults))
    data = DataDir(wav, text, read_table(path / "utt2spk", faults))
    if segmented:
        data.segments = read_segments(path / "segments", faults)
    check_wav(data.wav, path / "wav.scp", lost)
    for utterance, (recording, *_) in (data.segments or {}).items():
        if recording in lost:
            faults.setdefault(utterance, lost[recording])
    return data


def without(data: DataDir, utterances: Collection[str]) -> DataDir:
    """All but these utterances, and what recordings they leave without a segment."""
    audio = data.wav if data.segments is None else data.segments
    kept = audio.keys() - set(utterances)
    audio, text, utt2spk = (
        {u: value for u, value in table.items() if u in kept}
        for table in (audio, data.text, data.utt2spk)
    )
    if data.segments is None:
        return DataDir(audio, text, utt2spk)
    recordings = {recording for recording, *_ in audio.values()}
    wav = {key: path for key, path in data.wav.items() if key in recordings}
    return DataDir(wav, text, utt2spk, audio)


def write(data: DataDir, path: Path) -> None:
    """Writes a data directory, all of it or nothing; an old one is replaced.

    Args:
        data: what to write, in any order.
        path: the directory, which stages 1 and 2 may replace, see `stamp`.

    Raises:
        RecipeError: as for `read`, or the disk is full.
    """
    with atomic_dir(path) as directory:
        write_files(data, directory, path)
        stamp(directory)


def write_files(data: DataDir, directory: Path, path: Path) -> None:
    """Writes the files into `directory`, which errors call `path`."""
    check_wav(data.wav, path / "wav.scp")
    check(data, path)
    write_tables(data, directory)


def write_tables(data: DataDir, directory: Path) -> None:
    """The same without a look at what they hold."""
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


def combine(sources: list[Path], target: Path, strict: bool = False) -> None:
    """Writes several data directories as one.

    Args:
        sources: the data directories.
        target: the one to make.
        strict: stop at a line that is bad, instead of leaving its utterance out.

    Raises:
        RecipeError: too much of a source is bad, they share an id, or some have
            segments and others have none.
    """
    made = usable(sources[0], strict)
    for source in sources[1:]:
        more = usable(source, strict)
        if (more.segments is None) != (made.segments is None):
            raise RecipeError(
                f"of {sources[0]} and {source} one has segments and the other has "
                'none: cut them into files by --speed_perturb_factors "1.0"'
            )
        names = [name for name, table in vars(made).items() if table is not None]
        for name in names:
            mine, others = getattr(made, name), getattr(more, name)
            if shared := sorted(mine.keys() & others.keys()):
                raise RecipeError(
                    f"{shared[0]} is in {source} and in a set it is put together with: "
                    "rename one"
                )
            mine |= others
    write(made, target)


def usable(path: Path, strict: bool) -> DataDir:
    """What is good of a data directory, if that is enough."""
    faults: Faults = {}
    data = read(path, faults)
    settle(faults, len(data.text), path, strict)
    return data


def tables(path: Path) -> list[Path]:
    """The files of a data directory that all else follows from."""
    found = [path / name for name in ("wav.scp", "text", "utt2spk", "segments")]
    return [table for table in found if table.name != "segments" or table.exists()]


def read_segments(
    path: Path, faults: Faults | None = None
) -> dict[str, tuple[str, float, float]]:
    segments = {}
    for utterance, value in read_table(path, faults).items():
        try:
            recording, start, end = value.split()
            segments[utterance] = (recording, float(start), float(end))
        except ValueError:
            sentence = (
                f"{path}: '{value}' is not 'recording start end' with "
                f"times in seconds: correct {utterance}"
            )
            note(faults, utterance, "segment", sentence)
    return segments


def check(data: DataDir, path: Path, faults: Faults | None = None) -> None:
    """Checks that transcripts, speakers and segments agree, and what they hold.

    Args:
        data: the data directory.
        path: where it lies, for errors.
        faults: takes what is wrong; without it the first fault is raised.
    """
    for utterance, text in data.text.items():
        if not text.strip():
            sentence = (
                f"{path / 'text'}: {utterance} has an empty transcript: fill it in or "
                f"remove {utterance}"
            )
            note(faults, utterance, "empty line", sentence)
    check_letters({"text": data.text, "utt2spk": data.utt2spk}, path, faults)
    audio, source = data.wav, "wav.scp"
    if data.segments is not None:
        check_segments(data, path / "segments", faults)
        audio, source = data.segments, "segments"
    for name, keys in (("text", data.text), ("utt2spk", data.utt2spk)):
        for utterance in sorted(audio.keys() ^ keys.keys()):
            has, lacks = (source, name) if utterance in audio else (name, source)
            sentence = (
                f"{path}: {utterance} is in {has} and not in {lacks}: add it there or "
                "remove it"
            )
            note(faults, utterance, "unmatched", sentence)


def check_segments(data: DataDir, path: Path, faults: Faults | None) -> None:
    for utterance, (recording, start, end) in data.segments.items():
        if recording not in data.wav:
            sentence = (
                f"{path}: {utterance} lies in {recording}, which is not in wav.scp: "
                "add it there or remove the segment"
            )
            note(faults, utterance, "unmatched", sentence)
        if not 0 <= start < end < math.inf:
            sentence = (
                f"{path}: {utterance} goes from {start} to {end} s: correct its times"
            )
            note(faults, utterance, "segment", sentence)

"""How long utterances are, and where they lie in their audio files."""

from dataclasses import dataclass, replace
from pathlib import Path

import soundfile

from espnet_srupp.recipe import sound
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.progress import Progress
from espnet_srupp.recipe.segment import beyond, limits
from espnet_srupp.recipe.table import read_table

MOST = 10  # problems that are told


@dataclass(frozen=True)
class Span:
    """Samples [begin, end) of an audio file.

    Attributes:
        recording: id of the file.
        path: of the file.
        rate: in Hz.
        channels: of the file.
        subtype: libsndfile's name of how samples are stored.
    """

    recording: str
    path: str
    begin: int
    end: int
    rate: int
    channels: int
    subtype: str

    @property
    def samples(self) -> int:
        return self.end - self.begin


def spans(data: DataDir, problems: list[str]) -> dict[str, Span]:
    """Finds every utterance in its file by the header.

    Args:
        data: a data directory.
        problems: takes a sentence for each file that is missing, corrupt, truncated or
            of unknown length and each segment without a sample or beyond the end, whose
            utterances are left out.
    """
    found: dict[str, Span] = {}
    files = headers(data, problems)
    for utterance in data.text:
        recording, start, end = utterance, 0.0, None
        if data.segments is not None:
            recording, start, end = data.segments[utterance]
        if recording not in files:
            continue
        file = files[recording]
        path, rate, last = file.path, file.rate, file.end
        begin, stop = limits(start, end, rate, last)
        if stop > last:
            problems.append(str(beyond(path, last, rate, utterance, end)))
        elif begin == stop:
            problems.append(
                f"{path} has no sample of {utterance}: correct or remove {utterance}"
            )
        else:
            found[utterance] = replace(file, begin=begin, end=stop)
    return found


def headers(data: DataDir, problems: list[str]) -> dict[str, Span]:
    """All of every recording; adds to `problems` what is bad by its header."""
    files = {}
    with Progress("audio headers", len(data.wav), "files") as progress:
        for number, (recording, path) in enumerate(data.wav.items(), 1):
            try:
                files[recording] = header(path, recording)
            except RecipeError as error:
                problems.append(str(error))
            progress.update(number)
    return files


def header(path: str, recording: str) -> Span:
    """All of a recording."""
    name = f"{path} (utterance {recording})"
    try:
        with sound.opened(path, name) as file:
            frames = sound.frames(file, name)
            form = file.samplerate, file.channels, file.subtype
            return Span(recording, path, 0, frames, *form)
    except soundfile.LibsndfileError:
        # says what is wrong with it
        sound.load(path, recording)
        raise


def limited(problems: list[str]) -> list[str]:
    """The first problems, and how many more there are."""
    more = len(problems) - MOST
    return problems[:MOST] + ([f"and {more} more like these"] if more > 0 else [])


def seconds(data: DataDir, path: Path, rate: int | None = None) -> dict[str, float]:
    """The length of every utterance of a data directory.

    Args:
        data: what was read from `path`.
        path: if it holds utt2num_samples, no header but one is read.
        rate: of utt2num_samples in Hz; None is the rate of the first file.

    Raises:
        RecipeError: utt2num_samples is not complete, or audio cannot be read.
    """
    table = path / "utt2num_samples"
    if not table.exists():
        problems: list[str] = []
        found = spans(data, problems)
        if problems:
            raise RecipeError(*limited(problems))
        return {u: span.samples / span.rate for u, span in found.items()}
    if rate is None:
        recording = next(iter(data.wav))
        try:
            rate = header(data.wav[recording], recording).rate
        except RecipeError as error:
            raise RecipeError(f"{error}, or give its rate by --fs") from error
    samples = read_table(table)
    for utterance in data.text:
        if not samples.get(utterance, "").isdecimal():
            raise RecipeError(
                f"{table} does not tell the samples of {utterance}: make it again with "
                "stage 3 (--stage 3), or remove it"
            )
    return {utterance: int(samples[utterance]) / rate for utterance in data.text}

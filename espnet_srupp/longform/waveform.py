"""Samples of recordings of any length: mono, at a model's rate, block by block."""

import os
from collections.abc import Iterable, Iterator

import numpy as np
import soundfile
import soxr

from espnet_srupp.longform.sources import Source
from espnet_srupp.recipe import sound
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.segment import beyond, limits
from espnet_srupp.recipe.sound import AGAIN

BLOCK = 2**18  # samples of each channel that are read at once


def seconds(source: Source) -> float:
    """How long it is by the header of its file.

    Raises:
        RecipeError: the file is missing, of no known format, empty, does not say how
            long it is or is shorter than it says, or ends before the segment does.
    """
    with opened(source) as file:
        frames, rate = sound.frames(file, str(source)), file.samplerate
        begin, end = limits(source.start, source.end, rate, frames)
        if end > frames:
            raise beyond(source.path, frames, rate, source.name, source.end)
        if begin == end:
            mend = AGAIN if source.end is None else "correct or remove the segment"
            raise RecipeError(f"{source} holds no samples: {mend}")
        return (end - begin) / rate


def measured(found: Iterable[Source], problems: list[str]) -> dict[Source, float]:
    """Seconds of each that can be read; adds to `problems` what cannot."""
    lengths = {}
    for source in found:
        try:
            lengths[source] = seconds(source)
        except (RecipeError, OSError) as error:
            problems.append(str(error))
    return lengths


def sampling_rate(source: Source) -> int:
    """Of its file, in Hz."""
    with opened(source) as file:
        return file.samplerate


def blocks(source: Source, rate: int) -> Iterator[np.ndarray]:
    """Reads samples (N,), float32 in [-1, 1), channels mixed down, resampled to `rate`.

    Raises:
        RecipeError: the file does not say how long it is, breaks off before its end, or
            samples are no numbers.
    """
    with opened(source) as file:
        frames = sound.frames(file, str(source))
        begin, end = limits(source.start, source.end, file.samplerate, frames)
        samples = mono(source, file, begin, end)
        if file.samplerate == rate:
            yield from samples
            return
        resampler = soxr.ResampleStream(file.samplerate, rate, 1, "float32")
        for block in samples:
            yield resampler.resample_chunk(block)
        yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def mono(
    source: Source, file: soundfile.SoundFile, begin: int, end: int
) -> Iterator[np.ndarray]:
    try:
        skip(file, begin)
        while begin < end:
            block = file.read(min(BLOCK, end - begin), "float32", always_2d=True)
            if not len(block):
                raise RecipeError(
                    f"{source} is truncated, it breaks off at "
                    f"{begin / file.samplerate:.1f} s: {AGAIN}"
                )
            sound.check_samples(block, str(source))
            begin += len(block)
            yield block.mean(1)
    except soundfile.LibsndfileError as error:
        raise RecipeError(
            f"{source} is corrupt at about {begin / file.samplerate:.1f} s "
            f"({error.error_string}): {AGAIN}"
        ) from error


def skip(file: soundfile.SoundFile, frames: int) -> None:
    """Goes to a frame, by reading where libsndfile cannot seek, as in GSM 6.10."""
    if file.seekable():
        file.seek(frames)
        return
    while frames and len(block := file.read(min(BLOCK, frames), "float32")):
        frames -= len(block)


def opened(source: Source) -> soundfile.SoundFile:
    try:
        return sound.opened(source.path, str(source))
    except soundfile.LibsndfileError as error:
        if source.path.endswith("|"):
            raise RecipeError(
                f"{source} is a command, which is not run: write its output to a "
                "file, and name that file"
            ) from error
        if not os.path.exists(source.path):
            raise RecipeError(f"{source} is missing: correct the path") from error
        raise RecipeError(
            f"{source} is corrupt, or of a format that libsndfile does not read "
            f"({error.error_string}), such as M4A and video: {AGAIN}, or convert it by "
            f"ffmpeg -i FILE FILE.flac"
        ) from error

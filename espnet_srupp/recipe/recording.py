"""What is done with one recording: read it, cut it, play it faster, write it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soxr

from espnet_srupp.recipe import sound
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import DataError
from espnet_srupp.recipe.faults import Faults
from espnet_srupp.recipe.parallel import parallel_map
from espnet_srupp.recipe.segment import beyond, limits

# share of samples at full scale from which audio counts as clipped
CLIPPED = 0.001


@dataclass(frozen=True)
class Recording:
    """What one process does with one recording.

    Attributes:
        key: recording id, for errors.
        source: path of its audio.
        cuts: utterance to (start, end) in seconds; None is the whole recording.
        paths: utterance to the file to write, its format being its suffix, or None.
        rate: the rate in Hz that the audio must have.
        factor: playing speed; 0.9 is slower and lower.
        resample: bring audio of another rate to it.
    """

    key: str
    source: str
    cuts: dict[str, tuple[float, float] | None]
    paths: dict[str, Path | None]
    rate: int
    factor: float = 1.0
    resample: bool = False


@dataclass
class Heard:
    """What reading audio has shown.

    Attributes:
        samples: utterance to its length.
        hashes: utterance to the hash of its samples.
        faults: utterance to why it cannot be trained on.
        clipped: utterance to its share of samples at full scale, where that is much.
    """

    samples: dict[str, int] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=dict)
    clipped: dict[str, float] = field(default_factory=dict)


def recordings(
    data: DataDir,
    paths: dict[str, Path | None],
    rate: int,
    factor: float = 1.0,
    resample: bool = False,
) -> list[Recording]:
    """One job for each recording, with all its utterances and the files to write."""
    cuts: dict[str, dict[str, tuple[float, float] | None]] = {}
    if data.segments is None:
        cuts = {utterance: {utterance: None} for utterance in data.wav}
    else:
        for utterance, (recording, start, end) in data.segments.items():
            cuts.setdefault(recording, {})[utterance] = (start, end)
    jobs = []
    for key, times in cuts.items():
        own = {utterance: paths[utterance] for utterance in times}
        jobs.append(Recording(key, data.wav[key], times, own, rate, factor, resample))
    return jobs


def hear(jobs: Sequence[Recording], nj: int, title: str, scheduler: str) -> Heard:
    """Does the jobs in `nj` processes and puts together what each has shown."""
    found = Heard()
    for each in parallel_map(convert, jobs, nj, title, scheduler=scheduler):
        found.samples |= each.samples
        found.hashes |= each.hashes
        found.faults |= each.faults
        found.clipped |= each.clipped
    return found


def convert(job: Recording) -> Heard:
    """Reads a recording, cuts, perturbs, writes; what cannot be read is a fault."""
    found = Heard()
    try:
        audio, rate = load(job)
    except DataError as error:
        found.faults = dict.fromkeys(job.cuts, error)
        return found
    for utterance, times in job.cuts.items():
        try:
            samples = cut(audio, rate, times, utterance, job)
        except DataError as error:
            found.faults[utterance] = error
            continue
        note(found, utterance, samples, job)
        if job.factor != 1:
            # sox's own resampler, told that the audio was recorded at another rate
            samples = soxr.resample(samples, rate * job.factor, rate)
        path = job.paths[utterance]
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            sound.save(path, samples, rate)
    return found


def note(found: Heard, utterance: str, samples: np.ndarray, job: Recording) -> None:
    """Adds what is to be known of an utterance's samples, before they are perturbed."""
    found.samples[utterance] = len(samples)
    found.hashes[utterance] = hashlib.blake2b(samples, digest_size=8).hexdigest()
    if samples.min() == samples.max():
        found.faults[utterance] = DataError(
            f"{job.source} (utterance {utterance}) is silent, all of it one value: "
            "fetch or make the file again, or remove the utterance",
            "silent",
        )
    # the largest number of 16 bits and what is above it
    share = np.count_nonzero(np.abs(samples) >= 32767 / 32768) / len(samples)
    if share >= CLIPPED:
        found.clipped[utterance] = share


def load(job: Recording) -> tuple[np.ndarray, int]:
    """Reads its samples (N,), at the rate that they must have, and that rate."""
    audio, rate = sound.load(job.source, job.key)
    if rate != job.rate and not job.resample:
        raise DataError(
            f"{job.source} (utterance {job.key}) is sampled at {rate} Hz, not at "
            f"{job.rate} Hz: give --resample true, or --fs {rate} if all audio is so",
            "of another rate",
        )
    if rate != job.rate:
        audio, rate = soxr.resample(audio, rate, job.rate), job.rate
    if not len(audio):
        raise DataError(
            f"{job.source} (utterance {job.key}) is too short to have a sample at "
            f"{rate} Hz: leave it out",
            "no samples",
        )
    return audio, rate


def cut(
    audio: np.ndarray,
    rate: int,
    times: tuple[float, float] | None,
    utterance: str,
    job: Recording,
) -> np.ndarray:
    """The samples between two times, cut to the recording; None is all of them."""
    if times is None:
        return audio
    start, end = limits(*times, rate, len(audio))
    if end > len(audio):
        raise beyond(job.source, len(audio), rate, utterance, times[1])
    if start == end:
        raise DataError(
            f"{job.source} has no sample between {times[0]} and {times[1]} s, the "
            f"segment {utterance}: correct the segments file",
            "segment",
        )
    return audio[start:end]

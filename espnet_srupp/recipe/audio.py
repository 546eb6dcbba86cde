"""Stages 2 to 4 on audio: perturb the speed, check and format, filter by length."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soxr

from espnet_srupp.recipe import datadir, sound
from espnet_srupp.recipe.datadir import DataDir, Faults
from espnet_srupp.recipe.errors import DataError, RecipeError
from espnet_srupp.recipe.faults import settle
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.parallel import parallel_map
from espnet_srupp.recipe.stage import say

FILES_PER_FOLDER = 1000  # more are slow to list
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
        factor: playing speed; 0.9 is slower and lower.
        rate: the rate in Hz that the audio must have, or None for any.
    """

    key: str
    source: str
    cuts: dict[str, tuple[float, float] | None]
    paths: dict[str, Path | None]
    factor: float = 1.0
    rate: int | None = None


@dataclass
class Heard:
    """What reading audio has shown.

    Attributes:
        samples: utterance to its length.
        faults: utterance to why it cannot be trained on.
        clipped: utterance to its share of samples at full scale, where that is much.
    """

    samples: dict[str, int] = field(default_factory=dict)
    faults: Faults = field(default_factory=dict)
    clipped: dict[str, float] = field(default_factory=dict)


def perturb_speed(
    source: Path,
    target: Path,
    factors: list[float],
    nj: int,
    scheduler: str = "",
    strict: bool = False,
) -> None:
    """Stage 2: a set at several speeds, tempo and pitch together, as by `sox speed`.

    Args:
        source: a data directory.
        target: the data directory to make; at speed 0.9 the utterance `u` of speaker
            `s` is `sp0.9-u` of `sp0.9-s`, its audio FLAC under `target/audio`. Speed
            1.0 is the original: same ids, and same files unless there are segments.
        factors: the speeds, each above 0 and there once.
        nj: number of processes.
        scheduler: of Dask, in their place; see `parallel.executor`.
        strict: stop at an utterance that cannot be used, instead of leaving it out;
            `target/dropped` lists those.

    Raises:
        RecipeError: a factor is not usable, or too much of the source or its audio is
            bad.
    """
    if any(not 0 < f < math.inf for f in factors) or len(set(factors)) < len(factors):
        raise RecipeError(
            f"--speed_perturb_factors '{' '.join(f'{f:g}' for f in factors)}' is not a "
            'list of different numbers above 0: give for example "0.9 1.0 1.1"'
        )
    faults: Faults = {}
    data = datadir.read(source, faults)
    made = DataDir({}, {}, {})
    with atomic_dir(target) as directory:
        jobs = []
        for factor in factors:
            prefix = "" if factor == 1 else f"sp{factor:g}-"
            made.text |= {prefix + u: text for u, text in data.text.items()}
            made.utt2spk |= {prefix + u: prefix + s for u, s in data.utt2spk.items()}
            if factor == 1 and data.segments is None:
                made.wav |= data.wav
                continue
            files = {u: f"audio/speed{factor:g}/{prefix}{u}.flac" for u in data.text}
            made.wav |= {prefix + u: f"{target}/{file}" for u, file in files.items()}
            paths = {u: directory / file for u, file in files.items()}
            jobs += recordings(data, paths, factor=factor)
        title = f"speed perturbation of {source}"
        faults |= hear(jobs, nj, title, scheduler).faults
        bad = {
            ("" if factor == 1 else f"sp{factor:g}-") + utterance
            for factor in factors
            for utterance in faults
        }
        settle(faults, len(data.text.keys() - faults.keys()), source, strict)
        write_kept(made, bad, faults, directory, target)


def format_audio(
    source: Path,
    target: Path,
    fs: int,
    audio_format: str,
    nj: int,
    scheduler: str = "",
    strict: bool = False,
    whole: bool = False,
) -> None:
    """Stage 3: reads every sample once and leaves one file per utterance.

    An utterance that has its own file in the wanted format stays where it is; others
    are written to `target/data`. utt2num_samples tells the length of each.

    Args:
        source: a data directory.
        target: the data directory to make; it has no segments.
        fs: the sampling rate that all audio must have, in Hz.
        audio_format: "flac" or "wav", 16 bits.
        nj: number of processes.
        scheduler: of Dask, in their place; see `parallel.executor`.
        strict: stop at an utterance that cannot be used, instead of leaving it out;
            `target/dropped` lists those.
        whole: the set is for tests, which compare only as a whole: stop as well, but
            not at silence, which can be decoded.

    Raises:
        RecipeError: audio is missing, corrupt, truncated, empty, silent, of several
            channels or of another rate, or a line of the source is bad, and it stops
            at that or more than a tenth is so; names file and utterance.
    """
    faults: Faults = {}
    data = datadir.read(source, faults)
    made = DataDir({}, data.text, data.utt2spk)
    paths: dict[str, Path | None] = {}
    with atomic_dir(target) as directory:
        for number, utterance in enumerate(data.text):
            path = data.wav.get(utterance, "")
            if data.segments is None and path.lower().endswith(f".{audio_format}"):
                made.wav[utterance], paths[utterance] = path, None
                continue
            folder = f"data/format.{number // FILES_PER_FOLDER + 1}"
            file = f"{folder}/{utterance}.{audio_format}"
            made.wav[utterance], paths[utterance] = f"{target}/{file}", directory / file
        jobs = recordings(data, paths, rate=fs)
        heard = hear(jobs, nj, f"audio of {source}", scheduler)
        faults |= heard.faults
        if whole:
            faults = {u: f for u, f in faults.items() if f.kind != "silent"}
        left = data.text.keys() - faults.keys()
        settle(faults, len(left), source, strict or whole)
        write_kept(made, faults, faults, directory, target)
        samples = {u: heard.samples[u] for u in left}
        datadir.write_table(samples, directory / "utt2num_samples")
        (directory / "feats_type").write_text("raw\n")
        (directory / "audio_format").write_text(f"{audio_format}\n")
    if heard.clipped:
        say(f"  {len(heard.clipped)} utterances of {source} are clipped, and kept")


def write_kept(
    data: DataDir,
    bad: Collection[str],
    faults: Faults,
    directory: Path,
    target: Path,
) -> None:
    """Writes `data` without the utterances `bad`, and why in the file `dropped`."""
    left = DataDir(
        *(
            {u: value for u, value in table.items() if u not in bad}
            for table in (data.wav, data.text, data.utt2spk)
        )
    )
    datadir.write_files(left, directory, target)
    datadir.write_table(faults, directory / "dropped")


def filter_length(
    source: Path, target: Path, fs: int, min_seconds: float, max_seconds: float
) -> int:
    """Stage 4: leaves out what is too short or too long to train on.

    Args:
        source: a data directory that `format_audio` made.
        target: the data directory to make; the file `dropped` lists what was left out
            with its length in seconds.
        fs: the sampling rate in Hz.
        min_seconds: utterances of this length or less are left out.
        max_seconds: utterances of this length or more are left out.

    Returns:
        How many were left out.

    Raises:
        RecipeError: nothing is left, or the source is bad.
    """
    data = datadir.read(source)
    samples = {
        u: int(n) for u, n in datadir.read_table(source / "utt2num_samples").items()
    }
    if samples.keys() != data.text.keys():
        raise RecipeError(
            f"{source / 'utt2num_samples'} lists other utterances than text: make both "
            "again with stage 3 (--stage 3)"
        )
    low, high = int(min_seconds * fs), int(max_seconds * fs)
    kept = {u for u in data.text if low < samples[u] < high}
    if not kept:
        raise RecipeError(
            f"{source}: no utterance is longer than {min_seconds} s and shorter than "
            f"{max_seconds} s: change --min_wav_duration or --max_wav_duration"
        )

    def keep(table: dict) -> dict:
        return {key: value for key, value in table.items() if key in kept}

    with atomic_dir(target) as directory:
        left = DataDir(keep(data.wav), keep(data.text), keep(data.utt2spk))
        datadir.write_files(left, directory, target)
        datadir.write_table(keep(samples), directory / "utt2num_samples")
        dropped = {u: f"{samples[u] / fs:.3f}" for u in data.text if u not in kept}
        datadir.write_table(dropped, directory / "dropped")
        for name in ("feats_type", "audio_format"):
            (directory / name).write_bytes((source / name).read_bytes())
    return len(dropped)


def recordings(
    data: DataDir,
    paths: dict[str, Path | None],
    factor: float = 1.0,
    rate: int | None = None,
) -> list[Recording]:
    """One job for each recording, with all its utterances and the files to write."""
    cuts: dict[str, dict[str, tuple[float, float] | None]] = {}
    if data.segments is None:
        cuts = {utterance: {utterance: None} for utterance in data.wav}
    else:
        for utterance, (recording, start, end) in data.segments.items():
            cuts.setdefault(recording, {})[utterance] = (start, end)
    return [
        Recording(key, data.wav[key], times, {u: paths[u] for u in times}, factor, rate)
        for key, times in cuts.items()
    ]


def hear(jobs: Sequence[Recording], nj: int, title: str, scheduler: str = "") -> Heard:
    """Does the jobs in `nj` processes and puts together what each has shown."""
    found = Heard()
    for each in parallel_map(convert, jobs, nj, title, scheduler=scheduler):
        found.samples |= each.samples
        found.faults |= each.faults
        found.clipped |= each.clipped
    return found


def convert(job: Recording) -> Heard:
    """Reads a recording, cuts, perturbs, writes; what cannot be read is a fault."""
    found = Heard()
    try:
        audio, rate = sound.load(job.source, job.key)
        check_rate(job, rate)
    except DataError as error:
        found.faults = dict.fromkeys(job.cuts, error)
        return found
    for utterance, times in job.cuts.items():
        try:
            samples = cut(audio, rate, times, utterance, job)
        except DataError as error:
            found.faults[utterance] = error
            continue
        found.samples[utterance] = len(samples)
        if not samples.any():
            found.faults[utterance] = DataError(
                f"{job.source} (utterance {utterance}) is silent, all of it zeros: "
                "fetch or make the file again, or remove the utterance",
                "silent",
            )
        # the largest number of 16 bits and what is above it
        share = np.count_nonzero(np.abs(samples) >= 32767 / 32768) / len(samples)
        if share >= CLIPPED:
            found.clipped[utterance] = share
        if job.factor != 1:
            # sox's own resampler, told that the audio was recorded at another rate
            samples = soxr.resample(samples, rate * job.factor, rate)
        path = job.paths[utterance]
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            sound.save(path, samples, rate)
    return found


def check_rate(job: Recording, rate: int) -> None:
    if job.rate is not None and rate != job.rate:
        raise DataError(
            f"{job.source} (utterance {job.key}) is sampled at {rate} Hz, not at "
            f"{job.rate} Hz: resample it, or give --fs {rate} if all audio is like it",
            "of another rate",
        )


def cut(
    audio: np.ndarray,
    rate: int,
    times: tuple[float, float] | None,
    utterance: str,
    job: Recording,
) -> np.ndarray:
    """The samples between two times; None is all of them."""
    if times is None:
        return audio
    start, end = (round(t * rate) for t in times)
    if end > len(audio):
        raise DataError(
            f"{job.source} ends at {len(audio) / rate:.3f} s, before the end of "
            f"the segment {utterance} at {times[1]} s: correct the segments file",
            "segment",
        )
    if start == end:
        raise DataError(
            f"{job.source} has no sample between {times[0]} and {times[1]} s, the "
            f"segment {utterance}: correct the segments file",
            "segment",
        )
    return audio[start:end]

"""Audio files: read whole and checked, written as 16 bits."""

import io
import os
from pathlib import Path

import numpy as np
import soundfile

from espnet_srupp.recipe import mpeg, ogg
from espnet_srupp.recipe.errors import DataError
from espnet_srupp.recipe.truncation import too_large, truncated

# what libsndfile tells of a FLAC file that was written to a pipe
UNKNOWN_FRAMES = 1 << 62
BLOCK = 1 << 20
LOUDEST = 1e6  # full scale is 1; some write 16 bits as numbers up to 32768
AGAIN = "fetch or make the file again, or leave it out"


def load(path: str, key: str) -> tuple[np.ndarray, int]:
    """Reads a whole audio file.

    Args:
        path: the file, in any format of libsndfile.
        key: the utterance or recording it belongs to, for errors.

    Returns:
        float32 samples (N,) in [-1, 1) and their rate in Hz.

    Raises:
        DataError: it is missing, corrupt, truncated, of unknown length, empty or not
            mono, or holds samples that are not numbers or not of audio.
    """
    name = f"{path} (utterance {key})"
    try:
        with opened(path, name) as file:
            left = frames(file, name)
            # not all at once: a damaged header may promise more than there is memory
            blocks = [np.zeros((0, file.channels), np.float32)]
            # nor past the end: what is behind it need not be audio
            while len(block := file.read(min(BLOCK, left), "float32", always_2d=True)):
                blocks.append(block)
                left -= len(block)
            audio, rate, form = np.concatenate(blocks), file.samplerate, file.format
    except soundfile.LibsndfileError as error:
        # os.path's, as that of Path raises for a name that is too long
        if not os.path.exists(path):
            there = "" if os.path.isabs(path) else f" from {os.getcwd()}"
            raise DataError(
                f"{name} is missing or out of reach{there}: {AGAIN}", "missing"
            ) from error
        raise DataError(
            f"{name} is corrupt ({error.error_string}): {AGAIN}", "corrupt"
        ) from error
    if left:
        raise DataError(f"{name} is truncated: {AGAIN}", "truncated")
    if form == "OGG" and ogg.damaged(path):
        raise DataError(f"{name} is corrupt: {AGAIN}", "corrupt")
    check_mono(audio.shape[1], name)
    if not len(audio):
        raise DataError(f"{name} holds no samples: {AGAIN}", "no samples")
    check_samples(audio, name)
    return audio[:, 0], rate


def opened(path: str, name: str) -> soundfile.SoundFile:
    """Opens an audio file, which errors call `name`.

    Raises:
        DataError: it has no header, or is a folder, a pipe or a device.
        soundfile.LibsndfileError: it is missing or of no known format.
    """
    if path.lower().endswith(".raw"):
        # soundfile would ask for what only a header tells
        raise DataError(
            f"{name} has no header: write it as WAV or FLAC, or leave it out",
            "without a header",
        )
    # a pipe would be waited for
    if os.path.exists(path) and not os.path.isfile(path):
        raise DataError(f"{name} is no file: {AGAIN}", "no file")
    return soundfile.SoundFile(path)


def check_samples(samples: np.ndarray, name: str) -> None:
    """Raises DataError for what would make features that are not finite."""
    # the least and the most are NaN where a sample is
    if not -LOUDEST < samples.min() <= samples.max() < LOUDEST:
        raise DataError(
            f"{name} holds samples that are not numbers, or a million times louder "
            f"than audio can be: {AGAIN}",
            "not a number",
        )


def check_mono(channels: int, name: str) -> None:
    if channels != 1:
        raise DataError(
            f"{name} has {channels} channels: keep one of them, or mix them to one",
            "several channels",
        )


def frames(file: soundfile.SoundFile, name: str) -> int:
    """How many samples of each channel an open file has, by its header.

    Args:
        file: as `opened` opens it.
        name: what errors call it.

    Raises:
        DataError: it does not say, or is shorter or longer than it says.
    """
    if file.frames >= UNKNOWN_FRAMES:
        raise DataError(
            f"{name} does not say how long it is: encode it again to a file, not to a "
            "pipe",
            "no length",
        )
    if truncated(file.name):
        raise DataError(f"{name} is truncated: {AGAIN}", "truncated")
    check_end(file, name)
    if file.format != "MP3":
        return file.frames
    samples = mpeg.samples_by_rate(file.name)
    if len(samples) > 1:
        raise DataError(
            f"{name} is an MP3 of changing bit rate that does not say how long it is: "
            "encode it again",
            "no length",
        )
    # libsndfile's estimate counts tags as well, and the bytes that not all frames have
    return min([file.frames, *samples.values()])


def check_end(file: soundfile.SoundFile, name: str) -> None:
    """Raises DataError where libsndfile would stop before the end of a file."""
    if too_large(file.name):
        raise DataError(
            f"{name} is larger than the 4 GiB that its header can tell: encode it "
            "again as FLAC or RF64",
            "too large",
        )
    joined = {"MP3": mpeg.goes_on, "OGG": ogg.chained}.get(file.format)
    if joined and joined(file.name):
        raise DataError(
            f"{name} is several files one after the other, of which only the first "
            "would be read: encode it again as one, or give them one by one",
            "several in one",
        )


def pcm(samples: np.ndarray) -> np.ndarray:
    """Samples (N,) in [-1, 1] as 16 bits, clipped.

    The scale is that of reading, so 16-bit audio comes through unchanged.
    """
    return np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)


def save(path: Path, samples: np.ndarray, rate: int) -> None:
    """Writes samples (N,) in [-1, 1] as 16 bits in the format of the suffix."""
    encoded = io.BytesIO()
    soundfile.write(encoded, pcm(samples), rate, "PCM_16", format=path.suffix[1:])
    # written by python, because libsndfile does not say that the disk is full
    path.write_bytes(encoded.getvalue())

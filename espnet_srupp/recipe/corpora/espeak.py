"""espeak-ng, the formant synthesiser, through the library of PyPI's espeakng-loader."""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from espnet_srupp.recipe.errors import RecipeError

# from espeak-ng's speak_lib.h
AUDIO_OUTPUT_SYNCHRONOUS = 2
CHARS_UTF8 = 1
RATE, PITCH = 1, 3
LONGEST = 159  # bytes of a path of its data; at more it ends the process
CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


@dataclass(frozen=True)
class Voice:
    """How a speaker sounds.

    Attributes:
        accent: one of espeak-ng's English voices, such as "en-us" or "en-gb-x-rp".
        variant: the voice quality, one of espeak-ng's variants, such as "f2" or "m3".
        rate: words per minute, 80 to 450.
        pitch: 0 to 100.
    """

    accent: str
    variant: str
    rate: int
    pitch: int

    def __str__(self) -> str:
        return f"{self.accent}_{self.variant}_r{self.rate}_p{self.pitch}"


def speak(voice: Voice, sentences: Sequence[str]) -> Iterator[tuple[np.ndarray, int]]:
    """Speaks sentences one after the other.

    The synthesiser keeps its random numbers from call to call and never resets them, so
    the same samples come out again only from a process that has not spoken before.

    Args:
        voice: who speaks.
        sentences: English, one utterance each.

    Yields:
        int16 samples (N,) and their rate in Hz.

    Raises:
        RecipeError: espeakng-loader is not installed or does not know the voice.
    """
    try:
        import espeakng_loader
    except ImportError as error:
        raise RecipeError(
            "espeakng-loader is not installed: pip install espeakng-loader"
        ) from error
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    with shortened(Path(espeakng_loader.get_data_path())) as folder:
        yield from spoken(library, folder, voice, sentences)


@contextmanager
def shortened(folder: Path) -> Iterator[Path]:
    """The folder, or a link to it where its path is too long for espeak-ng."""
    if len(os.fsencode(folder)) <= LONGEST:
        yield folder
        return
    with TemporaryDirectory() as place:
        link = Path(place, "data")
        link.symlink_to(folder)
        yield link


def spoken(
    library: ctypes.CDLL, folder: Path, voice: Voice, sentences: Sequence[str]
) -> Iterator[tuple[np.ndarray, int]]:
    """As `speak`, by the library and its data in a folder."""
    rate = library.espeak_Initialize(
        AUDIO_OUTPUT_SYNCHRONOUS, 0, str(folder).encode(), 0
    )
    chunks: list[np.ndarray] = []

    @CALLBACK
    def collect(samples, count, events):
        if samples and count > 0:
            chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    library.espeak_SetSynthCallback(collect)
    name = f"{voice.accent}+{voice.variant}"
    # espeak-ng leaves out a variant that it does not know and says nothing
    known = (folder / "voices" / "!v" / voice.variant).is_file()
    if not known or library.espeak_SetVoiceByName(name.encode()) != 0:
        raise RecipeError(f"espeak-ng has no voice {name}: update espeakng-loader")
    library.espeak_SetParameter(RATE, voice.rate, 0)
    library.espeak_SetParameter(PITCH, voice.pitch, 0)
    for sentence in sentences:
        text = sentence.encode() + b"\0"
        chunks.clear()
        library.espeak_Synth(text, len(text), 0, 0, 0, CHARS_UTF8, None, None)
        yield np.concatenate(chunks), rate

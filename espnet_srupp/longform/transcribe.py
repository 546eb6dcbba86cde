"""Transcribes recordings of any length, hours included, in one exact pass.

MODEL is an ESPnet ASR model with CTC, ESPnet's default frontend and any encoder.
Frontend, normalisation and CTC run on tiles of time, and the encoder over the whole
recording: with SRU++ memory grows linearly with the length, and the attention's time
with its square. AUDIO are sound files of any rate and of any format of libsndfile, such
as WAV, FLAC, MP3 and Ogg but not M4A or video, or data directories (wav.scp, perhaps
segments).

--search greedy and prefix are by CTC, over the whole recording. joint is ESPnet's joint
decoding by CTC and attention, in overlapping windows, because a decoder has learned to
attend to utterances: choose --window about as long as those of the training. prefix and
joint take a language model, by --lm.

Without --out the text goes to standard output, "name text" a line. --out DIR gets text,
longform.jsonl (speed and memory, for `score`), and for each recording NAME.json (words
with times; "glued": without a blank before) and NAME.srt; a recording whose result is
there is not decoded again. text and longform.jsonl hold the recordings of the last
command only: give all of them at once.

A word lasts from where CTC puts its first token to where it puts its last, which no
training ties to the sound: it may begin and end some tenths of a second too early.
"""

import argparse
import io
import logging
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import IO

from tqdm import tqdm

import espnet_srupp
from espnet_srupp.longform import search_options, sources, transcript, waveform
from espnet_srupp.longform.lengths import limited
from espnet_srupp.longform.sources import Source
from espnet_srupp.longform.transcript import Transcript
from espnet_srupp.recipe.download import checksum
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.progress import Progress


def options(parser: argparse.ArgumentParser) -> None:
    """The command line of `transcribe`."""
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="experiment's folder or packed zip")
    add("audio", metavar="AUDIO", nargs="+", help="sound file or data directory")
    add("--out", metavar="DIR", type=Path, help="where results go")
    add(
        "--checkpoint",
        metavar="FILE",
        help="file of the experiment (default: valid.acc.ave.pth, or the one packed)",
    )
    search_options.add(parser)
    add("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    add(
        "--dtype",
        choices=["float32", "bfloat16"],
        default="float32",
        help="type of the encoder's products; bfloat16 is faster on a CPU that has "
        "instructions for it, and slower on others (default: %(default)s)",
    )
    add("--force", action="store_true", help="decode again, even if results are there")


def run(given: argparse.Namespace) -> None:
    """Transcribes as the command line says.

    Raises:
        RecipeError: an option or the model is bad; or, once all else is done, with a
            sentence for each recording that could not be.
    """
    search_options.check(given)
    problems: list[str] = []
    lengths = waveform.measured(sources.find(given.audio, problems), problems)
    if lengths:
        if given.out is not None:
            # before hours of decoding
            transcript.claim(given.out)
        # the text alone goes to standard output, also where progress is told by lines
        printed = sys.stdout
        if isinstance(printed, io.TextIOWrapper):
            # a terminal may lack letters
            printed.reconfigure(errors="backslashreplace")
        with redirect_stdout(sys.stderr):
            made = transcribe(given, lengths, problems, printed)
        if given.out is not None:
            transcript.write_all(made, given.out)
    if problems:
        raise RecipeError(*limited(problems))


def transcribe(
    given: argparse.Namespace,
    lengths: dict[Source, float],
    problems: list[str],
    printed: IO,
) -> list[Transcript]:
    """Decodes what is not there yet, and adds to `problems` what cannot be.

    Args:
        given: the command line.
        lengths: seconds of each recording.
        problems: gets a sentence for each recording that is bad.
        printed: gets the text, if there is no --out.

    Returns:
        All that is there then, in order.
    """
    # ESPnet prints to both, as it is imported
    with quiet(), redirect_stderr(io.StringIO()):
        # seconds to import: after whatever can be told without it
        from espnet_srupp.longform import decoder as decoding
        from espnet_srupp.longform import loading

    done: dict[Source, Transcript] = {}
    total = math.ceil(sum(lengths.values()))
    with (
        loading.files(given.model, given.checkpoint) as found,
        Progress("transcribing", total, "s") as progress,
    ):
        settings = settings_of(given, found.config, found.checkpoint)
        wanted = {source: settings | source.state() for source in lengths}
        if given.out is not None and not given.force:
            done = there(given.out, wanted)
        if len(done) < len(lengths):
            with quiet():
                decoder = decoding.Decoder(found, given)
            if given.out is not None:
                transcript.begin(given.out)
        passed, warned = 0.0, False
        # the memory that one took, its process keeps: to files the shortest come first
        order = sorted(lengths, key=lengths.get) if given.out else lengths
        for source in order:
            seconds = lengths[source]
            if source not in done:
                told = partial(tell, progress, passed, seconds)
                with collected(problems):
                    if given.out is not None:
                        transcript.check(given.out, source.name)
                    warned = warned or warn(source, decoder.recogniser.rate)
                    made = decoder.transcribe(source, seconds, wanted[source], told)
                    keep(made, given.out, printed)
                    done[source] = made
            passed += seconds
            tell(progress, passed)
        progress.update(total)
    return [done[source] for source in lengths if source in done]


def warn(source: Source, rate: int) -> bool:
    """Whether it lacks high sounds that a model of this rate hears; says so then."""
    sampled = waveform.sampling_rate(source)
    if sampled < rate:
        # past the progress bar
        tqdm.write(
            f"warning: {source} is sampled at {sampled} Hz and the model hears {rate} "
            f"Hz: expect more errors than at {rate} Hz, of this one and others like it",
            file=sys.stderr,
        )
    return sampled < rate


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Adds what is wrong with a recording to `problems`, and lets others go on."""
    try:
        yield
    except BrokenPipeError:
        # nobody reads any more
        raise
    except (RecipeError, OSError) as error:
        # as where a file of results could not have so long a name
        problems.append(str(error))


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what ESPnet says of optional modules and of torch's future to itself."""
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def tell(
    progress: Progress, passed: float, seconds: float = 0.0, share: float = 0.0
) -> None:
    """Tells that a share of so many seconds is done, after those passed before."""
    progress.update(int(passed + share * seconds))


def settings_of(given: argparse.Namespace, config: Path, checkpoint: Path) -> dict:
    """What a result depends on, but for the audio."""
    return {
        "version": espnet_srupp.__version__,
        "config": checksum(config),
        "checkpoint": checksum(checkpoint),
        "dtype": given.dtype,
        **search_options.settings(given),
    }


def there(out: Path, wanted: dict[Source, dict]) -> dict[Source, Transcript]:
    """What an earlier run has made."""
    read = {s: transcript.read(out, s.name, settings) for s, settings in wanted.items()}
    return {source: made for source, made in read.items() if made is not None}


def keep(made: Transcript, out: Path | None, printed: IO) -> None:
    if out is None:
        # past the progress bar
        tqdm.write(made.line, file=printed)
        printed.flush()
    else:
        transcript.write(made, out)

"""What was heard in a recording, and its files: NAME.json and NAME.srt."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from espnet_srupp.longform import usage
from espnet_srupp.longform.usage import DAMAGES, Usage
from espnet_srupp.longform.words import Word, text_of
from espnet_srupp.recipe import files
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_file

# a cue ends at a pause of so many seconds, and before it gets longer than this
PAUSE, LONGEST, WIDEST = 1.0, 7.0, 80
SHORTEST = 1.0  # seconds that a cue stays if there is room for it


@dataclass(frozen=True)
class Transcript:
    """A recording's text.

    Attributes:
        name: of the recording.
        text: of one line, perhaps empty.
        words: in the order of time.
        blank: what stands between words.
        usage: what decoding took.
        settings: what the result depends on: audio, model, options.
    """

    name: str
    text: str
    words: list[Word]
    blank: str
    usage: Usage
    settings: dict

    @property
    def line(self) -> str:
        """As ESPnet's files called `text` have it."""
        return f"{self.name} {self.text}".rstrip()


def claim(directory: Path) -> None:
    """Makes the folder for results, and sees that nothing else is overwritten there.

    Raises:
        RecipeError: it cannot be written to, or has a `text` of something else.
    """
    files.claim(directory)
    if (directory / "text").exists() and not (directory / usage.NAME).exists():
        raise RecipeError(
            f"--out {directory} has a text that transcribe did not make: give another"
        )


def check(directory: Path, name: str) -> None:
    """Sees that what is there of a recording was made by `write`.

    Raises:
        RecipeError: it was not.
    """
    words, titles = (directory / f"{name}.{suffix}" for suffix in ("json", "srt"))
    try:
        ours = json.loads(words.read_text("utf-8")).keys() >= {"words", "settings"}
    except FileNotFoundError:
        ours = not titles.exists()
    except DAMAGES:
        ours = False
    if not ours:
        raise RecipeError(
            f"{directory} has a {name}.json or {name}.srt that transcribe did not "
            "make: give another --out"
        )


def write(transcript: Transcript, directory: Path) -> None:
    """Writes NAME.json and then NAME.srt, by which `read` knows that both are there."""
    (directory / f"{transcript.name}.srt").unlink(missing_ok=True)
    with atomic_file(directory / f"{transcript.name}.json") as file:
        given = asdict(transcript)
        for word in given["words"]:
            word |= {name: round(word[name], 3) for name in ("start", "end")}
            if not word["glued"]:
                del word["glued"]
        json.dump(given, file, indent=1, ensure_ascii=False)
        file.write("\n")
    with atomic_file(directory / f"{transcript.name}.srt") as file:
        seconds = transcript.usage.audio_seconds
        file.write(subtitles(transcript.words, transcript.blank, seconds))


def begin(directory: Path) -> None:
    """Removes the files that tell of all recordings, which are not of one model now."""
    # in this order, see `claim`
    for name in ("text", usage.NAME):
        (directory / name).unlink(missing_ok=True)


def write_all(made: Sequence[Transcript], directory: Path) -> None:
    """Writes the files that tell of all recordings, `text` last, see `claim`."""
    usage.write(directory / usage.NAME, {item.name: item.usage for item in made})
    with atomic_file(directory / "text") as file:
        file.writelines(f"{item.line}\n" for item in made)


def read(directory: Path, name: str, settings: dict) -> Transcript | None:
    """What `write` wrote, if it is there and of these settings."""
    try:
        given = json.loads((directory / f"{name}.json").read_text("utf-8"))
        words = [Word(**word) for word in given.pop("words")]
        used = Usage(**given.pop("usage"))
        found = Transcript(words=words, usage=used, **given)
    except (OSError, *DAMAGES):
        # nothing, or a file of something else: it is made again
        return None
    whole = (directory / f"{name}.srt").exists()
    same = (found.name, found.settings) == (name, settings)
    return found if whole and same else None


def subtitles(words: Sequence[Word], blank: str, seconds: float) -> str:
    """SubRip's format, for a recording of so many seconds."""
    cues = list(grouped(words, len(blank)))
    parts = []
    for number, cue in enumerate(cues, 1):
        start, end = cue[0].start, max(cue[-1].end, cue[0].start + SHORTEST)
        end = min(end, cues[number][0].start if number < len(cues) else seconds)
        text = text_of(cue, blank)
        parts.append(f"{number}\n{time(start)} --> {time(end)}\n{text}\n")
    return "\n".join(parts)


def grouped(words: Sequence[Word], between: int) -> Iterator[list[Word]]:
    """Words of each cue; `between` characters stand between words."""
    cue: list[Word] = []
    width = 0
    for word in words:
        more = width + (0 if word.glued else between) + len(word.text)
        if cue and (
            word.start - cue[-1].end >= PAUSE
            or word.end - cue[0].start > LONGEST
            or more > WIDEST
        ):
            yield cue
            cue = []
        width = more if cue else len(word.text)
        cue.append(word)
    if cue:
        yield cue


def time(seconds: float) -> str:
    """3723.5 as 01:02:03,500."""
    minutes, milliseconds = divmod(round(1000 * seconds), 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{seconds:02},{milliseconds:03}"

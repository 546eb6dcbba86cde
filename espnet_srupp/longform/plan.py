"""What goes into each long recording, and where."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from espnet_srupp.longform import groups
from espnet_srupp.longform.lengths import Span
from espnet_srupp.recipe.datadir import DataDir


@dataclass(frozen=True)
class Recording:
    """A recording to make.

    Attributes:
        name: its id.
        speaker: its speaker id.
        parts: utterance to its first sample in the recording, in the order of speaking.
        audio: what to copy, each with its first sample in the recording.
    """

    name: str
    speaker: str
    parts: dict[str, int]
    audio: list[tuple[int, Span]]

    @property
    def samples(self) -> int:
        start, span = self.audio[-1]
        return start + span.samples


def join(
    data: DataDir,
    found: dict[str, Span],
    pattern: str | None,
    num_utts: float,
    samples: float,
    gap: int,
    problems: list[str],
) -> list[Recording]:
    """Joins consecutive utterances of a group; the last recording of it has the rest.

    Args:
        data: a data directory.
        found: where its utterances lie.
        pattern: as for `groups.groups`.
        num_utts: a recording of so many utterances is complete; may be infinite.
        samples: a recording of so many samples or more is complete; may be infinite.
        gap: samples between utterances.
        problems: as for `groups.groups`.
    """
    made: dict[str, Recording] = {}
    for group in groups.groups(data, pattern, problems):
        chunks = list(split(group.utterances, found, num_utts, samples, gap))
        for name, parts in zip(names(group.name, len(chunks)), chunks, strict=True):
            audio = [(start, found[utterance]) for utterance, start in parts.items()]
            speakers = {data.utt2spk[utterance] for utterance in parts}
            one = speakers.pop() if len(speakers) == 1 else ""
            speaker = one or group.speaker or name
            # one that gets its speaker's name may be called like one of another group
            while not name.startswith(speaker) or name in made:
                name = f"{speaker}-{name}"
            made[name] = Recording(name, speaker, parts, audio)
    return [*made.values()]


def split(
    utterances: list[str],
    found: dict[str, Span],
    num_utts: float,
    samples: float,
    gap: int,
) -> Iterator[dict[str, int]]:
    """Yields the parts of each recording of a group."""
    parts: dict[str, int] = {}
    length = 0
    for utterance in utterances:
        parts[utterance] = length + gap if parts else 0
        length = parts[utterance] + found[utterance].samples
        if len(parts) >= num_utts or length >= samples:
            yield parts
            parts, length = {}, 0
    if parts:
        yield parts


def whole(data: DataDir, found: dict[str, Span]) -> list[Recording]:
    """Every recording of segments, from the first segment to the end of the last."""
    made = []
    for group in groups.recordings(data):
        spans = {utterance: found[utterance] for utterance in group.utterances}
        first = min(span.begin for span in spans.values())
        last = max(span.end for span in spans.values())
        parts = {utterance: span.begin - first for utterance, span in spans.items()}
        cut = replace(found[group.utterances[0]], begin=first, end=last)
        (name,) = names(group.name, 1)
        made.append(Recording(name, group.speaker or name, parts, [(0, cut)]))
    return made


def names(group: str, count: int) -> list[str]:
    """Ids that sort as they count."""
    width = max(4, len(str(count)))
    return [f"{group}-long{number:0{width}}" for number in range(1, count + 1)]

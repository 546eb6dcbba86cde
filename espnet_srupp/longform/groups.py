"""Which utterances belong together, and in what order."""

import re
from dataclasses import dataclass

from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError

# the first group of each is what an utterance belongs to
IDS = {
    "LibriSpeech": r"(\d+-\d+)-\d{4}",  # chapter
    "TEDLIUM3": r"(.+)-\d{7}-\d{7}",  # talk
    "AISHELL-1": r"(BAC\d+S\d+)W\d+",  # speaker
    "AN4": r"(\w+)-(?:an|cen)\d+-\w+",  # speaker
}
SPEED = re.compile(r"(sp\d+(?:\.\d+)?-)?(.+)")  # as speed perturbation names them
ALL = "all"  # the group whose name is empty
SHOWN = 3  # ids in a sentence


@dataclass(frozen=True)
class Group:
    """Utterances that may be joined.

    Attributes:
        name: what the ids of its recordings begin with; begins with the speaker.
        speaker: of recordings in which several speak; "" where all are joined, so that
            each such recording is alone of its kind.
        utterances: in the order of speaking.
    """

    name: str
    speaker: str
    utterances: list[str]


def groups(data: DataDir, pattern: str | None, problems: list[str]) -> list[Group]:
    """Sorts utterances into chapters, talks or speakers.

    A group has one speaker, unless `pattern` puts several into it. With segments, a
    group is a recording, otherwise the utterance ids tell; those of LibriSpeech,
    TEDLIUM3, AISHELL-1 and AN4 are known, with a prefix of speed perturbation as well.

    Args:
        data: a data directory.
        pattern: a regular expression, searched in each id behind a prefix of speed
            perturbation, whose first group is the name of the utterance's group; where
            that is empty, the name is "all".
        problems: takes a sentence about ids that match nothing, which are left out.

    Returns:
        The groups, ordered by name.

    Raises:
        RecipeError: no id matches; a pattern without a group.
    """
    members: dict[tuple[str, str], list[str]] = {}
    strangers = []
    for utterance, speaker in data.utt2spk.items():
        if data.segments is not None and pattern is None:
            name = data.segments[utterance][0]
        else:
            name = name_by_id(utterance, speaker, pattern)
        if name is None:
            strangers.append(utterance)
        else:
            key = (name, speaker if pattern is None else "")
            members.setdefault(key, []).append(utterance)
    if strangers:
        told = (
            f"{shortened(strangers)} named as in none of {', '.join(IDS)}: give "
            "--group REGEX, whose first group is the chapter, talk or speaker"
            if pattern is None
            else f"{shortened(strangers)} not matched by --group '{pattern}': "
            "correct it"
        )
        if not members:
            raise RecipeError(told)
        problems.append(told)
    return named(members, data)


def recordings(data: DataDir) -> list[Group]:
    """Every recording as a group, whoever speaks in it; `data` has segments."""
    members: dict[tuple[str, str], list[str]] = {}
    for utterance, (recording, _, _) in data.segments.items():
        members.setdefault((recording, ""), []).append(utterance)
    return named(members, data)


def name_by_id(utterance: str, speaker: str, pattern: str | None) -> str | None:
    prefix, rest = SPEED.fullmatch(utterance).groups(default="")
    if prefix == f"{speaker}-":
        # somebody who is called sp1
        prefix, rest = "", utterance
    if pattern is not None:
        match = compiled(pattern).search(rest)
    else:
        match = next(filter(None, (re.fullmatch(i, rest) for i in IDS.values())), None)
    if match is None or match[1] is None:
        return None
    return prefix + (match[1] or ALL)


def compiled(pattern: str) -> re.Pattern:
    try:
        result = re.compile(pattern)
    except re.error as error:
        raise RecipeError(
            f"--group '{pattern}' is not a regular expression ({error}): correct it"
        ) from error
    if not result.groups:
        raise RecipeError(
            f"--group '{pattern}' has no group: put the part of the id that names the "
            "chapter, talk or speaker into parentheses"
        )
    return result


def named(members: dict[tuple[str, str], list[str]], data: DataDir) -> list[Group]:
    result: dict[str, Group] = {}
    for (name, _), utterances in members.items():
        speakers = {data.utt2spk[utterance] for utterance in utterances}
        speaker = speakers.pop() if len(speakers) == 1 else name
        # a speaker before each id lets sort and utt2spk agree, as Kaldi demands
        if speaker.startswith(name):
            name = speaker
        elif not name.startswith(speaker):
            name = f"{speaker}-{name}"
        while name in result:
            name = f"{speaker}-{name}"
        ordered = sorted(utterances, key=lambda utterance: order(utterance, data))
        mixed = "" if SPEED.fullmatch(speaker)[2] == ALL else speaker
        result[name] = Group(name, mixed, ordered)
    return [result[name] for name in sorted(result)]


def order(utterance: str, data: DataDir) -> tuple:
    """Sorts by time in the recording where that is known, else by numbers in the id."""
    words = re.split(r"(\d+)", utterance)
    # odd ones are numbers, so 9 comes before 10
    natural = [int(word) if n % 2 else word for n, word in enumerate(words)]
    time = data.segments[utterance] if data.segments is not None else ()
    return (time, natural)


def shortened(names: list[str]) -> str:
    """ "a, b, c and 7 more are", "a is"."""
    shown = ", ".join(names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"

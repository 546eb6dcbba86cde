"""--check: what is wrong with the corpus, told before any long work."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

from espnet_srupp.recipe import audio, config, datadir, durations, features, tokens
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import DataError, RecipeError
from espnet_srupp.recipe.faults import LIMIT, Faults, counted
from espnet_srupp.recipe.files import atomic_file
from espnet_srupp.recipe.layout import Layout, layout
from espnet_srupp.recipe.options import DATA, Options
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.recording import hear, recordings
from espnet_srupp.subsampling import output_length

# of each kind on the screen; the file has all
EXAMPLES = 3
HOP_LENGTH = 128  # ESPnet's default


@dataclass
class Findings:
    """What is wrong with one set.

    Attributes:
        source: its data directory.
        test: whether it is for tests, which compare only as a whole.
        stops: whether one of the bad is enough to stop the recipe.
        kept: how many utterances can be used.
        bad: those that cannot.
        odd: those that can, but are not as they should be.
    """

    source: Path
    test: bool
    stops: bool = False
    kept: int = 0
    bad: Faults = field(default_factory=dict)
    odd: Faults = field(default_factory=dict)

    def report(self, examples: int | None) -> str:
        """Counts, and of each kind some examples; None for all."""
        total = self.kept + len(self.bad)
        lines = [f"{self.source}: {total} utterances, {len(self.bad)} cannot be used"]
        for faults in (self.bad, self.odd):
            kinds: dict[str, list[str]] = {}
            for key, fault in faults.items():
                kinds.setdefault(fault.kind, []).append(f"{key}: {fault}")
            for kind, found in kinds.items():
                note = "" if faults is self.bad else ", used as they are"
                lines.append(f"  {len(found)} {kind}{note}")
                lines += [f"    {sentence}" for sentence in found[:examples]]
                if examples is not None and len(found) > examples:
                    lines.append(f"    and {len(found) - examples} more")
        return "\n".join(lines)

    def verdict(self, strict: bool) -> str:
        """Why the recipe would stop at this set, "" where it would not."""
        share = len(self.bad) / max(1, self.kept + len(self.bad))
        if self.bad and (strict or self.test or self.stops or share > LIMIT):
            return f"{self.source} ({counted(self.bad)})"
        return ""


def run(trainings: Sequence[Options]) -> None:
    """Looks at every file of every set and reports.

    Args:
        trainings: the options of each --asr_config.

    Raises:
        RecipeError: a set is not there, or the recipe would stop at one: at any fault
            with --strict true or in a test set, at a token of the training set that
            the token list lacks, elsewhere at more than a tenth. What is too short for
            its tokens at the fastest speed alone counts as if it were at each.
    """
    given = trainings[-1]
    names = layout(given)
    configs = [config.read(each.asr_config, each.asr_args) for each in trainings]
    tests = [path.name for path in names.tests.values()]
    found = [
        inspect(given, names, configs, Findings(DATA / name, name in tests))
        for name in dict.fromkeys([given.train_set, given.valid_set, *tests])
    ]
    path = Path(given.dumpdir) / "check.txt"
    with atomic_file(path) as file:
        file.writelines(f"{each.report(None)}\n" for each in found)
    for each in found:
        say(each.report(EXAMPLES))
    if not names.token_list.exists():
        say("tokens are made by stage 5: what needs them has not been checked yet")
    say(f"the whole list is in {path}")
    verdicts = [each.verdict(given.strict) for each in found]
    if stops := ", ".join(filter(None, verdicts)):
        raise RecipeError(f"the recipe would stop at {stops}: see {path}")


def inspect(
    given: Options,
    names: Layout,
    configs: Sequence[Mapping[str, object]],
    found: Findings,
) -> Findings:
    """Adds what is wrong with the set, also for trainings with these `configs`."""
    data = datadir.read(found.source, found.bad)
    if found.source.name == given.train_set:
        audio.check_names(data, given.speeds, found.source, found.bad)
    paths = dict.fromkeys(data.text)
    jobs = recordings(data, paths, given.rate, resample=given.resample)
    heard = hear(jobs, given.nj, f"audio of {found.source}", given.scheduler)
    for utterance, fault in heard.faults.items():
        usable = found.test and fault.kind == "silent"
        (found.odd if usable else found.bad)[utterance] = fault
    for utterance, share in heard.clipped.items():
        found.odd[utterance] = DataError(
            f"{share:.1%} of the samples are at full scale: record it at a lower level",
            "clipped",
        )
    if names.token_list.exists():
        check_text(given, names, configs, data, heard.samples, found)
    found.kept = len(data.text.keys() - found.bad.keys())
    return found


def check_text(
    given: Options,
    names: Layout,
    configs: Sequence[Mapping[str, object]],
    data: DataDir,
    samples: Mapping[str, int],
    found: Findings,
) -> None:
    """Adds what the token list and the configurations have against transcripts."""
    name = found.source.name
    split = tokens.split_function(given, names.token_list.parent)
    known = set(names.token_list.read_text(encoding="utf-8").split("\n"))
    for utterance, text in data.text.items():
        units = split(text)
        if unknown := sorted(set(units) - known):
            found.stops |= name == given.train_set
            faults = found.bad if name == given.train_set else found.odd
            faults.setdefault(
                utterance,
                DataError(
                    f"'{' '.join(unknown)}' is not in {names.token_list}",
                    "with an unknown token",
                ),
            )
        elif given.token_type == "bpe" and (spelled := tokens.join(units)) != text:
            found.odd.setdefault(
                utterance,
                DataError(f"its tokens spell '{spelled}'", "changed by SentencePiece"),
            )
    if name not in (given.train_set, given.valid_set):
        return
    speeds = given.speeds if name == given.train_set else []
    fastest = max(speeds or [1.0])
    left = {u: int(n / fastest) for u, n in samples.items() if u not in found.bad}
    # stage 4 leaves the others out
    limits = given.min_wav_duration, given.max_wav_duration
    left = durations.within(left, given.rate, *limits)
    for settings in configs:
        found.bad |= too_short(data.text, left, split, settings)


def too_short(
    text: Mapping[str, str],
    samples: Mapping[str, int],
    split: Callable[[str], list[str]],
    settings: Mapping[str, object],
) -> Faults:
    """Utterances that have fewer frames than CTC needs for their tokens.

    CTC emits one token in a frame and a blank between two that are equal; with fewer
    frames there is no path, and the loss is infinite.

    Args:
        text: utterance to transcript.
        samples: utterance to its length; what is not there is not looked at.
        split: makes tokens of a transcript.
        settings: the training's, flat.
    """

    # each transcript once, as a set at several speeds has it for each of them
    @cache
    def sizes(line: str) -> tuple[int, int]:
        units = split(" ".join(line.split()))
        repeats = sum(a == b for a, b in pairwise(units))
        return len(units), len(units) + repeats

    faults: Faults = {}
    for utterance, length in samples.items():
        units, needed = sizes(text[utterance])
        if (has := frames(length, settings)) < needed:
            faults[utterance] = DataError(
                f"{utterance} has {has} frames for the encoder, and CTC needs {needed} "
                f"for its {units} tokens: correct its transcript or its audio",
                "too short for its tokens",
            )
    return faults


def frames(samples: int, settings: Mapping[str, object]) -> float:
    """Frames that the encoder makes of so many samples, as far as that is known."""
    known = settings.get("frontend", "default") == "default"
    if not known or not features.has_ctc(settings):
        return math.inf
    layer = features.input_layer(settings)
    # what is no name, the encoder refuses
    if layer == features.UNKNOWN or not isinstance(layer, str | None):
        return math.inf
    hop = config.number(settings, "frontend_conf.hop_length", HOP_LENGTH, int)
    if hop < 1:
        raise RecipeError(f"frontend_conf.hop_length is {hop}: give 1 or more")
    return output_length(samples // hop + 1, layer)

"""The text of a language model, and how well the model predicts another one."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from espnet_srupp.recipe import commands, process
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_file, open_text
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.process import Job
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.training import gpus, gpus_here


def write(lines: Iterable[str], target: Path) -> None:
    """Writes lines of an id and a sentence, as asr.sh's lm_train.txt.

    Raises:
        RecipeError: there is none.
    """
    count = 0
    with atomic_file(target) as file:
        for line in lines:
            file.write(line)
            count += 1
        if not count:
            raise RecipeError(
                f"{target} would have no sentence: give text by --lm_train_text"
            )
    say(f"  {count} sentences")


def of_files(sources: Sequence[Path]) -> Iterator[str]:
    """Puts texts together into one with ids.

    Args:
        sources: files; one called `text` has an id before each sentence, which gets a
            prefix in all such files but the first; any other, plain or .gz, has one
            sentence on a line. Lines without words are left out.

    Raises:
        RecipeError: a file cannot be read or has an id twice.
    """
    first = next((source for source in sources if source.name == "text"), None)
    for number, source in enumerate(sources, 1):
        yield from read(source, f"lm{number}", source is first)


def read(path: Path, name: str, own: bool) -> Iterator[str]:
    """The lines of a file with ids, which begin with `name` but for its `own`."""
    with open_text(path) as lines:
        if path.name == "text":
            prefix = "" if own else f"{name}-"
            yield from (f"{prefix}{line}" for line in with_ids(path, lines))
        else:
            yield from numbered(lines, name)


def with_ids(path: Path, lines: Iterable[str]) -> Iterator[str]:
    seen = set()
    for line in lines:
        utterance, *words = line.split() or [""]
        if not words:
            continue
        if utterance in seen:
            raise RecipeError(f"{path}: {utterance} is there twice: remove one")
        seen.add(utterance)
        yield f"{utterance} {' '.join(words)}\n"


def numbered(sentences: Iterable[str], name: str) -> Iterator[str]:
    for number, sentence in enumerate(sentences, 1):
        if words := " ".join(sentence.split()):
            yield f"{name}-{number:08} {words}\n"


def measure(options: Options, names: Layout, target: Path) -> None:
    """Computes the perplexity of the test text.

    Args:
        options, names: of the recipe.
        target: the folder for `ppl` and, by utterance, `utt2ppl` and `utt2ntokens`.

    Raises:
        RecipeError: ESPnet failed, or the result is not finite.
    """
    ngpu = min(gpus(options), gpus_here(), 1)
    words = commands.perplexity(options, names, ngpu, target)
    log = target / "lm_calc_perplexity.log"
    say("  ESPnet is starting")
    process.run([Job(words, log)], options.python)
    if not math.isfinite(perplexity(target)):
        raise RecipeError(
            f"the perplexity of {names.lm_test} is not finite, so the training went "
            f"wrong: lower the learning rate in its YAML (log: {log})"
        )


def perplexity(target: Path) -> float:
    """What `measure` has found, per token."""
    return float((target / "ppl").read_text(encoding="utf-8"))

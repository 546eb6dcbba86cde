"""Stage 15: joined utterances, transcribed and scored."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from espnet_srupp.recipe import experiment, longform, scoring, training
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.stage import Step


def evaluate_long(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 15: error rates of joined utterances, and their pictures."""
    models = {
        name: (exp, experiment.model_file(given, exp))
        for name, exp in longform.models(given, names).items()
    }
    lm = longform.language_model(given, names)
    # before any is transcribed, which takes long
    for source, number in product(names.tests.values(), given.joined):
        yield longform.joining(15, given, source, number)
    unit = scoring.unit(given, names)
    for name, source in names.tests.items():
        references = [longform.joined(source, number) for number in given.joined]
        target = names.exp / "longform" / name
        yield from evaluate_set(given, references, models, lm, target)
        say(
            f"results in {target}: scores.md, {unit}_by_length.png, "
            f"{unit}_errors.png\n\n{longform.table(target / 'scores.md', unit)}"
        )


def evaluate_set(
    given: Options,
    references: Sequence[Path],
    models: Mapping[str, tuple[Path, Path]],
    lm: Path | None,
    target: Path,
) -> Iterator[Step]:
    """Transcribes a test set's joined `references` by each model, scores and draws."""
    results = {
        reference: {name: target / reference.name / name for name in models}
        for reference in references
    }
    for reference, found in results.items():
        for name, folder in found.items():
            yield transcription(given, *models[name], lm, reference, folder)
    folders = [folder for found in results.values() for folder in found.values()]
    yield Step(
        15,
        f"error rates in {target}",
        partial(longform.score, given, results, target),
        [target / name for name in longform.SCORES],
        [
            *(reference / "text" for reference in references),
            *(folder / n for folder in folders for n in longform.RESULTS),
        ],
        {**given.some("score_opts"), "models": " ".join(models)},
    )
    yield Step(
        15,
        f"pictures in {target}",
        partial(longform.draw, target),
        [target / name for name in longform.PICTURES],
        [target / "scores.json"],
    )


def transcription(
    given: Options,
    exp: Path,
    checkpoint: Path,
    lm: Path | None,
    reference: Path,
    target: Path,
) -> Step:
    files = [checkpoint, exp / "config.yaml"]
    trainings = [exp / training.BEGUN]
    if lm:
        files += [lm, lm.with_name("config.yaml")]
        trainings.append(lm.with_name(training.BEGUN))
    return Step(
        15,
        f"{target.name} transcribes {reference}",
        partial(longform.transcribe, given, exp, lm, reference, target),
        [target / name for name in longform.RESULTS],
        files,
        given.some("longform_args"),
        audio=reference / "wav.scp",
        reads=[reference, *trainings],
    )

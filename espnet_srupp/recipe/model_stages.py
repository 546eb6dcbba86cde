"""Stages 10 to 14: from formatted data to a model, its results and a file of it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from espnet_srupp.recipe import (
    card,
    commands,
    config,
    decoding,
    durations,
    epochs,
    experiment,
    features,
    init_param,
    longform,
    packing,
    pictures,
    results,
    scoring,
    statistics,
    training,
)
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import DATA, Options
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.stage import Step


def collect_statistics(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 10: lengths, mean and variance."""
    settings = features.settings(config.read(given.asr_config, given.asr_args))
    yield Step(
        10,
        f"statistics in {names.stats}",
        partial(statistics.collect, given, names),
        statistics.outputs(given, names),
        [*dumped(names), names.token_list],
        {**settings, **given.some("fs"), **given.strictness},
        check=partial(check_filters, names),
        reads=heard(given, names),
    )


def train_model(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 11: training."""
    settings = config.read(given.asr_config, given.asr_args)
    settings |= given.some("fs", "feats_normalize", "ignore_init_mismatch")
    settings |= given.some("asr_speech_fold_length", "asr_text_fold_length")
    begins = init_param.words(given.pretrained_model, settings, given.asr_args)
    _, _, settings["pretrained_model"] = given.pretrained_model.partition(":")
    stats, *_ = statistics.outputs(given, names)
    shapes = commands.shapes(given, names)
    if given.feats_normalize == "global_mvn" and given.asr_stats_dir:
        # else they follow from the rest, but for their last bits, which depend on --nj
        shapes.append(stats)
    command = partial(commands.training, given, names)

    def check() -> None:
        check_filters(names)
        training.check(given, names.exp, step.record(), begins)

    step = Step(
        11,
        f"training of {names.exp}",
        lambda: training.train(given, names.exp, command, step.record()),
        [names.exp / "config.yaml"],
        [*dumped(names), names.token_list, *shapes, *init_param.files(begins)],
        settings,
        check=check,
        reads=[stats, *heard(given, names)],
    )
    yield step


def decode_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 12: beam search."""
    model = experiment.model_file(given, names.exp)
    models = [model, names.exp / "config.yaml"]
    trainings = [names.exp / training.BEGUN]
    if given.use_lm:
        models += [
            experiment.lm_file(given, names.lm_exp),
            names.lm_exp / "config.yaml",
        ]
        trainings.append(names.lm_exp / training.BEGUN)
    settings = config.read(given.inference_config, given.inference_args)
    named = experiment.search_files(given).values()
    models += [path for path in named if path.is_file()]

    def check(source: Path) -> None:
        durations.check_filter(source, False)
        experiment.check(given, names)

    for name, source in names.tests.items():
        target = names.decoding / name
        yield Step(
            12,
            f"decoding of {source}",
            partial(decoding.decode, given, names, name),
            [target / result for result in decoding.RESULTS],
            [source / "wav.scp", source / "utt2hash", *models],
            settings,
            check=partial(check, source),
            reads=[source, *trainings],
        )


def score_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 13: error rates, pictures and RESULTS.md."""
    # of the model, whatever the command line says now
    names = replace(names, bpemodel=experiment.bpemodel(names))
    for name in names.tests:
        yield score_set(given, names, name)
    model = experiment.model_file(given, names.exp)
    shown = list(names.tests.values())[-1]
    sizes = names.exp / "probe" / "model.json"
    yield Step(
        13,
        f"pictures in {names.exp / 'images'}",
        partial(pictures.draw, given, names, model, shown),
        [names.exp / "images" / "attention.png", sizes],
        [model, names.exp / "config.yaml", shown / "text", shown / "utt2hash"],
    )
    tables = [path for kind in results.KINDS for path in results.found(names.exp, kind)]
    yield Step(
        13,
        str(names.exp / "RESULTS.md"),
        partial(results.write, names.exp),
        [names.exp / "RESULTS.md"],
        [*tables, *results.speeds(names.exp), *epochs.files(names.exp), sizes],
    )
    images = names.exp / "images"
    drawn = [f"{name}.png" for name in ("training_curves", "attention", "alpha")]
    pngs = ", ".join(name for name in drawn if (images / name).exists())
    say(
        f"results in {names.exp / 'RESULTS.md'}, pictures in {images}: {pngs}\n\n"
        + results.block(names.exp, scoring.unit(given, names))
    )


def score_set(given: Options, names: Layout, name: str) -> Step:
    source, target = names.tests[name], names.decoding / name

    def check() -> None:
        durations.check_filter(source, False)
        experiment.check_pieces(names.exp / "config.yaml")

    return Step(
        13,
        f"scoring of {name}",
        partial(scoring.score_set, given, names, name),
        [target / f"score_{kind}" for kind in scoring.kinds(names)],
        [
            *(source / "text", source / "utt2spk", target / "text"),
            *([names.bpemodel] if names.bpemodel else []),
        ],
        given.some("score_opts"),
        check=check,
        reads=[source, target / decoding.RESULTS[0]],
    )


def pack_model(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 14: a file to hand on."""
    target, models = packing.target(given, names), packing.models(given, names)
    files = packing.extras(given, names)
    yield Step(
        14,
        f"packing into {target}",
        lambda: packing.pack_model(
            models, files, card.write(given, names, target.name), target
        ),
        [target],
        [*models.values(), *files],
        {
            # whose error rates the card has
            "decoding": names.inference,
            **card.search(given),
            **given.some("lang", "model_license"),
        },
        check=partial(packing.check, given, names),
    )


def check_filters(names: Layout) -> None:
    """Sees that what is trained on is filtered, see `durations.check_filter`."""
    for folder in (names.train, names.valid):
        durations.check_filter(folder, True)


def heard(given: Options, names: Layout) -> list[Path]:
    """The folders that the audio of a training may lie in, and its tables."""
    sets = (names.train, names.valid)
    made = [*sets, *(names.raw / "org" / path.name for path in sets)]
    if names.source_set != given.train_set:
        made.append(DATA / names.source_set)
    if given.speeds:
        made.append(DATA / names.speed_set)
    if given.train_joined:
        made.append(longform.joined(DATA / names.source_set, given.train_joined))
    return made


def dumped(names: Layout) -> list[Path]:
    """The files that statistics and training follow from.

    Paths in wav.scp are the same when other audio lies there, its hash is not.
    """
    files = ("wav.scp", "text", "utt2hash")
    return [folder / n for folder in (names.train, names.valid) for n in files]

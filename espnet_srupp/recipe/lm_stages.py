"""Stages 6 to 8: a language model for the beam search of stage 12."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from espnet_srupp.recipe import (
    commands,
    config,
    experiment,
    init_param,
    language_model,
    statistics,
    tokens,
    training,
)
from espnet_srupp.recipe.data_stages import for_language_models
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import DATA, Options
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.stage import Step


def collect_statistics(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 6: the text, and its lengths."""
    if given.lm_test_text and not names.lm_test.is_file():
        # before the hours of training until stage 8 reads it
        raise RecipeError(f"--lm_test_text {names.lm_test}: there is no such file")
    own = DATA / given.train_set / "text"
    sources = [Path(path) for path in given.lm_texts] or [own]
    more = () if given.lm_train_text else for_language_models(given, "lm_files")
    yield Step(
        6,
        f"text of the language model, {names.lm_train}",
        partial(join_texts, given, names),
        [names.lm_train],
        [*sources, *more],
        given.some("lm_train_text") | given.strictness,
    )
    command = partial(commands.lm_statistics, given, names)
    texts = {"train": names.lm_train, "valid": names.lm_valid}
    yield Step(
        6,
        f"statistics in {names.lm_stats}",
        partial(statistics.gather, given, names, texts, names.lm_stats, command),
        commands.lm_shapes(given, names),
        [*texts.values(), names.token_list],
        reads=text_places(names),
    )


def join_texts(given: Options, names: Layout) -> None:
    """What is named, or else the training set's text and what the corpus has."""
    lines = language_model.of_files([Path(path) for path in given.lm_texts])
    if not given.lm_texts:
        own = tokens.transcripts(DATA / given.train_set / "text", given.strict)
        more = for_language_models(given, "sentences")
        lines = chain(
            (f"{utterance} {words}\n" for utterance, words in own.items()),
            language_model.numbered(more, "lm"),
        )
    language_model.write(lines, names.lm_train)


def train_model(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 7: training."""
    settings = config.read(given.lm_config, given.lm_args)
    shapes = commands.lm_shapes(given, names)
    begins = init_param.words("", settings, given.lm_args)
    needed = [*shapes, *init_param.files(begins)]
    command = partial(commands.lm_training, given, names)
    step = Step(
        7,
        f"training of {names.lm_exp}",
        lambda: training.train(given, names.lm_exp, command, step.record()),
        [names.lm_exp / "config.yaml"],
        [names.lm_train, names.lm_valid, names.token_list, *needed],
        settings | given.some("lm_fold_length"),
        check=lambda: training.check(given, names.lm_exp, step.record(), begins),
        reads=[shapes[0], *text_places(names)],
    )
    yield step


def measure_perplexity(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 8: perplexity of a test set."""
    target = names.lm_exp / "perplexity_test"
    yield Step(
        8,
        f"perplexity of {names.lm_test}",
        partial(language_model.measure, given, names, target),
        [target / "ppl"],
        [
            names.lm_test,
            experiment.lm_file(given, names.lm_exp),
            names.lm_exp / "config.yaml",
        ],
    )
    say(
        f"perplexity of {names.lm_test}: {language_model.perplexity(target):.2f} for "
        "each token"
    )


def text_places(names: Layout) -> list[Path]:
    """Where the text of a training lies."""
    return [names.lm_train, names.lm_valid.parent]

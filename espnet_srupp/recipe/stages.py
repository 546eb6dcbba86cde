"""The stages of asr.sh: what each is made from, and who makes it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

from espnet_srupp.recipe import (
    audio,
    config,
    decoding,
    longform,
    packing,
    pictures,
    results,
    scoring,
    stage,
    statistics,
    tokens,
    training,
)
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.stage import Step, say

DATA, DOWNLOADS = Path("data"), Path("downloads")


def prepare(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 1: the corpus as data directories."""
    try:
        corpus = import_module(f"espnet_srupp.recipe.corpora.{given.corpus}")
    except ModuleNotFoundError as error:
        raise RecipeError(f"--corpus {given.corpus}: {error}") from error
    sets = [given.train_set, given.valid_set, *given.test_sets.split()]
    outputs = [DATA / name for name in dict.fromkeys(sets)]
    step = Step(
        1,
        f"data of {given.corpus}",
        lambda: make_sets(given, corpus, step),
        outputs,
        options=origin(given),
    )
    if not step.options and (before := stage.read(step.marker)):
        # what was made from an archive or a folder stands when it is not named again
        step.options.update(before["options"])
    if folder := step.options.get("folder"):
        step.options["content"] = corpus.content(Path(folder))
    yield step


def origin(given: Options) -> dict[str, str]:
    """What the command line says about where the corpus comes from."""
    if given.archive:
        return {"archive": stage.digest(Path(given.archive))}
    if given.folder:
        return {"folder": given.folder} | ({"partial": "true"} if given.partial else {})
    return {}


def make_sets(given: Options, corpus: ModuleType, step: Step) -> None:
    """Prepares the corpus and sees that the sets of the command line are there."""
    if given.on_disk:
        folder = step.options.get("folder")
        source = Path(folder) if folder else None
        corpus.prepare(DATA, DOWNLOADS, source, "partial" in step.options)
    else:
        archive = Path(given.archive) if given.archive else None
        corpus.prepare(DATA, DOWNLOADS, archive)
    if missing := [path.name for path in step.outputs if not path.is_dir()]:
        raise RecipeError(
            f"{given.corpus} as it is there has no {', '.join(missing)}: give other "
            "--train_set, --valid_set and --test_sets, or more of the corpus"
        )


def perturb(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 2: copies of the training set at other speeds."""
    if not given.speeds:
        return say("stage 2: no other speeds (--speed_perturb_factors)")
    source, target = DATA / given.train_set, DATA / names.train_set
    yield Step(
        2,
        f"speeds {given.speed_perturb_factors} of {source}",
        partial(audio.perturb_speed, source, target, given.speeds, given.nj),
        [target],
        tables(source),
        given.some("speed_perturb_factors"),
        audio=source / "wav.scp",
    )


def format_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 3: every file read once and written where that is needed."""
    org = {
        name: names.raw / "org" / name for name in (names.train_set, given.valid_set)
    }
    tests = {n: path for n, path in names.tests.items() if not n.startswith("org/")}
    for name, target in {**org, **tests}.items():
        source = DATA / name
        yield Step(
            3,
            f"audio of {source}",
            partial(
                audio.format_audio,
                *(source, target, given.rate, given.audio_format, given.nj),
            ),
            [target],
            tables(source),
            given.some("fs", "audio_format"),
            audio=source / "wav.scp",
        )


def filter_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 4: utterances too short or too long to train on left out."""
    limits = given.some("min_wav_duration", "max_wav_duration")
    for target in (names.train, names.valid):
        source = names.raw / "org" / target.name
        yield Step(
            4,
            f"lengths of {source}",
            partial(filter_set, source, target, given.rate, *limits.values()),
            [target],
            [*tables(source), source / "utt2num_samples"],
            {**limits, **given.some("fs")},
        )


def filter_set(source: Path, target: Path, *limits: float) -> None:
    if dropped := audio.filter_length(source, target, *limits):
        say(f"  {dropped} left out for their length, see {target / 'dropped'}")


def make_tokens(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 5: the token list."""
    # as asr.sh, from all of the training text, also of what stage 4 leaves out
    text = names.raw / "org" / names.train_set / "text"
    settings = given.some("oov", "blank", "sos_eos")
    if given.token_type == "bpe":
        text = Path(given.bpe_train_text or text)
        settings |= given.some("nbpe", "bpemode", "bpe_nlsyms", "bpe_char_cover")
    yield Step(
        5,
        f"tokens of {text}",
        partial(
            tokens.train_tokens,
            [text],
            names.token_list.parent,
            nlsyms=given.symbols,
            **given.some("token_type", "nbpe", "bpemode", "bpe_char_cover"),
            **given.some("oov", "blank", "sos_eos"),
        ),
        [names.token_list, *([names.bpemodel] if names.bpemodel else [])],
        [text],
        settings,
    )


def collect_statistics(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 10: lengths, mean and variance."""
    settings = statistics.settings(config.read(given.asr_config, given.asr_args))
    yield Step(
        10,
        f"statistics in {names.stats}",
        partial(statistics.collect, given, names),
        statistics.outputs(given, names),
        [*dumped(names), names.token_list],
        {**settings, **given.some("fs")},
    )


def train_model(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 11: training."""
    settings = config.read(given.asr_config, given.asr_args)
    settings |= given.some("fs", "feats_normalize", "pretrained_model")
    shapes = statistics.outputs(given, names)[1:]
    step = Step(
        11,
        f"training of {names.exp}",
        lambda: training.train(given, names, step.record()),
        [names.exp / "config.yaml"],
        [*dumped(names), names.token_list, *shapes],
        settings,
    )
    yield step


def decode_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 12: beam search."""
    model = decoding.model_file(given, names)
    settings = config.read(given.inference_config, given.inference_args)
    for name, source in names.tests.items():
        target = names.decoding / name
        yield Step(
            12,
            f"decoding of {source}",
            partial(decoding.decode, given, names, name),
            [target / result for result in decoding.RESULTS],
            [source / "wav.scp", model, names.exp / "config.yaml"],
            settings,
        )


def score_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 13: error rates, pictures and RESULTS.md."""
    for name, source in names.tests.items():
        target = names.decoding / name
        yield Step(
            13,
            f"scoring of {name}",
            partial(scoring.score_set, given, names, name),
            [target / f"score_{kind}" for kind in scoring.kinds(names)],
            [source / "text", source / "utt2spk", target / "text"],
            given.some("score_opts"),
        )
    model = decoding.model_file(given, names)
    yield Step(
        13,
        f"pictures in {names.exp / 'images'}",
        partial(pictures.draw, given, names, model),
        [names.exp / "images" / "attention.png"],
        [model, names.exp / "config.yaml"],
    )
    tables = [path for kind in results.KINDS for path in results.found(names.exp, kind)]
    yield Step(
        13,
        f"{names.exp / 'RESULTS.md'}",
        partial(results.write, names.exp),
        [names.exp / "RESULTS.md"],
        [*tables, names.exp / "probe" / "model.json"],
    )
    say(
        f"results in {names.exp / 'RESULTS.md'}, pictures in {names.exp / 'images'}: "
        f"training_curves.png, attention.png\n\n{results.block(names.exp, 'wer')}"
    )


def pack_model(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 14: a file to hand on."""
    model, target = decoding.model_file(given, names), packing.target(given, names)
    settings, files = names.exp / "config.yaml", packing.extras(given, names)
    yield Step(
        14,
        f"packing into {target}",
        partial(packing.pack_model, settings, model, files, target),
        [target],
        [settings, model, *files],
    )


def evaluate_long(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 15: error rates of joined utterances, and their pictures."""
    checkpoints = {
        model: decoding.model_file(given, replace(names, exp=exp))
        for model, exp in longform.models(given, names).items()
    }
    # before any is transcribed, which takes long
    for source in names.tests.values():
        yield from join_set(given, source)
    for name, source in names.tests.items():
        target = names.exp / "longform" / name
        references = [longform.joined(source, number) for number in given.joined]
        results = {
            reference: {m: target / reference.name / m for m in checkpoints}
            for reference in references
        }
        folders = [folder for found in results.values() for folder in found.values()]
        for reference, found in results.items():
            for model, folder in found.items():
                yield transcription(given, checkpoints[model], reference, folder)
        yield Step(
            15,
            f"error rates in {target}",
            partial(longform.score, given, results, target),
            [target / name for name in longform.SCORES],
            [
                *(reference / "text" for reference in references),
                *(folder / n for folder in folders for n in longform.RESULTS),
            ],
            {**given.some("score_opts"), "models": " ".join(checkpoints)},
        )
        yield Step(
            15,
            f"pictures in {target}",
            partial(longform.draw, target),
            [target / name for name in longform.PICTURES],
            [target / "scores.json"],
        )
        say(
            f"results in {target}: scores.md, wer_by_length.png, wer_errors.png\n\n"
            f"{longform.table(target / 'scores.md', 'wer')}"
        )


def join_set(given: Options, source: Path) -> Iterator[Step]:
    for number in given.joined:
        yield Step(
            15,
            f"utterances of {source} joined by {number}",
            partial(longform.join, given, source, number),
            [longform.joined(source, number)],
            tables(source),
            given.some("longform_join_args"),
            audio=source / "wav.scp",
        )


def transcription(
    given: Options, checkpoint: Path, reference: Path, target: Path
) -> Step:
    exp = checkpoint.parent
    return Step(
        15,
        f"{target.name} transcribes {reference}",
        partial(longform.transcribe, given, exp, reference, target),
        [target / name for name in longform.RESULTS],
        [checkpoint, exp / "config.yaml"],
        given.some("longform_args"),
        audio=reference / "wav.scp",
    )


def tables(directory: Path) -> list[Path]:
    """The files of a data directory."""
    names = ("wav.scp", "text", "utt2spk", "segments")
    found = [directory / name for name in names]
    return [path for path in found if path.name != "segments" or path.exists()]


def dumped(names: Layout) -> list[Path]:
    """The files that ESPnet reads for statistics and training."""
    return [d / n for d in (names.train, names.valid) for n in ("wav.scp", "text")]


STAGES = {
    1: prepare,
    2: perturb,
    3: format_sets,
    4: filter_sets,
    5: make_tokens,
    10: collect_statistics,
    11: train_model,
    12: decode_sets,
    13: score_sets,
    14: pack_model,
    15: evaluate_long,
}

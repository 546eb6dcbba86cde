"""Stages 1 to 5: from a corpus to what ESPnet trains on."""

from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

from espnet_srupp.recipe import audio, datadir, durations, longform, stage, tokens
from espnet_srupp.recipe.corpora import own
from espnet_srupp.recipe.datadir import tables
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.locks import alone
from espnet_srupp.recipe.options import DATA, Options
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.stage import Step
from espnet_srupp.recipe.stamp import check_ours

DOWNLOADS = Path("downloads")
# the folder of a corpus that lies on disk, as it was given last
ORIGIN = DATA / ".corpus"


def module(given: Options) -> ModuleType:
    """What knows the corpus.

    Raises:
        RecipeError: nothing does.
    """
    try:
        return import_module(f"espnet_srupp.recipe.corpora.{given.corpus}")
    except ModuleNotFoundError as error:
        raise RecipeError(f"--corpus {given.corpus}: {error}") from error


def prepare(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 1: the corpus as data directories."""
    corpus = module(given)
    if given.folder:
        remember(origin(given))
    wanted = [given.train_set, given.valid_set, *given.test_sets.split()]
    if given.corpus == "own":
        yield from own_sets(given, wanted)
        return
    step = Step(
        1,
        f"data of {given.corpus}",
        lambda: make_sets(given, corpus, step),
        [DATA / name for name in dict.fromkeys(wanted)],
        options=origin(given),
        # before a download, and not only when a set is written
        check=lambda: [check_ours(path, 1) for path in step.outputs],
    )
    if not (step.options or given.on_disk) and (before := stage.read(step.marker)):
        # what was made from an archive stands when it is not named again
        step.options.update(before["options"])
    if folder := step.options.get("folder"):
        step.options["content"] = corpus.content(Path(folder))
    yield step


def remember(source: dict[str, str]) -> None:
    """Notes where the corpus lies.

    Whatever comes of this command, the next one must not download 60 GB.
    """
    with alone(ORIGIN, "noting"):
        stage.write(ORIGIN, source)


def own_sets(given: Options, wanted: Iterable[str]) -> list[Step]:
    """Stage 1 of the user's own sets: a step each, as each may come from elsewhere."""
    if not (folder := origin(given).get("folder")):
        raise RecipeError(
            "--OWN DIR, the folder of your sets, is required: give it, or begin with "
            "--stage 2 if they are in data/ already"
        )
    if not given.folder:
        say(f"the sets are those of {folder}, as before (--OWN for others)")
    sets = {name: DATA / name for name in wanted}
    return [
        Step(
            1,
            f"{name} of {folder}",
            partial(own.prepare, DATA, Path(folder), name),
            [path],
            own.sources(Path(folder), name),
            origin(given),
            # before one of them is written
            check=lambda: [check_ours(each, 1) for each in sets.values()],
        )
        for name, path in sets.items()
    ]


def for_language_models(given: Options, name: str) -> Iterable:
    """The corpus's `sentences` beside transcripts or its `lm_files`, if it has any."""
    corpus = module(given)
    folder = origin(given).get("folder")
    found = getattr(corpus, name, lambda *_: ())
    return found(DOWNLOADS, Path(folder) if folder else None)


def origin(given: Options) -> dict[str, str]:
    """Where the corpus comes from: as the command line says, or an earlier one did."""
    if given.archive:
        return {"archive": stage.digest(Path(given.archive))}
    if given.folder:
        return {"folder": given.folder} | ({"partial": "true"} if given.partial else {})
    return (stage.read(ORIGIN) or {}) if given.on_disk else {}


def make_sets(given: Options, corpus: ModuleType, step: Step) -> None:
    """Prepares the corpus and sees that the sets of the command line are there."""
    if given.on_disk:
        folder = step.options.get("folder")
        if folder and not given.folder:
            say(f"  the corpus in {folder}, as before: remove {ORIGIN} for another")
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
    """Stage 2: the training set at other speeds, and with utterances joined."""
    source, target = DATA / names.source_set, DATA / names.speed_set
    if names.source_set != given.train_set:
        yield resampling(given, DATA / given.train_set, source)
    if given.speeds:
        yield Step(
            2,
            f"speeds {given.speed_perturb_factors} of {source}",
            partial(
                audio.perturb_speed,
                *(source, target, given.speeds, given.rate),
                *(given.nj, given.scheduler, given.strict),
            ),
            [target],
            tables(source),
            given.some("speed_perturb_factors", "fs") | given.strictness,
            audio=source / "wav.scp",
            check=partial(check_ours, target, 2),
            reads=[source],
        )
    else:
        say("stage 2: no other speeds (--speed_perturb_factors)")
    if given.train_joined:
        yield longform.joining(2, given, source, given.train_joined)
        sets = [target, longform.joined(source, given.train_joined)]
        yield combining(given, sets, DATA / names.train_set)


def combining(given: Options, sets: list[Path], target: Path) -> Step:
    """The step that puts a training set and its joined utterances together."""
    return Step(
        2,
        f"{sets[0]} and {sets[1]} together",
        partial(datadir.combine, sets, target, given.strict),
        [target],
        [table for path in sets for table in tables(path)],
        given.strictness,
        check=partial(check_ours, target, 2),
        reads=sets,
    )


def resampling(given: Options, source: Path, target: Path) -> Step:
    """The step that brings a training set to --fs, before anything is made of it."""
    return Step(
        2,
        f"{source} at {given.rate} Hz",
        partial(
            audio.perturb_speed,
            *(source, target, [1.0], given.rate),
            *(given.nj, given.scheduler, given.strict),
            resample=True,
        ),
        [target],
        tables(source),
        given.hearing | given.strictness,
        audio=source / "wav.scp",
        check=partial(check_ours, target, 2),
        reads=[source],
    )


def format_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 3: every file read once and written where that is needed."""
    org = {
        name: names.raw / "org" / name for name in (names.train_set, given.valid_set)
    }
    tests = {path.name: path for path in names.tests.values()}
    # at --fs by stage 2
    resampled = {names.train_set} - {given.train_set}
    for name, target in {**org, **tests}.items():
        source = DATA / name
        # a training or validation set may have been read before as no test set
        also_test = {"test_set": "true"} if name in org and name in tests else {}
        yield Step(
            3,
            f"audio of {source}",
            partial(
                audio.format_audio,
                *(source, target, given.rate, given.audio_format, given.nj),
                given.scheduler,
                strict=given.strict,
                whole=name in tests,
                resample=given.resample and name not in resampled,
            ),
            [target],
            tables(source),
            given.some("audio_format") | given.hearing | given.strictness | also_test,
            audio=source / "wav.scp",
            reads=[source],
        )


def filter_sets(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 4: utterances too short or too long to train on left out."""
    limits = given.some("min_wav_duration", "max_wav_duration")
    for target in (names.train, names.valid):
        source = names.raw / "org" / target.name
        yield Step(
            4,
            f"lengths of {source}",
            partial(
                durations.filter_length, source, target, given.rate, *limits.values()
            ),
            [target],
            [*tables(source), source / "utt2num_samples", source / "utt2hash"],
            {**limits, **given.some("fs")},
            reads=[source],
        )


def make_tokens(given: Options, names: Layout) -> Iterator[Step]:
    """Stage 5: the token list."""
    # from each training text once: the list is the same with and without other speeds
    text = DATA / given.train_set / "text"
    settings = given.some("oov", "blank", "sos_eos")
    settings |= given.strictness
    if given.token_type == "bpe":
        text = Path(given.bpe_train_text or text)
        settings |= given.some("nbpe", "bpemode", "bpe_nlsyms", "bpe_char_cover")
    yield Step(
        5,
        f"tokens of {text}",
        partial(tokens.train_tokens, given, text, names.token_list.parent),
        [names.token_list, *([names.bpemodel] if names.bpemodel else [])],
        [text],
        settings,
    )

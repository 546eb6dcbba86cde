"""Stages 6 and 10: lengths of all texts and utterances, statistics of features."""

import shutil
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

from espnet2.bin.aggregate_stats_dirs import aggregate_stats_dirs

from espnet_srupp.recipe import commands, config, features, process
from espnet_srupp.recipe.check import too_short
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import Faults, settle
from espnet_srupp.recipe.files import atomic_file
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.process import Job, Tail
from espnet_srupp.recipe.progress import Progress
from espnet_srupp.recipe.table import read_table
from espnet_srupp.recipe.tokens import check_tokens, split_function

# ESPnet takes seconds to start, so a process is worth it from about this many
UTTERANCES_PER_PROCESS = 5000


def outputs(options: Options, names: Layout) -> list[Path]:
    """The files that training reads, feats_stats.npz first if there is one."""
    made = commands.shapes(options, names)
    if features.extracted(config.read(options.asr_config, options.asr_args)):
        made.insert(0, names.stats / "train" / "feats_stats.npz")
    return made


def collect(options: Options, names: Layout) -> None:
    """Lengths, mean and variance of the utterances.

    Raises:
        RecipeError: a token of the training text is not in the list, CTC has no path
            for more than a tenth of the utterances; ESPnet failed.
    """
    check_tokens(options, names.train / "text", names.token_list.parent)
    sources = {"train": names.train, "valid": names.valid}
    sets = {kind: fit(options, names, kind, path) for kind, path in sources.items()}
    command = partial(commands.statistics, options, names)
    gather(options, names, sets, names.stats, command)


def fit(options: Options, names: Layout, kind: str, source: Path) -> Path:
    """A file of the utterances for which CTC has a path; training sees no other.

    Raises:
        RecipeError: more than a tenth have none, or one with --strict true.
    """
    split = split_function(options, names.token_list.parent)
    text, samples = (read_table(source / n) for n in ("text", "utt2num_samples"))
    lengths = {u: int(samples[u]) for u in text}
    settings = config.read(options.asr_config, options.asr_args)
    faults: Faults = too_short(text, lengths, split, settings)
    settle(faults, len(text) - len(faults), source, options.strict)
    with atomic_file(names.stats / kind / "dropped") as file:
        file.writelines(f"{key} {fault}\n" for key, fault in faults.items())
    kept = names.stats / kind / "kept"
    with atomic_file(kept) as file:
        file.writelines(f"{u} {lengths[u]}\n" for u in text if u not in faults)
    return kept


def gather(
    options: Options,
    names: Layout,
    sets: dict[str, Path],
    target: Path,
    command: Callable[[list[Path], Path], list[str]],
) -> None:
    """Runs ESPnet's collect_stats over shares of the data and puts them together.

    Args:
        options, names: of the recipe.
        sets: files with an id on each line, of train and valid.
        target: the folder of the statistics.
        command: the arguments of ESPnet's program for a share of each and a folder.

    Raises:
        RecipeError: a set is empty, or ESPnet failed.
    """
    logdir = target / "logdir"
    shutil.rmtree(logdir, ignore_errors=True)
    sizes = [count(scp) for scp in sets.values()]
    for path, size in zip(sets.values(), sizes, strict=True):
        if not size:
            raise RecipeError(f"{path} is empty: there is nothing to learn or validate")
    nj = min(options.nj, -(-sizes[0] // UTTERANCES_PER_PROCESS), *sizes)
    shares = [split(scp, logdir, kind, nj) for kind, scp in sets.items()]
    parts = [logdir / f"stats.{n}" for n in range(1, nj + 1)]
    jobs = [
        Job(command(keys, part), part.with_name(f"{part.name}.log"), part)
        for part, *keys in zip(parts, *shares, strict=True)
    ]
    read = [Tail(part / kind / "text_shape") for part in parts for kind in sets]
    with Progress("statistics", sum(sizes), "utterances") as progress:
        process.run(
            jobs,
            options.python,
            lambda: progress.update(progress.done + sum(len(t.lines()) for t in read)),
            scheduler=options.scheduler,
        )
    aggregate_stats_dirs(parts, target, "WARNING", skip_sum_stats=False)
    for kind in sets:
        append_size(target / kind, options.token_type, count(names.token_list))


def count(path: Path) -> int:
    """Number of lines."""
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def split(scp: Path, logdir: Path, kind: str, nj: int) -> list[Path]:
    """Cuts a file into `nj` consecutive shares, as split_scp.pl."""
    size = count(scp)
    logdir.mkdir(parents=True, exist_ok=True)
    shares = [logdir / f"{kind}.{n + 1}.scp" for n in range(nj)]
    # line by line, as the text of a language model may be larger than the memory
    with open(scp, "rb") as lines:
        for n, share in enumerate(shares):
            with open(share, "wb") as file:
                file.writelines(islice(lines, size * (n + 1) // nj - size * n // nj))
    return shares


def append_size(directory: Path, token_type: str, vocabulary: int) -> None:
    """Adds the size of the vocabulary to text lengths, for `batch_type: numel`."""
    with (
        open(directory / "text_shape", encoding="utf-8") as lines,
        atomic_file(directory / f"text_shape.{token_type}") as file,
    ):
        file.writelines(f"{line.rstrip()},{vocabulary}\n" for line in lines)

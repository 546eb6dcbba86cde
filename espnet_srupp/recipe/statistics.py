"""Stage 10: lengths of all utterances, and mean and variance of their features."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from espnet2.bin.aggregate_stats_dirs import aggregate_stats_dirs

from espnet_srupp.recipe import commands, process
from espnet_srupp.recipe.files import atomic_file
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.process import Job
from espnet_srupp.recipe.progress import Progress
from espnet_srupp.recipe.tokens import check_tokens

# ESPnet takes seconds to start, so a process is worth it from about this many
UTTERANCES_PER_PROCESS = 5000
# what changes the statistics; all else in a configuration does not
DEPENDS_ON = ("frontend", "preprocessor", "input_size", "model_conf.extract_feats")


def settings(config: Mapping[str, object]) -> dict[str, object]:
    """The settings of a flat configuration that the statistics depend on."""
    return {k: v for k, v in config.items() if k.startswith(DEPENDS_ON)}


def outputs(options: Options, names: Layout) -> list[Path]:
    """The files that training reads, feats_stats.npz first."""
    files = ("speech_shape", f"text_shape.{options.token_type}")
    made = [names.stats / kind / file for kind in ("train", "valid") for file in files]
    return [names.stats / "train" / "feats_stats.npz", *made]


def collect(options: Options, names: Layout) -> None:
    """Runs ESPnet's collect_stats over shares of the data and puts them together.

    Raises:
        RecipeError: a token of the training text is not in the list; ESPnet failed.
    """
    check_tokens(
        names.train / "text",
        names.token_list.parent,
        options.token_type,
        options.symbols,
        options.oov,
        options.blank,
        options.sos_eos,
        options.bpe_char_cover,
    )
    logdir = names.stats / "logdir"
    shutil.rmtree(logdir, ignore_errors=True)
    sets = {"train": names.train / "wav.scp", "valid": names.valid / "wav.scp"}
    sizes = [count(scp) for scp in sets.values()]
    nj = min(options.nj, -(-sizes[0] // UTTERANCES_PER_PROCESS), *sizes)
    shares = [split(scp, logdir, kind, nj) for kind, scp in sets.items()]
    parts = [logdir / f"stats.{n}" for n in range(1, nj + 1)]
    jobs = [
        Job(commands.statistics(options, names, keys, part), part.with_suffix(".log"))
        for part, *keys in zip(parts, *shares, strict=True)
    ]
    read = [part / kind / "speech_shape" for part in parts for kind in sets]
    with Progress("statistics", sum(sizes), "utterances") as progress:
        process.run(
            jobs, options.python, lambda: progress.update(sum(map(count, read)))
        )
    aggregate_stats_dirs(parts, names.stats, "WARNING", skip_sum_stats=False)
    for kind in sets:
        append_size(names.stats / kind, options.token_type, count(names.token_list))


def count(path: Path) -> int:
    """Number of lines, 0 while there is no file."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def split(scp: Path, logdir: Path, kind: str, nj: int) -> list[Path]:
    """Cuts a sorted file into `nj` consecutive shares, as split_scp.pl."""
    lines = scp.read_text(encoding="utf-8").splitlines(keepends=True)
    logdir.mkdir(parents=True, exist_ok=True)
    shares = []
    for n in range(nj):
        share = lines[len(lines) * n // nj : len(lines) * (n + 1) // nj]
        shares.append(logdir / f"{kind}.{n + 1}.scp")
        shares[-1].write_text("".join(share), encoding="utf-8")
    return shares


def append_size(directory: Path, token_type: str, vocabulary: int) -> None:
    """Adds the size of the vocabulary to text lengths, for `batch_type: numel`."""
    lines = (directory / "text_shape").read_text(encoding="utf-8").splitlines()
    with atomic_file(directory / f"text_shape.{token_type}") as file:
        file.writelines(f"{line},{vocabulary}\n" for line in lines)

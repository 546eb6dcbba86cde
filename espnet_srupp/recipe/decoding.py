"""Stage 12: joint CTC and attention beam search, in several processes."""

import re
import shutil
from datetime import datetime
from pathlib import Path

from espnet_srupp.recipe import commands, config, features, process
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_file
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options, cores
from espnet_srupp.recipe.parallel import LOCAL
from espnet_srupp.recipe.process import Job, Tail
from espnet_srupp.recipe.progress import Progress, say
from espnet_srupp.recipe.table import read_table
from espnet_srupp.recipe.training import gpus_here

RESULTS = ("text", "token", "token_int", "score")
# what ESPnet logs for an utterance when it is done
FINISHED = ("best hypo:", "Utterance [")
SPAN = re.compile(r"(?m)^([\d-]+ [\d:]+),(\d+) .*(speech length|best hypo):")


def check_gpu(options: Options) -> None:
    """Raises RecipeError where --gpu_inference is given and there is no GPU."""
    # workers elsewhere have GPUs of their own
    here = options.scheduler in ("", LOCAL)
    if options.gpu_inference and here and not gpus_here():
        raise RecipeError("--gpu_inference true: torch finds no GPU here: leave it out")


def check_model(options: Options) -> None:
    """Raises RecipeError where the search of stage 12 is not for such a model."""
    if features.masks(config.read(options.asr_config, options.asr_args)):
        raise RecipeError(
            f"{options.asr_config} or --asr_args has model: maskctc, which stage 12 "
            "cannot decode: give --stop_stage 11, and decode with "
            "espnet2.bin.asr_inference_maskctc"
        )


def decode(options: Options, names: Layout, name: str) -> None:
    """Decodes one set into `text`, `token`, `token_int` and `score`, sorted by id.

    Args:
        options, names: of the recipe.
        name: of the set, a key of `names.tests`.

    Raises:
        RecipeError: ESPnet failed, or an utterance was lost or came out twice.
    """
    source, target = names.tests[name], names.decoding / name
    for result in (*RESULTS, "rtf"):
        # what another model gave must not stand while this one is at work
        (target / result).unlink(missing_ok=True)
    logdir = target / "logdir"
    shutil.rmtree(logdir, ignore_errors=True)
    logdir.mkdir(parents=True)
    wav, samples = (read_table(source / n) for n in ("wav.scp", "utt2num_samples"))
    lengths = {u: int(samples[u]) for u in wav}
    jobs = shared(options, names, wav, lengths, logdir)
    say("  ESPnet is starting")
    tails = [Tail(job.log) for job in jobs]
    with Progress(f"decoding {name}", len(wav), "utterances") as progress:
        process.run(
            jobs,
            options.python,
            # a share that is begun again, as its worker was lost, counts twice
            lambda: progress.update(
                min(len(wav), progress.done + sum(map(finished, tails)))
            ),
            scheduler=options.scheduler,
        )
    parts = [job.output / "1best_recog" for job in jobs]
    for result in RESULTS:
        merge([part / result for part in parts], wav, target / result)
    # none where ESPnet was told to log less
    if busy := busy_seconds([job.log for job in jobs]):
        factor = busy * options.rate / sum(lengths.values())
        with atomic_file(target / "rtf") as file:
            file.write(f"{factor:.3f}\n")
        say(f"  real-time factor {factor:.3f} on each of {len(jobs)} processes")


def shared(
    options: Options,
    names: Layout,
    wav: dict[str, str],
    lengths: dict[str, int],
    logdir: Path,
) -> list[Job]:
    """ESPnet's programs, each with a share of the utterances."""
    gpus = gpus_here() if options.gpu_inference else 0
    nj = options.inference_nj or gpus or cores()
    jobs = []
    for n, share in enumerate(balanced(lengths, nj), 1):
        scp, output = logdir / f"keys.{n}.scp", logdir / f"output.{n}"
        scp.write_text("".join(f"{u} {wav[u]}\n" for u in share), encoding="utf-8")
        words = commands.inference(options, names, scp, output)
        gpu = (n - 1) % gpus if gpus else None
        jobs.append(Job(words, logdir / f"asr_inference.{n}.log", output, gpu))
    return jobs


def balanced(lengths: dict[str, int], nj: int) -> list[list[str]]:
    """Deals utterances out so that each process gets about the same length of audio.

    Args:
        lengths: utterance id to its length.
        nj: number of processes; no more are used than there are utterances.

    Returns:
        The ids for each process, longest first: a lack of memory shows at once.
    """
    shares: list[list[str]] = [[] for _ in range(min(nj, len(lengths)))]
    loads = [0] * len(shares)
    for utterance in sorted(lengths, key=lambda u: (-lengths[u], u)):
        least = loads.index(min(loads))
        shares[least].append(utterance)
        loads[least] += lengths[utterance]
    return shares


def finished(tail: Tail) -> int:
    """How many utterances a log tells to be done since the last look."""
    return sum(any(sign in line for sign in FINISHED) for line in tail.lines())


def merge(parts: list[Path], wanted: dict[str, str], target: Path) -> None:
    """Puts the processes' results together, each utterance exactly once.

    An empty hypothesis leaves a line with the id alone.
    """
    found: dict[str, str] = {}
    remedy = "decode again with --stage 12 --stop_stage 12 --force true"
    for part in parts:
        for line in part.read_text("utf-8").rstrip("\n").split("\n"):
            utterance, _, value = line.partition(" ")
            if utterance in found or utterance not in wanted:
                how = "twice" if utterance in found else "unasked"
                raise RecipeError(
                    f"{part}: {utterance} came out of decoding {how}: {remedy}"
                )
            found[utterance] = value
    for utterance in wanted.keys() - found.keys():
        raise RecipeError(
            f"{target}: {utterance} is missing from the results: {remedy}"
        )
    with atomic_file(target) as file:
        file.writelines(f"{u} {found[u]}\n" for u in sorted(found))


def busy_seconds(logs: list[Path]) -> float:
    """Time from reading each utterance to its result, as asr.sh's real-time factor."""
    total = 0.0
    for log in logs:
        begin = None
        text = log.read_text("utf-8", "replace")
        for clock, milliseconds, event in SPAN.findall(text):
            now = datetime.fromisoformat(f"{clock}.{milliseconds}").timestamp()
            if event == "best hypo" and begin is not None:
                total += now - begin
            begin = now
    return total

"""Stage 13: word, character and token error rates, counted as ESPnet's recipes do."""

import shutil
from collections.abc import Callable
from pathlib import Path

import jiwer

from espnet_srupp.recipe.counts import Counts
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.table import LINE, read_table
from espnet_srupp.recipe.tokens import load_processor

SPACE = "<space>"
# tokens are separated by one space each and are compared as they are
SPLIT = jiwer.Compose([jiwer.ReduceToListOfListOfWords(word_delimiter=" ")])
MARKS = {"equal": " ", "substitute": "S", "delete": "D", "insert": "I"}

Tokenizer = Callable[[str], list[str]]
Pairs = dict[str, tuple[list[str], list[str]]]


def characters(text: str) -> list[str]:
    """Characters; the space between words is one of them."""
    return [SPACE if c == " " else c for c in " ".join(text.split())]


def pieces(bpemodel: Path) -> Tokenizer:
    """A tokenizer by a SentencePiece model."""
    model = load_processor(bpemodel)
    return lambda text: model.encode(" ".join(text.split()), out_type=str)


def kinds(names: Layout) -> list[str]:
    """What to score: tokens only where there is a BPE model, as asr.sh."""
    return ["wer", "cer", *(["ter"] if names.bpemodel else [])]


def unit(options: Options, names: Layout) -> str:
    """What to show of the scores: "cer" of characters without blanks, as in Chinese.

    Elsewhere "wer", which there is the error rate of sentences.
    """
    if options.token_type != "char":
        return "wer"
    texts = (read_table(source / "text").values() for source in names.tests.values())
    return "wer" if any(" " in text for table in texts for text in table) else "cer"


def score_set(options: Options, names: Layout, name: str) -> None:
    """Scores a decoded set into `score_wer`, `score_cer` and `score_ter`."""
    source, target = names.tests[name], names.decoding / name
    speakers = read_table(source / "utt2spk")
    files = (source / "text", target / "text")
    case = options.score_opts == "-s"
    for kind in kinds(names):
        # scores of another text must not stand beside new ones
        shutil.rmtree(target / f"score_{kind}", ignore_errors=True)
    for kind in kinds(names):
        split = {"wer": str.split, "cer": characters}.get(kind) or pieces(
            names.bpemodel
        )
        score(*files, target / f"score_{kind}", speakers, split, case)


def read_texts(reference: Path, hypothesis: Path) -> dict[str, tuple[str, str]]:
    """Reads transcripts and results of the same utterances.

    Raises:
        RecipeError: an utterance is in one file only; names it.
    """
    wanted, found = read_table(reference), read_hypotheses(hypothesis)
    for utterance in sorted(wanted.keys() ^ found.keys()):
        lacking = hypothesis if utterance in wanted else reference
        raise RecipeError(
            f"{utterance} is not in {lacking}: decode this set again with --stage 12 "
            "--force true"
        )
    return {utterance: (wanted[utterance], found[utterance]) for utterance in wanted}


def read_hypotheses(path: Path) -> dict[str, str]:
    """Reads "id text" lines; unlike a transcript, a result may be empty.

    Raises:
        RecipeError: it is not UTF-8, has a byte order mark or an utterance twice.
    """
    found: dict[str, str] = {}
    try:
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8: convert it with iconv") from error
    if lines[0].startswith("\ufeff"):
        raise RecipeError(
            f"{path} begins with a byte order mark, as some editors write it: save it "
            "without one"
        )
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        utterance, text = LINE.fullmatch(line.strip()).groups()
        if utterance in found:
            raise RecipeError(
                f"{path} line {number}: {utterance} is there twice: remove one"
            )
        found[utterance] = text
    return found


def align(pairs: Pairs, case: bool = False) -> jiwer.WordOutput:
    """Aligns hypotheses with references by jiwer, with the fewest errors.

    sclite, which ESPnet's recipes call, weighs a substitution 4 and a deletion or an
    insertion 3, so it sometimes counts a deletion and an insertion where this counts
    two substitutions. The sum of errors is the same but for rare utterances, where
    sclite's is larger.

    Args:
        pairs: tokens of reference and hypothesis by utterance; either may be empty.
        case: whether upper and lower case differ; sclite's default is that they do not.
    """
    fold = (lambda token: token) if case else str.lower
    sides = zip(*pairs.values(), strict=True)
    reference, hypothesis = (
        [" ".join(map(fold, tokens)) for tokens in side] for side in sides
    )
    return jiwer.process_words(reference, hypothesis, SPLIT, SPLIT)


def count(chunks: list[jiwer.AlignmentChunk], tokens: int) -> Counts:
    """Counts the errors of one utterance."""
    numbers = dict.fromkeys(MARKS, 0)
    for chunk in chunks:
        numbers[chunk.type] += max(
            chunk.ref_end_idx - chunk.ref_start_idx,
            chunk.hyp_end_idx - chunk.hyp_start_idx,
        )
    wrong = int(any(numbers[kind] for kind in MARKS if kind != "equal"))
    return Counts(1, tokens, *numbers.values(), wrong)


def score(
    reference: Path,
    hypothesis: Path,
    target: Path,
    speakers: dict[str, str],
    tokenize: Tokenizer,
    case: bool = False,
) -> Counts:
    """Scores one set by one kind of token.

    Args:
        reference, hypothesis: files of "id text" lines.
        target: the directory to make, with sclite's `ref.trn` and `hyp.trn`, and
            `result.txt` with a table by speaker and the alignment of each utterance.
        speakers: utterance id to speaker id.
        tokenize: splits a text.
        case: whether upper and lower case differ.

    Returns:
        The counts of the whole set.

    Raises:
        RecipeError: an utterance is in one of the files only.
    """
    texts = read_texts(reference, hypothesis)
    pairs = {u: (tokenize(r), tokenize(h)) for u, (r, h) in texts.items()}
    output = align(pairs, case)
    table: dict[str, Counts] = {}
    details = []
    for (utterance, (ref, hyp)), chunks in zip(
        pairs.items(), output.alignments, strict=True
    ):
        counts = count(chunks, len(ref))
        speaker = speakers[utterance]
        table[speaker] = table.get(speaker, Counts()) + counts
        details.append(alignment(utterance, ref, hyp, chunks, counts))
    total = sum(table.values(), Counts())
    with atomic_dir(target) as directory:
        for name, side in (("ref.trn", 0), ("hyp.trn", 1)):
            lines = (
                f"{' '.join(both[side])}\t({speakers[u]}-{u})\n"
                for u, both in pairs.items()
            )
            (directory / name).write_text("".join(lines), encoding="utf-8")
        result = "\n".join([summary(table, total), *details])
        (directory / "result.txt").write_text(result, encoding="utf-8")
    return total


def summary(table: dict[str, Counts], total: Counts) -> str:
    """sclite's table; `show_asr_result.sh` reads its line Sum/Avg."""
    head = ["SPKR", "# Snt", "# Wrd", "Corr", "Sub", "Del", "Ins", "Err", "S.Err"]
    rows = [head, *([s, *c.row()] for s, c in sorted(table.items()))]
    rows.append(["Sum/Avg", *total.row()])
    width = max(len(row[0]) for row in rows)
    return "".join(
        f"| {name:<{width}} | {snt:>6} {wrd:>7} | "
        + " ".join(f"{value:>6}" for value in values)
        + " |\n"
        for name, snt, wrd, *values in rows
    )


def alignment(
    utterance: str,
    reference: list[str],
    hypothesis: list[str],
    chunks: list[jiwer.AlignmentChunk],
    counts: Counts,
) -> str:
    """REF and HYP one above the other, as sclite's pra file shows them."""
    columns: list[tuple[str, str, str]] = []
    for chunk in chunks:
        ref = reference[chunk.ref_start_idx : chunk.ref_end_idx]
        hyp = hypothesis[chunk.hyp_start_idx : chunk.hyp_end_idx]
        size = max(len(ref), len(hyp))
        ref, hyp = (side or ["***"] * size for side in (ref, hyp))
        columns += zip(ref, hyp, [MARKS[chunk.type]] * size, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = [
        f"{label + ':':<6}"
        + " ".join(
            f"{column[i]:<{w}}" for column, w in zip(columns, widths, strict=True)
        )
        for i, label in enumerate(("REF", "HYP", "Eval"))
    ]
    scores = f"{counts.correct} {counts.substituted} {counts.deleted} {counts.inserted}"
    head = [f"id: ({utterance})", f"Scores: (#C #S #D #I) {scores}"]
    return "\n".join(line.rstrip() for line in [*head, *lines]) + "\n"

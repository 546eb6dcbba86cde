"""Stage 5: the token list, and the SentencePiece model where tokens are pieces."""

import io
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import sentencepiece
from espnet2.text.char_tokenizer import CharTokenizer
from espnet2.text.word_tokenizer import WordTokenizer

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import Faults, settle
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.table import read_table

# all of the text, as in asr.sh
INPUT_SENTENCE_SIZE = 100_000_000


def train_tokens(given: Options, text: Path, directory: Path) -> None:
    """Makes tokens.txt as asr.sh does: blank, oov, the tokens, sos_eos, one on a line.

    Args:
        given: of the recipe: its options of tokens.
        text: a Kaldi text file ("utterance transcript"); bad lines are left out.
        directory: where the files go, all of them or none; for "bpe" also train.txt,
            bpe.model and bpe.vocab.

    Raises:
        RecipeError: more than a tenth of the text is bad, or with --strict true a line
            of it; the text does not go with the number of pieces.
    """
    lines = transcripts(text, given.strict).values()
    with atomic_dir(directory) as folder:
        if given.token_type == "bpe":
            (folder / "train.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
            try:
                tokens = train_pieces(given, folder)
            except RuntimeError as error:
                # its messages end with what is wrong and what would do
                reason = str(error).rpartition("] ")[2]
                raise RecipeError(
                    f"SentencePiece cannot make --nbpe {given.nbpe} pieces of "
                    f"{text}: {reason}"
                ) from error
        else:
            split = split_function(given, directory)
            counts = Counter(token for line in lines for token in split(line))
            own = (given.blank, given.oov, given.sos_eos)
            tokens = [token for token, _ in counts.most_common() if token not in own]
        listed = [given.blank, given.oov, *tokens, given.sos_eos]
        (folder / "tokens.txt").write_text("\n".join([*listed, ""]), encoding="utf-8")


def transcripts(text: Path, strict: bool) -> dict[str, str]:
    """Those of a Kaldi text file, one blank between words; bad lines are left out.

    Raises:
        RecipeError: more than a tenth of the lines is bad, or with `strict` one is.
    """
    faults: Faults = {}
    table = read_table(text, faults)
    good = {u: " ".join(line.split()) for u, line in table.items() if u not in faults}
    settle(faults, len(good), text, strict)
    return good


def check_tokens(given: Options, text: Path, directory: Path) -> None:
    """Checks that a token list has what ESPnet and the training text need.

    Args:
        given: of the recipe: its options of tokens.
        text: the Kaldi text file of the training set.
        directory: what `train_tokens` made.

    Raises:
        RecipeError: tokens.txt is missing, has a token twice, has blank, oov or sos_eos
            not in its place, or lacks a token of the text; names token and utterance.
    """
    path = directory / "tokens.txt"
    remedy = "make it again with --stage 5 --stop_stage 5 --force true"
    if not path.exists():
        raise RecipeError(f"{path} is missing: {remedy}")
    tokens = path.read_text(encoding="utf-8").split("\n")[:-1]
    for token, count in Counter(tokens).items():
        if count > 1:
            raise RecipeError(f"{path} has the token '{token}' twice: {remedy}")
    first, unknown, last = given.blank, given.oov, given.sos_eos
    if tokens[:1] != [first] or tokens[-1] != last or unknown not in tokens:
        raise RecipeError(
            f"{path} must begin with {first}, end with {last} and hold {unknown}: "
            + remedy
        )
    known = set(tokens)
    split = split_function(given, directory)
    # each transcript once, as a set at several speeds has it for each of them
    first_of: dict[str, str] = {}
    for utterance, line in read_table(text).items():
        first_of.setdefault(line, utterance)
    for line, utterance in first_of.items():
        for token in split(" ".join(line.split())):
            if token not in known:
                raise RecipeError(
                    f"{path} lacks the token '{token}' of {utterance} in {text}: "
                    f"correct that transcript, or {remedy}"
                )


def split_function(given: Options, directory: Path) -> Callable[[str], list[str]]:
    """What makes tokens of a transcript, with what `train_tokens` left in a folder."""
    if given.token_type == "bpe":
        return load_pieces(directory / "bpe.model", given.oov, given.bpe_char_cover < 1)
    if given.token_type == "char":
        return CharTokenizer().text2tokens
    return WordTokenizer().text2tokens


def load_pieces(path: Path, oov: str, oov_is_fine: bool) -> Callable[[str], list[str]]:
    """The function that splits into pieces; what has no piece is itself, or oov."""
    processor = load_processor(path)
    if not oov_is_fine:
        return partial(processor.encode, out_type=str)
    spelt = processor.id_to_piece([*range(len(processor))])
    spelt[processor.unk_id()] = oov
    return lambda line: [spelt[number] for number in processor.encode(line)]


def pieces(path: Path) -> list[str]:
    """The pieces of a BPE model without SentencePiece's own <unk>, <s> and </s>."""
    processor = load_processor(path)
    numbers = range(len(processor))
    own = {i for i in numbers if processor.is_control(i) or processor.is_unknown(i)}
    return processor.id_to_piece([i for i in numbers if i not in own])


def load_processor(path: Path) -> sentencepiece.SentencePieceProcessor:
    """Raises RecipeError where the file is no BPE model."""
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise RecipeError(
            f"{path} is not a model of SentencePiece, or a damaged one: make it again "
            "with --stage 5 --stop_stage 5 --force true"
        ) from error


def join(pieces: list[str]) -> str:
    """The words that pieces spell."""
    return "".join(pieces).replace("\u2581", " ").strip()


def train_pieces(given: Options, folder: Path) -> list[str]:
    """Makes bpe.model and bpe.vocab of train.txt as asr.sh; returns their `pieces`."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "train.txt"),
        vocab_size=given.nbpe,
        model_type=given.bpemode,
        model_writer=model,
        character_coverage=given.bpe_char_cover,
        input_sentence_size=INPUT_SENTENCE_SIZE,
        user_defined_symbols=given.symbols,
        minloglevel=1,
    )
    path = folder / "bpe.model"
    path.write_bytes(model.getvalue())
    made = load_processor(path)
    rows = ((made.id_to_piece(i), made.get_score(i)) for i in range(len(made)))
    vocab = "".join(f"{piece}\t{score:g}\n" for piece, score in rows)
    (folder / "bpe.vocab").write_text(vocab, encoding="utf-8")
    return pieces(path)

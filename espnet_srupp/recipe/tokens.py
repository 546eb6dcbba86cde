"""Stage 5: the token list, and the SentencePiece model where tokens are pieces."""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import sentencepiece
from espnet2.text.char_tokenizer import CharTokenizer
from espnet2.text.word_tokenizer import WordTokenizer

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.table import read_table

# all of the text, as in asr.sh
INPUT_SENTENCE_SIZE = 100_000_000


def train_tokens(
    texts: Sequence[Path],
    directory: Path,
    token_type: str,
    nbpe: int,
    bpemode: str,
    nlsyms: Sequence[str],
    oov: str,
    blank: str,
    sos_eos: str,
    bpe_char_cover: float,
) -> None:
    """Makes tokens.txt as asr.sh does: blank, oov, the tokens, sos_eos, one on a line.

    Args:
        texts: Kaldi text files ("utterance transcript").
        directory: where the files go, all of them or none; for "bpe" also train.txt,
            bpe.model and bpe.vocab.
        token_type: "bpe", "char" or "word".
        nbpe: number of pieces, with SentencePiece's three own ("bpe" only).
        bpemode: SentencePiece's model type, "unigram" or "bpe" ("bpe" only).
        nlsyms: symbols such as "<noise>" that stay whole.
        oov: token of what has no token.
        blank: token of CTC's blank.
        sos_eos: token of start and end of a sentence.
        bpe_char_cover: share of the characters that get a piece ("bpe" only).

    Raises:
        RecipeError: a text is not usable or does not go with the number of pieces.
    """
    lines = [" ".join(line.split()) for t in texts for line in read_table(t).values()]
    with atomic_dir(directory) as folder:
        if token_type == "bpe":
            (folder / "train.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
            try:
                tokens = train_pieces(folder, nbpe, bpemode, nlsyms, bpe_char_cover)
            except RuntimeError as error:
                # its messages end with what is wrong and what would do
                reason = str(error).rpartition("] ")[2]
                raise RecipeError(
                    f"SentencePiece cannot make --nbpe {nbpe} pieces of "
                    f"{' '.join(map(str, texts))}: {reason}"
                ) from error
        else:
            split = splitter(token_type, nlsyms)
            counts = Counter(token for line in lines for token in split(line))
            tokens = [token for token, _ in counts.most_common()]
        listed = [blank, oov, *tokens, sos_eos]
        (folder / "tokens.txt").write_text("\n".join([*listed, ""]), encoding="utf-8")


def check_tokens(
    text: Path,
    directory: Path,
    token_type: str,
    nlsyms: Sequence[str],
    oov: str,
    blank: str,
    sos_eos: str,
    bpe_char_cover: float,
) -> None:
    """Checks that a token list has what ESPnet and the training text need.

    Args:
        text: the Kaldi text file of the training set.
        directory: what `train_tokens` made.
        token_type: as for `train_tokens`, like the other arguments.

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
    if tokens[:1] != [blank] or tokens[-1] != sos_eos or oov not in tokens:
        raise RecipeError(
            f"{path} must begin with {blank}, end with {sos_eos} and hold {oov}: "
            + remedy
        )
    known = set(tokens)
    split = split_function(directory, token_type, nlsyms, oov, bpe_char_cover)
    for utterance, line in read_table(text).items():
        for token in split(" ".join(line.split())):
            if token not in known:
                raise RecipeError(
                    f"{path} lacks the token '{token}' of {utterance} in {text}: "
                    f"correct that transcript, or {remedy}"
                )


def split_function(
    directory: Path,
    token_type: str,
    nlsyms: Sequence[str],
    oov: str,
    bpe_char_cover: float,
) -> Callable[[str], list[str]]:
    """What makes tokens of a transcript; the arguments are those of `check_tokens`."""
    if token_type == "bpe":
        return load_pieces(directory / "bpe.model", oov, bpe_char_cover < 1)
    return splitter(token_type, nlsyms)


def splitter(token_type: str, nlsyms: Sequence[str]):
    """The function that ESPnet splits a transcript with, for characters or words."""
    if token_type == "char":
        return CharTokenizer(non_linguistic_symbols=nlsyms).text2tokens
    return WordTokenizer().text2tokens


def load_pieces(path: Path, oov: str, oov_is_fine: bool):
    """The function that splits into pieces; what has no piece is itself, or oov."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def split(line: str) -> list[str]:
        return [
            oov if oov_is_fine and number == processor.unk_id() else piece
            for piece, number in zip(
                processor.encode(line, out_type=str),
                processor.encode(line),
                strict=True,
            )
        ]

    return split


def train_pieces(
    folder: Path, nbpe: int, bpemode: str, nlsyms: Sequence[str], coverage: float
) -> list[str]:
    """Makes bpe.model and bpe.vocab from train.txt with asr.sh's arguments.

    Returns:
        The pieces without SentencePiece's own <unk>, <s> and </s>.
    """
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "train.txt"),
        vocab_size=nbpe,
        model_type=bpemode,
        model_writer=model,
        character_coverage=coverage,
        input_sentence_size=INPUT_SENTENCE_SIZE,
        user_defined_symbols=list(nlsyms),
        minloglevel=1,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(len(processor))]
    scores = [processor.get_score(i) for i in range(len(processor))]
    vocab = "".join(f"{p}\t{s:g}\n" for p, s in zip(pieces, scores, strict=True))
    (folder / "bpe.model").write_bytes(model.getvalue())
    (folder / "bpe.vocab").write_text(vocab, encoding="utf-8")
    return pieces[3:]

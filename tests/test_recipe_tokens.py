"""Stage 5 gives asr.sh's token lists, and names what does not fit."""

import os

import pytest
import sentencepiece

from espnet_srupp.recipe import tokens
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.tokens import check_tokens, train_tokens

SYMBOLS = {"oov": "<unk>", "blank": "<blank>", "sos_eos": "<sos/eos>"}
LINES = [
    "u1 TURN ON THE RED LAMP",
    "u2 TURN OFF  THE RED FAN",
    "u3 <noise> BRING SEVEN GREEN CUPS",
    "u4 WAKE ÅSA AT TEN IN THE MORNING",
    "u5 BRING TEN RED CUPS TO THE KITCHEN",
    "u6 TURN THE HEATER IN THE KITCHEN OFF",
    "u7 CALL ANNA AT SEVEN IN THE EVENING",
    "u8 SWITCH ON THE GREEN LAMP IN THE GARDEN",
]
TYPES = ["bpe", "char", "word"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join([*LINES, ""]), encoding="utf-8")
    return path


def options(token_type, nlsyms=(), cover=1.0, **more):
    kept = ",".join(nlsyms)
    return Options(
        token_type=token_type, bpe_nlsyms=kept, bpe_char_cover=cover, **SYMBOLS | more
    )


def train(text, directory, token_type, nbpe=45, mode="unigram", nlsyms=(), cover=1.0):
    given = options(token_type, nlsyms, cover, nbpe=nbpe, bpemode=mode)
    train_tokens(given, text, directory)
    return (directory / "tokens.txt").read_text(encoding="utf-8").splitlines()


def check(text, directory, token_type, nlsyms=(), cover=1.0, **symbols):
    check_tokens(options(token_type, nlsyms, cover, **symbols), text, directory)


@pytest.mark.parametrize("nlsyms", [[], ["<noise>"]], ids=["plain", "for BPE alone"])
@pytest.mark.parametrize("token_type", ["char", "word"])
def test_characters_and_words_are_listed_as_by_espnet(
    text, tmp_path, token_type, nlsyms
):
    from espnet2.bin import tokenize_text

    options = {
        "input": text,
        "output": tmp_path / "espnet.txt",
        "field": "2-",
        "token_type": token_type,
        # as its training splits them, see commands.py
        "non_linguistic_symbols": "none",
        "cleaner": "none",
        "g2p": "none",
        "write_vocabulary": "true",
    }
    added = ["<blank>:0", "<unk>:1", "<sos/eos>:-1"]
    words = [f"--{name}={value}" for name, value in options.items()]
    tokenize_text.main([*words, *(f"--add_symbol={symbol}" for symbol in added)])
    expected = (tmp_path / "espnet.txt").read_text(encoding="utf-8").splitlines()
    assert train(text, tmp_path / "list", token_type, nlsyms=nlsyms) == expected


@pytest.mark.parametrize("mode", ["unigram", "bpe"])
def test_pieces_are_those_of_sentencepiece_with_asr_sh_arguments(text, tmp_path, mode):
    listed = train(text, tmp_path / "list", "bpe", 45, mode, ["<noise>"])
    # asr.sh: cat | cut -f 2- -d" " | spm_train, then awk over bpe.vocab
    lines = [line.partition(" ")[2].replace("  ", " ") for line in LINES]
    assert (tmp_path / "list/train.txt").read_text("utf-8").splitlines() == lines
    sentencepiece.SentencePieceTrainer.train(
        f"--input={tmp_path}/list/train.txt --vocab_size=45 --model_type={mode} "
        f"--model_prefix={tmp_path}/spm --character_coverage=1.0 "
        "--input_sentence_size=100000000 --user_defined_symbols=<noise> "
        "--minloglevel=1"
    )
    vocab = (tmp_path / "spm.vocab").read_text(encoding="utf-8")
    assert (tmp_path / "list/bpe.vocab").read_text(encoding="utf-8") == vocab
    pieces = [line.split("\t")[0] for line in vocab.splitlines()][3:]
    assert listed == ["<blank>", "<unk>", *pieces, "<sos/eos>"]
    assert len(listed) == 45
    ours, theirs = (
        sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / name))
        for name in ("list/bpe.model", "spm.model")
    )
    for line in lines:
        assert ours.encode(line) == theirs.encode(line)


@pytest.mark.parametrize("token_type", TYPES)
def test_two_runs_give_the_same_bytes(text, tmp_path, token_type):
    train(text, tmp_path / "list", token_type)
    first = {path.name: path.read_bytes() for path in (tmp_path / "list").iterdir()}
    train(text, tmp_path / "list", token_type)
    names = {"bpe.model", "bpe.vocab", "train.txt", "tokens.txt"}
    assert first.keys() == (names if token_type == "bpe" else {"tokens.txt"})
    for name, content in first.items():
        assert (tmp_path / "list" / name).read_bytes() == content


def test_bad_lines_are_left_out_and_told_if_they_are_few(tmp_path, capsys):
    text = tmp_path / "text"
    lines = [f"u{number:02} ZEBRA\n" for number in range(9)]
    text.write_text("".join([*lines, "u10\n", "u11 YAK\n"]))
    assert train(text, tmp_path / "list", "word")[2:-1] == ["ZEBRA", "YAK"]
    assert "1 of 11 utterances" in capsys.readouterr().out
    with pytest.raises(RecipeError, match="u10 has an empty transcript"):
        train_tokens(options("word", strict=True), text, tmp_path / "list")
    text.write_text("".join([*lines, "u10\n"]))
    train(text, tmp_path / "list", "word")
    text.write_text("".join([*lines, "u10\n", "u11\n"]))
    with pytest.raises(RecipeError, match="more than a tenth"):
        train(text, tmp_path / "list", "word")


def test_a_word_that_is_a_symbol_of_the_list_is_in_it_once(text, tmp_path):
    text.write_text("a <unk> ONE\nb TWO <unk>\n")
    train(text, tmp_path / "list", "word")
    check(text, tmp_path / "list", "word")


@pytest.mark.parametrize("nbpe, reason", [(5, "smaller than"), (5000, "too high")])
def test_a_number_of_pieces_that_does_not_go_is_named(text, tmp_path, nbpe, reason):
    with pytest.raises(
        RecipeError, match=f"--nbpe {nbpe} pieces of .*text: .*{reason}"
    ):
        train(text, tmp_path / "list", "bpe", nbpe)
    assert os.listdir(tmp_path) == ["text"]


@pytest.mark.parametrize("token_type", TYPES)
def test_a_list_has_all_tokens_of_its_own_text(text, tmp_path, token_type):
    train(text, tmp_path / "list", token_type, nlsyms=["<noise>"])
    check(text, tmp_path / "list", token_type, nlsyms=["<noise>"])


@pytest.mark.parametrize(
    "token_type, token", [("bpe", "É"), ("char", "É"), ("word", "CAFÉ")]
)
def test_a_missing_token_is_named_with_its_utterance(text, tmp_path, token_type, token):
    train(text, tmp_path / "list", token_type)
    text.write_text("u1 THE RED LAMP\nu2 THE CAFÉ\n", encoding="utf-8")
    message = f"tokens.txt lacks the token '{token}' of u2 in .*text.*--stage 5"
    with pytest.raises(RecipeError, match=message):
        check(text, tmp_path / "list", token_type)


def test_a_missing_piece_is_named(text, tmp_path):
    tokens = train(text, tmp_path / "list", "bpe")
    tokens.remove("P")
    (tmp_path / "list/tokens.txt").write_text("\n".join([*tokens, ""]), "utf-8")
    with pytest.raises(RecipeError, match="lacks the token 'P' of u1"):
        check(text, tmp_path / "list", "bpe")


def test_a_character_that_coverage_left_out_is_no_fault(text, tmp_path):
    tokens = train(text, tmp_path / "list", "bpe", nbpe=36, cover=0.98)
    assert "Å" not in "".join(tokens)
    check(text, tmp_path / "list", "bpe", cover=0.98)


@pytest.mark.parametrize("cover", [1.0, 0.98], ids=["all letters", "most of them"])
def test_sentencepiece_splits_a_text_once_whatever_speeds_repeat_it(
    text, tmp_path, monkeypatch, cover
):
    train(text, tmp_path / "list", "bpe", nbpe=45 if cover == 1 else 36, cover=cover)
    asked = []

    class Counted(sentencepiece.SentencePieceProcessor):
        def encode(self, line, **options):
            asked.append(line)
            return super().encode(line, **options)

    model = Counted(model_file=str(tmp_path / "list" / "bpe.model"))
    monkeypatch.setattr(tokens, "load_processor", lambda path: model)
    lines = [f"{speed}{line}" for speed in ("sp0.9-", "sp1.1-", "") for line in LINES]
    text.write_text("\n".join([*lines, ""]), encoding="utf-8")
    check(text, tmp_path / "list", "bpe", cover=cover)
    assert len(asked) == len(LINES)


def test_only_what_has_no_piece_is_oov(text, tmp_path):
    known = train(text, tmp_path / "list", "bpe", nbpe=36, cover=0.98)
    path = tmp_path / "list" / "bpe.model"
    split, plain = (tokens.load_pieces(path, "OOV", fine) for fine in (True, False))
    for line in LINES:
        units = plain(line)
        assert split(line) == [u if u in known else "OOV" for u in units]


LISTS = {
    "no blank": ("<unk>\nA\n<sos/eos>\n", {}),
    "no end": ("<blank>\n<unk>\nA\n", {}),
    "no oov": ("<blank>\nA\n<sos/eos>\n", {}),
    "other oov": ("<blank>\n<unk>\nA\n<sos/eos>\n", {"oov": "<oov>"}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize("content, symbols", LISTS.values(), ids=LISTS)
def test_a_list_without_its_symbols_is_refused(text, tmp_path, content, symbols):
    (tmp_path / "list").mkdir()
    (tmp_path / "list/tokens.txt").write_text(content)
    with pytest.raises(RecipeError, match="tokens.txt must begin with <blank>"):
        check(text, tmp_path / "list", "char", **symbols)


def test_a_token_twice_and_a_missing_list_are_named(text, tmp_path):
    with pytest.raises(RecipeError, match="tokens.txt is missing: .*--stage 5"):
        check(text, tmp_path / "list", "char")
    (tmp_path / "list").mkdir()
    (tmp_path / "list/tokens.txt").write_text("<blank>\n<unk>\nA\nA\n<sos/eos>\n")
    with pytest.raises(RecipeError, match="has the token 'A' twice"):
        check(text, tmp_path / "list", "char")


@pytest.mark.parametrize(
    "content", [None, b"", b"x" * 99], ids=["no", "empty", "other"]
)
def test_a_file_that_is_no_bpe_model_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "bpe.model").write_bytes(content)
    with pytest.raises(RecipeError, match="bpe.model is not a model of .*--stage 5"):
        tokens.load_processor(tmp_path / "bpe.model")

"""Tokens become words, and frames become seconds."""

import pytest
import sentencepiece

from espnet_srupp.longform.words import Clock, Spelling, Token, text_of

CLOCK = Clock(0.01, 0.04)
SPELLINGS = {
    "bpe": ["<blank>", "<unk>", "▁", "▁THE", "S", "E", "<sos/eos>"],
    "char": ["<blank>", "<unk>", "<space>", "T", "S", "E", "<sos/eos>"],
    "word": ["<blank>", "<unk>", "YES", "NO", "<sos/eos>"],
    "chinese": ["<blank>", "<unk>", "你", "好", "<sos/eos>"],
}


def spelling(name):
    tokens = SPELLINGS[name]
    kind = "char" if name == "chinese" else name
    return Spelling(kind, tokens, [len(tokens) - 1])


def spoken(*ids):
    """Each token in a frame of its own, a blank after it."""
    return [Token(id, 2 * n, 2 * n + 1) for n, id in enumerate(ids)]


@pytest.mark.parametrize(
    ("name", "ids", "text"),
    [
        pytest.param("bpe", [3, 4, 5, 2, 4, 5], "THESE SE", id="bpe"),
        pytest.param("bpe", [4, 3, 2, 2, 3, 2], "S THE THE", id="bpe, empty words"),
        pytest.param("bpe", [3, 1, 4], "THE ⁇ S", id="bpe, unknown"),
        pytest.param("bpe", [3, 6, 4], "THES", id="bpe, end of sentence"),
        pytest.param("char", [3, 5, 2, 4, 5], "TE SE", id="char"),
        pytest.param("char", [2, 2, 3, 2, 2, 4, 2], "T S", id="char, blanks"),
        pytest.param("char", [3, 1], "T<unk>", id="char, unknown"),
        pytest.param("word", [2, 3, 3], "YES NO NO", id="word"),
        pytest.param("chinese", [2, 3, 4, 2], "你好你", id="char without blanks"),
        pytest.param("bpe", [], "", id="nothing"),
    ],
)
def test_text(name, ids, text):
    words = spelling(name).words(spoken(*ids), CLOCK, 100.0)
    assert text_of(words, spelling(name).blank) == text
    assert [w.text for w in words] == (
        list(text) if name == "chinese" else text.split()
    )


def test_text_is_that_of_sentencepiece(tmp_path):
    (tmp_path / "text").write_text("THESE ARE THE WORDS\nTHE SEA SEES THESE\n" * 9)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "bpe"),
        vocab_size=17,
        minloglevel=9,
    )
    model = sentencepiece.SentencePieceProcessor(str(tmp_path / "bpe.model"))
    pieces = [model.id_to_piece(id) for id in range(model.get_piece_size())]
    sentence = "THE SEA ARE XS WORDS"
    ids = model.encode(sentence)
    found = Spelling("bpe", pieces)
    words = found.words(spoken(*ids), CLOCK, 100.0)
    assert text_of(words, found.blank).split() == model.decode(ids).split()


def test_a_word_lies_where_its_letters_are():
    tokens = [Token(2, 3, 4), Token(4, 10, 11), Token(5, 12, 14), Token(3, 20, 21)]
    first, second = spelling("bpe").words(tokens, CLOCK, 100.0)
    # the blank before it is no part of it
    assert (first.start, first.end) == pytest.approx((0.01 + 0.4, 0.01 + 0.56))
    assert (second.start, second.end) == pytest.approx((0.01 + 0.8, 0.01 + 0.84))


def test_words_stay_inside_the_recording():
    (word,) = spelling("word").words([Token(2, 0, 9)], Clock(-0.02, 0.04), 0.3)
    assert (word.start, word.end) == (0.0, 0.3)


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        pytest.param("▁今天 天 气 ， 好", "今天 天 气， 好", id="Chinese"),
        pytest.param("▁用 iP hone 打 ▁O K", "用 iPhone 打 OK", id="beside Latin"),
        pytest.param("▁第 3 章", "第 3 章", id="beside digits"),
        pytest.param("▁ラ ー メ ン 々", "ラー メ ン々", id="Japanese"),
        pytest.param("▁ก ิ น เ ป ็ น า", "กิ น เป็ นา", id="Thai, with marks and vowels"),
        pytest.param("▁นเ ป ็ น", "นเป็ น", id="Thai, a vowel after another letter"),
        pytest.param("▁ក ្ ម ា", "ក្មា", id="Khmer, stacked"),
        pytest.param("▁ا ب َ ت", "ابَت", id="Arabic"),
        pytest.param("▁한 국 어", "한국어", id="Korean"),
    ],
)
@pytest.mark.parametrize("kind", ["bpe", "char"])
def test_a_script_without_blanks_has_words(kind, pieces, texts):
    tokens = pieces.replace("▁", "▁ ").split()
    if kind == "char":
        tokens = ["<space>" if token == "▁" else token for token in tokens]
    found = Spelling(kind, [*dict.fromkeys(["▁", "<space>", *tokens])])
    ids = [found.token_list.index(token) for token in tokens]
    words = found.words(spoken(*ids), CLOCK, 100.0)
    assert [word.text for word in words] == texts.split()
    written = pieces.replace(" ", "").replace("▁", " ").removeprefix(" ")
    assert text_of(words, found.blank) == written
    times = [time for word in words for time in (word.start, word.end)]
    assert times == sorted(times)

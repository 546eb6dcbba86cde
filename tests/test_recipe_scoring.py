"""Errors are counted as by hand, and files have sclite's form."""

import jiwer
import pytest
import sentencepiece

from espnet_srupp.recipe import scoring
from espnet_srupp.recipe.counts import Counts
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.scoring import characters, score


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{key} {value}\n" for key, value in table.items())
    path.write_text("".join(lines), encoding="utf-8")
    return path


def scored(tmp_path, reference, hypothesis, tokenize=str.split, case=False):
    """Scores two tables; each utterance is a speaker's own."""
    return score(
        write(tmp_path / "ref", reference),
        write(tmp_path / "hyp", hypothesis),
        tmp_path / "score",
        {utterance: f"spk{utterance}" for utterance in reference},
        tokenize,
        case,
    )


@pytest.mark.parametrize(
    ("reference", "hypothesis", "corr", "sub", "dele", "ins"),
    [
        pytest.param("A B C", "A B C", 3, 0, 0, 0, id="all correct"),
        pytest.param("A B C", "A X C", 2, 1, 0, 0, id="substitution"),
        pytest.param("A B C", "A C", 2, 0, 1, 0, id="deletion"),
        pytest.param("A B C", "A B X C", 3, 0, 0, 1, id="insertion"),
        pytest.param("A B C", "", 0, 0, 3, 0, id="empty hypothesis"),
        pytest.param("A", "B C D", 0, 1, 0, 2, id="more errors than words"),
        pytest.param("A B C D E", "B C X E F", 3, 1, 1, 1, id="all kinds"),
        pytest.param("A  B", " A B ", 2, 0, 0, 0, id="blanks do not count"),
        pytest.param("A Ö", "a ö", 2, 0, 0, 0, id="case does not count"),
    ],
)
def test_words_of_one_utterance(tmp_path, reference, hypothesis, corr, sub, dele, ins):
    counts = scored(tmp_path, {"u": reference}, {"u": hypothesis})
    wrong = int(bool(sub + dele + ins))
    assert counts == Counts(1, corr + sub + dele, corr, sub, dele, ins, wrong)


def test_case_counts_on_request(tmp_path):
    assert scored(tmp_path, {"u": "A b"}, {"u": "a b"}, case=True).substituted == 1


def test_characters_count_the_space(tmp_path):
    # A _ B C against A B D: the space deleted, C substituted
    counts = scored(tmp_path, {"u": "A BC"}, {"u": "ABD"}, characters)
    assert counts == Counts(1, 4, 2, 1, 1, 0, 1)
    assert characters(" A  B ") == ["A", "<space>", "B"]


def train_pieces(path):
    text = {f"AB CD {'AB ' * (n % 3)}": "" for n in range(30)}
    sentencepiece.SentencePieceTrainer.train(
        input=str(write(path.parent / "text", text)),
        model_prefix=str(path.with_suffix("")),
        vocab_size=10,
        model_type="bpe",
        minloglevel=2,
    )


def test_pieces_of_sentencepiece_are_tokens(tmp_path):
    train_pieces(tmp_path / "bpe.model")
    split = scoring.pieces(tmp_path / "bpe.model")
    assert split("AB  CD")[0] == "▁AB"
    assert "".join(split("AB  CD")) == "▁AB▁CD"


REFERENCE = {"a1": "ONE TWO THREE", "a2": "FOUR FIVE", "b1": "SIX"}
HYPOTHESIS = {"a1": "ONE THREE", "a2": "FOUR FIVE", "b1": "SEVEN EIGHT"}


def test_counts_of_several_utterances_add_up(tmp_path):
    counts = scored(tmp_path, REFERENCE, HYPOTHESIS)
    assert counts == Counts(3, 6, 4, 1, 1, 1, 2)
    assert counts.errors == 3
    assert counts.row() == ["3", "6", "66.7", "16.7", "16.7", "16.7", "50.0", "66.7"]


def test_order_of_results_does_not_matter(tmp_path):
    backward = dict(reversed(HYPOTHESIS.items()))
    assert scored(tmp_path, REFERENCE, backward) == scored(
        tmp_path, REFERENCE, HYPOTHESIS
    )


@pytest.mark.parametrize(
    ("reference", "hypothesis", "culprit"),
    [
        ({"a": "X", "b": "Y"}, {"a": "X"}, "b is not in .*hyp"),
        ({"a": "X"}, {"a": "X", "b": "Y"}, "b is not in .*ref"),
    ],
    ids=["missing", "extra"],
)
def test_unpaired_utterance_is_named(tmp_path, reference, hypothesis, culprit):
    with pytest.raises(RecipeError, match=culprit):
        scored(tmp_path, reference, hypothesis)
    assert not (tmp_path / "score").exists()


def test_utterance_that_is_there_twice_is_named(tmp_path):
    (tmp_path / "hyp").write_text("a X\na Y\n")
    with pytest.raises(RecipeError, match="hyp line 2: a is there twice: remove"):
        scoring.read_hypotheses(tmp_path / "hyp")


def test_results_are_split_at_blanks_and_tabs_and_lines_without_any_are_left_out(
    tmp_path,
):
    (tmp_path / "hyp").write_text("a\tX Y\n\n \nb  Z \nc \nd\n\n")
    assert scoring.read_hypotheses(tmp_path / "hyp") == {
        **{"a": "X Y", "b": "Z"},
        **{"c": "", "d": ""},
    }


def test_a_byte_order_mark_is_named(tmp_path):
    (tmp_path / "hyp").write_text("a X\n", encoding="utf-8-sig")
    with pytest.raises(RecipeError, match="hyp begins with a byte order mark"):
        scoring.read_hypotheses(tmp_path / "hyp")


def test_results_that_are_not_utf_8_are_named(tmp_path):
    (tmp_path / "hyp").write_bytes("a é\n".encode("latin-1"))
    with pytest.raises(RecipeError, match="hyp is not UTF-8: convert it with iconv"):
        scoring.read_hypotheses(tmp_path / "hyp")


def test_transcripts_have_sclites_form(tmp_path):
    scored(tmp_path, REFERENCE, {**HYPOTHESIS, "a2": ""})
    directory = tmp_path / "score"
    assert (directory / "ref.trn").read_text() == (
        "ONE TWO THREE\t(spka1-a1)\nFOUR FIVE\t(spka2-a2)\nSIX\t(spkb1-b1)\n"
    )
    assert (directory / "hyp.trn").read_text().split("\n")[1] == "\t(spka2-a2)"


def test_table_has_a_row_for_each_speaker_and_the_sum(tmp_path):
    score(
        write(tmp_path / "ref", REFERENCE),
        write(tmp_path / "hyp", HYPOTHESIS),
        tmp_path / "score",
        {"a1": "anna", "a2": "anna", "b1": "bob"},
        str.split,
    )
    rows = [
        line.replace("|", " ").split()
        for line in (tmp_path / "score" / "result.txt").read_text().splitlines()[:4]
    ]
    assert rows[1] == "anna 2 5 80.0 0.0 20.0 0.0 20.0 50.0".split()
    assert rows[2] == "bob 1 1 0.0 100.0 0.0 100.0 200.0 100.0".split()
    assert rows[3] == "Sum/Avg 3 6 66.7 16.7 16.7 16.7 50.0 66.7".split()


def test_alignment_of_each_utterance_is_shown(tmp_path):
    scored(tmp_path, REFERENCE, HYPOTHESIS)
    _, first, _, last = (tmp_path / "score" / "result.txt").read_text().split("\n\n")
    assert first.splitlines() == [
        "id: (a1)",
        "Scores: (#C #S #D #I) 2 0 1 0",
        "REF:  ONE TWO THREE",
        "HYP:  ONE *** THREE",
        "Eval:     D",
    ]
    assert last.splitlines()[2:] == [
        "REF:  ***   SIX",
        "HYP:  SEVEN EIGHT",
        "Eval: I     S",
    ]


def test_sum_of_errors_is_the_least_possible(tmp_path):
    reference = {"u": "A B C D E F G"}
    hypothesis = {"u": "B C X D F G H"}
    counts = scored(tmp_path, reference, hypothesis)
    assert counts.errors == round(7 * jiwer.wer(reference["u"], hypothesis["u"]))


@pytest.mark.parametrize(
    ("token_type", "kinds"), [("bpe", ["wer", "cer", "ter"]), ("char", ["wer", "cer"])]
)
def test_tokens_are_scored_where_there_is_a_bpe_model(token_type, kinds):
    given = Options(train_set="a", valid_set="b", test_sets="c", token_type=token_type)
    assert scoring.kinds(layout(given)) == kinds


@pytest.mark.parametrize(
    ("token_type", "text", "unit"),
    [("char", "AB", "cer"), ("char", "A B", "wer"), ("bpe", "AB", "wer")],
)
def test_characters_are_shown_where_there_are_no_words(
    tmp_path, token_type, text, unit
):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    given = Options(**sets, dumpdir=str(tmp_path), token_type=token_type)
    names = layout(given)
    names.tests["c"].mkdir(parents=True)
    (names.tests["c"] / "text").write_text(f"u CD\nv {text}\n")
    assert scoring.unit(given, names) == unit


def test_a_killed_scoring_leaves_no_scores_of_before(tmp_path, monkeypatch):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    given = Options(**sets, expdir=str(tmp_path), dumpdir=str(tmp_path))
    names = layout(given)
    names.tests["c"].mkdir(parents=True)
    (names.tests["c"] / "utt2spk").write_text("u s\n")
    for kind in scoring.kinds(names):
        (names.decoding / "c" / f"score_{kind}").mkdir(parents=True)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(scoring, "score", killed)
    with pytest.raises(KeyboardInterrupt):
        scoring.score_set(given, names, "c")
    assert not list((names.decoding / "c").iterdir())


@pytest.mark.parametrize(("opts", "wrong"), [("", "0.0"), ("-s", "33.3")])
def test_a_set_is_scored_as_the_options_say(tmp_path, opts, wrong):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    folders = {"expdir": str(tmp_path), "dumpdir": str(tmp_path)}
    given = Options(**sets, **folders, token_type="char", score_opts=opts)
    names = layout(given)
    write(names.tests["c"] / "text", {"u": "AB  C D"})
    write(names.tests["c"] / "utt2spk", {"u": "s"})
    decoded = names.decoding / "c"
    write(decoded / "text", {"u": "ab C D"})
    scoring.score_set(given, names, "c")
    found = {}
    for kind in ("wer", "cer"):
        table, *_ = (decoded / f"score_{kind}" / "result.txt").read_text().split("\n\n")
        found[kind] = table.splitlines()[-1].replace("|", " ").split()
        for name, text in (("ref", "A B"), ("hyp", "a b")):
            line = (decoded / f"score_{kind}" / f"{name}.trn").read_text()
            assert line.startswith(text if kind == "cer" else text.replace(" ", ""))
    # AB C D; its blanks are characters
    assert found["wer"][1:3] == ["1", "3"] and found["cer"][1:3] == ["1", "6"]
    assert found["wer"][-2] == found["cer"][-2] == wrong
    hypothesis = (decoded / "score_cer" / "hyp.trn").read_text()
    assert hypothesis == "a b <space> C <space> D\t(s-u)\n"


def test_tokens_of_a_set_are_those_of_its_bpe_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = Options(train_set="a", valid_set="b", test_sets="c", token_type="bpe")
    names = layout(given)
    train_pieces(names.bpemodel)
    write(names.tests["c"] / "text", {"u": "AB CD"})
    write(names.tests["c"] / "utt2spk", {"u": "s"})
    decoded = names.decoding / "c"
    write(decoded / "text", {"u": "AB"})
    scoring.score_set(given, names, "c")
    found = {k: (decoded / f"score_{k}/hyp.trn").read_text() for k in ("wer", "ter")}
    assert found == {"wer": "AB\t(s-u)\n", "ter": "\u2581AB\t(s-u)\n"}

"""The text of a language model: every sentence once, each with an id of its own."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from espnet_srupp.recipe import language_model, lm_stages, training
from espnet_srupp.recipe.corpora import librispeech, tedlium3
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.process import Job


def compressed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


@pytest.fixture
def given(tmp_path, monkeypatch):
    """A recipe's folder with transcripts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "data" / "a" / "text").write_text("u1 ONE TWO\nu2 THREE\n")
    return Options(corpus="mini", train_set="a", valid_set="b", test_sets="c")


def test_texts_with_and_without_ids_become_one(tmp_path):
    (tmp_path / "text").write_text("u1 ONE \u3000TWO\nu2\nu3 THREE\n")
    (tmp_path / "plain.txt").write_text("TWO\u2028FOUR\n\n FIVE\n")
    packed = compressed(tmp_path / "packed.txt.gz", "SIX\n")
    sources = [tmp_path / "text", tmp_path / "plain.txt", packed]
    language_model.write(language_model.of_files(sources), tmp_path / "lm.txt")
    assert (tmp_path / "lm.txt").read_text().splitlines() == [
        "u1 ONE TWO",
        "u3 THREE",
        "lm2-00000001 TWO FOUR",
        "lm2-00000003 FIVE",
        "lm3-00000001 SIX",
    ]


def test_texts_of_the_same_ids_become_one(tmp_path):
    sources = [tmp_path / name / "text" for name in ("a", "b")]
    for source in sources:
        source.parent.mkdir()
        source.write_text("u1 ONE\n")
    assert [*language_model.of_files(sources)] == ["u1 ONE\n", "lm2-u1 ONE\n"]


def test_an_id_that_is_there_twice_is_told(tmp_path):
    (tmp_path / "text").write_text("u1 ONE\nu2 TWO\nu1 THREE\n")
    with pytest.raises(RecipeError, match="text: u1 is there twice"):
        lines = language_model.of_files([tmp_path / "text"])
        language_model.write(lines, tmp_path / "lm.txt")
    assert not (tmp_path / "lm.txt").exists()


def test_a_last_line_without_an_end_is_a_line(tmp_path):
    (tmp_path / "text").write_text("u1 ONE\nu2 TWO")
    lines = language_model.of_files([tmp_path / "text"])
    assert [*lines] == ["u1 ONE\n", "u2 TWO\n"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"\n", "lm.txt would have no sentence", id="empty"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="encoding"),
        pytest.param(gzip.compress(b"ONE\n")[:-6], "a.gz is damaged", id="truncated"),
    ],
)
def test_what_is_no_text_is_named_and_leaves_nothing(tmp_path, content, said):
    path = tmp_path / ("a.gz" if "damaged" in said else "a.txt")
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=said):
        language_model.write(language_model.of_files([path]), tmp_path / "lm.txt")
    assert not (tmp_path / "lm.txt").exists()


def test_text_is_that_of_the_training_set_unless_files_are_named(given):
    names = layout(given)
    step, _ = lm_stages.collect_statistics(given, names)
    step.work()
    assert names.lm_train.read_text() == "u1 ONE TWO\nu2 THREE\n"
    Path("other").write_text("FOUR\n")
    given = Options(**{**vars(given), "lm_train_text": "other data/a/text"})
    step, _ = lm_stages.collect_statistics(given, names)
    step.work()
    assert names.lm_train.read_text().splitlines() == [
        *("lm1-00000001 FOUR", "u1 ONE TWO", "u2 THREE")
    ]


def test_what_the_training_leaves_out_the_language_model_does(given, capsys):
    lines = [f"u{n} A\u3000B\rC" for n in range(10, 30)]
    text = "\n".join([*lines, "u29 D", ""])
    Path("data/a/text").write_bytes(text.encode() + b"u30 \xff\n")
    names = layout(given)
    step, _ = lm_stages.collect_statistics(given, names)
    step.work()
    assert names.lm_train.read_text().splitlines() == [
        f"u{n} A B C" for n in range(10, 29)
    ]
    assert (
        "2 of 21 utterances of data/a/text left out: 1 twice" in capsys.readouterr().out
    )
    strict = replace(given, strict=True)
    step, _ = lm_stages.collect_statistics(strict, names)
    with pytest.raises(RecipeError, match="u29 is there twice"):
        step.work()


def test_librispeech_adds_its_own_text(given):
    compressed(Path("downloads/librispeech-lm-norm.txt.gz"), "A BOOK\n\nAND ANOTHER\n")
    given = Options(**{**vars(given), "corpus": "librispeech"})
    names = layout(given)
    step, _ = lm_stages.collect_statistics(given, names)
    step.work()
    assert names.lm_train.read_text().splitlines()[2:] == [
        "lm-00000001 A BOOK",
        "lm-00000003 AND ANOTHER",
    ]


@pytest.mark.parametrize("place", [".", "LibriSpeech"])
def test_librispeech_finds_its_text_beside_the_corpus(tmp_path, place):
    folder = tmp_path / "disk" / place
    compressed(folder / "librispeech-lm-norm.txt.gz", "A BOOK\n")
    found = librispeech.sentences(tmp_path / "downloads", tmp_path / "disk")
    assert list(found) == ["A BOOK\n"]


def test_tedlium_adds_sentences_as_espnet_filters_them(tmp_path):
    long = " ".join(["a"] * 100)
    # but for what is there twice in a row
    text = "it 's here </s>\n" * 2 + f"na\u00efve </s>\n{long} </s>\n"
    compressed(tmp_path / "TEDLIUM_release-3" / "LM" / "news.en.gz", text)
    assert list(tedlium3.sentences(tmp_path, None)) == ["it's here"]
    assert list(tedlium3.sentences(Path("no"), tmp_path)) == ["it's here"]
    with pytest.raises(RecipeError, match="no/LM has no text for a language model"):
        list(tedlium3.sentences(Path("no"), None))


def test_other_text_of_tedlium_is_seen(given):
    given = Options(**{**vars(given), "corpus": "tedlium3"})
    texts = Path("downloads/TEDLIUM_release-3/LM")
    compressed(texts / "news.en.gz", "here </s>\n")

    def step(**more):
        return next(lm_stages.collect_statistics(replace(given, **more), layout(given)))

    records = [step().record()]
    for name in ("news.en.gz", "more.en.gz"):
        compressed(texts / name, "there </s>\n")
        records.append(step().record())
    assert records[0] != records[1] != records[2]
    named = step(lm_train_text="data/a/text").record()["inputs"]
    assert list(named) == ["data/a/text"]


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_model_that_went_wrong_is_told(given, monkeypatch, value):
    names = layout(given)
    target = names.lm_exp / "perplexity_test"

    def run(jobs: list[Job], python: str) -> None:
        target.mkdir(parents=True)
        (target / "ppl").write_text(f"{value}\n")

    monkeypatch.setattr(language_model.process, "run", run)
    monkeypatch.setattr(training, "gpus", lambda _: 0)
    with pytest.raises(RecipeError, match="not finite.*lower the learning rate"):
        language_model.measure(given, names, target)


def test_training_holds_what_the_steps_before_it_make(given):
    names = layout(given)
    made = [step.outputs[0] for step in lm_stages.collect_statistics(given, names)]
    (training_step,) = lm_stages.train_model(given, names)
    assert {*made, names.raw / "org" / "b"} <= set(training_step.reads)


def test_texts_that_are_empty_or_not_there_are_told_before_training(given):
    Path("none.txt").touch()
    given = replace(given, lm_dev_text="none.txt")
    step = list(lm_stages.collect_statistics(given, layout(given)))[1]
    layout(given).lm_train.parent.mkdir(parents=True)
    layout(given).lm_train.write_text("u1 ONE\n")
    with pytest.raises(RecipeError, match="none.txt is empty"):
        step.work()
    given = replace(given, lm_test_text="nowhere.txt")
    with pytest.raises(RecipeError, match="--lm_test_text nowhere.txt: there is no"):
        next(lm_stages.collect_statistics(given, layout(given)))

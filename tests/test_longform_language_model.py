"""A language model has a say in joint search, as in ESPnet's own, and in CTC's."""

import argparse
import json

import numpy as np
import pytest
import torch
import yaml
from data.small_models import CONFIG, espnets_texts
from espnet2.tasks.lm import LMTask

from espnet_srupp.longform import language_model
from espnet_srupp.longform.search_options import LM_CHECKPOINT
from espnet_srupp.recipe import scoring
from espnet_srupp.recipe.errors import RecipeError

TOKENS = CONFIG["token_list"]
KINDS = {
    "seq_rnn": {"unit": 8, "nlayers": 1},
    "transformer": {"embed_unit": 8, "att_unit": 8, "head": 1, "unit": 8, "layer": 1},
}


def make(folder, lm="transformer", tokens=TOKENS):
    """An experiment with random parameters."""
    folder.mkdir(parents=True)
    config = {"lm": lm, "lm_conf": KINDS[lm], "model": "lm", "model_conf": {}}
    config |= {"token_list": list(tokens), "init": None}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    torch.manual_seed(2)
    model = LMTask.build_model(argparse.Namespace(**config))
    # so that it prefers some tokens clearly
    for parameter in model.parameters():
        parameter.data.mul_(3)
    torch.save(model.state_dict(), folder / LM_CHECKPOINT)
    return folder


def texts(folder):
    return [text.split() for text in scoring.read_hypotheses(folder / "text").values()]


@pytest.mark.parametrize("kind", KINDS)
def test_within_a_window_it_counts_as_in_espnet(
    transcribe, transcribable, tmp_path, kind
):
    lm = make(tmp_path / "lm", kind)
    words = ("data", "--search", "joint", "--beam-size", "2", "--out")
    assert transcribe(*words, tmp_path / "without")[0] == 0
    named = ("--lm", lm, "--lm-weight", "1.5")
    assert transcribe(*words, tmp_path / "with", *named)[0] == 0
    files = {"lm_train_config": lm / "config.yaml", "lm_file": lm / LM_CHECKPOINT}
    weights = {"lm_weight": 1.5, "ctc_weight": 0.3}
    expected = espnets_texts(transcribable, beam_size=2, **files, **weights)
    assert texts(tmp_path / "with") == list(expected)
    assert texts(tmp_path / "with") != texts(tmp_path / "without")


@pytest.mark.parametrize("kind", KINDS)
def test_prefix_search_takes_it(transcribe, tmp_path, kind):
    lm = make(tmp_path / "lm", kind)

    def texts(*words):
        code, out, _ = transcribe("data", "--search", "prefix", *words)
        assert code == 0
        return out

    alone = texts()
    assert texts("--lm", lm, "--lm-weight", "0") == alone
    assert texts("--lm", lm, "--lm-weight", "2") != alone


def sentences_of(lm, weight):
    mark = len(TOKENS) - 1
    return language_model.Sentences(lm.eval(), (mark, mark), weight)


def plainly(lm, tokens):
    """Log-probabilities after tokens, by all of a sentence at once, and its begin."""
    mark = len(TOKENS) - 1

    def after(sentence):
        with torch.inference_mode():
            scores, _ = lm(torch.tensor([[mark, *sentence]]), None)
        return scores[0, -1].log_softmax(-1).double().numpy()

    first, sentence = after([]), []
    for id in tokens:
        said = after(sentence)
        anew = said[mark] + first[id] > said[id]
        sentence = [id] if anew else [*sentence, id]
    said = after(sentence)
    return np.logaddexp(said, said[mark] + first), len(sentence)


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_may_end_before_any_token(tmp_path, kind):
    lm = language_model.load(make(tmp_path / "lm", kind), TOKENS)
    # an end that is likely
    lm.decoder.bias.data[-1] += 2
    generator, lengths = np.random.default_rng(0), set()
    sequences = [generator.integers(1, len(TOKENS) - 1, 12).tolist() for _ in range(5)]
    model = sentences_of(lm, 0.5)
    found = [model.begin()] * len(sequences)
    for place in range(12):
        # in one batch, their sentences of different lengths
        steps = [(each, ids[place]) for each, ids in zip(found, sequences, strict=True)]
        found = model.follow(steps)
        for each, ids in zip(found, sequences, strict=True):
            expected, length = plainly(lm, ids[: place + 1])
            np.testing.assert_allclose(each.scores, 0.5 * expected, atol=1e-5)
            lengths.add(length)
    # of which some go on, and some do not
    assert len(lengths) > 2 and max(lengths) < 12


def test_a_sentence_without_end_does_not_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(language_model, "LONGEST", 3)
    lm = language_model.load(make(tmp_path / "lm"), TOKENS)
    model = sentences_of(lm, 1)
    sentence = model.begin()
    lengths = []
    for _ in range(9):
        on = np.where(sentence.again, -np.inf, sentence.scores)[1:-1].argmax() + 1
        (sentence,) = model.follow([(sentence, int(on))])
        lengths.append(len(sentence.tokens) - 1)
    assert max(lengths) == 3 and lengths.count(1) > 1


def test_the_rest_of_torch_keeps_onednn(tmp_path):
    lm = language_model.load(make(tmp_path / "lm"), TOKENS)
    assert torch.backends.mkldnn.enabled
    sentences_of(lm, 1)
    assert torch.backends.mkldnn.enabled


def test_its_checkpoint_can_be_named(transcribe, tmp_path):
    lm = make(tmp_path / "lm")
    words = ("wav/a.flac", "--search", "joint", "--lm-weight", "2")
    found = transcribe(*words, "--lm", lm)
    assert found[0] == 0
    (lm / LM_CHECKPOINT).rename(lm / "3epoch.pth")
    assert transcribe(*words, "--lm", lm / "3epoch.pth") == found
    code, _, errors = transcribe(*words, "--lm", lm)
    assert code == 1 and "valid.loss.ave.pth is missing" in errors[0]


def test_with_another_one_all_is_decoded_again(transcribe, tmp_path):
    lm = make(tmp_path / "lm")
    words = ("wav/a.flac", "--search", "joint", "--out", tmp_path / "out")

    def settings(*more):
        assert transcribe(*words, *more)[0] == 0
        return json.loads((tmp_path / "out/a.json").read_text("utf-8"))["settings"]

    alone, first = settings(), settings("--lm", lm)
    assert first.keys() - alone.keys() == {"lm_config", "lm_checkpoint", "lm_weight"}
    assert settings("--lm", lm, "--lm-weight", "1") != first
    state = torch.load(lm / LM_CHECKPOINT, weights_only=True)
    torch.save({k: v + 1 for k, v in state.items()}, lm / LM_CHECKPOINT)
    assert settings("--lm", lm) != first


def other_tokens(lm):
    config = yaml.safe_load((lm / "config.yaml").read_text())
    config["token_list"][1:3] = config["token_list"][2:0:-1]
    (lm / "config.yaml").write_text(yaml.safe_dump(config))


def other_parameters(lm):
    torch.save({"a": torch.ones(1)}, lm / LM_CHECKPOINT)


def unknown_kind(lm):
    (lm / "config.yaml").write_text("lm: nothing\ntoken_list: [a]\n")


def recogniser(lm):
    (lm / "config.yaml").write_text("encoder: srupp\n")


def no_config(lm):
    (lm / "config.yaml").unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (other_tokens, "has other tokens than the model that transcribes"),
        (other_parameters, "give the right one with --lm"),
        (unknown_kind, "is not of a model that this ESPnet can build"),
        (recogniser, "config.yaml is not of a language model"),
        (no_config, "config.yaml is missing"),
    ],
)
def test_a_bad_one_is_told_in_a_sentence(transcribe, tmp_path, spoil, said):
    lm = make(tmp_path / "lm")
    spoil(lm)
    words = ("wav/a.flac", "--search", "joint", "--lm", lm)
    code, _, errors = transcribe(*words)
    assert code == 1 and len(errors) == 1 and said in errors[0]


def test_tokens_may_lie_in_a_file(tmp_path):
    lm = make(tmp_path / "lm")
    (tmp_path / "tokens.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    config = yaml.safe_load((lm / "config.yaml").read_text())
    (lm / "config.yaml").write_text(
        yaml.safe_dump(config | {"token_list": "tokens.txt"})
    )
    language_model.load(lm, TOKENS)
    with pytest.raises(RecipeError, match="other tokens"):
        language_model.load(lm, TOKENS[1:])

"""What belongs to a trained model is there, and is that of its training."""

from pathlib import Path

import pytest
import yaml

from espnet_srupp.recipe import experiment
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.tokens import train_tokens


def test_missing_checkpoint_is_named_with_those_that_are_there(tmp_path):
    given = Options(train_set="a", valid_set="b", test_sets="c", asr_exp=str(tmp_path))
    names = layout(given)
    with pytest.raises(RecipeError, match="valid.acc.ave.pth.*--stage 11$"):
        experiment.model_file(given, names.exp)
    (tmp_path / ".config.yaml.made").touch()
    with pytest.raises(RecipeError, match="valid.acc.ave.pth.*--stage 11 --force"):
        experiment.model_file(given, names.exp)
    (tmp_path / "valid.loss.ave.pth").touch()
    with pytest.raises(RecipeError, match="valid.acc.ave.pth.*one of valid.loss.ave"):
        experiment.model_file(given, names.exp)
    (tmp_path / ".training").touch()
    with pytest.raises(RecipeError, match="valid.acc.ave.pth is not there: give"):
        experiment.model_file(given, names.exp)
    (tmp_path / ".config.yaml.made").unlink()
    with pytest.raises(RecipeError, match="go on .* --stage 11, or give .*valid.loss"):
        experiment.model_file(given, names.exp)
    (tmp_path / "valid.acc.ave.pth").touch()
    assert experiment.model_file(given, names.exp) == tmp_path / "valid.acc.ave.pth"


def test_a_missing_language_model_is_named_with_those_that_are_there(tmp_path):
    given = Options(train_set="a", valid_set="b", test_sets="c", lm_exp=str(tmp_path))
    with pytest.raises(RecipeError, match="valid.loss.ave.pth .* --stage 7$"):
        experiment.lm_file(given, layout(given).lm_exp)
    (tmp_path / "valid.acc.ave.pth").touch()
    with pytest.raises(RecipeError, match="give --inference_lm one of valid.acc.ave"):
        experiment.lm_file(given, layout(given).lm_exp)


def test_a_search_names_files_of_other_models_unless_it_names_none():
    given = "--ngram_file n.bin --lm_file none --word_lm_file NULL --lm_train_config x"
    named = {"ngram_file": Path("n.bin"), "lm_train_config": Path("x")}
    assert experiment.search_files(Options(inference_args=given)) == named


def test_a_link_to_an_epoch_that_is_gone_is_no_checkpoint_to_give(tmp_path):
    given = Options(train_set="a", valid_set="b", test_sets="c", asr_exp=str(tmp_path))
    (tmp_path / ".config.yaml.made").touch()
    (tmp_path / "3epoch.pth").touch()
    for name, epoch in (("latest", 3), ("valid.acc.best", 1), ("valid.acc.ave", 1)):
        (tmp_path / f"{name}.pth").symlink_to(f"{epoch}epoch.pth")
    with pytest.raises(RecipeError, match="--inference_asr_model one of latest.pth$"):
        experiment.model_file(given, layout(given).exp)


def test_an_experiment_whose_statistics_were_moved_is_named(tmp_path):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    given = Options(**sets, asr_exp=str(tmp_path))
    config, stats = tmp_path / "config.yaml", tmp_path / "feats_stats.npz"
    config.write_text(f"normalize_conf: {{stats_file: {stats}}}\n")
    with pytest.raises(RecipeError, match="config.yaml names .*feats_stats.npz, which"):
        experiment.check(given, layout(given))
    stats.touch()
    experiment.check(given, layout(given))
    config.write_text("normalize: utterance_mvn\nnormalize_conf: {}\n")
    experiment.check(given, layout(given))


def test_an_experiment_whose_bpe_model_was_moved_is_named(tmp_path):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    given = Options(**sets, asr_exp=str(tmp_path))
    (tmp_path / "config.yaml").write_text(f"bpemodel: {tmp_path}/bpe.model\n")
    with pytest.raises(RecipeError, match="config.yaml names .*bpe.model, which"):
        experiment.check(given, layout(given))
    (tmp_path / "bpe.model").touch()
    experiment.check(given, layout(given))


def test_tokens_are_those_of_the_model_whatever_the_command_says(tmp_path):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    names = layout(Options(**sets, asr_exp=str(tmp_path), nbpe=30))
    assert experiment.bpemodel(names) == names.bpemodel
    for written, path in (("x/bpe.model", Path("x/bpe.model")), ("null", None)):
        (tmp_path / "config.yaml").write_text(f"bpemodel: {written}\n")
        assert experiment.bpemodel(names) == path


def test_a_bpe_model_of_another_training_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = []
    for name, line in (("own", "ONE TWO THREE"), ("other", "SEVEN EIGHT NINE")):
        Path(name).write_text(f"a {line}\n")
        given = Options(token_type="bpe", nbpe=12)
        train_tokens(given, Path(name), Path(f"{name}_tokens"))
        made.append(Path(f"{name}_tokens", "tokens.txt").read_text().split())
    config, other = Path("config.yaml"), Path("other_tokens", "bpe.model")
    trained = {"bpemodel": str(other), "token_list": made[0]}
    config.write_text(yaml.safe_dump(trained))
    with pytest.raises(RecipeError, match="other pieces than the model of config.yaml"):
        experiment.check_pieces(config)
    config.write_text(yaml.safe_dump(trained | {"token_list": made[1]}))
    experiment.check_pieces(config)
    other.write_bytes(other.read_bytes()[:100])
    with pytest.raises(RecipeError, match="bpe.model is not a model of SentencePiece"):
        experiment.check_pieces(config)


def test_another_symbol_for_the_unknown_is_no_other_piece(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("a ONE TWO THREE\n")
    given = Options(token_type="bpe", nbpe=12, oov="<oov>")
    train_tokens(given, Path("text"), Path("tokens"))
    tokens = Path("tokens", "tokens.txt").read_text().split()
    trained = {"bpemodel": "tokens/bpe.model", "token_list": tokens}
    Path("config.yaml").write_text(yaml.safe_dump(trained))
    experiment.check_pieces(Path("config.yaml"))


@pytest.mark.parametrize("use_lm", [True, False])
def test_a_language_model_of_other_tokens_is_not_decoded_with(tmp_path, use_lm):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    asr, lm = tmp_path / "asr", tmp_path / "lm"
    given = Options(**sets, asr_exp=str(asr), lm_exp=str(lm), use_lm=use_lm)
    for exp, tokens in ((asr, "[A, B]"), (lm, "[B, A]")):
        exp.mkdir()
        (exp / "config.yaml").write_text(f"token_list: {tokens}\n")
    if use_lm:
        with pytest.raises(RecipeError, match="lm has other tokens than .*asr: train"):
            experiment.check(given, layout(given))
        (lm / "config.yaml").write_text("token_list: [A, B]\n")
    experiment.check(given, layout(given))

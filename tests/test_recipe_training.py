"""What the user sees of a training, and how it goes on after an interrupt."""

import os
import shlex
import sys
from pathlib import Path

import pytest
import torch

from espnet_srupp.recipe import locks, model_stages, stage, training
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.task import ASRTask


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"max_epoch": 9}, False, id="more epochs"),
        pytest.param({"patience": 3, "num_workers": 2}, False, id="others"),
        pytest.param({"log_interval": 9, "num_att_plot": 0}, False, id="what is told"),
        pytest.param({"encoder_conf.gradient_checkpointing": True}, False, id="memory"),
        pytest.param({"encoder_conf.num_blocks": 2}, True, id="model"),
        pytest.param({"optim_conf.lr": 0.1}, True, id="learning rate"),
    ],
)
def test_what_makes_it_another_training(changed, again):
    options = {"max_epoch": 5, "encoder_conf.num_blocks": 1, "optim_conf.lr": 0.2}
    before = {"options": options, "inputs": {}}
    after = {"options": options | changed, "inputs": {}}
    assert training.restarts(before, after) == again


def test_other_data_make_it_another_training():
    before = {"options": {}, "inputs": {"text": "1"}}
    assert training.restarts(before, {"options": {}, "inputs": {"text": "2"}})


def begin(exp, seed, epochs=0):
    """Leaves what a training of so many epochs leaves; returns its record."""
    record = {"options": {"seed": str(seed), "max_epoch": "3"}, "inputs": {}}
    exp.mkdir(exist_ok=True)
    stage.write(exp / training.BEGUN, record)
    (exp / "train.log").write_text(
        "".join(
            f"{n}epoch results: [train] loss=1, [valid] loss=1\n"
            for n in range(1, epochs + 1)
        )
    )
    if epochs:
        torch.save({"seed": seed}, exp / "1epoch.pth")
        (exp / "latest.pth").symlink_to("1epoch.pth")
    return record


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    """Where locks may lie."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def train(monkeypatch):
    """Trains without ESPnet."""
    monkeypatch.setattr(training.process, "run", lambda *_, **__: None)

    def train(exp, record, **given):
        command = ["-m", "espnet2.bin.asr_train"]
        training.train(Options(ngpu=0, **given), exp, lambda _: command, record)

    return train


def test_settings_that_are_back_go_on_with_their_training(tmp_path, train, capsys):
    exp = tmp_path / "exp"
    first = begin(exp, 1, epochs=2)
    other = {"options": {"seed": "2"}, "inputs": {}}
    train(exp, other)
    assert not (exp / "1epoch.pth").exists()
    begin(exp, 2, epochs=1)
    train(exp, first)
    assert torch.load(exp / "1epoch.pth") == {"seed": 1}
    assert torch.load(tmp_path / "exp.2" / "1epoch.pth") == {"seed": 2}
    assert not (tmp_path / "exp.1").exists()
    assert "exp.1, which had these settings, goes on as" in capsys.readouterr().out
    train(exp, other)
    assert torch.load(exp / "1epoch.pth") == {"seed": 2}
    assert torch.load(tmp_path / "exp.1" / "1epoch.pth") == {"seed": 1}


def test_a_training_goes_on_after_one_with_other_settings_that_failed(tmp_path, train):
    exp = tmp_path / "exp"
    first = begin(exp, 1, epochs=2)
    train(exp, {"options": {"seed": "2"}, "inputs": {}})
    train(exp, first)
    assert torch.load(exp / "1epoch.pth") == {"seed": 1}


def test_a_training_is_locked_where_decodings_lock_it(tmp_path, train):
    exp = tmp_path / "elsewhere" / "exp"
    exp.parent.mkdir()
    begin(exp, 1, epochs=1)
    train(exp, {"options": {"seed": "2"}, "inputs": {}}, expdir=str(exp.parent))
    lock = locks.lock_file(stage.marker(exp / training.BEGUN), [exp.parent])
    assert lock.exists() and (exp.parent / "exp.1").exists()


def test_force_goes_on_with_no_training(tmp_path, train):
    record = begin(tmp_path / "exp", 1, epochs=2)
    for number in (1, 2):
        train(tmp_path / "exp", record, force=True)
        assert (tmp_path / f"exp.{number}").exists()
        assert not (tmp_path / "exp" / "1epoch.pth").exists()
        begin(tmp_path / "exp", 1, epochs=1)


@pytest.mark.parametrize("left", [None, "valid.acc.ave.pth", "checkpoint.pth"])
def test_a_training_is_kept_unless_it_failed_before_an_epoch(tmp_path, train, left):
    begin(tmp_path / "exp", 1)
    if left:
        # as where the single epochs were removed
        torch.save({}, tmp_path / "exp" / left)
    train(tmp_path / "exp", {"options": {"seed": "2"}, "inputs": {}})
    assert (tmp_path / "exp.1").exists() == bool(left)


@pytest.mark.parametrize("epochs", [3, 4])
def test_fewer_epochs_than_there_are_is_an_error(tmp_path, train, epochs):
    exp = tmp_path / "exp"
    record = begin(exp, 1, epochs)
    if epochs == 3:
        return train(exp, record)
    with pytest.raises(RecipeError, match="4 epochs, more than max_epoch 3: .*--force"):
        train(exp, record)
    train(exp, record, force=True)
    # whose models were removed to train anew
    (tmp_path / "exp").rename(tmp_path / "other")
    begin(exp, 1, epochs)
    (exp / "1epoch.pth").unlink()
    (exp / "latest.pth").unlink()
    train(exp, record)


def test_the_epochs_of_a_training_that_names_none_are_espnets():
    assert ASRTask.get_default_config()["max_epoch"] == training.MAX_EPOCH


def test_earlier_trainings_are_kept(tmp_path):
    for number in (1, 2):
        (tmp_path / "exp").mkdir()
        (tmp_path / "exp" / "model").write_text(str(number))
        kept = training.put_aside(tmp_path / "exp")
        assert kept == tmp_path / f"exp.{number}"
    assert (tmp_path / "exp.1" / "model").read_text() == "1"


def test_a_swap_that_was_killed_is_finished(tmp_path, train):
    record = begin(tmp_path / "exp.1", 1, epochs=2)
    train(tmp_path / "exp", record)
    assert torch.load(tmp_path / "exp" / "1epoch.pth") == {"seed": 1}


def test_a_refused_training_moves_nothing(tmp_path):
    first, exp = begin(tmp_path / "exp.1", 1, epochs=2), tmp_path / "exp"
    begin(exp, 2, epochs=1)
    shorter = {**first, "options": {**first["options"], "max_epoch": "1"}}
    with pytest.raises(RecipeError, match="2 epochs, more than max_epoch 1"):
        training.check(Options(ngpu=0), exp, shorter)
    training.check(Options(ngpu=0, force=True), exp, shorter)
    training.check(Options(ngpu=0), exp, first)


def test_a_model_to_begin_with_is_not_put_aside(tmp_path):
    exp = tmp_path / "exp"
    begin(exp, 1, epochs=1)
    other = {"options": {"seed": "2"}, "inputs": {str(exp / "1epoch.pth"): "content"}}
    # the model may be named by its absolute path, and the folder not
    for spelt in (exp, Path("exp")):
        with pytest.raises(RecipeError, match="1epoch.pth, but would put .*--asr_tag"):
            training.check(Options(ngpu=0), spelt, other)
    training.check(Options(ngpu=0), tmp_path / "another", other)


def test_parameters_that_are_none_are_told_before_a_training_begins(tmp_path):
    exp, begins = tmp_path / "exp", [f"{tmp_path}/m.pth:decoder"]
    torch.save({"encoder.w": torch.zeros(1)}, tmp_path / "m.pth")
    record = {"options": {"seed": "1"}, "inputs": {}}
    with pytest.raises(RecipeError, match="m.pth:decoder takes no parameters"):
        training.check(Options(ngpu=0), exp, record, begins)
    # what goes on does not begin with them again
    training.check(Options(ngpu=0), exp, begin(exp, 1, epochs=1), begins)


def test_a_training_of_asr_sh_goes_on(tmp_path, train):
    record = begin(tmp_path / "exp", 1, epochs=1)
    # which keeps no record
    (tmp_path / "exp" / training.BEGUN).unlink()
    train(tmp_path / "exp", record)
    assert (tmp_path / "exp" / "1epoch.pth").exists()


@pytest.mark.parametrize(
    ("own", "norm", "counts"),
    [
        ("x", "global_mvn", True),
        ("x", "utterance_mvn", False),
        ("", "global_mvn", False),
    ],
)
def test_a_training_depends_on_statistics_of_ones_own_and_on_no_last_bits(
    own, norm, counts
):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    given = Options(**sets, feats_normalize=norm, asr_stats_dir=own)
    names = layout(given)
    (step,) = model_stages.train_model(given, names)
    assert (names.stats / "train" / "feats_stats.npz" in step.inputs) == counts
    assert names.stats / "train" / "speech_shape" in step.inputs


def test_the_latest_of_several_trainings_of_these_settings_goes_on(tmp_path, train):
    for number in (2, 1, 3):
        record = begin(tmp_path / f"exp.{number}", 1, epochs=1)
        torch.save({"number": number}, tmp_path / f"exp.{number}" / "1epoch.pth")
        times = (1000 + number % 3, 1000 + number % 3)
        os.utime(tmp_path / f"exp.{number}" / training.BEGUN, times)
    train(tmp_path / "exp", record)
    assert torch.load(tmp_path / "exp" / "1epoch.pth") == {"number": 2}


@pytest.mark.parametrize(
    "other", ["exp_other", "exp.old", "expx.1", "my_exp.1", "exp.1_small"]
)
def test_a_training_of_another_name_stays_where_it_is(tmp_path, train, other):
    record = begin(tmp_path / other, 1, epochs=1)
    train(tmp_path / "exp", record)
    assert (tmp_path / other / "1epoch.pth").exists()
    assert not (tmp_path / "exp" / "1epoch.pth").exists()


def test_a_training_that_was_begun_as_a_number_stays_where_it_is(tmp_path, train):
    record = begin(tmp_path / "exp.1", 1, epochs=1)
    (tmp_path / "exp.1/config.yaml").write_text("output_dir: x/exp.1\n")
    train(tmp_path / "exp", record)
    assert (tmp_path / "exp.1" / "1epoch.pth").exists()
    (tmp_path / "exp.1/config.yaml").write_text("output_dir: x/exp\n")
    (tmp_path / "exp").rename(tmp_path / "other")
    train(tmp_path / "exp", record)
    assert (tmp_path / "exp" / "1epoch.pth").exists()


def test_any_name_may_be_put_aside_and_come_back(tmp_path, train):
    record = begin(tmp_path / "lr+(1).1", 1, epochs=1)
    train(tmp_path / "lr+(1)", record)
    assert (tmp_path / "lr+(1)" / "1epoch.pth").exists()


EPOCH = "2epoch results: [train] loss=1, [valid] loss=1"
BROKEN = "The gradients at all steps are invalid in this epoch."


def go_on(exp, record, line):
    """Goes on with a training, for which a program stands in that prints a line."""
    python = f"{shlex.quote(sys.executable)} -c"
    training.train(
        Options(ngpu=0, python=python), exp, lambda _: [f"print({line!r})"], record
    )


def test_a_training_that_goes_on_keeps_its_log(tmp_path):
    exp = tmp_path / "exp"
    record = begin(exp, 1, epochs=1)
    go_on(exp, record, EPOCH)
    log = (exp / "train.log").read_text()
    assert "1epoch results" in log and "\n2epoch results" in log
    assert (exp / "images" / "training_curves.png").exists()
    assert "cores" in stage.read(exp / training.BEGUN)["machine"]


def test_a_training_without_finite_gradients_is_an_error(tmp_path):
    record = begin(tmp_path / "exp", 1)
    with pytest.raises(
        RecipeError, match="no step of epoch .* lower the learning rate"
    ):
        go_on(tmp_path / "exp", record, BROKEN)


def test_a_missing_gpu_is_told_by_the_check_of_a_training(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    record = begin(tmp_path / "exp", 1, epochs=1)
    with pytest.raises(RecipeError, match="--ngpu 1.*--ngpu 0"):
        training.check(Options(ngpu=1), tmp_path / "exp", record)


def test_a_damaged_checkpoint_is_not_gone_on_from(tmp_path, train):
    exp = tmp_path / "exp"
    record = begin(exp, 1, epochs=1)
    torch.save({"epoch": 1}, exp / "checkpoint.pth")
    whole = (exp / "checkpoint.pth").read_bytes()
    (exp / "checkpoint.pth").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecipeError, match="checkpoint.pth is damaged.* --force"):
        training.check(Options(ngpu=0), exp, record)
    with pytest.raises(RecipeError, match="checkpoint.pth is damaged.* --force"):
        train(exp, record)
    train(exp, record, force=True)
    assert (tmp_path / "exp.1" / "checkpoint.pth").exists()


@pytest.mark.parametrize("force", [False, True])
def test_epochs_whose_models_were_removed_are_none_of_the_next_training(
    tmp_path, train, force
):
    exp = tmp_path / "exp"
    record = begin(exp, 1, epochs=4)
    (exp / "alpha.csv").write_text("4,0.5\n")
    for path in exp.glob("*.pth"):
        path.unlink()
    train(exp, record, force=force)
    assert not training.epochs.read(training.epochs.logs(exp))
    assert not training.alphas.read(exp)
    torch.save({}, exp / "1epoch.pth")
    # after an interrupt
    train(exp, record)

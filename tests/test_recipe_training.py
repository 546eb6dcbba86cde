"""What the user sees of a training, and how it goes on after an interrupt."""

import zipfile

import pytest
import torch

from espnet_srupp.recipe import model_stages, stage, training
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.training import View

LINES = """
[vm] 2026-11-21 08:39:24 (abs_task:1) INFO: Model structure:
    Total Number of model parameters: 4.72 M
[vm] 2026-11-21 08:39:24 (abs_task:1) INFO: [train] mini-batch sizes summary: N-batch=81
[vm] 2026-11-21 08:39:24 (abs_task:1) INFO: [valid] mini-batch sizes summary: N-batch=4
[vm] 2026-11-21 08:39:24 (trainer:336) INFO: 1/3epoch started
[vm] 2026-11-21 08:39:30 (trainer:779) INFO: 1epoch:train:1-10batch: acc=0, loss=50.5
[vm] 2026-11-21 08:39:40 (trainer:341) INFO: 1epoch results: [train] loss=115.1, \
time=1 minute and 15.5 seconds, total_count=81, [valid] loss=86.21, acc=0.021, \
cer_ctc=0.864, time=4.5 seconds, total_count=4
[vm] 2026-11-21 08:39:41 (trainer:463) INFO: The best model has been updated: valid.acc
""".splitlines(keepends=True)


@pytest.fixture
def exp(tmp_path):
    torch.save({"epoch": 1}, tmp_path / "checkpoint.pth")
    return tmp_path


def checkpoint(path):
    return torch.load(path)["epoch"]


def follow(exp, lines, earlier=""):
    log = exp / "train.log"
    log.write_text(earlier)
    view = View(log)
    for line in lines:
        # as a program writes it, not always whole lines at a time
        for part in (line[:20], line[20:]):
            with open(log, "a") as file:
                file.write(part)
            view.update()
    return view


def test_epochs_are_told_with_the_time_left(exp, capsys):
    follow(exp, LINES)
    shown = [line.split("]  ")[1] for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        " the model has 4.72 M parameters",
        " epoch 1/3: train loss 115, valid loss 86.2, acc 0.021, CER of CTC 0.864, "
        "1 min 20 s, 2 min 40 s left",
    ]


def test_long_epochs_are_told_batch_by_batch(exp, capsys, monkeypatch):
    monkeypatch.setattr(training, "QUIET_SECONDS", 0)
    follow(exp, LINES)
    assert "epoch 1: batch 10/81, loss 50.5" in capsys.readouterr().out


def test_what_the_log_held_before_is_not_told_again(exp, capsys):
    follow(exp, LINES[:2], earlier="".join(LINES))
    assert "epoch 1/3" not in capsys.readouterr().out


def test_training_without_finite_gradients_is_broken(exp):
    line = "WARNING: The gradients at all steps are invalid in this epoch. \n"
    assert follow(exp, [line]).broken
    assert not follow(exp, LINES).broken


def test_checkpoint_of_each_finished_epoch_is_kept(exp):
    follow(exp, LINES)
    torch.save({"epoch": 2}, exp / "checkpoint.pth")
    training.restore(exp)
    assert checkpoint(exp / "checkpoint.pth") == 1


def test_checkpoint_that_is_being_written_is_not_kept(exp):
    training.save(exp)
    torch.save({"epoch": 2}, exp / "checkpoint.pth")
    whole = (exp / "checkpoint.pth").read_bytes()
    (exp / "checkpoint.pth").write_bytes(whole[: len(whole) // 2])
    assert not zipfile.is_zipfile(exp / "checkpoint.pth")
    training.save(exp)
    training.restore(exp)
    assert checkpoint(exp / "checkpoint.pth") == 1


def test_damaged_checkpoint_without_a_copy_is_told_and_removed(exp, capsys):
    (exp / "checkpoint.pth").write_bytes(b"PK")
    training.restore(exp)
    assert not (exp / "checkpoint.pth").exists()
    assert "damaged" in capsys.readouterr().out


def test_checkpoint_of_asr_sh_is_left_alone(exp):
    (exp / "latest.pth").symlink_to("1epoch.pth")
    training.restore(exp)
    assert checkpoint(exp / "checkpoint.pth") == 1


def test_a_first_epoch_whose_model_was_not_written_is_trained_again(exp, capsys):
    training.restore(exp)
    assert not (exp / "checkpoint.pth").exists()
    assert "the first epoch was not finished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"max_epoch": 9}, False, id="more epochs"),
        pytest.param({"patience": 3, "num_workers": 2}, False, id="others"),
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


def test_force_goes_on_with_no_training(tmp_path, train):
    record = begin(tmp_path / "exp", 1, epochs=2)
    for number in (1, 2):
        train(tmp_path / "exp", record, force=True)
        assert (tmp_path / f"exp.{number}").exists()
        assert not (tmp_path / "exp" / "1epoch.pth").exists()
        begin(tmp_path / "exp", 1, epochs=1)


def test_a_training_that_failed_before_an_epoch_is_not_kept(tmp_path, train):
    begin(tmp_path / "exp", 1)
    train(tmp_path / "exp", {"options": {"seed": "2"}, "inputs": {}})
    assert not (tmp_path / "exp.1").exists()


@pytest.mark.parametrize("epochs", [3, 4])
def test_fewer_epochs_than_there_are_is_an_error(tmp_path, train, epochs):
    exp = tmp_path / "exp"
    record = begin(exp, 1, epochs)
    if epochs == 3:
        return train(exp, record)
    with pytest.raises(RecipeError, match="4 epochs, more than max_epoch 3: .*--force"):
        train(exp, record)
    train(exp, record, force=True)


def test_earlier_trainings_are_kept(tmp_path):
    for number in (1, 2):
        (tmp_path / "exp").mkdir()
        (tmp_path / "exp" / "model").write_text(str(number))
        kept = training.put_aside(tmp_path / "exp")
        assert kept == tmp_path / f"exp.{number}"
    assert (tmp_path / "exp.1" / "model").read_text() == "1"


@pytest.mark.parametrize(
    ("found", "asked", "used"), [(0, -1, 0), (2, -1, 1), (2, 2, 2), (2, 0, 0)]
)
def test_gpus(monkeypatch, found, asked, used):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: found)
    assert training.gpus(Options(ngpu=asked)) == used


@pytest.mark.parametrize(("asked", "used"), [(-1, 1), (4, 4), (0, 0)])
def test_gpus_of_other_machines_are_not_sought_here(monkeypatch, asked, used):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = Options(ngpu=asked, num_nodes=2, cuda_cmd="bin/slurm.pl --time 9")
    assert training.gpus(options) == used
    told = {-1: "2 x 1 GPU", 4: "2 x 4 GPUs", 0: "2 x the CPU"}[asked]
    assert training.machine(options, used) == f"{told} by slurm.pl"


def test_missing_gpu_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RecipeError, match="--ngpu 1.*--ngpu 0"):
        training.gpus(Options(ngpu=1))


def test_record_of_the_machine_does_not_count(tmp_path):
    record = {"options": {}, "inputs": {}}
    stage.write(tmp_path / "r", {**record, "machine": training.machine(Options(), 0)})
    assert "cores" in stage.read(tmp_path / "r")["machine"]
    assert not training.restarts(stage.read(tmp_path / "r"), record)


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
    other = {"options": {"seed": "2"}, "inputs": {}}
    inside = Options(ngpu=0, pretrained_model=f"{exp / '1epoch.pth'}:encoder:encoder")
    with pytest.raises(RecipeError, match="1epoch.pth:.* lies in .*--asr_tag"):
        training.check(inside, exp, other)
    training.check(inside, tmp_path / "another", other)


@pytest.mark.parametrize("norm", ["global_mvn", "utterance_mvn"])
def test_a_training_depends_on_the_statistics_that_it_normalises_by(norm):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    given = Options(**sets, feats_normalize=norm)
    names = layout(given)
    (step,) = model_stages.train_model(given, names)
    stats = names.stats / "train" / "feats_stats.npz"
    assert (stats in step.inputs) == (norm == "global_mvn")

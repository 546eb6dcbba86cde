"""What the user sees of a training."""

import pytest
import torch
import yaml
from espnet2.torch_utils.load_pretrained_model import load_pretrained_model

from espnet_srupp.recipe import init_param, view
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.view import View

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


def follow(tmp_path, lines, earlier=""):
    log = tmp_path / "train.log"
    log.write_text(earlier)
    shown = View(log)
    for line in lines:
        # as a program writes it, not always whole lines at a time
        for part in (line[:20], line[20:]):
            with open(log, "a") as file:
                file.write(part)
            shown.update()
    return shown


def test_epochs_are_told_with_the_time_left(tmp_path, capsys):
    follow(tmp_path, LINES)
    shown = [line.split("]  ")[1] for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        " the model has 4.72 M parameters",
        " epoch 1/3: train loss 115, valid loss 86.2, acc 0.021, CER of CTC 0.864, "
        "1 min 20 s, 2 min 40 s left",
    ]


def test_a_score_that_a_model_has_not_is_no_nan_but_a_loss_is(tmp_path, capsys):
    scores = "acc=nan, cer_ctc=nan, cer_transducer=0.5, time=1 second"
    follow(tmp_path, [f"1epoch results: [train] loss=9, [valid] loss=nan, {scores}\n"])
    told = "train loss 9, valid loss nan, CER of the transducer 0.5, 1 s"
    assert told in capsys.readouterr().out


FROZEN = [f"Setting {n}.requires_grad = False\n" for n in ("a.b.w", "a.b.v", "ctc.w")]


@pytest.mark.parametrize("named", [[], ["a"], ["a.b", "ctc.w"], ["a.b.w"]])
def test_what_is_frozen_may_be_modules_and_parameters(tmp_path, named):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"freeze_param": named}))
    follow(tmp_path, [*FROZEN, *LINES])


@pytest.mark.parametrize("name", ["b", "a.", "a.b.wx", "ct", "a b"])
def test_a_training_that_freezes_nothing_of_a_name_ends(tmp_path, name):
    config = {"freeze_param": ["a.b", name]}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(RecipeError, match=f"freeze_param {name} is no parameter"):
        follow(tmp_path, [*FROZEN, *LINES])


def test_a_training_whose_freeze_param_is_no_list_ends(tmp_path):
    (tmp_path / "config.yaml").write_text("freeze_param: encoder\n")
    with pytest.raises(RecipeError, match=r"is no list: write \[encoder\]"):
        follow(tmp_path, [*FROZEN, *LINES])


def begun(tmp_path, *unfit, keys=""):
    """A training from a file of two parameters, of which ESPnet leaves out some."""
    names = ("encoder.a", "encoder.b", "ctc.c")
    torch.save(dict.fromkeys(names, torch.ones(1)), tmp_path / "pre.pth")
    config = {"init_param": [f"{tmp_path}/pre.pth{keys}"]}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    filtered = "WARNING: Filter out {} from pretrained dict because of size mismatch\n"
    follow(tmp_path, [*map(filtered.format, unfit), *LINES])


def test_what_of_a_pretrained_model_does_not_fit_is_told(tmp_path, capsys):
    begun(tmp_path)
    assert "not fit" not in capsys.readouterr().out
    # by two processes
    begun(tmp_path, "ctc.c", "encoder.b", "ctc.c")
    told = "pre.pth do not fit, and are drawn: ctc.c, encoder.b\n"
    said = capsys.readouterr().out
    assert told in said and "  2 of 3 parameters of" in said


def test_what_espnet_says_of_it_is_understood(tmp_path, caplog):
    names = ("encoder.weight", "encoder.bias", "encoder.new")
    torch.save(dict.fromkeys(names, torch.ones(3)), tmp_path / "pre.pth")
    model = torch.nn.ModuleDict({"encoder": torch.nn.Linear(2, 3)})
    word = f"{tmp_path}/pre.pth:encoder:encoder"
    load_pretrained_model(word, model, ignore_init_mismatch=True)
    shown = View(tmp_path / "train.log")
    for message in caplog.messages:
        shown.read(message)
    assert list(shown.unfit) == ["weight", "new"]
    assert init_param.misfits([word], shown.unfit).startswith("2 of 3 parameters")


@pytest.mark.parametrize(
    ("unfit", "keys"),
    [
        (["encoder.a", "encoder.b", "ctc.c"], ""),
        (["a", "b"], ":encoder:encoder"),
        (["b"], ":encoder:encoder:encoder.a"),
    ],
)
def test_a_training_does_not_begin_with_a_model_that_does_not_fit(
    tmp_path, unfit, keys
):
    with pytest.raises(RecipeError, match="no parameter of .*pre.pth.* fits the model"):
        begun(tmp_path, *unfit, keys=keys)


def test_of_a_file_that_espnet_alone_reads_what_does_not_fit_is_told(tmp_path):
    (tmp_path / "a.pth").write_bytes(b"")
    told = init_param.misfits([f"{tmp_path}/a.pth"], list("abcdefg"))
    assert told.startswith("7 parameters of") and told.endswith("a, b, c, d, e, ...")


def test_long_epochs_are_told_batch_by_batch(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(view, "QUIET_SECONDS", 0)
    follow(tmp_path, LINES)
    assert "epoch 1: batch 10/81, loss 50.5" in capsys.readouterr().out


def test_the_batches_of_an_epoch_that_is_cut_short_are_told(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(view, "QUIET_SECONDS", 0)
    (tmp_path / "config.yaml").write_text("num_iters_per_epoch: 20\n")
    follow(tmp_path, LINES)
    assert "epoch 1: batch 10/20, loss 50.5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("accum_grad", "end"), [(2, "5"), (4, "5: IT NEVER REACHES ITS PEAK, lower")]
)
def test_a_learning_rate_that_rises_for_longer_than_the_training_is_told(
    accum_grad, end, tmp_path, capsys
):
    settings = {"max_epoch": 2, "accum_grad": accum_grad}
    settings["scheduler_conf"] = {"warmup_steps": 5}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    follow(tmp_path, ["INFO: [train] mini-batch sizes summary: N-batch=7, mean\n"])
    steps = 2 * (7 // accum_grad)
    told = f"2 epochs of 7 batches, {steps} steps, the learning rate rises for {end}"
    (line,) = capsys.readouterr().out.splitlines()
    assert told in line and ("NEVER" in line) == (accum_grad == 4)


def test_a_learning_rate_that_rises_for_espnets_usual_steps_is_told():
    told = view.pace({"max_epoch": 2, "scheduler": "warmuplr"}, 7)
    assert "14 steps, the learning rate rises for 25000: IT NEVER REACHES" in told
    assert view.pace({"max_epoch": 2, "scheduler": "steplr"}, 7).endswith("14 steps")


def test_an_epoch_without_a_step_is_an_error_at_once(tmp_path):
    (tmp_path / "config.yaml").write_text("accum_grad: 8\nmax_epoch: 2\n")
    with pytest.raises(RecipeError, match="accum_grad is 8 .* 7 batches.* lower accum"):
        follow(tmp_path, ["INFO: [train] mini-batch sizes summary: N-batch=7, mean\n"])


def test_what_the_log_held_before_is_not_told_again(tmp_path, capsys):
    follow(tmp_path, LINES[:2], earlier="".join(LINES))
    assert "epoch 1/3" not in capsys.readouterr().out


def test_training_without_finite_gradients_is_broken(tmp_path):
    line = "WARNING: The gradients at all steps are invalid in this epoch. \n"
    assert follow(tmp_path, [line]).broken
    assert not follow(tmp_path, LINES).broken


@pytest.mark.parametrize(
    "end", [LINES[-1], "There are no improvements in this epoch\n"]
)
def test_alpha_of_an_epoch_is_recorded_once_its_model_is_there(
    tmp_path, monkeypatch, end
):
    recorded = []
    monkeypatch.setattr(view.alphas, "record", lambda *given: recorded.append(given))
    follow(tmp_path, LINES[:-1])
    assert recorded == []
    follow(tmp_path, [*LINES[:-1], end])
    assert recorded == [(tmp_path, 1)]


def test_the_time_left_is_that_of_all_epochs_so_far(tmp_path, capsys):
    lines = ["1/3epoch started\n"]
    lines += [
        f"{n}epoch results: [train] loss=1, time={n} minutes, [valid] loss=1\n"
        for n in (1, 2)
    ]
    follow(tmp_path, lines)
    assert "2 min 0 s, 1 min 30 s left" in capsys.readouterr().out

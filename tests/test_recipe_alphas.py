"""Alpha is kept for every epoch, from what ESPnet saves."""

import pickle

import pytest
import torch

from espnet_srupp.recipe import alphas


def save(exp, epoch, *values):
    names = [f"encoder.encoders.{n}.attention.alpha" for n in range(len(values))]
    state = dict(zip(names, map(torch.tensor, values), strict=True))
    # ESPnet's positional encodings have one too
    other = {"decoder.embed.1.alpha": torch.zeros(()), "decoder.weight": torch.zeros(2)}
    torch.save(state | other, exp / f"{epoch}epoch.pth")


def test_every_layer_is_kept_by_epoch_and_the_later_of_two_trainings_counts(tmp_path):
    seen = ((1, ([0.5], [-0.25])), (2, ([9.0], [9.0])), (2, ([0.123456], [2])))
    for epoch, values in seen:
        save(tmp_path, epoch, *values)
        alphas.record(tmp_path, epoch)
    # of an epoch whose model is gone there is nothing to keep
    alphas.record(tmp_path, 3)
    assert alphas.read(tmp_path) == {1: [0.5, -0.25], 2: [0.123456, 2.0]}


class Dangerous:
    def __reduce__(self):
        return (print, ("was run",))


def test_code_in_a_checkpoint_is_not_run(tmp_path, capsys):
    torch.save({"x.attention.alpha": Dangerous()}, tmp_path / "1epoch.pth")
    with pytest.raises(pickle.UnpicklingError):
        alphas.record(tmp_path, 1)
    assert "was run" not in capsys.readouterr().out


def test_a_model_without_attention_leaves_no_file(tmp_path):
    save(tmp_path, 1)
    alphas.record(tmp_path, 1)
    assert not (tmp_path / alphas.NAME).exists()
    assert alphas.read(tmp_path) == {}


@pytest.mark.parametrize(
    "broken", ["2,0.3\n", "2,0.3", "2,0.3,", "2,0.", "2", "2,0.33,0.1,0.2\n", "2,x,1\n"]
)
def test_a_line_that_was_cut_off_is_left_out(tmp_path, broken):
    text = f"1,0.1,nan\n3,0.5,-1e-05\n{broken}"
    (tmp_path / alphas.NAME).write_text(text)
    found = alphas.read(tmp_path)
    assert found.keys() == {1, 3} and found[3] == [0.5, -1e-05]

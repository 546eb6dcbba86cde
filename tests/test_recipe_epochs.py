"""ESPnet's training log is read as ESPnet writes it."""

import datetime
import os

import pytest
from espnet2.train.reporter import Reporter

from espnet_srupp.recipe import epochs

PREFIX = "[vm] 2026-11-21 08:44:52,618 (trainer:341) INFO: "


def report(number, seconds=75.5, **values):
    """What ESPnet's own reporter says of an epoch."""
    reporter = Reporter(number)
    for phase in ("train", "valid"):
        stats = {**values, "time": datetime.timedelta(seconds=seconds)}
        reporter.stats.setdefault(number, {})[phase] = {**stats, "total_count": 12}
    return PREFIX + reporter.log_message()


def test_values_of_both_phases():
    epoch = epochs.parse(
        report(3, loss=45.25, loss_x=-2.5, acc=0.5, cer_ctc=1.0e-4, cer=float("nan"))
    )
    assert epoch.number == 3
    assert epoch.train["loss_x"] == -2.5
    assert epoch.train["loss"] == 45.25
    assert epoch.valid["acc"] == 0.5
    assert epoch.valid["cer_ctc"] == 1.0e-4
    assert epoch.valid["cer"] != epoch.valid["cer"]


@pytest.mark.parametrize("seconds", [0.5, 59.25, 75.5, 3725, 200000, 800000])
def test_time_of_both_phases(seconds):
    # ESPnet itself leaves out the seconds of days
    found = epochs.parse(report(1, seconds, loss=1.0)).seconds
    assert found == pytest.approx(2 * seconds, rel=1e-3)


def test_other_lines_are_none():
    assert epochs.parse(PREFIX + "1/2epoch started") is None
    assert epochs.parse(PREFIX + "1epoch:train:1-10batch: loss=3.0") is None


def test_a_line_that_was_cut_off_has_the_values_before():
    line = report(2, loss=5.0, acc=0.5)
    cut = line[: line.index("[valid]")]
    for end in ("", "[valid] loss=1.2e-"):
        epoch = epochs.parse(cut + end)
        assert epoch.train["acc"] == 0.5 and epoch.valid == {}


def test_epoch_trained_twice_counts_once_and_all_are_in_order():
    lines = [report(2, loss=4.0), report(1, loss=5.0), "x", report(2, loss=3.0)]
    found = epochs.read(lines)
    assert [epoch.number for epoch in found] == [1, 2]
    assert found[1].train["loss"] == 3.0


@pytest.mark.parametrize("backward", [False, True])
def test_rotated_logs_of_asr_sh_are_read_in_the_order_of_time(tmp_path, backward):
    # by name, 10 would come before 2
    logs = [("train.2.log", 9.0), ("train.10.log", 8.0), ("train.log", 1.0)]
    for age, (name, loss) in enumerate(logs[::-1] if backward else logs):
        path = tmp_path / name
        path.write_text(report(1, loss=loss) + "\n")
        os.utime(path, (1000 + age, 1000 + age))
    # of the packing of an experiment called train
    (tmp_path / "train_valid.acc.ave.log").write_text(report(1, loss=5.0) + "\n")
    (epoch,) = epochs.read(epochs.logs(tmp_path))
    assert epoch.train["loss"] == (9.0 if backward else 1.0)

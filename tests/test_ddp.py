"""Two processes with DistributedDataParallel train as one with the joined batch."""

import subprocess
import sys
from argparse import Namespace

import pytest
import torch
from data.tiny_training import words, write_data
from processes import unchecked
from torch import distributed
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence

from espnet_srupp.task import ASRTask

# what an encoder has beside its sizes, and the seeds by which layers are dropped: with
# one seed both processes drop the layers that a single process would
CASES = {
    "attention in every layer": ({}, (0, 0)),
    "attention in every second layer": ({"attention_interval": 2}, (0, 0)),
    "intermediate CTC": (
        {"interctc_layer_idx": [2], "interctc_use_conditioning": True},
        (0, 0),
    ),
    "layers computed again": ({"gradient_checkpointing": True}, (0, 0)),
    "layers on fewer frames": ({"layer_pooling": [1, 2, 2, 1]}, (0, 0)),
    "layers dropped": ({"layer_drop_rate": 0.5}, (0, 0)),
    "other layers dropped in each": ({"layer_drop_rate": 0.5}, (0, 1)),
}
JOINABLE = [name for name, (_, seeds) in CASES.items() if len(set(seeds)) == 1]
TOKENS = ["<blank>", "<unk>", "a", "b", "c", "<sos/eos>"]
# frames and tokens of each utterance; every second one goes to the other process
SIZES = [(60, 5), (31, 2), (45, 3), (44, 4), (23, 1)]
WORLD = 2


def build(encoder):
    """A small ESPnet model of that encoder in double precision, without dropout."""
    torch.manual_seed(0)
    inter = "interctc_layer_idx" in encoder
    sizes = {"hidden_size": 16, "attention_size": 8, "embed_size": 8, "output_size": 8}
    still = {
        f"{name}dropout_rate": 0.0
        for name in ("", "positional_", "self_attention_", "src_attention_")
    }
    settings = {
        "token_list": TOKENS,
        "input_size": 10,
        "encoder": "srupp",
        "encoder_conf": {**sizes, "num_blocks": 4, "dropout_rate": 0.0, **encoder},
        "decoder": "transformer",
        "decoder_conf": {**still, "num_blocks": 1, "linear_units": 8},
        "model_conf": {"ctc_weight": 0.5, "interctc_weight": 0.3 * inter},
        "specaug": None,
        "normalize": None,
    }
    config = {**ASRTask.get_default_config(), **settings}
    return ASRTask.build_model(Namespace(**config)).double().train()


def utterances():
    random = torch.Generator().manual_seed(0)
    return [
        (
            torch.randn(frames, 10, generator=random, dtype=torch.float64),
            torch.randint(2, 5, (tokens,), generator=random),
        )
        for frames, tokens in SIZES
    ]


def loss_and_weight(model, batch, seed):
    speech, text = zip(*batch, strict=True)
    torch.manual_seed(seed)
    loss, _, weight = model(
        speech=pad_sequence(speech, batch_first=True),
        speech_lengths=torch.tensor([len(x) for x in speech]),
        text=pad_sequence(text, batch_first=True, padding_value=-1),
        text_lengths=torch.tensor([len(x) for x in text]),
    )
    return loss.sum(), weight.sum()


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def train(rank, folder):
    """One process of several: each case's loss over all, and its own gradients."""
    meeting = f"file://{folder}/meeting"
    distributed.init_process_group("gloo", meeting, rank=rank, world_size=WORLD)
    for name, (encoder, seeds) in CASES.items():
        # DDP must be gone before the group: where it holds the group last, its end may
        # wait, with Python's lock, for a thread that waits for that lock (PyTorch 2.11)
        result = loss_and_gradients(rank, encoder, seeds[rank])
        torch.save(result, folder / f"{name}.{rank}")
    distributed.destroy_process_group()


def loss_and_gradients(rank, encoder, seed):
    model = build(encoder)
    parallel = DistributedDataParallel(model)
    # a parameter without a gradient makes the second step fail
    for _ in range(2):
        model.zero_grad()
        loss, weight = loss_and_weight(parallel, utterances()[rank::WORLD], seed)
        # as ESPnet's trainer: DDP takes the mean of the processes' gradients
        total = weight.clone()
        distributed.all_reduce(total)
        loss = loss * weight / total
        (loss * WORLD).backward()
    loss = loss.detach()
    distributed.all_reduce(loss)
    return loss, gradients(model)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Loss and gradients of each case in each of the processes."""
    folder = tmp_path_factory.mktemp("ddp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", unchecked()["PYTHONPATH"])
        spawn(train, (folder,), WORLD)
    return {
        name: [torch.load(folder / f"{name}.{rank}") for rank in range(WORLD)]
        for name in CASES
    }


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_every_parameter_gets_the_same_gradient_in_each_process(trained, name):
    (_, first), (_, second) = trained[name]
    assert all(gradient is not None for gradient in first.values())
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.once
@pytest.mark.parametrize("name", JOINABLE)
def test_loss_and_gradients_are_those_of_one_process_with_the_joined_batch(
    trained, name
):
    encoder, (seed, _) = CASES[name]
    model = build(encoder)
    loss, _ = loss_and_weight(model, utterances(), seed)
    loss.backward()
    for there in trained[name]:
        # ESPnet computes CTC in single precision, all else here is in double
        torch.testing.assert_close(
            there, (loss.detach(), gradients(model)), rtol=1e-5, atol=1e-6
        )


@pytest.mark.once
def test_loss_depends_on_every_option_but_computing_again(trained):
    losses = {name: results[0][0].item() for name, results in trained.items()}
    again = losses.pop("layers computed again")
    assert again == losses["attention in every layer"]
    assert len(set(losses.values())) == len(CASES) - 1


@pytest.mark.once
def test_torchrun_starts_a_training_of_several_processes(tmp_path):
    write_data(tmp_path)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc_per_node", str(WORLD), "-m", "espnet_srupp.run"]
    command += ["-m", "espnet2.bin.asr_train", *words(tmp_path, tmp_path / "exp")]
    command += ["--multiprocessing_distributed", "false", "--dist_world_size", "2"]
    command += ["--dist_init_method", "env://", "--dist_backend", "gloo"]
    done = subprocess.run(
        [*command, "--max_epoch", "1"],
        env=unchecked() | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f":0/{WORLD}]" in done.stderr and "1epoch results" in done.stderr
    assert (tmp_path / "exp" / "1epoch.pth").exists()

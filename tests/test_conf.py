"""Every configuration is one that ESPnet takes; what is compared is comparable."""

import re
from pathlib import Path

import pytest
import torch
import yaml
from espnet2.tasks.abs_task import scheduler_classes
from espnet2.tasks.lm import LMTask

from espnet_srupp.profile import build_encoder, count_parameters, profile
from espnet_srupp.recipe.config import load, read
from espnet_srupp.task import ASRTask

CONF = Path(__file__).parents[1] / "conf"
TRAININGS = sorted(CONF.glob("*/train_asr*.yaml"))
LANGUAGE_MODELS = sorted(CONF.glob("*/train_lm*.yaml"))
PEERS = sorted(CONF.with_name("benchmarks").glob("peers/*.yaml"))
# the corpora of Pan et al. (2021)
PAPER = ("librispeech", "aishell", "tedlium3")
TOKENS = ["<blank>", "<unk>", *"▁ABCDEFGHIJKLMNOPQRSTUVWXYZ", "<sos/eos>"]
ENCODER = {"encoder", "encoder_conf"}
OPTIMISER = {"optim", "optim_conf", "exclude_weight_decay"}
TRAINING = {"init", "scheduler_conf", "batch_bins", "accum_grad", "max_epoch"}


def name(path):
    return f"{path.parent.name}/{path.stem}"


ALL = pytest.mark.parametrize("path", TRAININGS, ids=name)
ALL_LANGUAGE_MODELS = pytest.mark.parametrize("path", LANGUAGE_MODELS, ids=name)
OF_PAPER = pytest.mark.parametrize(
    "path", [path for path in TRAININGS if path.parent.name in PAPER], ids=name
)


def training(corpus, model):
    return CONF / corpus / f"train_asr_{model}.yaml"


def parse(path, tokens=TOKENS, task=ASRTask):
    """The arguments of ESPnet's training with this configuration."""
    words = ["--config", str(path), "--output_dir", "x", "--token_type", "char"]
    args = task.get_parser().parse_args(words)
    args.token_list = tokens
    return args


def build(path, tokens=TOKENS):
    """The model as ESPnet's training builds it, its parameters without memory."""
    with torch.device("meta"):
        return ASRTask.build_model(parse(path, tokens))


def differing(path, other):
    """The top keys of two configurations under which they differ."""
    ours, theirs = read(str(path)), read(str(other))
    keys = {k for k in ours | theirs if ours.get(k) != theirs.get(k)}
    # an intermediate CTC belongs to the encoder that has it
    return {k.partition(".")[0] for k in keys - {"model_conf.interctc_weight"}}


@ALL
def test_configuration_builds_a_model(path):
    assert count_parameters(build(path)) > 1e6


@ALL
@pytest.mark.once
def test_a_step_reaches_every_parameter(path):
    args = parse(path)
    # all widths, few layers
    args.encoder_conf["num_blocks"] = 2
    args.decoder_conf["num_blocks"] = 1
    if "interctc_layer_idx" in args.encoder_conf:
        args.encoder_conf["interctc_layer_idx"] = [1]
    model = ASRTask.build_model(args).train()
    batch = {
        "speech": torch.randn(2, 8000),
        "speech_lengths": torch.tensor([8000, 6400]),
        "text": torch.tensor([[3, 4, 5], [6, 7, -1]]),
        "text_lengths": torch.tensor([3, 2]),
    }
    step(args, model, batch, model.ctc.ctc_lo.bias)


@ALL_LANGUAGE_MODELS
def test_a_step_reaches_every_parameter_of_a_language_model(path):
    args = parse(path, task=LMTask)
    # all widths, one layer
    args.lm_conf["layer" if args.lm == "transformer" else "nlayers"] = 1
    model = LMTask.build_model(args).train()
    batch = {
        "text": torch.tensor([[3, 4, 5], [6, 7, 0]]),
        "text_lengths": torch.tensor([3, 2]),
    }
    step(args, model, batch, model.lm.decoder.bias)


def step(args, model, batch, bias):
    """Trains on a batch, which is to reach all parameters and to move `bias`."""
    (optimizer,) = ASRTask.build_optimizers(args, model)
    if args.scheduler:
        scheduler = scheduler_classes[args.scheduler](optimizer, **args.scheduler_conf)
    loss, _, _ = model(**batch)
    loss.backward()
    # what DDP needs
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert all(p.grad.isfinite().all() for p in model.parameters())

    before = bias.clone()
    # the second step, as a warm-up may begin with a learning rate of 0
    optimizer.step()
    if args.scheduler:
        scheduler.step()
    optimizer.step()
    assert not torch.equal(bias, before)
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("corpus", PAPER)
def test_weight_decay_is_of_the_encoders_matrices_alone(corpus):
    path = training(corpus, "srupp")
    model = build(path)
    (optimizer,) = ASRTask.build_optimizers(parse(path), model)
    decays = {
        id(p): group["weight_decay"]
        for group in optimizer.param_groups
        for p in group["params"]
    }
    layer = dict(model.encoder.encoders[0].named_parameters())
    assert {n: decays[id(p)] for n, p in layer.items() if decays[id(p)]} == {
        f"attention.{matrix}.weight": 0.05
        for matrix in ("query", "key", "value", "output")
    }


@pytest.mark.parametrize("path", sorted(CONF.glob("*/decode*.yaml")), ids=name)
def test_decoding_is_one_for_a_corpus_and_espnet_takes_it(path):
    from espnet2.bin.asr_inference import get_parser

    assert path.name in ("decode_asr.yaml", "decode_asr_lm.yaml")
    words = ["--config", str(path), "--output_dir", "x", "--key_file", "x"]
    args = get_parser().parse_args([*words, "--data_path_and_name_and_type", "x,y,z"])
    assert vars(args).items() >= load(path).items()


@pytest.mark.parametrize(
    "corpus", [path.parent.name for path in LANGUAGE_MODELS], ids=str
)
def test_every_language_model_has_a_decoding_that_counts_it(corpus):
    found = [load(str(path)) for path in (CONF / corpus).glob("decode*.yaml")]
    assert max(config["lm_weight"] for config in found) > 0


@pytest.mark.parametrize("path", [*TRAININGS, *LANGUAGE_MODELS], ids=name)
def test_first_line_says_what_it_is(path):
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize(
    "path", [path for path in LANGUAGE_MODELS if path.parent.name in PAPER], ids=name
)
def test_head_has_the_language_models_size(path):
    found = re.search(r"with (\d+) tokens: ([\d.]+) M parameters", head(path))
    tokens = list(map(str, range(int(found[1]))))
    with torch.device("meta"):
        model = LMTask.build_model(parse(path, tokens, LMTask))
    assert count_parameters(model) / 1e6 == pytest.approx(float(found[2]), abs=0.006)


@OF_PAPER
def test_head_says_that_nobody_ran_it(path):
    assert "Not run here" in head(path)


@OF_PAPER
def test_head_has_the_encoders_size(path):
    total, *_ = profile(*build_encoder(load(path)), 1000)
    counted = (total.parameters / 1e6, total.flops / 1e9)
    assert size(path) == pytest.approx(counted, abs=0.006)


def head(path):
    """The comment that a configuration begins with, as one line."""
    lines = path.read_text().split("\n\n")[0].splitlines()
    return " ".join(line.removeprefix("# ") for line in lines)


def size(path):
    """Millions of parameters and GFLOPs, as the head says."""
    found = re.search(r"Encoder: ([\d.]+) M parameters, ([\d.]+) GFLOPs", head(path))
    return tuple(map(float, found.groups()))


@pytest.mark.parametrize(
    "corpus, tokens, millions",
    [("librispeech", 5000, 116.15), ("aishell", 4233, 46.25)],
    ids=lambda value: str(value),
)
def test_conformer_is_as_large_as_espnet_published(corpus, tokens, millions):
    words = [*TOKENS[:2], *map(str, range(tokens - 3)), TOKENS[-1]]
    model = build(training(corpus, "conformer"), words)
    assert count_parameters(model) / 1e6 == pytest.approx(millions, abs=0.006)


def test_an4_compares_encoders_of_one_size_each_at_its_own_learning_rate():
    ours, theirs = (training("an4", model) for model in ("srupp_study", "conformer"))
    sizes = [count_parameters(build(path).encoder) for path in (ours, theirs)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    assert differing(ours, theirs) <= ENCODER | {"optim_conf"}
    settings = [read(str(path)) for path in (ours, theirs)]
    rates = [each.pop("optim_conf.lr") for each in settings]
    assert rates[0] != rates[1]
    for key in settings[0] | settings[1]:
        if key.startswith("optim_conf"):
            assert settings[0].get(key) == settings[1].get(key), key


def test_an4_s_second_training_has_the_first_one_s_model_and_other_frames():
    first, second = (training("an4", name) for name in ("srupp", "srupp_dense"))
    changed = {"frontend_conf", "max_epoch", "scheduler_conf"}
    assert differing(first, second) == changed


@OF_PAPER
def test_encoders_of_a_corpus_share_decoder_features_and_specaugment(path):
    theirs = training(path.parent.name, "conformer")
    allowed = ENCODER | OPTIMISER
    if not path.stem.startswith("train_asr_srupp"):
        allowed |= TRAINING
    assert differing(path, theirs) <= allowed


@pytest.mark.parametrize("corpus", PAPER)
def test_depth_is_the_one_nearest_to_the_conformers_size(corpus):
    ours, theirs = (
        build(training(corpus, model)).encoder for model in ("srupp", "conformer")
    )
    difference = count_parameters(ours) - count_parameters(theirs)
    assert abs(difference) < count_parameters(ours.encoders[0]) / 2


@pytest.mark.parametrize("corpus", PAPER)
def test_fast_configuration_is_of_one_size_and_half_the_work(corpus):
    ours, theirs = (
        size(training(corpus, model)) for model in ("srupp_fast", "conformer")
    )
    assert ours[0] == pytest.approx(theirs[0], rel=0.02)
    assert ours[1] < theirs[1] / 2


@pytest.mark.parametrize("corpus", ["aishell", "librispeech"])
def test_the_benchmarks_compiled_encoder_is_that_of_the_recipe(corpus):
    peer = next(path for path in PEERS if path.stem == f"{corpus}_srupp_compiled")
    compiled, ours = (
        yaml.safe_load(path.read_text()) for path in (peer, training(corpus, "srupp"))
    )
    assert compiled["encoder_conf"].pop("compile_layers")
    sizes = [
        {name: p.shape for name, p in build_encoder(config)[0].named_parameters()}
        for config in (compiled, ours)
    ]
    assert sizes[0] == sizes[1]
    assert ours["encoder_conf"].items() >= compiled["encoder_conf"].items()


RIVALS = [path for path in PEERS if not path.stem.endswith("_compiled")]


@pytest.mark.parametrize("path", RIVALS, ids=lambda path: path.stem)
def test_peers_of_the_benchmark_are_as_large_as_the_conformer(path):
    with torch.device("meta"):
        ours, theirs = (
            count_parameters(build_encoder(yaml.safe_load(each.read_text()))[0])
            for each in (path, training(path.stem.split("_")[0], "conformer"))
        )
    assert ours == pytest.approx(theirs, rel=0.02)

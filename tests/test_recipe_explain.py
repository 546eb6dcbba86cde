"""Why a program of ESPnet ended: one sentence, with what would help."""

import signal

import pytest

from espnet_srupp.recipe.explain import explain


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        pytest.param(
            "TypeError: SRUppEncoder.__init__() got an unexpected keyword argument "
            "'hiden_size'",
            "no 'hiden_size'",
            id="YAML key",
        ),
        pytest.param(
            "asr_train.py: error: unrecognized arguments: --max_epochs",
            "no option --max_epochs",
            id="argument",
        ),
        pytest.param(
            "espnet2.torch_utils.safe_torch_load.UnsafeLoadRefusedError: torch.load "
            "with weights_only=True failed for 'm.zip' (RuntimeError: [enforce fail at "
            "inline_container.cc:180] . file in archive is not in a subdirectory: "
            "meta.yaml)",
            "unpack the .pth",
            id="packed model",
        ),
        pytest.param("RuntimeError: No CUDA GPUs are available", "--ngpu 0", id="GPU"),
        pytest.param(
            "AssertionError: Torch not compiled with CUDA enabled", "--ngpu 0", id="CPU"
        ),
        pytest.param(
            "RuntimeError: Found no NVIDIA driver on your system. Please check",
            "--ngpu 0",
            id="driver",
        ),
        pytest.param(
            "RuntimeError: The NVIDIA driver on your system is too old: compiled with "
            "your version of the CUDA driver.",
            "--ngpu 0",
            id="old driver",
        ),
        pytest.param(
            "torch.AcceleratorError: CUDA error: invalid device ordinal",
            "--ngpu 0",
            id="number of a GPU",
        ),
        pytest.param(
            "torch.OutOfMemoryError: CUDA out of memory. Tried",
            "gradient_checkpointing: true",
            id="CUDA",
        ),
        pytest.param(
            "OSError: [Errno 28] No space left on device", "free some space", id="disk"
        ),
        pytest.param(
            "RuntimeError: [enforce fail at inline_container.cc:778] . "
            "PytorchStreamWriter failed writing file data/3: file write failed",
            "free some space",
            id="disk while saving",
        ),
        pytest.param(
            "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos "
            "576 vs 470",
            "free some space",
            id="disk at the end of saving",
        ),
        pytest.param(
            "OSError: [Errno 122] Disk quota exceeded", "free some space", id="quota"
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'espnet2.x'",
            "--python has no ESPnet",
            id="ESPnet",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'espnet'",
            "--python has no ESPnet",
            id="ESPnet's first package",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'espnet_model_zoo'",
            "install its package",
            id="a module named as ESPnet begins",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'espnet_srupp'",
            "no espnet_srupp",
            id="espnet_srupp",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'yaml'",
            "install its package",
            id="module",
        ),
        pytest.param(
            "soundfile.LibsndfileError: Error opening 'a.flac': System error.",
            "--stage 3",
            id="audio",
        ),
        pytest.param(
            "RuntimeError: Error opening 'a.flac': File does not exist",
            "--stage 3",
            id="audio for an older soundfile",
        ),
        pytest.param(
            "soundfile.LibsndfileError: Internal psf_fseek() failed.",
            "--stage 3",
            id="audio in its middle",
        ),
        pytest.param(
            "RuntimeError: Error(s) in loading state_dict for ESPnetASRModel:",
            "--ignore_init_mismatch true",
            id="parameters",
        ),
        pytest.param(
            "AttributeError: 'NoneType' object has no attribute 'log_softmax'",
            "ctc_weight 0 in --inference_args",
            id="CTC",
        ),
        pytest.param(
            "RuntimeError: selected index k out of range",
            "smaller beam_size in --inference_args",
            id="beam",
        ),
        pytest.param(
            "FileNotFoundError: [Errno 2] No such file or directory: "
            "'exp/asr_stats/train/feats_stats.npz'",
            "--feats_normalize utterance_mvn",
            id="statistics",
        ),
        pytest.param(
            "torch.distributed.DistNetworkError: The server socket has failed to "
            "listen on any local network address. port: 29500, useIpv6: false, code: "
            "-98, name: EADDRINUSE, message: address already in use",
            "another training uses the port",
            id="port",
        ),
        pytest.param(
            "torch.distributed.DistNetworkError: The server socket has failed to bind "
            "to [::]:29500 (errno: 98 - Address already in use).",
            "another training uses the port",
            id="port without libuv",
        ),
    ],
)
def test_known_causes_have_a_remedy(tmp_path, line, remedy):
    log = tmp_path / "log"
    log.write_text(
        f"Traceback (most recent call last):\n  File\n{line}\nsome warning\n"
    )
    message = explain(log, 1)
    assert message.startswith(f"{line.rstrip('.:')}: ")
    assert remedy in message
    assert "\n" not in message


def test_a_sentence_of_our_own_programs_is_told_as_it_is(tmp_path):
    (tmp_path / "log").write_text("  joining: 1/3 recordings\nerror: a is b: do c\n")
    assert explain(tmp_path / "log", 1) == f"a is b: do c (log: {tmp_path / 'log'})"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-signal.SIGKILL, "memory"),
        (-signal.SIGSEGV, "SIGSEGV"),
        (-signal.SIGHUP, "SIGHUP"),
        (-40, "signal 40"),
        (3, "exit code 3"),
    ],
)
def test_silent_ends_are_told(tmp_path, code, said):
    (tmp_path / "log").write_text("## python3 -m program\n")
    message = explain(tmp_path / "log", code)
    assert said in message and "python3" not in message


@pytest.mark.parametrize(
    "line", ["KeyboardInterrupt", "torch.spawn.ProcessRaisedException: no"]
)
def test_what_follows_an_error_does_not_hide_it(tmp_path, line):
    (tmp_path / "log").write_text(f"## python3\n{line}\nafterwards: Error\n")
    assert explain(tmp_path / "log", 1).startswith(f"{line} (")


def test_the_last_words_of_a_program_may_be_any_bytes(tmp_path):
    (tmp_path / "log").write_bytes(b"## python3\nearlier\n  caf\xe9 is closed  \n \n")
    assert explain(tmp_path / "log", 1).startswith("caf\ufffd is closed (log: ")


def test_what_a_launcher_adds_does_not_hide_the_cause(tmp_path):
    (tmp_path / "log").write_text(
        "## python3 -m espnet2.bin.launch --cmd slurm.pl\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried\n"
        "# Accounting: time=12 threads=1\n"
        "# Finished at Wed Nov 25 11:00:00 UTC 2026 with status 1\n"
    )
    assert "CUDA out of memory" in explain(tmp_path / "log", 1)

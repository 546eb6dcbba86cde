"""Why a program of ESPnet ended, in one sentence with a remedy."""

import re
import signal
from pathlib import Path

# what a log has before a command; Kaldi's launchers add lines of their own with "# "
BEGINS = "## "
# the last line of a traceback, or what argparse prints
EXCEPTION = re.compile(r"[\w.]+(?:(?:Error|Exception|Interrupt)\b|: error: )")
# what ESPnet or torch say, and what helps
REMEDIES = (
    (
        r"unexpected keyword argument '(\w+)'",
        "there is no {0!r} there: correct the YAML, or the option that gave it",
    ),
    (
        r"unrecognized arguments: (\S+)",
        "there is no option {0}, and options begin with --: correct the YAML, or the "
        "one of --asr_args, --lm_args, --inference_args, --longform_args that has it",
    ),
    (
        r"No CUDA GPUs|not compiled with CUDA|no NVIDIA driver|CUDA driver|"
        r"invalid device ordinal",
        "there is no GPU that torch can use: give --ngpu 0, and --gpu_inference false",
    ),
    (
        r"CUDA out of memory",
        "this training can go on with less memory if srupp's encoder_conf has "
        "gradient_checkpointing: true; a lower batch_bins in the YAML begins a new one",
    ),
    (
        r"No space left|PytorchStreamWriter failed|unexpected pos|Disk quota",
        "the disk is full: free some space and run the same command again",
    ),
    (
        r"Error\(s\) in loading state_dict",
        "the parameters are those of another model; if they are of --pretrained_model, "
        "--ignore_init_mismatch true takes what fits",
    ),
    (
        r"file in archive is not in a subdirectory",
        "that is no checkpoint: if it is a packed model, unpack the .pth and give that",
    ),
    (
        r"'NoneType' object has no attribute 'log_softmax'",
        "a model without a CTC was to be decoded with one: give ctc_weight 0 in "
        "--inference_args",
    ),
    (
        r"No such file or directory: '\S+feats_stats\.npz'",
        "stage 10 computes no features where extract_feats_in_collect_stats is false: "
        "give --feats_normalize utterance_mvn",
    ),
    (
        r"selected index k out of range",
        "the beam is wider than the model has tokens: give a smaller beam_size in "
        "--inference_args",
    ),
    (
        r"No module named '(?:espnet[23]?|espnet_srupp)\b",
        "the Python of --python has no ESPnet or no espnet_srupp: leave it out, or "
        "install both there",
    ),
    (r"No module named", "install its package for that Python"),
    (
        r"Error opening |LibsndfileError",
        "an audio file cannot be read: run --stage 3 --stop_stage 3 --force true",
    ),
    (r"[Aa]ddress already in use", "another training uses the port: start it again"),
)


def explain(log: Path, code: int) -> str:
    """One sentence on why the program that wrote `log` ended with `code`."""
    if code == -signal.SIGKILL:
        return f"the program was killed, most likely for want of memory (log: {log})"
    if code < 0:
        # Python has no names of those for real time
        names = {number.value: number.name for number in signal.Signals}
        name = names.get(-code, f"signal {-code}")
        return f"the program ended by {name} (log: {log})"
    # the log of a training that was continued begins with that of the one before
    text = f"\n{log.read_text('utf-8', 'replace')}"
    _, _, text = text.rpartition(f"\n{BEGINS}")[2].partition("\n")
    cause = last_error(text)
    for pattern, remedy in REMEDIES:
        if found := re.search(pattern, cause):
            return f"{cause}: {remedy.format(*found.groups())} (log: {log})"
    return f"{cause or f'exit code {code}'} (log: {log})"


def last_error(text: str) -> str:
    """The last line that names an error, or else the last line at all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if EXCEPTION.match(line)]
    # "error: " is how this project's own programs begin their sentence
    return (errors or lines or [""])[-1].rstrip(".:").removeprefix("error: ")

"""Data and arguments of an ESPnet training that takes seconds."""

import numpy as np
import soundfile

CONFIG = """
encoder: srupp
encoder_conf: {hidden_size: 16, attention_size: 8, num_blocks: 2, embed_size: 8,
    output_size: 8, dropout_rate: 0.3, layer_drop_rate: 0.2}
decoder: transformer
decoder_conf: {attention_heads: 2, linear_units: 8, num_blocks: 1}
model_conf: {ctc_weight: 0.5}
frontend_conf: {n_fft: 256, hop_length: 80, n_mels: 40}
specaug: specaug
specaug_conf: {freq_mask_width_range: [0, 8], time_mask_width_range: [0, 4]}
batch_type: sorted
batch_size: 2
max_epoch: 4
num_workers: 0
num_att_plot: 0
keep_nbest_models: 2
optim: adam
scheduler: warmuplr
use_tensorboard: false
use_matplotlib: false
best_model_criterion: [[valid, acc, max]]
"""


def write_data(folder):
    tables = {"wav.scp": [], "text": [], "shape": [], "text_shape": []}
    generator = np.random.default_rng(0)
    for n in range(8):
        samples = generator.uniform(-0.5, 0.5, 4000 + 800 * n)
        soundfile.write(folder / f"{n}.wav", samples, 8000)
        text = "".join(generator.choice(list("ABC"), 3 + n % 3))
        tables["wav.scp"].append(f"u{n} {folder / f'{n}.wav'}\n")
        tables["text"].append(f"u{n} {text}\n")
        tables["shape"].append(f"u{n} {len(samples)}\n")
        tables["text_shape"].append(f"u{n} {len(text)},6\n")
    for name, lines in tables.items():
        (folder / name).write_text("".join(lines))
    (folder / "tokens.txt").write_text("<blank>\n<unk>\nA\nB\nC\n<sos/eos>\n")
    (folder / "train.yaml").write_text(CONFIG)


def words(folder, exp):
    result = ["--config", f"{folder}/train.yaml", "--output_dir", str(exp)]
    result += ["--resume", "true", "--ngpu", "0", "--frontend_conf", "fs=8000"]
    result += ["--token_type", "char", "--token_list", f"{folder}/tokens.txt"]
    result += ["--bpemodel", "none", "--normalize", "utterance_mvn"]
    for kind in ("train", "valid"):
        name = f"--{kind}_data_path_and_name_and_type"
        result += [name, f"{folder}/wav.scp,speech,sound"]
        result += [name, f"{folder}/text,text,text"]
        result += [f"--{kind}_shape_file", f"{folder}/shape"]
        result += [f"--{kind}_shape_file", f"{folder}/text_shape"]
    return result

"""A model is found, checked and loaded; what cannot be is told in one sentence."""

import shutil
import zipfile
from contextlib import redirect_stdout
from io import StringIO

import pytest
import soundfile
import torch
import yaml
from data.small_models import CONFIG, RATE, make, noise
from espnet2.main_funcs.pack_funcs import pack

import espnet_srupp.run  # noqa: F401
from espnet_srupp.longform.loading import check, files, load
from espnet_srupp.recipe.errors import RecipeError


def loaded(exp, checkpoint=None, dtype=torch.float32):
    with files(exp, checkpoint) as found:
        return load(found, "cpu", dtype)


def test_a_packed_model_is_the_same(tmp_path, monkeypatch):
    exp = make(tmp_path)
    monkeypatch.chdir(tmp_path)
    (exp / "5epoch.pth").write_text("other")
    with redirect_stdout(StringIO()):
        pack(
            files={"asr_model_file": exp / "valid.acc.ave.pth"},
            yaml_files={"asr_train_config": exp / "config.yaml"},
            option=["exp/stats/train/feats_stats.npz", "exp/asr_srupp/5epoch.pth"],
            outpath=tmp_path / "model.zip",
        )
    with (
        pytest.raises(RecipeError, match="model.zip holds no 6epoch.pth: leave out"),
        files(tmp_path / "model.zip", "6epoch.pth"),
    ):
        pass
    with files(tmp_path / "model.zip", "5epoch.pth") as found:
        assert found.checkpoint.read_text() == "other"
    # what lies where the command is given is not the archive's
    (tmp_path / "exp/stats/train/feats_stats.npz").write_bytes(b"")
    expected = torch.load(exp / "valid.acc.ave.pth")
    state = loaded(tmp_path / "model.zip").espnet.state_dict()
    torch.testing.assert_close(state, expected)


def test_statistics_are_found_from_elsewhere(tmp_path, monkeypatch):
    exp = make(tmp_path / "recipe")
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    assert loaded(exp).rate == RATE


def remove(name):
    return lambda exp: (exp / name).unlink()


def change(**values):
    def edit(exp):
        path = exp / "config.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))

    return edit


def no_ctc(exp):
    change(model_conf={"ctc_weight": 0.0})(exp)


def garble(exp):
    (exp / "valid.acc.ave.pth").write_bytes(b"no checkpoint")


class Dangerous:
    def __reduce__(self):
        return (print, ("was run",))


def endanger(exp):
    torch.save({"a": Dangerous()}, exp / "valid.acc.ave.pth")


def half_a_number(exp):
    (exp / "valid.acc.ave.pth").write_bytes(b"\x80\x02.")


def not_finite(exp):
    state = torch.load(exp / "valid.acc.ave.pth")
    state["ctc.ctc_lo.bias"][0] = float("nan")
    torch.save(state, exp / "valid.acc.ave.pth")


def many_aliases(exp):
    lines = [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)]
    (exp / "config.yaml").write_text("a0: &a0 [1]\n" + "".join(lines))


def no_meta(exp):
    shutil.rmtree(exp)
    with zipfile.ZipFile(exp, "w") as file:
        file.writestr("a.txt", "")


def sound_instead(exp):
    shutil.rmtree(exp)
    soundfile.write(exp, noise(8000), RATE, format="WAV")


MISTAKES = {
    "no folder": (shutil.rmtree, "asr_srupp is missing"),
    "no config": (remove("config.yaml"), "config.yaml is missing"),
    "no checkpoint": (remove("valid.acc.ave.pth"), "ave.pth is missing.*--checkpoint"),
    "no statistics": (remove("../stats/train/feats_stats.npz"), "feats_stats.npz, wh"),
    "frontend": (change(frontend="s3prl"), "frontend: s3prl.*only default can"),
    "preencoder": (change(preencoder="sinc"), "preencoder: sinc"),
    "features": (change(input_size=80), "input_size: 80"),
    "volume": (change(speech_volume_normalize=1.0), "speech_volume_normalize: 1.0"),
    "preprocessor": (change(preprocessor="multi"), "preprocessor: multi"),
    "tokens": (change(token_type="whisper_en"), "token_type: whisper_en"),
    "no CTC": (no_ctc, "has no CTC"),
    "unknown encoder": (change(encoder="no_such"), "no_such"),
    "other sizes": (change(token_list=["<blank>", "<unk>", "<sos/eos>"]), "size mism"),
    "no numbers": (garble, "is not a checkpoint"),
    "code": (endanger, "is not a checkpoint"),
    "half a number": (half_a_number, "is not a checkpoint"),
    "not finite": (not_finite, "ctc.ctc_lo.bias holds numbers that are not finite"),
    "many aliases": (many_aliases, "config.yaml is not YAML .its aliases make more"),
    "another type": (change(encoder_conf={"hidden_size": 16.5}), "can build"),
    "no size": (change(encoder_conf={"hidden_size": 0}), "can build .hidden_size is 0"),
    "no options": (change(frontend_conf=[1]), "can build"),
    "no file of statistics": (change(normalize_conf=None), "names no file as norm"),
    "no steps": (change(frontend_conf={"hop_length": 0}), "fs and hop_length are not"),
    "sound file": (sound_instead, "is no folder of an experiment and no packed model"),
    "archive of something": (no_meta, "is no model that ESPnet packed: give what stag"),
}


@pytest.mark.parametrize(("damage", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_bad_model_is_one_sentence(tmp_path, capsys, damage, said):
    exp = make(tmp_path)
    damage(exp)
    with pytest.raises(RecipeError, match=said) as error:
        loaded(exp)
    assert len(error.value.args) == 1 and "\n" not in str(error.value)
    assert "was run" not in capsys.readouterr().out


def test_another_checkpoint_is_taken(tmp_path):
    exp = make(tmp_path)
    (exp / "valid.acc.ave.pth").rename(exp / "7epoch.pth")
    assert loaded(exp, "7epoch.pth").rate == RATE


def test_lightnings_checkpoint_is_the_same(tmp_path):
    exp = make(tmp_path)
    expected = torch.load(exp / "valid.acc.ave.pth")
    torch.save({"epoch": 1, "state_dict": expected}, exp / "last.ckpt")
    torch.testing.assert_close(loaded(exp, "last.ckpt").espnet.state_dict(), expected)


def test_a_model_with_an_adapter_is_loaded_with_it(tmp_path):
    exp = make(tmp_path)
    conf = {"rank": 2, "target_modules": ["query"]}
    change(use_adapter=True, adapter="lora", adapter_conf=conf)(exp)
    with pytest.raises(RecipeError, match="is not a checkpoint.*query.lora_A"):
        loaded(exp)
    state = torch.load(exp / "valid.acc.ave.pth")
    for i in range(2):
        name = f"encoder.encoders.{i}.attention.query"
        state |= {f"{name}.lora_A": torch.ones(2, 16)}
        state |= {f"{name}.lora_B": torch.ones(8, 2)}
    torch.save(state, exp / "valid.acc.ave.pth")
    query = loaded(exp).espnet.encoder.encoders[1].attention.query
    assert query.lora_B.eq(1).all()


def test_a_frontend_without_an_stft_is_refused(tmp_path):
    conf = CONFIG["frontend_conf"] | {"apply_stft": False}
    with pytest.raises(RecipeError, match="config.yaml: the frontend has no STFT"):
        check(CONFIG | {"frontend_conf": conf}, tmp_path / "config.yaml")
    check(CONFIG | {"frontend_conf": None}, tmp_path / "config.yaml")

"""Values that an option cannot have, and options that contradict each other."""

import re

import pytest
from test_recipe_arguments import mistake, options

from espnet_srupp.recipe.errors import RecipeError


@pytest.mark.parametrize(
    ("words", "culprits"),
    [
        pytest.param(["--fs", "inf"], ["--fs", "inf"], id="endless rate"),
        pytest.param(
            ["--max_wav_duration", "inf"], ["--max_wav_duration"], id="endless audio"
        ),
        pytest.param(["--fs", "16kHz"], ["--fs", "16kHz"], id="rate"),
        pytest.param(["--speed_perturb_factors", "0.9 x"], ["0.9 x"], id="speeds"),
        pytest.param(["--speed_perturb_factors", "-1"], ["positive"], id="sign"),
        pytest.param(["--speed_perturb_factors", "nan"], ["positive"], id="no number"),
        pytest.param(["--speed_perturb_factors", "0.0"], ["positive"], id="no speed"),
        pytest.param(["--speed_perturb_factors", "inf"], ["positive"], id="endless"),
        pytest.param(
            ["--speed_perturb_factors", "0.9 0.90"], ["has a speed twice"], id="equal"
        ),
        pytest.param(["--bpe_char_cover", "nan"], ["0.98 to 1"], id="coverage"),
        pytest.param(["--oov", ""], ["three different tokens"], id="empty token"),
        pytest.param(["--blank", "<unk>"], ["three different"], id="equal tokens"),
        pytest.param(["--skip_stages", "2,4"], ["--skip_stages"], id="stages"),
        pytest.param(["--longform", "1 x"], ["--longform", "'1 x'"], id="a word"),
        pytest.param(["--longform", "1 2.5"], ["--longform", "2.5"], id="fraction"),
        pytest.param(["--longform", "0 1"], ["--longform", "positive"], id="nothing"),
        pytest.param(
            ["--longform_models", "exp/a"],
            ["--longform_models 'exp/a' is not NAME=EXPERIMENT"],
            id="model without a name",
        ),
        pytest.param(
            ["--longform_models", "a/b=."], ["NAME=EXPERIMENT"], id="name of a model"
        ),
        pytest.param(
            ["--longform_models", "_a=."], ["NAME=EXPERIMENT"], id="name not shown"
        ),
        pytest.param(
            ["--longform_models", "a=. a=."], ["has two a:"], id="the same name"
        ),
        pytest.param(
            ["--longform_models", "a='b"], ["--longform_models", "quot"], id="quoted"
        ),
        pytest.param(["--nj", "0"], ["--nj"], id="no process"),
        pytest.param(["--ngpu", "-7"], ["--ngpu"], id="negative GPUs"),
        pytest.param(["--test_sets", " "], ["--test_sets"], id="no test set"),
        pytest.param(["--train_joined", "1"], ["--train_joined"], id="joined by one"),
        pytest.param(["--min_wav_duration", "30"], ["--max_wav_dur"], id="durations"),
        pytest.param(
            ["--asr_args", "--a 'B"], ['--asr_args "--a \'B" has no'], id="quotation"
        ),
        pytest.param(["--test_sets", ""], ["--test_sets"], id="required"),
        pytest.param(["--score_opts", "-e"], ["--score_opts"], id="sclite's options"),
        pytest.param(["--AISHELL", "."], ["recipe aishell, not"], id="other corpus"),
        pytest.param(["--partial", "true"], ["--partial", "leave"], id="no disk"),
        pytest.param(
            ["--corpus", "aishell", "--partial", "true"], ["--AISHELL"], id="no path"
        ),
        pytest.param(
            ["--corpus", "aishell", "--archive", __file__],
            ["downloads/", "--AISHELL"],
            id="archive of a corpus on disk",
        ),
        pytest.param(["--num_nodes", "2"], ["--cuda_cmd", "--host"], id="no launcher"),
        pytest.param(["--cuda_cmd", " "], ["--cuda_cmd", "leave"], id="blank"),
        pytest.param(["--dumpdir", "d\udcff"], ["--dumpdir 'd", "UTF-8"], id="Latin 1"),
        pytest.param(["--lang", "en,de"], ["--lang 'en,de'"], id="languages"),
        pytest.param(
            ["--host", "a,b", "--num_nodes", "2"],
            ["leave out --cuda_cmd and --num_nodes"],
            id="two launchers",
        ),
    ],
)
def test_mistake_is_named_in_one_sentence(words, culprits):
    sentence = mistake(*words)
    assert all(culprit in sentence for culprit in culprits)


@pytest.mark.parametrize(
    "words",
    [
        ["--asr_args", "--output_dir foo"],
        ["--asr_args", "--max_epoch 2 --config=conf/other.yaml"],
        ["--lm_args", "--token-list x"],
        ["--inference_args", "--ngpu 1"],
        ["--longform_args", "--checkpoint 5epoch.pth"],
        ["--longform_args", "--search joint --lm exp/lm"],
    ],
)
def test_what_run_sh_gives_by_itself_is_not_for_arguments(words):
    with pytest.raises(RecipeError, match=f"{words[0]} has --.*--help"):
        options(*words)


@pytest.mark.parametrize("value", ["-x", "a,b", "e: x", "e #1", "@e", "[e]", "#e"])
@pytest.mark.parametrize("name", ["dumpdir", "asr_tag"])
def test_names_that_espnet_reads_otherwise_are_refused(name, value):
    with pytest.raises(
        RecipeError, match=re.escape(f"--{name} '{value}': ESPnet cannot")
    ):
        options(f"--{name}", value)
    assert options(f"--{name}", "é 'ü'#:a").dumpdir


@pytest.mark.parametrize(
    "name",
    [
        *("expdir", "asr_exp", "asr_stats_dir", "lm_exp", "lm_stats_dir", "lm_tag"),
        "inference_tag",
    ],
)
def test_every_name_of_a_folder_is_looked_at(name):
    with pytest.raises(RecipeError, match=f"--{name} 'a,b': ESPnet cannot"):
        options(f"--{name}", "a,b")

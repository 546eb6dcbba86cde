"""The card of a packed model: its use, and what RESULTS.md and config.yaml say."""

import re
from collections.abc import Mapping

import yaml

from espnet_srupp.recipe import config
from espnet_srupp.recipe.commands import UNLESS_GIVEN
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options

NAME = "README.md"
TASK = "automatic-speech-recognition"
# error rates that the Hugging Face Hub knows; its "ter" is another one
METRICS = ("wer", "cer")
# settings of a decoding that the constructor of Speech2Text takes
SEARCH = ("beam_size", "ctc_weight", "lm_weight", "penalty", "maxlenratio")
SEARCH += ("minlenratio", "normalize_length", "nbest", "ctc_window_margin", "time_sync")
# its settings are a group
TRANSDUCERS = "transducer_conf"
CARD = """---
{header}---

# {name}

A speech recognition model of ESPnet with the encoder `{encoder}`, trained on {corpus}.

## Use

It needs the package espnet_srupp beside ESPnet.

```python
from espnet2.main_funcs.pack_funcs import unpack
from espnet_srupp.inference import Speech2Text

speech2text = Speech2Text(
    **unpack("{archive}", "model"),
{search})
```

```python
import soundfile

speech, rate = soundfile.read("speech.wav")  # one channel, {rate} Hz
{volume}text, *_ = speech2text(speech)[0]
```

## Encoder

```yaml
{settings}```

{results}"""


def write(options: Options, names: Layout, archive: str) -> str:
    """The card as the Hugging Face Hub reads it: Markdown after a YAML header.

    Args:
        options, names: of the recipe.
        archive: name of the packed model's file.
    """
    results = (names.exp / "RESULTS.md").read_text(encoding="utf-8")
    trained = config.load(names.exp / "config.yaml")
    settings = {k: trained[k] for k in ("encoder", "encoder_conf") if k in trained}
    return CARD.format(
        header=dump(header(options, names, results)),
        name=names.exp.name,
        encoder=trained.get("encoder"),
        corpus=corpus(options),
        archive=archive,
        search="".join(f"    {k}={v!r},\n" for k, v in search(options).items()),
        rate=options.rate,
        volume=volume(trained),
        settings=dump(settings),
        results=results,
    )


def volume(trained: Mapping[str, object]) -> str:
    """What ESPnet's programs do with the samples and Speech2Text does not, as code."""
    loudest = trained.get("speech_volume_normalize")
    if loudest is None:
        return ""
    # silence stays as it is
    return f"speech *= {loudest} / (abs(speech).max() or 1)  # as in training\n"


def corpus(options: Options) -> str:
    """What the model was trained on, in words."""
    return "its author's own data" if options.corpus == "own" else options.corpus


def dump(tree: dict) -> str:
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def header(options: Options, names: Layout, results: str) -> dict:
    """The metadata: error rates of this decoding, as the Hub indexes them."""
    language = {} if options.lang == "noinfo" else {"language": options.lang}
    name = corpus(options)
    found = error_rates(results, names.inference, options.token_type)
    indexed = [
        {
            "task": {"type": TASK},
            "dataset": {"type": options.corpus, "name": name, "split": split},
            "metrics": [{"type": kind, "value": rates[kind]} for kind in rates],
        }
        for split, rates in found.items()
    ]
    kinds = [k for k in METRICS if any(k in rates for rates in found.values())]
    index = {"model-index": [{"name": names.exp.name, "results": indexed}]}
    return {
        "tags": ["espnet", "audio", TASK],
        **language,
        "license": options.model_license,
        "library_name": "espnet",
        "pipeline_tag": TASK,
        # which the Hub has
        **({} if options.corpus == "own" else {"datasets": [options.corpus]}),
        **({"metrics": kinds, **index} if indexed else {}),
    }


def error_rates(
    results: str, decoding: str, token_type: str
) -> dict[str, dict[str, float]]:
    """Reads RESULTS.md: {"test": {"wer": 21.0, "cer": 11.7}, ...} of one decoding.

    Without the "wer" of characters between which no blank makes words, as in Chinese:
    it is the error rate of sentences.
    """
    found: dict[str, dict[str, float]] = {}
    kind = ""
    for line in results.split("\n"):
        if heading := re.match(r"#+ (\w+)", line):
            kind = heading[1].lower()
        cells = line.strip("|").split("|")
        if kind in METRICS and cells[0].startswith(f"{decoding}/"):
            _, sentences, words, *_ = cells
            if (kind, token_type) == ("wer", "char") and sentences == words:
                continue
            split = cells[0].removeprefix(f"{decoding}/").removeprefix("org/")
            found.setdefault(split, {})[kind] = float(cells[-2])
    return found


def search(options: Options) -> dict[str, object]:
    """The arguments of Speech2Text by which it decodes as stage 12."""
    given = config.read(options.inference_config, options.inference_args)
    given = UNLESS_GIVEN | given
    found = {k: yaml.safe_load(str(given[k])) for k in SEARCH if k in given}
    # YAML takes 1e-1 for a text
    texts = {k: config.number(found, k, 0) for k in found if isinstance(found[k], str)}
    return found | texts | transducers(given)


def transducers(given: Mapping[str, object]) -> dict[str, object]:
    """The settings of a transducer's search."""
    group = f"{TRANSDUCERS}."
    conf = {k.removeprefix(group): v for k, v in given.items() if k.startswith(group)}
    return {TRANSDUCERS: conf} if conf else {}

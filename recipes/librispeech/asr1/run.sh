#!/usr/bin/env bash
# LibriSpeech, 960 hours, with the sets and the settings of ESPnet's egs2/librispeech.
# --LIBRISPEECH DIR uses a copy on disk instead of a download of 60 GB; for the Conformer:
# --asr_config conf/train_asr_conformer.yaml; --help lists all options.
set -euo pipefail

cd -P -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
# shellcheck source=../../path.sh source-path=SCRIPTDIR
. ../../path.sh

exec python3 -m espnet_srupp.recipe.asr \
    --corpus librispeech \
    --lang en \
    --train_set train_960 \
    --valid_set dev \
    --test_sets "test_clean test_other dev_clean dev_other" \
    --speed_perturb_factors "0.9 1.0 1.1" \
    --max_wav_duration 30 \
    --token_type bpe \
    --nbpe 5000 \
    --lm_config conf/train_lm.yaml \
    --asr_config conf/train_asr_srupp.yaml \
    --inference_config conf/decode_asr.yaml \
    "$@"

#!/usr/bin/env bash
# TED-LIUM 3, legacy split, 452 hours, with the sets and the settings of ESPnet's
# egs2/tedlium3. --TEDLIUM3 DIR uses a copy on disk instead of a download of 54 GB;
# --help lists all options.
set -euo pipefail

cd -P -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
# shellcheck source=../../path.sh source-path=SCRIPTDIR
. ../../path.sh

exec python3 -m espnet_srupp.recipe.asr \
    --corpus tedlium3 \
    --lang en \
    --train_set train \
    --valid_set dev \
    --test_sets "test dev" \
    --speed_perturb_factors "0.9 1.0 1.1" \
    --token_type bpe \
    --nbpe 500 \
    --bpe_nlsyms "[unk]" \
    --lm_config conf/train_lm.yaml \
    --asr_config conf/train_asr_srupp.yaml \
    --inference_config conf/decode_asr.yaml \
    "$@"

#!/usr/bin/env bash
# AISHELL-1, 178 hours, with the sets and the settings of ESPnet's egs2/aishell.
# --AISHELL DIR uses a copy on disk instead of a download of 15 GB; --help lists all
# options.
set -euo pipefail

cd -P -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
# shellcheck source=../../path.sh source-path=SCRIPTDIR
. ../../path.sh

exec python3 -m espnet_srupp.recipe.asr \
    --corpus aishell \
    --lang zh \
    --train_set train \
    --valid_set dev \
    --test_sets "dev test" \
    --speed_perturb_factors "0.9 1.0 1.1" \
    --token_type char \
    --lm_config conf/train_lm.yaml \
    --asr_config conf/train_asr_srupp.yaml \
    --inference_config conf/decode_asr.yaml \
    "$@"

#!/usr/bin/env bash
# Your own corpus: --OWN DIR holds the sets train, dev and test (README.md);
# --help lists all options.
set -euo pipefail

cd -P -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
# shellcheck source=../../path.sh source-path=SCRIPTDIR
. ../../path.sh

exec python3 -m espnet_srupp.recipe.asr \
    --corpus own \
    --train_set train \
    --valid_set dev \
    --test_sets test \
    --speed_perturb_factors "0.9 1.0 1.1" \
    --token_type bpe \
    --nbpe 300 \
    --asr_config conf/train_asr_srupp.yaml \
    --inference_config conf/decode_asr.yaml \
    --longform_join_args "--group '()'" \
    "$@"

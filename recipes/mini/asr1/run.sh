#!/usr/bin/env bash
# mini: an hour of English commands spoken by espeak-ng, made on the spot.
# Minutes on two cores; --help lists all options.
set -euo pipefail

cd -P -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
# shellcheck source=../../path.sh source-path=SCRIPTDIR
. ../../path.sh

exec python3 -m espnet_srupp.recipe.asr \
    --corpus mini \
    --lang en \
    --train_set train \
    --valid_set dev \
    --test_sets test \
    --token_type bpe \
    --nbpe 100 \
    --asr_config conf/train_asr_srupp.yaml \
    --inference_config conf/decode_asr.yaml \
    --longform_join_args "--group '()'" \
    "$@"

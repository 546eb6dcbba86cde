#!/usr/bin/env bash
# AN4 as ESPnet's egs2/an4 splits and scores it, by two trainings without a language model;
# with one: --use_lm true --inference_config conf/decode_asr_lm.yaml; for the Conformer:
# --train_joined 0 --asr_config conf/train_asr_conformer.yaml; --help lists all options.
set -euo pipefail

cd -P -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
# shellcheck source=../../path.sh source-path=SCRIPTDIR
. ../../path.sh

# In bfloat16 a CPU compiles its kernels anew with each shape of a batch. Keeping those of all
# 279 batches instead of 17 takes some 5 GB and an epoch 50 seconds instead of 86 (README.md).
export ONEDNN_PRIMITIVE_CACHE_CAPACITY="${ONEDNN_PRIMITIVE_CACHE_CAPACITY:-200000}"

exec python3 -m espnet_srupp.recipe.asr \
    --corpus an4 \
    --lang en \
    --train_set train_nodev \
    --valid_set train_dev \
    --test_sets "train_dev test" \
    --speed_perturb_factors "0.9 1.0 1.1" \
    --train_joined 3 \
    --token_type bpe \
    --nbpe 30 \
    --lm_config conf/train_lm.yaml \
    --asr_config "conf/train_asr_srupp.yaml conf/train_asr_srupp_dense.yaml" \
    --inference_config conf/decode_asr.yaml \
    --longform_join_args "--group '()'" \
    "$@"

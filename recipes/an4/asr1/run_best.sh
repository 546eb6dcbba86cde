#!/usr/bin/env bash
# AN4's best model, by three trainings: utterances alone, joined ones as well with more
# regularisation, and last frames twice as dense (README.md). Options are passed on to
# each run.sh, those of the experiment's name and folder excepted; what is finished is not
# done again.
set -euo pipefail

run=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/run.sh

"${run}" "$@" --asr_tag first
"${run}" "$@" --asr_tag joined --train_joined 3 \
    --asr_config conf/train_asr_srupp_joined.yaml \
    --pretrained_model exp/asr_first/valid.acc.ave.pth
"${run}" "$@" --asr_tag dense --train_joined 3 \
    --asr_config conf/train_asr_srupp_dense.yaml \
    --pretrained_model exp/asr_joined/valid.acc.ave.pth

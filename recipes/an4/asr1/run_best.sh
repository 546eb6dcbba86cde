#!/usr/bin/env bash
# AN4's best model, by three trainings: utterances alone, joined ones as well with more
# regularisation, and last frames twice as dense (README.md). Each run.sh gets the options
# given here; what is finished is not done again.
set -euo pipefail

run=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/run.sh

for word in "$@"; do
    case ${word} in
        -h | --help) exec "${run}" --help ;;
        --expdir* | --asr_exp* | --asr_tag* | --asr_config* | --pretrained_model* | --train_joined*)
            echo "error: ${word}: run_best.sh gives that itself, take run.sh" >&2
            exit 1
            ;;
    esac
done

# of a program in the foreground bash would await the end before it heeds a kill
set -m
trap 'kill -TERM "$!" && wait "$!"' INT TERM HUP

train() {
    "${run}" "$@" &
    wait "$!"
}

train "$@" --asr_tag first
if ! [ -e "${run%/*}/exp/asr_first/valid.acc.ave.pth" ]; then
    # as with --check or an early --stop_stage
    exit
fi
train "$@" --asr_tag joined --train_joined 3 \
    --asr_config conf/train_asr_srupp_joined.yaml \
    --pretrained_model exp/asr_first/valid.acc.ave.pth
train "$@" --asr_tag dense --train_joined 3 \
    --asr_config conf/train_asr_srupp_dense.yaml \
    --pretrained_model exp/asr_joined/valid.acc.ave.pth

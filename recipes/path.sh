# shellcheck shell=bash
# Sourced by every run.sh: finds the Python that make has installed here, first that of
# `make`, then that of `PYTHON=python3.12 make`. An active virtual environment and any
# other Python that has ESPnet, as one of conda, win.
root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
has_espnet='import sys, importlib.util as u; sys.exit(u.find_spec("espnet2") is None)'
if [ -z "${VIRTUAL_ENV:-}" ] && [[ $(command -v python3) != "${root}"/.venv* ]] && ! python3 -c \
    "${has_espnet}" 2> /dev/null; then
    for environment in "${root}/.venv" "${root}"/.venv-3.*; do
        # not one that an interrupted `make` has left
        if "${environment}/bin/python3" -c "${has_espnet}" 2> /dev/null; then
            PATH="${environment}/bin:${PATH}"
            break
        fi
    done
fi
if [[ ${root} == *:* ]]; then
    echo "error: PYTHONPATH cannot name ${root}, which holds a colon: rename the folder" >&2
    exit 1
fi
export PATH
export PYTHONPATH="${root}${PYTHONPATH:+:${PYTHONPATH}}"
# names of files too, whatever the locale says
export PYTHONIOENCODING=UTF-8 PYTHONUTF8=1

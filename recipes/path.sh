# shellcheck shell=bash
# Sourced by every run.sh: finds the repository's Python. An active environment wins.
root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
if [ -z "${VIRTUAL_ENV:-}" ] && [[ $(command -v python3) != "${root}"/.venv* ]]; then
    PATH="${root}/.venv/bin:${PATH}"
fi
export PATH
export PYTHONPATH="${root}${PYTHONPATH:+:${PYTHONPATH}}"
export PYTHONIOENCODING=UTF-8

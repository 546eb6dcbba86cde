# PYTHON chooses the interpreter (3.10 to 3.13) and with it the ESPnet: 202611 from 3.12
# on, 202511 before. Every target but help and clean sets up what it needs.

PYTHON ?= python3
NUMBERS := import sys; print("%d.%d" % sys.version_info[:2])
# what pyenv has installed but not activated runs by its full path only
PYENV := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions
RUNS := $(shell if $(PYTHON) -c '' 2>/dev/null; then echo $(PYTHON); \
  else ls $(PYENV)/*/bin/$(PYTHON) 2>/dev/null | tail -n 1; fi)
VERSION := $(if $(RUNS),$(shell $(RUNS) -c '$(NUMBERS)'))
DEFAULT := $(shell python3 -c '$(NUMBERS)' 2>/dev/null)
# another interpreter than the default one gets an environment of its own
VENV ?= .venv$(if $(filter-out $(DEFAULT),$(VERSION)),-$(VERSION))
# by which an environment is known again, of which the first step was interrupted
PROMPT := espnet_srupp
BIN := $(abspath $(VENV))/bin
PIP := '$(BIN)/python' -m pip --disable-pip-version-check -qq
TORCH_CPU := https://download.pytorch.org/whl/cpu
# with its CUDA libraries, while it is unpacked
TORCH_GIB := 8
SHELL_FILES := .ci/run $(shell find recipes -maxdepth 3 -name '*.sh' -type f)

.PHONY: help torch install demo test fuzz lint clean

help:
	@echo 'make demo     synthetic corpus to WER table: a small SRU++ on the CPU, 7 to 15 minutes'
	@echo 'make test     the whole suite                  (PYTHON=python3.12 chooses Python)'
	@echo 'make fuzz     new random input for each parser, ten minutes each'
	@echo 'make lint     ruff and shellcheck'
	@echo 'make install  $(VENV) with all of it, which the others do by themselves'
	@echo 'make clean    removes every environment and what the demo made'

$(VENV)/python-$(VERSION):
	@case '$(VERSION)' in 3.1[0-3]) ;; *) \
	  echo 'error: $(PYTHON) is $(or $(VERSION),not a Python that runs here):' \
	    'give one of 3.10 to 3.13, as in PYTHON=/usr/bin/python3.12 make test.' >&2; \
	  exit 1;; esac
	@case '$(VERSION)' in 3.1[01]) \
	  { command -v c++ || command -v g++; } >/dev/null && [ -e "$$($(RUNS) -c \
	    'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || { \
	  echo 'error: ESPnet 202511, the one for Python $(VERSION), builds pyworld: install' \
	    'a C++ compiler and the headers of Python (apt install g++ python3-dev), or' \
	    'give PYTHON= one from 3.12 on.' >&2; exit 1; };; esac
	@if [ -e $(VENV)/pyvenv.cfg ] && ! ls $(VENV)/python-3.* >/dev/null 2>&1 && \
	  ! grep -qx "prompt = '$(PROMPT)'" $(VENV)/pyvenv.cfg; then \
	  echo 'error: $(VENV) is an environment that make has not made and would empty:' \
	    'move it, or give another folder, as in VENV=.venv-make make test.' >&2; \
	  exit 1; fi
	@echo '[1/3] $(VENV) for Python $(VERSION)'
	@$(RUNS) -m venv --clear --prompt $(PROMPT) $(VENV)
	@touch $@

# PyTorch's CPU build is far smaller than PyPI's, which brings CUDA with it
$(VENV)/torch: constraints.txt $(VENV)/python-$(VERSION)
	@echo '[2/3] torch and torchaudio'
	@{ ! command -v nvidia-smi >/dev/null && timeout 5 '$(BIN)/python' -c \
	    'import urllib.request as u; u.urlopen("$(TORCH_CPU)/torch/")' 2>/dev/null && \
	  $(PIP) install -c constraints.txt --index-url $(TORCH_CPU) torch torchaudio; } || { \
	  echo "      from PyPI, with CUDA, which takes minutes: PyTorch's CPU builds are out of" \
	    'reach, or there is a GPU'; \
	  free=$$(df -Pk $(VENV) | awk 'NR == 2 { print int($$4 / 1048576) }'); \
	  [ "$$free" -ge $(TORCH_GIB) ] || { echo "error: $(VENV) needs $(TORCH_GIB) GiB" \
	    "of disk and $$free are free: make room, or give VENV= a folder elsewhere." >&2; \
	    exit 1; }; \
	  $(PIP) install -c constraints.txt torch torchaudio; }
	@touch $@

$(VENV)/installed: setup.py constraints.txt $(VENV)/torch
	@echo '[3/3] ESPnet and the rest, about 2 minutes'
	@kernels=; if command -v nvidia-smi >/dev/null; then kernels=$$('$(BIN)/python' -c \
	    'import torch; v = torch.version.cuda; print(",cuda" + v.split(".")[0] if v else "")'); fi; \
	  $(PIP) install -c constraints.txt -e ".[recipes,dev$$kernels]"
	@touch $@

torch: $(VENV)/torch

install: $(VENV)/installed

demo: install
	@PATH='$(BIN)':"$$PATH" exec recipes/mini/asr1/run.sh
	@echo 'results, training curves, attention and its weight alpha:'
	@find recipes/mini/asr1/exp -name RESULTS.md -o -path '*/images/training_curves.png' \
	  -o -path '*/images/attention.png' -o -path '*/images/alpha.png' | sort | sed 's/^/  /'

# in the order of the alphabet: by numbers of tests the longest files would come last
test: install
	@OMP_NUM_THREADS=1 '$(BIN)/python' -m pytest -n 2 --dist loadfile \
	  --no-loadscope-reorder --max-worker-restart 0

fuzz: install
	@'$(BIN)/python' tests/test_fuzz.py 600

lint: install
	@'$(BIN)/ruff' check .
	@'$(BIN)/ruff' format --check .
	@'$(BIN)/shellcheck' $(SHELL_FILES)

clean:
	rm -rf .venv .venv-3.* recipes/mini/asr1/data recipes/mini/asr1/downloads \
	  recipes/mini/asr1/dump recipes/mini/asr1/exp

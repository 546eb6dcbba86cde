"""What is installed, and what an import of it costs."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import espnet_srupp

ROOT = Path(__file__).parents[1]
INFO = f"espnet_srupp-{espnet_srupp.__version__}.dist-info/"
PARTS = (
    "CHANGELOG.md",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
    "setup.py",
)


def test_kernels_are_linked_into_the_package():
    link = ROOT / "espnet_srupp" / "kernels"
    assert link.is_symlink()
    assert link.readlink() == Path("../kernels")


@pytest.fixture
def source(tmp_path):
    """What the packages are built from."""
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns("__pycache__")
    for part in ("espnet_srupp", "kernels", "tests"):
        shutil.copytree(ROOT / part, source / part, symlinks=True, ignore=ignore)
    for part in PARTS:
        shutil.copy(ROOT / part, source)
    return source


def modules_and_kernels(source):
    modules = {str(p.relative_to(source)) for p in source.glob("espnet_srupp/**/*.py")}
    return modules | {
        f"espnet_srupp/kernels/{p.name}" for p in source.glob("kernels/*.[cp]*")
    }


def test_the_wheel_has_all_sources_and_kernels(source, tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, source],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = {n for n in zipfile.ZipFile(wheel).namelist() if not n.startswith(INFO)}
    assert names == modules_and_kernels(source)


def test_the_source_distribution_has_all_sources_and_no_tests(source, tmp_path):
    setup = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", tmp_path]
    subprocess.run(setup, cwd=source, check=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = [m.name.partition("/")[2] for m in archive if m.isfile()]
    names = {name for name in members if not name.startswith("espnet_srupp.egg-info/")}
    made = {"PKG-INFO", "setup.cfg"}
    assert names == modules_and_kernels(source) | {*PARTS} | made


# stops at whatever could start a compiler
GUARD = """
import sys
def guard(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        sys.exit(f"{event} {arguments}")
sys.addaudithook(guard)
"""
MODULES = """
print(*{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("espnet_srupp", {"cupy", "numba", "torch", "espnet", "espnet2"}),
        ("espnet_srupp.recurrence", {"cupy", "numba", "espnet", "espnet2"}),
        ("espnet_srupp.encoder", {"cupy", "numba"}),
        ("espnet_srupp.register", {"cupy", "numba"}),
    ],
)
def test_an_import_compiles_nothing_and_stays_light(module, unwanted):
    # torch, newer than 2.11 and built with CUDA, asks ldconfig for a library
    first = "" if "torch" in unwanted else "import torch"
    output = subprocess.check_output(
        [sys.executable, "-c", f"{first}{GUARD}import {module}{MODULES}"], text=True
    )
    assert not unwanted & set(output.split())

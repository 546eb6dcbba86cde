"""Where benchmarks/encoder.py says that an encoder's time goes."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import DeviceType

from espnet_srupp.layer import SRUppLayer

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")


class Profiler:
    """torch's, of a run on a GPU whose events are given."""

    def __init__(self, events):
        self.events = lambda: [
            SimpleNamespace(
                key=key,
                device_type=device,
                self_device_time_total=time,
                cpu_parent=None,
            )
            for key, device, time in events
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def shares_on_gpu(events, monkeypatch):
    import encoder_parts

    monkeypatch.setattr(torch.profiler, "profile", lambda activities: Profiler(events))
    return encoder_parts.shares(lambda: None, "cuda")


def test_kernels_are_counted_as_what_starts_them(monkeypatch):
    events = [
        ("espnet_srupp::recurrence_forward", DeviceType.CPU, 30.0),
        ("void forward<bfloat16, float, 2, 32, false>", DeviceType.CUDA, 30.0),
        ("aten::mm", DeviceType.CPU, 10.0),
        ("nvjet_hsh_128x256_64x4", DeviceType.CUDA, 10.0),
    ]
    shares = shares_on_gpu(events, monkeypatch)
    assert {k: v for k, v in shares.items() if v} == {
        "recurrence": 0.75,
        "projections": 0.25,
    }


def test_without_a_profile_of_the_gpu_no_share_is_told(monkeypatch):
    assert shares_on_gpu([("aten::mm", DeviceType.CPU, 0.0)], monkeypatch) == {}


def test_products_of_tiles_are_projections_not_attention(monkeypatch):
    import encoder_parts

    layer, x = SRUppLayer(64, 8, attention=False).eval(), torch.randn(100, 3, 64)
    with torch.no_grad():
        assert layer.in_tiles(x)
        shares = encoder_parts.shares(lambda: layer(x), "cpu")
    assert shares["attention"] == 0
    assert shares["projections"] > 0 < shares["recurrence"]

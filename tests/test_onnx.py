"""The encoder gives in an ONNX runtime what it gives in torch."""

import onnxruntime
import pytest
import torch
from data.small_encoder import build
from test_recurrence import make

from espnet_srupp import onnx
from espnet_srupp.recurrence import recurrence
from espnet_srupp.recurrence.operator import recurrence_forward

OPTIONS = {
    "usual": {"num_blocks": 1},
    "other": {
        "num_blocks": 2,
        "input_layer": "embed",
        "output_size": None,
        "layer_pooling": [1, 2],
        "attention_heads": 2,
        "bidirectional": False,
    },
}


@pytest.mark.once
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_runtime_gives_the_frames_of_torch_for_any_batch(options, tmp_path):
    encoder, _ = build(**options)
    encoder.eval()
    onnx.export(encoder, tmp_path / "encoder.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "encoder.onnx")
    for ilens in [(90, 41), (133,), (3, 200, 60), (40, 40)]:
        T = max(ilens)
        if encoder.input_layer == "embed":
            xs_pad = torch.randint(1, 20, (len(ilens), T))
        else:
            xs_pad = torch.randn(len(ilens), T, 20)
            for row, length in zip(xs_pad, ilens, strict=True):
                row[length:] = torch.nan
        with torch.no_grad():
            xs, olens, _ = encoder(xs_pad, torch.tensor(ilens))
        batch = {"xs_pad": xs_pad.numpy(), "ilens": torch.tensor(ilens).numpy()}
        found = session.run(["encoder_out", "encoder_out_lens"], batch)
        assert found[1].tolist() == olens.tolist()
        for row, expected, length in zip(found[0], xs, olens, strict=True):
            torch.testing.assert_close(
                torch.from_numpy(row)[:length], expected[:length], rtol=0, atol=1e-5
            )


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("lengths", [[12, 0, 1, 7], None], ids=str)
def test_its_recurrence_is_the_reference(lengths, bidirectional):
    class Module(torch.nn.Module):
        def forward(self, u, x, v, b, c0, mask_c, lengths):
            return recurrence(
                u, x, v, b, c0, lengths, bidirectional=bidirectional, mask_c=mask_c
            )

    tensors, lengths = make(12, 4, 8, lengths)
    u, x, v, b, c0 = (t.detach().mT.contiguous().mT for t in tensors.values())
    values = u, x, v, b, c0, torch.rand_like(c0), lengths
    with torch.no_grad():
        program = torch.export.export(Module(), values)
        program = program.run_decompositions({recurrence_forward: onnx.by_scan})
        assert "espnet_srupp" not in str(program.graph)
        expected = recurrence(
            *values[:5],
            lengths,
            bidirectional=bidirectional,
            mask_c=values[5],
            backend="reference",
        )
        torch.testing.assert_close(program.module()(*values), expected)


def test_what_it_cannot_export_is_refused(tmp_path, monkeypatch):
    encoder, _ = build()
    with pytest.raises(ValueError, match=r"in training mode: call its eval\(\) first"):
        onnx.export(encoder, tmp_path / "encoder.onnx")
    encoder, _ = build(interctc_layer_idx=[1])
    with pytest.raises(ValueError, match="does not serve interctc_layer_idx"):
        onnx.export(encoder.eval(), tmp_path / "encoder.onnx")
    encoder, _ = build()
    for dtype in (torch.float16, torch.float64):
        with pytest.raises(ValueError, match=rf"is of {dtype}: call its float\(\)"):
            onnx.export(encoder.eval().to(dtype), tmp_path / "encoder.onnx")
    monkeypatch.setattr(onnx, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install onnxscript"):
        onnx.export(encoder, tmp_path / "encoder.onnx")
    assert not list(tmp_path.iterdir())

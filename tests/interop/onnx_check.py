"""onnxruntime runs our ONNX files: its outputs must be ours, for every model, plain and unit-scaled. The onnx library
judges the files' form."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

PROGRAM = sys.argv[2]
TOLERANCE = 2e-5  # of the largest number of an output: both sides round to fp32


def check(path):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    tensors = load_file(path.with_suffix(".safetensors"))
    names = [each.name for each in session.get_outputs()]
    assert set(names) == {name.removeprefix("expected/") for name in tensors if name.startswith("expected/")}, path
    found = session.run(names, {each.name: tensors[each.name] for each in session.get_inputs()})
    worst = 0
    for name, value in zip(names, found):
        expected = tensors[f"expected/{name}"]
        assert value.shape == expected.shape, (path.name, name, value.shape, expected.shape)
        error = np.abs(value - expected).max() / max(np.abs(expected).max(), 1e-30)
        assert error < TOLERANCE, (path.name, name, error)
        worst = max(worst, error)
    return worst


with tempfile.TemporaryDirectory() as temporary:
    subprocess.run([PROGRAM, "onnx", temporary], check=True)
    errors = [check(path) for path in sorted(Path(temporary).glob("*.onnx"))]
    assert errors
print(f"onnx: onnxruntime {onnxruntime.__version__} computes {len(errors)} models as we do, to {max(errors):.1e}")

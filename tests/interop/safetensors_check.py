"""The safetensors library judges our files, and writes one that we must read."""

import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import deserialize, safe_open
from safetensors.numpy import save_file

PROGRAM = sys.argv[2]
DTYPES = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "I32": np.int32,
    "I64": np.int64,
    "U8": np.uint8,
}
EVERY_BYTE = np.arange(256, dtype=np.uint8)


def check_ours(path):
    subprocess.run([PROGRAM, "write-safetensors", path], check=True)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        scalar, empty = file.get_tensor("scalar"), file.get_tensor("empty")
        floats = file.get_tensor("layer/F32")
    assert metadata["step"] == "12" and metadata["note"] == '"ß"\n', metadata
    assert scalar.shape == () and scalar.dtype == np.uint8 and scalar == 0, scalar
    assert empty.shape == (0, 3) and empty.dtype == np.float32, empty
    assert floats.tobytes() == EVERY_BYTE.tobytes() and floats.dtype == np.float32
    # numpy alone lacks three of the dtypes, so the rest is read as the library parses it.
    tensors = dict(deserialize(path.read_bytes()))
    assert set(tensors) == {f"layer/{name}" for name in DTYPES} | {"scalar", "empty"}, tensors.keys()
    for name, dtype in DTYPES.items():
        tensor = tensors[f"layer/{name}"]
        expected = EVERY_BYTE.view(dtype).reshape(4, -1)
        assert tensor["dtype"] == name and tuple(tensor["shape"]) == expected.shape, tensor
        values = np.frombuffer(tensor["data"], dtype=dtype).reshape(expected.shape)
        assert np.array_equal(values, expected, equal_nan=name not in ("I32", "I64", "U8")), name


def check_theirs(path):
    random = np.random.default_rng(1)
    tensors = {"scalar": np.array(3, dtype=np.float32), "none": np.zeros((2, 0), dtype=np.int64)}
    for name, dtype in DTYPES.items():
        codes = random.integers(0, 256, 24, dtype=np.uint8)
        tensors[f"a/{name}"] = codes.view(dtype).reshape(-1, 3)
    save_file(tensors, path, metadata={"written by": "them"})
    lines = subprocess.run([PROGRAM, "read-safetensors", path], check=True, capture_output=True, text=True).stdout
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    expected = [
        f"{name} {names[tensor.dtype]} {','.join(map(str, tensor.shape))} {tensor.tobytes().hex()}"
        for name, tensor in sorted(tensors.items())
    ]
    assert lines.splitlines() == expected + ["written by=them"], lines


with tempfile.TemporaryDirectory() as temporary:
    check_ours(Path(temporary) / "ours.safetensors")
    check_theirs(Path(temporary) / "theirs.safetensors")
print(f"safetensors: files of {len(DTYPES)} dtypes agree both ways")

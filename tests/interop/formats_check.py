"""ml_dtypes, which JAX and TensorFlow use, judges our formats: every code and many casts."""

import json
import subprocess
import sys

import ml_dtypes
import numpy as np

PROGRAM = sys.argv[1]

# our name, their type, and how theirs overflows
FORMATS = [
    ("bf16", ml_dtypes.bfloat16, "infinity"),
    ("fp16", np.float16, "infinity"),
    ("fp8_e5m2", ml_dtypes.float8_e5m2, "infinity"),
    ("fp8_e4m3", ml_dtypes.float8_e4m3fn, "nan"),
    ("fp8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "nan"),
    ("fp8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "nan"),
    ("e3m4", ml_dtypes.float8_e3m4, "infinity"),
    ("fp6_e3m2", ml_dtypes.float6_e3m2fn, "saturate"),
    ("fp6_e2m3", ml_dtypes.float6_e2m3fn, "saturate"),
    ("fp4_e2m1", ml_dtypes.float4_e2m1fn, "saturate"),
]


def quantize(name, values, overflow):
    """Codes and values that our program makes of float32 values."""
    text = " ".join(float(v).hex() if np.isfinite(v) else str(v) for v in values)
    command = [PROGRAM, "quantize", "--format", name, "--overflow", overflow, "--json"]
    rows = json.loads(subprocess.run(command, input=text, capture_output=True, check=True, text=True).stdout)
    codes = np.array([int(row["code"], 16) for row in rows])
    return codes, np.array([float(row["value"]) for row in rows], dtype=np.float32)


def telling_values(all_values):
    """Every value, every midpoint, the float32 neighbours of both, and a wide random sample."""
    finite = np.sort(all_values[np.isfinite(all_values)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    turning = np.concatenate([finite, middle])
    random = np.random.default_rng(1)
    sample = random.standard_normal(4000) * np.exp2(random.uniform(-40, 40, 4000))
    return np.concatenate(
        [turning, np.nextafter(turning, np.float32(np.inf)), np.nextafter(turning, np.float32(-np.inf)), sample]
    ).astype(np.float32)


def check(name, dtype, overflow):
    bits = 16 if np.dtype(dtype).itemsize == 2 else int(getattr(ml_dtypes.finfo(dtype), "bits"))
    storage = np.uint16 if bits == 16 else np.uint8
    codes = np.arange(2**bits, dtype=storage)
    theirs = codes.view(dtype).astype(np.float32)
    numbers = ~np.isnan(theirs)
    our_codes, our_values = quantize(name, theirs[numbers], overflow)
    assert np.array_equal(our_codes, codes[numbers]), f"{name}: a code does not round-trip"
    assert np.array_equal(our_values, theirs[numbers]), f"{name}: a code decodes differently"

    values = telling_values(theirs)
    if bits == 16:
        values = values[:: max(1, len(values) // 60000)]
    with np.errstate(over="ignore"):
        cast = values.astype(dtype)
    our_codes, our_values = quantize(name, values, overflow)
    their_values = cast.astype(np.float32)
    wrong = ~((our_values == their_values) | (np.isnan(our_values) & np.isnan(their_values)))
    assert not wrong.any(), f"{name}: {values[wrong][0]} became {our_values[wrong][0]}, not {their_values[wrong][0]}"
    print(f"{name}: {numbers.sum()} codes and {len(values)} casts agree with ml_dtypes")


for each in FORMATS:
    check(*each)

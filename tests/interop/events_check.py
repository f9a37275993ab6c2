"""TensorBoard judges our event files: a run that was interrupted, resumed and reads as one; and the
scalars and histograms of a real one."""

import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SIZES = ["depth=1", "width=32", "ffn=64", "batch=2", "time=32", "masked=8", "steps=12",
         "probe-every=5", "evaluate-every=6", "monitor-every=0"]


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    events.Reload()
    return events


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_parts(writer, folder):
    subprocess.run([writer, "events", folder], check=True)
    events = read(folder)
    scalars, histograms = events.Scalars("train/loss"), events.Histograms("weights/σ")
    assert events.file_version == 2, events.file_version
    # The first part wrote steps 0 to 5; the second resumed from step 3, so its steps 4 to 7 count.
    steps = [(event.step, event.value) for event in scalars]
    assert steps == [(s, (100 if s <= 3 else 0) + s / 8) for s in range(8)], steps
    assert [event.step for event in histograms] == list(range(8)), histograms
    for event in histograms:
        h = event.histogram_value
        found = (h.min, h.max, h.num, h.sum, h.sum_squares)
        assert found == (-2, 7, 4 + event.step, event.step, 64), h
        assert list(h.bucket_limit) == [-1, 0.5, 1e300], h
        assert list(h.bucket) == [1, event.step, 3], h
    assert all(1.7e9 < event.wall_time < 1e11 for event in scalars), scalars
    return len(scalars), len(histograms)


def train(program, folder):
    (folder / "text.txt").write_text("the cat sat on the mat, and a dog ran by. " * 60)
    settings = [word for each in SIZES for word in ("--set", each)]
    subprocess.run([program, "train", "--train", folder / "text.txt", "--run", folder / "run",
                    *settings], check=True, capture_output=True)
    return folder / "run"


def check_scalars(events, metrics):
    """Every number of metrics.jsonl but for the step, in single precision, and no others."""
    expected = {}
    for line in metrics:
        for tag, value in line.items():
            if tag != "step":
                expected.setdefault(tag, []).append((line["step"], value))
    assert set(events.Tags()["scalars"]) == set(expected), events.Tags()["scalars"]
    for tag, points in expected.items():
        found = events.Scalars(tag)
        assert [event.step for event in found] == [step for step, _ in points], (tag, found)
        for event, (_, value) in zip(found, points):
            assert abs(event.value - value) <= 1e-6 * abs(value), (tag, event, value)
    return sum(map(len, expected.values()))


def check_histogram(h, tensor, where):
    counts = [count for count in tensor["histogram"] if count > 0]
    assert [count for count in h.bucket if count > 0] == counts, (where, h, tensor)
    # Neither zero nor what is not finite has a magnitude's logarithm.
    shown = tensor["count"] * (1 - tensor["zero"] - tensor["nonfinite"])
    assert abs(sum(h.bucket) - shown) < 1e-6 and h.num == sum(h.bucket), (where, h, tensor)
    # A bar ends where its binade does.
    first = next(i for i, count in enumerate(h.bucket) if count > 0)
    assert h.bucket_limit[first] == tensor["first_exponent"] + 1, (where, h, tensor)
    assert h.bucket_limit[first] - 1 <= h.min <= h.max <= h.bucket_limit[-1], (where, h)
    assert 2**h.min <= tensor["rms"] * 1.0001 and 2**h.max >= tensor["rms"] * 0.9999, (where, h)


def check_histograms(events, scales):
    expected = {}
    for line in scales:
        for tensor in line["tensors"]:
            if tensor["abs_max"] > 0:
                tag = f"log2 magnitude/{tensor['role']}/{tensor['name']}"
                expected.setdefault(tag, []).append((line["step"], tensor))
    assert set(events.Tags()["histograms"]) == set(expected), events.Tags()["histograms"]
    for tag, points in expected.items():
        found = events.Histograms(tag)
        assert [event.step for event in found] == [step for step, _ in points], (tag, found)
        for event, (step, tensor) in zip(found, points):
            check_histogram(event.histogram_value, tensor, f"{tag} at {step}")
    return len(expected)


def check_run(program, folder):
    run = train(program, folder)
    events, scales = read(run / "events"), lines(run / "scales.jsonl")
    assert [line["step"] for line in scales] == [0, 5, 10, 12], scales
    return check_scalars(events, lines(run / "metrics.jsonl")), check_histograms(events, scales)


logging.getLogger("tensorboard").setLevel("ERROR")  # it warns of every resumed run
with tempfile.TemporaryDirectory() as temporary:
    made = check_parts(sys.argv[2], Path(temporary) / "parts")
    trained = check_run(sys.argv[1], Path(temporary))
print(f"events: {made[0]} scalars and {made[1]} histograms agree with TensorBoard, and of a run "
      f"{trained[0]} scalars and {trained[1]} tensors")

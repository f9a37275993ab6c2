"""TensorBoard judges our event files: a run that was interrupted, resumed and reads as one."""

import logging
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

logging.getLogger("tensorboard").setLevel("ERROR")  # it warns of every resumed run
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[2], "events", folder], check=True)
    events = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0})
    events.Reload()
    scalars = events.Scalars("train/loss")
    histograms = events.Histograms("weights/σ")
    version = events.file_version

assert version == 2, version
# The first part wrote steps 0 to 5; the second resumed from step 3, so its steps 4 to 7 count.
steps = [(event.step, event.value) for event in scalars]
assert steps == [(s, (100 if s <= 3 else 0) + s / 8) for s in range(8)], steps
assert [event.step for event in histograms] == list(range(8)), histograms
for event in histograms:
    h = event.histogram_value
    assert (h.min, h.max, h.num, h.sum, h.sum_squares) == (-2, 7, 4 + event.step, event.step, 64), h
    assert list(h.bucket_limit) == [-1, 0.5, 1e300], h
    assert list(h.bucket) == [1, event.step, 3], h
assert all(1.7e9 < event.wall_time < 1e11 for event in scalars), scalars
print(f"events: {len(scalars)} scalars and {len(histograms)} histograms agree with TensorBoard")

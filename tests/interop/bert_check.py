"""BERT's forward pass, written down in numpy, judges what we export for transformers: unit-scaled models must compute
as ordinary ones what they compute here."""

import subprocess
import sys
import tempfile
from pathlib import Path

from bert_examples import largest_error
from bert_forward import Bert

TOLERANCE = 2e-6  # parameters are rounded to fp32 once more


def check(folder):
    bert = Bert(folder)
    error = largest_error(
        folder,
        lambda *inputs: bert.span_scores(bert.encode(*inputs)),
        lambda *inputs: (lambda states: (bert.masked_scores(states), bert.next_sentence_scores(states)))(bert.encode(*inputs)),
    )
    assert error < TOLERANCE, (folder.name, error)
    return error


with tempfile.TemporaryDirectory() as temporary:
    subprocess.run([sys.argv[2], "bert", temporary], check=True)
    errors = [check(folder) for folder in sorted(Path(temporary).iterdir())]
    assert len(errors) == 4
print(f"bert: {len(errors)} exported models compute in numpy what they do here, to {max(errors):.1e}")

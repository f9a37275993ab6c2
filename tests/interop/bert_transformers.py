"""Hugging Face's transformers runs what we export. It needs torch, which is too large for `make interop`:

    pip install torch transformers safetensors
    python tests/interop/bert_transformers.py build/tests/interop_files

Prints the largest error of each model, relative to its largest score; above 1e-4 is a failure. A folder instead of the
program is one that `interop_files bert FOLDER` has filled elsewhere."""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from bert_examples import largest_error

TOLERANCE = 1e-4


def run(model, tokens, segments, padding):
    with torch.no_grad():
        return model(input_ids=torch.tensor(tokens), token_type_ids=torch.tensor(segments),
                     attention_mask=torch.tensor(padding))


def load(kind, folder):
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    # The decoder shares the embedding's numbers, and is not stored.
    missing = [name for name in report["missing_keys"] if not name.startswith("cls.predictions.decoder.")]
    assert not missing and not report["unexpected_keys"] and not report["mismatched_keys"], report
    return model.eval()


def spans(folder):
    def scores(*inputs):
        output = run(load(transformers.BertForQuestionAnswering, folder), *inputs)
        return output.start_logits.numpy(), output.end_logits.numpy()

    return scores


def pretraining(folder):
    def scores(*inputs):
        output = run(load(transformers.BertForPreTraining, folder), *inputs)
        return output.prediction_logits.numpy(), output.seq_relationship_logits.numpy()

    return scores


def main(folder):
    worst = 0
    for each in sorted(Path(folder).iterdir()):
        error = largest_error(each, spans(each), pretraining(each))
        print(f"{each.name}: {error:.1e}")
        worst = max(worst, error)
    assert worst < TOLERANCE, worst
    print(f"transformers {transformers.__version__}: {worst:.1e} at most")


if Path(sys.argv[1]).is_dir():
    main(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([sys.argv[1], "bert", temporary], check=True)
        main(temporary)

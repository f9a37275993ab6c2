"""Hugging Face's transformers runs what we export, and we run what it saves. It needs torch, which is too large for
`make interop`:

    pip install torch transformers safetensors
    python tests/interop/bert_transformers.py build/tests/interop_files

Prints the largest error of each model, relative to its largest score; above 1e-4 is a failure. A folder instead of the
program is one that `interop_files bert FOLDER` has filled elsewhere; then only what we export is judged."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from bert_examples import largest_error
from safetensors.numpy import save_file

TOLERANCE = 1e-4
WORDS, BATCH, TIME, PREDICTIONS = 50, 2, 7, 3
OUR_MODELS = {transformers.BertForPreTraining: "bert", transformers.BertForQuestionAnswering: "bert_squad"}


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


def error_of(example, model_folder):
    """Of scores in an example's folder, beside those of a model in a folder as transformers has it."""

    def spans(*inputs):
        output = run(load(transformers.BertForQuestionAnswering, model_folder), *inputs)
        return output.start_logits.numpy(), output.end_logits.numpy()

    def pretraining(*inputs):
        output = run(load(transformers.BertForPreTraining, model_folder), *inputs)
        return output.prediction_logits.numpy(), output.seq_relationship_logits.numpy()

    return largest_error(example, spans, pretraining)


def save_random(kind, folder):
    """A model with no number as it starts: gains, biases and all."""
    torch.manual_seed(3)
    config = transformers.BertConfig(vocab_size=WORDS, hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
                                     intermediate_size=40, max_position_embeddings=9)
    model = kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(folder)


def save_inputs(path):
    random = np.random.default_rng(4)
    padding = np.ones((BATCH, TIME), np.int64)
    padding[1, -2:] = 0
    save_file({"tokens": random.integers(WORDS, size=(BATCH, TIME)), "segments": random.integers(2, size=(BATCH, TIME)),
               "padding": padding, "masked_positions": random.integers(5, size=(BATCH, PREDICTIONS))}, path)


def imported_errors(program, interop_files):
    for kind, model in OUR_MODELS.items():
        for method in ("none", "unit"):
            with tempfile.TemporaryDirectory() as temporary:
                theirs, ours = Path(temporary) / "theirs", Path(temporary) / "ours"
                save_random(kind, theirs)
                settings = (f"batch={BATCH}", f"time={TIME}", f"predictions={PREDICTIONS}")
                subprocess.run([program, "import", theirs, "--model", model, "--method", method, "--precision", "fp32",
                                "--set", *settings, "--out", ours], check=True, stdout=subprocess.DEVNULL)
                save_inputs(ours / "inputs.safetensors")
                subprocess.run([interop_files, "bert-scores", ours], check=True)
                yield f"{model}_{method} imported", error_of(ours, theirs)


def exported_errors(folder):
    for each in sorted(Path(folder).iterdir()):
        yield f"{each.name} exported", error_of(each, each)


def all_errors(source):
    if source.is_dir():
        yield from exported_errors(source)
        return
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([source, "bert", temporary], check=True)
        yield from exported_errors(temporary)
    yield from imported_errors(source.parents[1] / "sigma1", source)


transformers.utils.logging.disable_progress_bar()
worst = 0
for name, error in all_errors(Path(sys.argv[1]).resolve()):
    print(f"{name}: {error:.1e}")
    worst = max(worst, error)
assert worst < TOLERANCE, worst
print(f"transformers {transformers.__version__}: {worst:.1e} at most")

"""Scores that a BERT of ours is expected to have, beside those of someone else's."""

import numpy as np
from safetensors.numpy import load_file


def largest_error(folder, span_scores, pretraining_scores):
    """Of the example in a folder, relative to the largest score. The first function gives scores of starts and ends, the
    second those of tokens at every position and of sentences, both of (tokens, segments, padding)."""
    example = load_file(folder / "example.safetensors")
    inputs = example["tokens"], example["segments"], example["padding"]
    if "expected/start_scores" in example:
        found = dict(zip(("start_scores", "end_scores"), span_scores(*inputs)))
    else:
        scores, sentences = pretraining_scores(*inputs)
        positions = example["masked_positions"]
        found = {"mlm_scores": np.take_along_axis(scores, positions[..., None], 1), "nsp_scores": sentences}
    worst = 0
    for name, value in found.items():
        expected = example[f"expected/{name}"][..., : value.shape[-1]]  # beyond: padding of the vocabulary
        assert value.shape == expected.shape, (folder, name, value.shape, expected.shape)
        worst = max(worst, np.abs(value - expected).max() / np.abs(expected).max())
    return worst

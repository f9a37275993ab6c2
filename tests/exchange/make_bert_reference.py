#!/usr/bin/env python3
"""Writes bert_reference.json beside it: what Hugging Face's transformers computes, so that a test can hold us to it where
there is no torch. Weights are a formula of their names, which bert_reference_test.cpp knows too.

    pip install torch transformers
    python tests/exchange/make_bert_reference.py"""

import json
from pathlib import Path

import numpy as np
import torch
import transformers

SIZES = {"vocab_size": 29, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40,
         "max_position_embeddings": 12}
INPUTS = {
    "tokens": [[2, 17, 5, 28, 3, 9, 11, 3], [2, 4, 26, 3, 13, 3, 0, 0]],
    "segments": [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0, 0]],
    "padding": [[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0]],
    "masked_positions": [[1, 6, 3], [2, 4, 0]],
}


def numbers(name, count):
    """Between -1/2 and 1/2, each exact in fp32; gains between 1/2 and 3/2."""
    start = 2166136261
    for byte in name.encode():
        start = (start ^ byte) * 16777619 % 2**32
    x = (start + np.arange(count, dtype=np.uint64)) * 2654435761 % 2**32
    x = (x ^ (x >> 15)) * 2246822519 % 2**32
    x ^= x >> 13
    return (x >> 8).astype(np.float64) / 2**24 - 0.5 + name.endswith("LayerNorm.weight")


def filled(kind):
    model = kind(transformers.BertConfig(**SIZES)).eval()
    state = {name: torch.tensor(numbers(name, tensor.numel()), dtype=torch.float32).view(tensor.shape)
             for name, tensor in model.state_dict().items() if not name.startswith("cls.predictions.decoder.")}
    left = model.load_state_dict(state, strict=False)
    assert all(name.startswith("cls.predictions.decoder.") for name in left.missing_keys), left
    model.tie_weights()
    return model


def run(kind):
    ids = {name: torch.tensor(value) for name, value in INPUTS.items()}
    with torch.no_grad():
        return filled(kind)(input_ids=ids["tokens"], token_type_ids=ids["segments"], attention_mask=ids["padding"])


def rounded(tensor):
    return [round(float(number), 6) for number in tensor.flatten()]


answers, pretrained = run(transformers.BertForQuestionAnswering), run(transformers.BertForPreTraining)
places = torch.tensor(INPUTS["masked_positions"])[..., None].expand(-1, -1, SIZES["vocab_size"])
reference = {
    "made_by": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
    "config": json.loads(transformers.BertConfig(**SIZES).to_json_string()),
    "inputs": INPUTS,
    "scores": {
        "bert": {"mlm_scores": rounded(pretrained.prediction_logits.gather(1, places)),
                 "nsp_scores": rounded(pretrained.seq_relationship_logits)},
        "bert_squad": {"start_scores": rounded(answers.start_logits), "end_scores": rounded(answers.end_logits)},
    },
}
path = Path(__file__).with_name("bert_reference.json")
path.write_text(json.dumps(reference, separators=(",", ":")).replace(',"', ',\n"') + "\n")

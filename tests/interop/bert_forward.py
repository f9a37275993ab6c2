"""BERT's forward pass in numpy, from a folder as transformers has it: config.json and model.safetensors alone."""

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

ERF = np.vectorize(math.erf)


class Bert:
    def __init__(self, folder):
        self.config = json.loads((Path(folder) / "config.json").read_text())
        self.tensors = {name: tensor.astype(np.float64) for name, tensor in load_file(Path(folder) / "model.safetensors").items()}

    def dense(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return centred / spread * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    @staticmethod
    def gelu(x):
        return x / 2 * (1 + ERF(x / math.sqrt(2)))

    def attention(self, name, x, padding):
        batch, time, width = x.shape
        heads = self.config["num_attention_heads"]
        q, k, v = (self.dense(f"{name}.{part}", x).reshape(batch, time, heads, -1).transpose(0, 2, 1, 3)
                   for part in ("query", "key", "value"))
        logits = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width // heads)
        logits = np.where(padding[:, None, None, :] != 0, logits, -np.inf)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = (p / p.sum(-1, keepdims=True)) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(batch, time, width)

    def encode(self, tokens, segments, padding):
        table = "bert.embeddings."
        x = (self.tensors[table + "word_embeddings.weight"][tokens]
             + self.tensors[table + "position_embeddings.weight"][: tokens.shape[1]]
             + self.tensors[table + "token_type_embeddings.weight"][segments])
        x = self.norm(table + "LayerNorm", x)
        for i in range(self.config["num_hidden_layers"]):
            layer = f"bert.encoder.layer.{i}."
            mixed = self.dense(layer + "attention.output.dense", self.attention(layer + "attention.self", x, padding))
            x = self.norm(layer + "attention.output.LayerNorm", x + mixed)
            bent = self.gelu(self.dense(layer + "intermediate.dense", x))
            x = self.norm(layer + "output.LayerNorm", x + self.dense(layer + "output.dense", bent))
        return x

    def masked_scores(self, states):
        head = "cls.predictions."
        bent = self.gelu(self.dense(head + "transform.dense", states))
        normal = self.norm(head + "transform.LayerNorm", bent)
        return normal @ self.tensors["bert.embeddings.word_embeddings.weight"].T + self.tensors[head + "bias"]

    def next_sentence_scores(self, states):
        return self.dense("cls.seq_relationship", np.tanh(self.dense("bert.pooler.dense", states[:, 0])))

    def span_scores(self, states):
        scores = self.dense("qa_outputs", states)
        return scores[..., 0], scores[..., 1]

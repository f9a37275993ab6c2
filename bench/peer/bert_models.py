"""BERT of sigma1/models/bert.cpp in plain PyTorch, as a careful user would write it: to be timed beside
ours. No dropout, as ours has none."""
import torch
import torch.nn as nn
import torch.nn.functional as F

EPSILON, SEGMENTS = 1e-12, 2


class Layer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.attention_norm, self.ffn_norm = (nn.LayerNorm(width, eps=EPSILON) for _ in range(2))

    def forward(self, x, mask):
        batch, time, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=-1)
        q, k, v = (z.view(batch, time, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.attention_norm(x + self.out(mixed.transpose(1, 2).reshape(batch, time, width)))
        return self.ffn_norm(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Gives the loss of pretraining: of masked tokens and of the next sentence. `padded` says whether
    attention hides padding, as texts need it."""

    def __init__(self, depth, width, heads, hidden, vocabulary, positions, padded):
        super().__init__()
        self.padded = padded
        self.token = nn.Embedding(vocabulary, width)
        self.position, self.segment = nn.Embedding(positions, width), nn.Embedding(SEGMENTS, width)
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(depth))
        self.dense, self.dense_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=EPSILON)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.pooler, self.next_sentence = nn.Linear(width, width), nn.Linear(width, 2)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, tokens, segments, padding, masked_positions, masked_labels, next_sentence):
        width = self.token.embedding_dim
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]] + self.segment(segments)
        x = self.norm(x)
        mask = padding[:, None, None, :] if self.padded else None
        for layer in self.layers:
            x = layer(x, mask)
        picked = x.gather(1, masked_positions[..., None].expand(-1, -1, width))
        bent = self.dense_norm(F.gelu(self.dense(picked)))
        scores = F.linear(bent, self.token.weight, self.bias)
        sentences = self.next_sentence(torch.tanh(self.pooler(x[:, 0])))
        masked = F.cross_entropy(scores.flatten(0, 1), masked_labels.flatten())
        return masked + F.cross_entropy(sentences, next_sentence)

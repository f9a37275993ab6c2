"""GPT-2 of sigma1/models/gpt.cpp in plain PyTorch, as a careful user would write it: to be timed
beside ours."""
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from training import IGNORED


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=-1)
        q, k, v = (z.view(batch, time, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Gives the mean loss of predicting each token from those before it. With `recompute` only what
    passes between blocks is kept for backward, as our `recompute=blocks` does."""

    def __init__(self, depth, width, heads, time, vocabulary, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.table, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(time, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.table(tokens) + self.positions.weight
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        scores = self.head(self.norm(x))[:, :-1]
        return F.cross_entropy(scores.flatten(0, 1), targets[:, 1:].flatten(), ignore_index=IGNORED)

"""The models of sigma1/models/char_lm.cpp in plain PyTorch, as a careful user would write them.

They exist to be timed beside ours by char_lm_torch.py: the same layers, sizes and parameters, each in
the forms that could be fastest. Regular models only: unit scaling is not part of the peer.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from training import IGNORED

BATCH, TIME, MASKED = 8, 256, 32
WIDTH, HIDDEN, HEADS, VOCABULARY = 128, 512, 2, 5008
BASES, LONGEST_PERIOD = 128, 1024
KERNEL, GROUP = 7, 16


def sinusoids(length):
    pair = torch.arange(BASES, dtype=torch.float64) // 2
    frequency = math.pi * (2 / LONGEST_PERIOD) ** (pair / (BASES // 2 - 1))
    phase = (torch.arange(BASES) % 2) * (math.pi / 2)
    return torch.sin(torch.arange(length)[:, None] * frequency + phase).float()


class Attention(nn.Module):
    """`form`: relative (as the model says), relative-sdpa (the same, the positions' part of the logits
    handed to PyTorch's fused attention as a bias), flash (a lighter model, without positions, on the
    fastest attention PyTorch has)."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.query_bias = nn.Parameter(torch.zeros(WIDTH))
        self.out = nn.Linear(WIDTH, WIDTH)
        nn.init.uniform_(self.qkv.weight, -math.sqrt(3 / WIDTH), math.sqrt(3 / WIDTH))
        if form == "flash":
            return
        self.positions = nn.Linear(BASES, WIDTH, bias=False)
        # The longest distance first: then the shift below needs no flip.
        self.register_buffer("bases", sinusoids(TIME).flip(0).contiguous())
        self.register_buffer("later", torch.full((TIME, TIME), -math.inf).triu(1))

    def position_logits(self, q):
        """q_i · r_{i-j} for every i and j <= i; what stands at later j has no meaning."""
        r = self.positions(self.bases).view(TIME, HEADS, -1).permute(1, 2, 0)
        by_distance = torch.matmul(q, r)
        shifted = F.pad(by_distance, (1, 0)).view(BATCH, HEADS, TIME + 1, TIME)
        return shifted[:, :, 1:]

    def forward(self, x):
        q, k, v = self.qkv(x).split(WIDTH, dim=-1)
        q = q + self.query_bias.to(q.dtype)
        q, k, v = (z.view(BATCH, TIME, HEADS, -1).transpose(1, 2) for z in (q, k, v))
        scale = (WIDTH // HEADS) ** -0.5
        if self.form == "flash":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        elif self.form == "relative-sdpa":
            bias = self.position_logits(q) * scale + self.later.to(q.dtype)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        else:
            logits = torch.matmul(q, k.transpose(-1, -2)) + self.position_logits(q)
            logits = logits * scale + self.later.to(logits.dtype)
            mixed = torch.matmul(logits.softmax(-1, dtype=torch.float32).to(v.dtype), v)
        return self.out(mixed.transpose(1, 2).reshape(BATCH, TIME, WIDTH))


class Convolution(nn.Module):
    """`form`: cudnn (a grouped convolution, channels last), product (all taps gathered, one batched
    matrix product over the groups)."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        groups = WIDTH // GROUP
        bound = math.sqrt(3 / (KERNEL * GROUP))
        shape = (WIDTH, GROUP, 1, KERNEL) if form == "cudnn" else (groups, KERNEL * GROUP, GROUP)
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        padded = F.pad(x, (0, 0, KERNEL - 1, 0))
        if self.form == "cudnn":
            image = padded.transpose(1, 2).unsqueeze(2)  # [batch, width, 1, time], channels last
            y = F.conv2d(image, self.weight, self.bias, groups=WIDTH // GROUP)
            return F.relu(y.squeeze(2).transpose(1, 2))
        taps = padded.unfold(1, KERNEL, 1)  # [batch, time, width, kernel]
        taps = taps.reshape(BATCH * TIME, WIDTH // GROUP, GROUP * KERNEL).transpose(0, 1)
        y = torch.bmm(taps, self.weight)
        y = y.transpose(0, 1).reshape(BATCH, TIME, WIDTH)
        return F.relu(y + self.bias.to(y.dtype))


def cell(gates, before):
    """One step of the recurrence, from its products to the next state."""
    u = torch.sigmoid(gates[:, :WIDTH].float() - 1)
    c = torch.tanh(gates[:, WIDTH:].float())
    return (before.float() * (1 - u) + u * c).to(before.dtype)


def cell_gradient(gates, before, dy, dstate):
    """What reaches the gates, and what of the state's gradient passes by them."""
    u = torch.sigmoid(gates[:, :WIDTH].float() - 1)
    c = torch.tanh(gates[:, WIDTH:].float())
    d = dstate.float() + dy.float()
    dgates = torch.cat((d * (c - before.float()) * u * (1 - u), d * u * (1 - c * c)), dim=1)
    return dgates.to(dy.dtype), (d * (1 - u)).to(dy.dtype)


class Cells:
    """The two pieces between the products, each as one kernel once torch.compile has made it."""

    forward, backward = staticmethod(cell), staticmethod(cell_gradient)

    @classmethod
    def compile(cls):
        cls.forward = staticmethod(torch.compile(cell, dynamic=False))
        cls.backward = staticmethod(torch.compile(cell_gradient, dynamic=False))


class Highway(torch.autograd.Function):
    """Back-propagation through time by hand: two kernels a step in each direction, and the weight's
    gradient as one product at the end."""

    @staticmethod
    def forward(ctx, from_inputs, weight, initial):
        states, gates = [initial.repeat(BATCH, 1)], []
        for part in from_inputs.unbind(0):
            gates.append(torch.addmm(part, states[-1], weight))
            states.append(Cells.forward(gates[-1], states[-1]))
        ctx.save_for_backward(weight, *gates, *states[:-1])
        return torch.stack(states[1:])

    @staticmethod
    def backward(ctx, dy):
        weight, *saved = ctx.saved_tensors
        gates, before = saved[:TIME], saved[TIME:]
        dstate, dgates, back = torch.zeros_like(before[0]), [], weight.t()
        for t, step_dy in reversed(list(enumerate(dy.contiguous().unbind(0)))):
            at_gates, carried = Cells.backward(gates[t], before[t], step_dy, dstate)
            dstate = torch.addmm(carried, at_gates, back)
            dgates.append(at_gates)
        dgates = torch.stack(dgates[::-1])
        dweight = torch.mm(torch.cat(before).t(), dgates.view(-1, 2 * WIDTH))
        return dgates, dweight, dstate.sum(0)


class Recurrence(nn.Module):
    """`form`: by-hand (Highway), loop (PyTorch differentiates the loop)."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.input = nn.Linear(WIDTH, 2 * WIDTH)
        bound = math.sqrt(3 / (2 * WIDTH))
        nn.init.uniform_(self.input.weight, -bound, bound)
        nn.init.zeros_(self.input.bias)
        self.weight = nn.Parameter(torch.empty(WIDTH, 2 * WIDTH).uniform_(-bound, bound))
        self.initial = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        from_inputs = self.input(x).transpose(0, 1).contiguous()  # [time, batch, 2 width]
        weight, initial = self.weight.to(from_inputs.dtype), self.initial.to(from_inputs.dtype)
        if self.form == "by-hand":
            return Highway.apply(from_inputs, weight, initial).transpose(0, 1)
        state, states = initial.expand(BATCH, WIDTH), []
        for part in from_inputs.unbind(0):
            u, c = torch.addmm(part, state, weight).chunk(2, dim=1)
            state = torch.lerp(state, torch.tanh(c), torch.sigmoid(u - 1))
            states.append(state)
        return torch.stack(states, dim=1)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


CONTEXTS = {
    "attention": (Attention, ("relative", "relative-sdpa", "flash")),
    "conv": (Convolution, ("product", "cudnn")),
    "rnn": (Recurrence, ("by-hand", "loop")),
}


class CharLm(nn.Module):
    """Pre-norm, running-mean residuals; gives the mean over all positions of the losses that count."""

    def __init__(self, context, form, depth):
        super().__init__()
        layer = CONTEXTS[context][0]
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.uniform_(self.table.weight, -math.sqrt(3), math.sqrt(3))
        self.layers = nn.ModuleList(m for _ in range(depth) for m in (layer(form), FeedForward()))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * depth + 1))
        self.first = nn.Parameter(torch.zeros(WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, targets):
        x = self.table(tokens)
        for l, layer in enumerate(self.layers, start=1):
            branch = layer(self.norms[l - 1](x))
            x = x * math.sqrt(l / (l + 1)) + branch * math.sqrt(1 / (l + 1))
        x = self.norms[-1](x)
        first = self.first.to(x.dtype).expand(BATCH, 1, WIDTH)
        scores = self.head(torch.cat((first, x[:, :-1]), dim=1))
        loss = F.cross_entropy(
            scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return loss / (BATCH * TIME)

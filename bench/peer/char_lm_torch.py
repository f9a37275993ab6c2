#!/usr/bin/env python3
"""What a user would train our character models with instead: PyTorch, in every way that could be fast.

`sigma1 bench cuda --peer` runs this beside our own measurement. A whole step is timed: a new batch
copied to the GPU, forward, backward, fused Adam.

  python3 bench/peer/char_lm_torch.py                        a table for each context
  python3 bench/peer/char_lm_torch.py --context rnn --json rnn.json
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # what is beside this file is imported from the source tree
from measuring import Case, measure_all, new_row, tell  # noqa: E402
from training import (  # noqa: E402
    AUTOTUNE,
    AUTOTUNE_GRAPH,
    COMPILE,
    COMPILE_GRAPH,
    EAGER,
    GRAPH,
    REDUCE_OVERHEAD,
    Training,
    language_noise,
)

CONTEXTS = ("attention", "conv", "rnn")
SECONDS = {"attention": 110, "conv": 70, "rnn": 30}  # below four minutes together, with the starts
CASE_SECONDS = 75  # a compilation that takes longer is given up
LOSSES = (4, 10)  # of noise: about ln 5008 · 224 / 256 = 7.45


def plan(context):
    """(form, precision, modes), what is likely to be best early: time may run out.

    Precisions: fp32; tf32 (products in TF32); fp16 (autocast and a gradient scaler); bf16 (autocast);
    bf16-all (weights and states in bf16 too: the least work there is, as our own fp16 stores them in
    16 bits; fp16 itself would underflow in Adam's states)."""
    plain, compiled = (EAGER, GRAPH), (COMPILE, COMPILE_GRAPH)
    if context == "rnn":  # compiling a loop of 256 steps takes minutes; its cells are compiled
        cases = [("by-hand", p, plain) for p in ("bf16-all", "tf32", "fp16", "bf16", "fp32")]
        return cases + [("loop", "bf16-all", (GRAPH,)), ("loop", "fp32", (EAGER,))]
    exact = "relative" if context == "attention" else "product"
    other = "relative-sdpa" if context == "attention" else "cudnn"
    cases = [(exact, p, compiled) for p in ("fp16", "bf16-all", "tf32")]
    if context == "attention":
        cases += [("flash", "bf16-all", compiled)]
    cases += [(other, "bf16-all", compiled), (exact, "bf16", compiled)]
    cases += [(exact, p, plain) for p in ("fp32", "tf32", "fp16", "bf16", "bf16-all")]
    cases += [(other, p, plain) for p in ("tf32", "bf16-all")]
    return cases + [
        (exact, "bf16-all", (REDUCE_OVERHEAD,)),
        (exact, "bf16-all", (AUTOTUNE, AUTOTUNE_GRAPH)),
    ]


def measure_context(context, depth, budget):
    import torch

    import char_lm_models as models

    def case(form, precision, modes):
        def training():
            torch.manual_seed(0)
            model = models.CharLm(context, form, depth)
            sizes = (models.BATCH, models.TIME, models.VOCABULARY, models.MASKED)
            return Training(model, precision, *language_noise(*sizes))

        row = lambda mode: new_row(context, form, precision, mode, form != "flash")  # noqa: E731
        return Case(row, training, modes, CASE_SECONDS, LOSSES)

    if context == "rnn":
        models.Cells.compile()
    return measure_all([case(*each) for each in plan(context)], budget)


def measure_apart(context, arguments):
    """In a process of its own, so that a GPU error in one context leaves the others alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        command = [sys.executable, os.path.abspath(__file__), "--context", context, "--json", path]
        if arguments.depth:
            command += ["--depth", str(arguments.depth)]
        command += ["--budget", str(arguments.budget or SECONDS[context])]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        try:
            with open(path) as file:
                return json.load(file)
        except (OSError, ValueError):
            return [new_row(context, "-", "-", "-") | {"failed": "the process crashed"}]


def main():
    parser = argparse.ArgumentParser(description="Times PyTorch on the character models")
    parser.add_argument("--context", choices=CONTEXTS, action="append", help="default: all three")
    parser.add_argument("--depth", type=int, default=0, help="layers; default 8, recurrence 2")
    parser.add_argument("--budget", type=float, default=0, help="seconds for each context")
    parser.add_argument("--json", help="write rows to a file, or with - to standard output")
    arguments = parser.parse_args()
    contexts = arguments.context or list(CONTEXTS)

    def rows():
        if len(contexts) > 1:
            return [row for context in contexts for row in measure_apart(context, arguments)]
        depth = arguments.depth or (2 if contexts[0] == "rnn" else 8)
        return measure_context(contexts[0], depth, arguments.budget or SECONDS[contexts[0]])

    return tell("char_lm_torch", arguments.json, rows)


if __name__ == "__main__":
    sys.exit(main())

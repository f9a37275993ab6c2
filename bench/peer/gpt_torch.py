#!/usr/bin/env python3
"""What a user would train GPT-2 with instead: PyTorch, compiled, in the precisions that people use.

`sigma1 bench cuda --set model=gpt --peer` runs this beside our own measurement. A whole step is
timed: a new batch copied to the GPU, forward, backward, optimiser. What does not fit is tried again
with blocks that are computed a second time for backward (variant `recompute`).

  python3 bench/peer/gpt_torch.py --batch 32       GPT-2 124M
  python3 bench/peer/gpt_torch.py --batch 16 --depth 48 --width 1600 --heads 25       1.5B
"""
import argparse
import sys

sys.dont_write_bytecode = True  # what is beside this file is imported from the source tree
from measuring import Case, add_common_options, measure_all, new_row, seconds_of, tell  # noqa: E402
from training import AUTOTUNE, COMPILE, EAGER, Training, language_noise  # noqa: E402

LOSSES = (5, 13)  # of noise: ln 50,304 = 10.8

# What is likely to be best early: time may run out.
PLAN = [("bf16", (COMPILE,)), ("fp16", (COMPILE,)), ("bf16-all", (COMPILE,)), ("bf16", (EAGER,)),
        ("tf32", (COMPILE,)), ("bf16", (AUTOTUNE,))]


def measure_model(a):
    import torch

    from gpt_models import Gpt

    def case(precision, modes, recompute):
        def training():
            torch.manual_seed(0)
            model = Gpt(a.depth, a.width, a.heads, a.time, a.vocabulary, recompute)
            noise = language_noise(a.batch, a.time, a.vocabulary, device=a.device)
            return Training(model, precision, *noise, a.optimiser, a.device)

        form = f"{a.depth}x{a.width}" + (" recompute" if recompute else "")
        row = lambda mode: new_row("gpt", form, precision, mode)  # noqa: E731
        smaller = None if recompute else case(precision, modes, True)
        return Case(row, training, modes, seconds_of(a)[1], LOSSES, smaller)

    cases = [case(*each, a.recompute == "blocks") for each in PLAN]
    return measure_all(cases, seconds_of(a)[0], a.device)


def main():
    parser = argparse.ArgumentParser(description="Times PyTorch on GPT-2")
    sizes = {"depth": 12, "width": 768, "heads": 12, "batch": 32, "time": 1024, "vocabulary": 50304}
    add_common_options(parser, sizes, optimiser="adamw")
    parser.add_argument("--recompute", choices=("where-needed", "blocks"), default="where-needed")
    arguments = parser.parse_args()
    return tell("gpt_torch", arguments.json, lambda: measure_model(arguments), arguments.device)


if __name__ == "__main__":
    sys.exit(main())

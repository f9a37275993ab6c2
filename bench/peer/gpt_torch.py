#!/usr/bin/env python3
"""What a user would train GPT-2 with instead: PyTorch, compiled, in the precisions that people use.

`sigma1 bench cuda --set model=gpt --peer` runs this beside our own measurement. A whole step is
timed: a new batch copied to the GPU, forward, backward, fused AdamW.

  python3 bench/peer/gpt_torch.py --batch 32       GPT-2 124M
"""
import argparse
import sys

sys.dont_write_bytecode = True  # what is beside this file is imported from the source tree
from measuring import measure_all, new_row, tell  # noqa: E402
from training import AUTOTUNE, COMPILE, EAGER, Training  # noqa: E402

CASE_SECONDS = 150
LOSSES = (5, 13)  # of noise: ln 50,304 = 10.8

# What is likely to be best early: time may run out.
PLAN = [("bf16", (COMPILE,)), ("fp16", (COMPILE,)), ("bf16-all", (COMPILE,)), ("bf16", (EAGER,)),
        ("tf32", (COMPILE,)), ("bf16", (AUTOTUNE,))]


def measure_model(a):
    import torch

    from gpt_models import Gpt

    def case(precision, modes):
        def training():
            torch.manual_seed(0)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            model = Gpt(a.depth, a.width, a.heads, a.time, a.vocabulary)
            return Training(model, precision, a.batch, a.time, a.vocabulary, optimiser="AdamW")

        row = lambda mode: new_row("gpt", f"{a.depth}x{a.width}", precision, mode)  # noqa: E731
        return row, training, modes, CASE_SECONDS, LOSSES

    return measure_all([case(*each) for each in PLAN], a.budget)


def main():
    parser = argparse.ArgumentParser(description="Times PyTorch on GPT-2")
    defaults = {"depth": 12, "width": 768, "heads": 12, "batch": 32, "time": 1024, "vocabulary": 50304}
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--budget", type=float, default=180, help="seconds")
    parser.add_argument("--json", help="write rows to a file, or with - to standard output")
    arguments = parser.parse_args()
    return tell("gpt_torch", arguments.json, lambda: measure_model(arguments))


if __name__ == "__main__":
    sys.exit(main())

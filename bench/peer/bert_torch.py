#!/usr/bin/env python3
"""What a user would pretrain BERT with instead: PyTorch, compiled, in the precisions that people use.

`sigma1 bench cuda --set model=bert --peer` runs this beside our own measurement. A whole step is timed:
a new batch copied to the GPU, forward, backward, optimiser. Sequences are full; variants are

  mask      attention hides padding, as real texts need it and as ours always does
  no-mask   it does not: a lighter model, right only where no sequence is short

  python3 bench/peer/bert_torch.py                                    BERT LARGE, 256 sequences of 128
"""
import argparse
import sys

sys.dont_write_bytecode = True  # what is beside this file is imported from the source tree
from measuring import Case, add_common_options, measure_all, new_row, seconds_of, tell  # noqa: E402
from training import (  # noqa: E402
    AUTOTUNE,
    COMPILE,
    COMPILE_GRAPH,
    EAGER,
    REDUCE_OVERHEAD,
    Training,
)

LOSSES = (5, 14)  # of noise: ln 30,528 + ln 2 = 11.0

# What is likely to be best early: time may run out.
PLAN = [
    ("mask", "bf16", (COMPILE, COMPILE_GRAPH)),
    ("no-mask", "bf16", (COMPILE, COMPILE_GRAPH)),
    ("mask", "fp16", (COMPILE, COMPILE_GRAPH)),
    ("no-mask", "fp16", (COMPILE,)),
    ("mask", "bf16-all", (COMPILE, COMPILE_GRAPH)),
    ("no-mask", "bf16-all", (COMPILE,)),
    ("mask", "bf16", (EAGER,)),
    ("mask", "bf16", (REDUCE_OVERHEAD,)),
    ("mask", "bf16", (AUTOTUNE,)),
    ("mask", "tf32", (COMPILE,)),
]


def noise(a):
    """As sigma1/train/random_inputs.cpp has it: nothing is padded, every prediction counts."""
    import torch

    count = 4
    masked = (count, a.batch, a.predictions)
    return [
        torch.randint(a.vocabulary, (count, a.batch, a.time)),
        torch.randint(2, (count, a.batch, a.time)),
        torch.ones((count, a.batch, a.time), dtype=torch.bool),
        torch.randint(a.time, masked),
        torch.randint(a.vocabulary, masked),
        torch.randint(2, (count, a.batch)),
    ]


def measure_model(a):
    import torch

    from bert_models import Bert

    def case(form, precision, modes):
        def training():
            torch.manual_seed(0)
            model = Bert(a.depth, a.width, a.heads, a.ffn, a.vocabulary, a.positions, form == "mask")
            return Training(model, precision, noise(a), lambda *batch: batch, a.optimiser, a.device)

        row = lambda mode: new_row("bert", form, precision, mode, form == "mask")  # noqa: E731
        return Case(row, training, modes, seconds_of(a)[1], LOSSES)

    return measure_all([case(*each) for each in PLAN], seconds_of(a)[0], a.device)


def main():
    parser = argparse.ArgumentParser(description="Times PyTorch on BERT's pretraining")
    sizes = {"depth": 24, "width": 1024, "heads": 16, "ffn": 4096, "batch": 256, "time": 128}
    sizes |= {"vocabulary": 30528, "positions": 512, "predictions": 20}
    add_common_options(parser, sizes, optimiser="lamb")
    arguments = parser.parse_args()
    return tell("bert_torch", arguments.json, lambda: measure_model(arguments), arguments.device)


if __name__ == "__main__":
    sys.exit(main())

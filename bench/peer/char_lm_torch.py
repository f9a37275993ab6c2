#!/usr/bin/env python3
"""What a user would train our character models with instead: PyTorch, in every way that could be fast.

`sigma1 bench cuda --peer` runs this beside our own measurement. A whole step is timed: a new batch
copied to the GPU, forward, backward, fused Adam. Each combination of form, precision and mode is tried
by itself, and one that fails or takes too long is recorded as such. The best counts.

  python3 bench/peer/char_lm_torch.py                        a table for each context
  python3 bench/peer/char_lm_torch.py --context rnn --json rnn.json
"""
import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # what is beside this file is imported from the source tree
from char_lm_training import (  # noqa: E402
    AUTOTUNE,
    AUTOTUNE_GRAPH,
    COMPILE,
    COMPILE_GRAPH,
    COMPILE_MODES,
    EAGER,
    GRAPH,
    REDUCE_OVERHEAD,
    Training,
)

CONTEXTS = ("attention", "conv", "rnn")
SECONDS = {"attention": 110, "conv": 70, "rnn": 30}  # below four minutes together, with the starts
CASE_SECONDS = 75  # a compilation that takes longer is given up


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


class TooSlow(Exception):
    pass


@contextlib.contextmanager
def time_limit(seconds):
    seconds = max(seconds, 1)

    def give_up(*_):
        raise TooSlow(f"not done after {seconds:.0f} s")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def new_row(context, form, precision, mode):
    row = {"context": context, "variant": form, "precision": precision, "mode": mode}
    return row | {"same_model": form != "flash"}


def measure(context, form, precision, modes, depth, seconds):
    """Rows of the modes, in which one training run serves all: eager before its own graph."""
    rows, training = [], None
    for mode in modes:
        row = new_row(context, form, precision, mode)
        started = time.perf_counter()
        try:
            with time_limit(seconds):
                # Eager and compiled steps cannot share: a compiled model stays compiled.
                if training is None and rows and mode in (COMPILE_GRAPH, AUTOTUNE_GRAPH):
                    raise RuntimeError("not tried: what it would capture failed")
                if training is None or mode in (COMPILE, REDUCE_OVERHEAD, AUTOTUNE):
                    training = Training(context, form, precision, depth)
                    if mode in COMPILE_MODES:
                        training.compile(mode)
                if mode in (GRAPH, COMPILE_GRAPH, AUTOTUNE_GRAPH):
                    training.capture()
                ms = training.milliseconds()
            tokens = training.tokens.numel()
            loss = float(training.loss)  # of noise: about ln 5008 · 224 / 256 = 7.45
            if not 4 < loss < 10:
                raise ValueError(f"a step that does not train: its loss is {loss}")
            row.update(ms=round(ms, 4), tokens_per_s=round(tokens / ms * 1e3), loss=round(loss, 4))
        except Exception as error:  # whatever a mode does must not stop the others
            training = None
            lines = (str(error) or type(error).__name__).strip().splitlines()
            row["failed"] = lines[0][:200]
        row["seconds"] = round(time.perf_counter() - started, 1)
        seconds -= row["seconds"]
        rows.append(row)
        show(row)
    return rows


def show(row):
    name = "  ".join((f"{row['variant']:<14}", f"{row['precision']:<9}", f"{row['mode']:<18}"))
    result = f"{row['ms']:8.3f} ms" if "ms" in row else "failed: " + row["failed"]
    print(f"{row['context']:<10}  {name}  {result}", file=sys.stderr, flush=True)


def measure_context(context, depth, budget):
    import torch

    import char_lm_models

    # One stream for all: a graph cannot be captured on the default one, nor wait for it.
    torch.cuda.set_stream(torch.cuda.Stream())
    if context == "rnn":
        char_lm_models.Cells.compile()
    rows, end = [], time.perf_counter() + budget
    for form, precision, modes in plan(context):
        left = end - time.perf_counter()
        if left < 1:
            reason = f"not tried: the {budget:.0f} s for {context} were over"
            rows += [new_row(context, form, precision, mode) | {"failed": reason} for mode in modes]
            continue
        rows += measure(context, form, precision, modes, depth, min(left, CASE_SECONDS))
    return rows


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


def mark_best(rows):
    """Of each context, the row with the fewest milliseconds."""
    for row in rows:
        if "ms" not in row:
            continue
        rivals = [r["ms"] for r in rows if "ms" in r and r["context"] == row["context"]]
        row["best"] = row["ms"] == min(rivals)


def print_tables(rows):
    for context in dict.fromkeys(row["context"] for row in rows):
        print(f"\n{context}\n{'variant':<14}  {'precision':<9}  {'mode':<18}  {'ms':>9}  {'tokens/s':>12}")
        own = [row for row in rows if row["context"] == context]
        for row in sorted(own, key=lambda r: r.get("ms", float("inf"))):
            result = f"failed: {row['failed']}" if "failed" in row else (
                f"{row['ms']:9.3f}  {row['tokens_per_s']:12,}{'  best' if row['best'] else ''}"
            )
            print(f"{row['variant']:<14}  {row['precision']:<9}  {row['mode']:<18}  {result}")


def missing():
    try:
        import torch
    except ImportError as error:
        return f"PyTorch is missing: {error}"
    return None if torch.cuda.is_available() else "PyTorch finds no GPU"


def open_output(path):
    """Where JSON goes. With - standard output is kept for it alone: compilers write there too."""
    if path != "-":
        return open(path, "w") if path else open(os.devnull, "w")
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def main():
    parser = argparse.ArgumentParser(description="Times PyTorch on the character models")
    parser.add_argument("--context", choices=CONTEXTS, action="append", help="default: all three")
    parser.add_argument("--depth", type=int, default=0, help="layers; default 8, recurrence 2")
    parser.add_argument("--budget", type=float, default=0, help="seconds for each context")
    parser.add_argument("--json", help="write rows to a file, or with - to standard output")
    arguments = parser.parse_args()
    problem = missing()
    if problem and arguments.json != "-":
        print(f"char_lm_torch: {problem}", file=sys.stderr)
        return 2
    output = open_output(arguments.json)
    if problem:
        print(json.dumps({"error": problem}), file=output, flush=True)
        return 2
    contexts = arguments.context or list(CONTEXTS)
    rows = []
    for context in contexts:
        if len(contexts) > 1:
            rows += measure_apart(context, arguments)
        else:
            depth = arguments.depth or (2 if context == "rnn" else 8)
            rows += measure_context(context, depth, arguments.budget or SECONDS[context])
    mark_best(rows)
    if arguments.json != "-":
        print_tables(rows)
    with output:
        json.dump(rows, output, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())

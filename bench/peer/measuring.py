"""How PyTorch's training steps are timed and told: every combination of form, precision and mode by
itself, one that fails or takes too long recorded as such. The best counts."""
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable

from training import (
    AUTOTUNE,
    AUTOTUNE_GRAPH,
    COMPILE,
    COMPILE_GRAPH,
    COMPILE_MODES,
    GRAPH,
    OPTIMISERS,
    REDUCE_OVERHEAD,
)


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


def new_row(context, form, precision, mode, same_model=True):
    row = {"context": context, "variant": form, "precision": precision, "mode": mode}
    return row | {"same_model": same_model}


@dataclass
class Case:
    """A way to train and the modes to try it in. `losses` are those that noise may have; `smaller` is
    what is tried in its place where memory does not suffice."""

    row: Callable[[str], dict]
    training: Callable[[], Any]
    modes: tuple
    seconds: float
    losses: tuple
    smaller: Any = None


def is_out_of_memory(error):
    return type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error)


def measure(case, seconds):
    """Rows of the modes, in which one training run serves all: eager before its own graph."""
    rows, training = [], None
    for mode in case.modes:
        row = case.row(mode)
        started = time.perf_counter()
        try:
            with time_limit(seconds):
                # Eager and compiled steps cannot share: a compiled model stays compiled.
                if training is None and rows and mode in (COMPILE_GRAPH, AUTOTUNE_GRAPH):
                    raise RuntimeError("not tried: what it would capture failed")
                if training is None or mode in (COMPILE, REDUCE_OVERHEAD, AUTOTUNE):
                    training = None  # its memory is needed
                    training = case.training()
                    if mode in COMPILE_MODES:
                        training.compile(mode)
                if mode in (GRAPH, COMPILE_GRAPH, AUTOTUNE_GRAPH):
                    training.capture()
                ms = training.milliseconds()
            loss = float(training.loss)
            if not case.losses[0] < loss < case.losses[1]:
                raise ValueError(f"a step that does not train: its loss is {loss}")
            row.update(ms=round(ms, 4), tokens_per_s=round(training.tokens / ms * 1e3), loss=round(loss, 4))
            row.update(gigabytes=round(training.gigabytes(), 3))
        except Exception as error:  # whatever a mode does must not stop the others
            training = None
            lines = (str(error) or type(error).__name__).strip().splitlines()
            row["failed"] = lines[0][:200]
            row["out_of_memory"] = is_out_of_memory(error)
        row["seconds"] = round(time.perf_counter() - started, 1)
        seconds -= row["seconds"]
        rows.append(row)
        show(row)
    return rows


def measure_all(cases, budget, device="cuda"):
    """What is likely best first."""
    import torch

    if device != "cpu":  # one stream for all: a graph cannot be captured on the default, nor wait for it
        torch.cuda.set_stream(torch.cuda.Stream())
    rows, end, cases = [], time.perf_counter() + budget, list(cases)
    while cases:
        case = cases.pop(0)
        left = end - time.perf_counter()
        if left < 1:
            reason = f"not tried: the {budget:.0f} s were over"
            rows += [case.row(mode) | {"failed": reason} for mode in case.modes]
            continue
        found = measure(case, min(left, case.seconds))
        rows += found
        if case.smaller and any(row.get("out_of_memory") for row in found):
            cases.insert(0, case.smaller)
    return rows


def show(row):
    name = "  ".join((f"{row['variant']:<14}", f"{row['precision']:<9}", f"{row['mode']:<18}"))
    failed = "failed: " + row.get("failed", "")
    result = f"{row['ms']:8.3f} ms  {row['gigabytes']:7.2f} GB" if "ms" in row else failed
    print(f"{row['context']:<10}  {name}  {result}", file=sys.stderr, flush=True)


def mark_best(rows):
    """Of each context, the row with the fewest milliseconds."""
    for row in rows:
        if "ms" not in row:
            continue
        rivals = [r["ms"] for r in rows if "ms" in r and r["context"] == row["context"]]
        row["best"] = row["ms"] == min(rivals)


def print_tables(rows):
    for context in dict.fromkeys(row["context"] for row in rows):
        print(f"\n{context}\n{'variant':<14}  {'precision':<9}  {'mode':<18}  {'ms':>9}  {'tokens/s':>12}      GB")
        own = [row for row in rows if row["context"] == context]
        for row in sorted(own, key=lambda r: r.get("ms", float("inf"))):
            result = f"failed: {row['failed']}" if "failed" in row else (
                f"{row['ms']:9.3f}  {row['tokens_per_s']:12,}  {row['gigabytes']:6.2f}"
                f"{'  best' if row['best'] else ''}"
            )
            print(f"{row['variant']:<14}  {row['precision']:<9}  {row['mode']:<18}  {result}")


def add_common_options(parser, sizes, optimiser):
    """Of a language model's peer: sizes as ours are called, each with its default."""
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--optimiser", choices=OPTIMISERS, default=optimiser)
    parser.add_argument("--device", default="cuda", help="cuda; cpu, to try it out")
    parser.add_argument("--budget", type=float, default=0, help="seconds; default 15 a layer, 120 to 450")
    parser.add_argument("--json", help="write rows to a file, or with - to standard output")


def seconds_of(arguments):
    """For all that is tried, and for one case: compiling takes longer the more layers there are."""
    budget = arguments.budget or min(450, max(120, 15 * arguments.depth))
    return budget, budget * 5 / 6


def missing(device):
    try:
        import torch
    except ImportError as error:
        return f"PyTorch is missing: {error}"
    return None if device == "cpu" or torch.cuda.is_available() else "PyTorch finds no GPU"


def open_output(path):
    """Where JSON goes. With - standard output is kept for it alone: compilers write there too."""
    if path != "-":
        return open(path, "w") if path else open(os.devnull, "w")
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def tell(name, path, measure_rows, device="cuda"):
    """Rows as JSON to `path` (- is standard output) and as a table; gives the exit code."""
    problem = missing(device)
    if problem and path != "-":
        print(f"{name}: {problem}", file=sys.stderr)
        return 2
    output = open_output(path)
    if problem:
        print(json.dumps({"error": problem}), file=output, flush=True)
        return 2
    rows = measure_rows()
    mark_best(rows)
    if path != "-":
        print_tables(rows)
    with output:
        json.dump(rows, output, indent=1)
    return 0

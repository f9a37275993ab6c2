"""A training step in PyTorch in its modes and precisions: what measuring.py puts a clock to."""
import statistics
import time

EAGER, GRAPH = "eager", "graph"
COMPILE, COMPILE_GRAPH = "compile", "compile+graph"
REDUCE_OVERHEAD = "reduce-overhead"
AUTOTUNE, AUTOTUNE_GRAPH = "max-autotune", "max-autotune+graph"
IGNORED = -100  # the target of a position that does not count
COMPILE_MODES = {
    COMPILE: None,
    COMPILE_GRAPH: None,
    REDUCE_OVERHEAD: "reduce-overhead",
    AUTOTUNE: "max-autotune-no-cudagraphs",
    AUTOTUNE_GRAPH: "max-autotune-no-cudagraphs",
}


class Training:
    """A model in training on noise, one step at a time. `model(tokens, targets)` gives the loss; the
    first `masked` targets of a sequence do not count."""

    def __init__(self, model, precision, batch, time, vocabulary, masked=0, optimiser="Adam"):
        import torch

        self.torch, self.precision = torch, precision
        torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
        torch.backends.cudnn.benchmark = True
        self.model = model.cuda()
        if precision == "bf16-all":
            self.model.bfloat16()
        self.forward = self.model
        self.optimiser = getattr(torch.optim, optimiser)(
            self.model.parameters(),
            lr=torch.tensor(2.0**-14, device="cuda"),  # a tensor, as a schedule needs it in a graph
            eps=1e-7,
            fused=True,
            capturable=True,
        )
        self.scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
        count = max(4, min(256, 2**24 // (batch * time)))
        self.batches = torch.randint(vocabulary, (count, batch, time)).pin_memory()
        self.tokens = torch.zeros((batch, time), dtype=torch.int64, device="cuda")
        self.counts = torch.arange(time, device="cuda") >= masked
        self.graph, self.loss, self.done = None, None, 0

    def compile(self, mode):
        self.torch._dynamo.reset()
        self.forward = self.torch.compile(self.model, mode=COMPILE_MODES[mode], dynamic=False)

    def compute(self):
        torch = self.torch
        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", kinds.get(self.precision), enabled=self.precision in kinds):
            targets = torch.where(self.counts, self.tokens, IGNORED)
            loss = self.forward(self.tokens, targets)
        self.loss = loss.detach()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()

    def capture(self):
        """The whole step as one CUDA graph, optimiser included."""
        for _ in range(3):
            self.compute()
        self.optimiser.zero_grad(set_to_none=True)
        self.graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(self.graph, stream=self.torch.cuda.current_stream()):
            self.compute()

    def step(self):
        self.tokens.copy_(self.batches[self.done % len(self.batches)], non_blocking=True)
        if self.graph is None:
            self.torch.compiler.cudagraph_mark_step_begin()  # for reduce-overhead's own graphs
            self.compute()
        else:
            self.graph.replay()
        self.done += 1

    def milliseconds(self):
        """Median over bursts, as our own are measured; slow modes get fewer and shorter ones."""

        def burst(steps):
            self.torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                self.step()
            self.torch.cuda.synchronize()
            return 1e3 * (time.perf_counter() - start) / steps

        burst(5)
        about = burst(5)
        steps = max(5, min(50, int(100 / about)))
        bursts = max(5, min(20, int(800 / (about * steps))))
        return statistics.median(burst(steps) for _ in range(bursts))

    def gigabytes(self):
        return self.torch.cuda.max_memory_allocated() * 1e-9

"""A training step in PyTorch in its modes and precisions: what measuring.py puts a clock to."""
import gc
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
OPTIMISERS = ("adam", "adamw", "lamb")  # as `--set optimiser=` calls them


def language_noise(batch, time, vocabulary, masked=0, device="cuda"):
    """Batches of a model that predicts tokens, and its arguments of what lies on the device; the first
    `masked` targets of a sequence do not count."""
    import torch

    count = max(4, min(256, 2**24 // (batch * time)))
    counts = torch.arange(time, device=device) >= masked

    def arguments(tokens):
        return tokens, torch.where(counts, tokens, IGNORED)

    return [torch.randint(vocabulary, (count, batch, time))], arguments


def make_optimiser(name, parameters, device):
    """Fused where PyTorch has it so."""
    import torch

    from lamb import Lamb

    rate = torch.tensor(2.0**-14, device=device)  # a tensor, as a schedule needs it in a graph
    if name == "lamb":
        return Lamb(parameters, rate)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return kind(parameters, lr=rate, eps=1e-7, fused=True, capturable=device.type == "cuda")


class Training:
    """A model in training on noise, one step at a time. `batches` are tensors of the host, one for each
    thing that a batch is made of, whose first axis counts batches; `model(*arguments(*batch))` gives the
    loss."""

    def __init__(self, model, precision, batches, arguments, optimiser="adam", device="cuda"):
        import torch

        self.torch, self.precision, self.device = torch, precision, torch.device(device)
        self.free_memory()
        torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
        torch.backends.cudnn.benchmark = True
        self.model = model.to(self.device)
        if precision == "bf16-all":
            self.model.bfloat16()
        self.forward = self.model
        self.optimiser_name = optimiser
        self.optimiser = make_optimiser(optimiser, self.model.parameters(), self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")
        self.batches = [each.pin_memory() if self.on_gpu else each for each in batches]
        self.batch = [torch.zeros_like(each[0], device=self.device) for each in batches]
        self.tokens = self.batch[0].numel()
        self.arguments = arguments
        self.graph, self.loss, self.done = None, None, 0

    @property
    def on_gpu(self):
        return self.device.type == "cuda"

    def free_memory(self):
        """What an earlier training left behind, whose parts hold each other."""
        gc.collect()
        if self.on_gpu:
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats()

    def compile(self, mode):
        self.torch._dynamo.reset()
        self.forward = self.torch.compile(self.model, mode=COMPILE_MODES[mode], dynamic=False)
        if self.optimiser_name == "lamb":
            self.optimiser.compile()

    def compute(self):
        torch = self.torch
        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, kinds.get(self.precision), enabled=self.precision in kinds):
            loss = self.forward(*self.arguments(*self.batch))
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
        for there, all_here in zip(self.batch, self.batches):
            there.copy_(all_here[self.done % len(all_here)], non_blocking=True)
        if self.graph is None:
            self.torch.compiler.cudagraph_mark_step_begin()  # for reduce-overhead's own graphs
            self.compute()
        else:
            self.graph.replay()
        self.done += 1

    def synchronize(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def milliseconds(self):
        """Median over bursts, as our own are measured; slow modes get fewer and shorter ones."""

        def burst(steps):
            self.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                self.step()
            self.synchronize()
            return 1e3 * (time.perf_counter() - start) / steps

        burst(5)
        about = burst(5)
        steps = max(5, min(50, int(100 / about)))
        bursts = max(5, min(20, int(800 / (about * steps))))
        return statistics.median(burst(steps) for _ in range(bursts))

    def gigabytes(self):
        """The most that was taken since the training began; of a processor's memory nothing is known."""
        return self.torch.cuda.max_memory_allocated() * 1e-9 if self.on_gpu else 0.0

"""LAMB (You et al., 2020) as sigma1/ops/update.cpp has it, which PyTorch lacks: all parameters at once by its
list operations, and compiled where the model is, so that it is as few kernels as its fused AdamW."""
import torch


def lamb_step(parameters, gradients, means, squares, count, rate, beta1, beta2, epsilon, decay):
    count += 1
    torch._foreach_lerp_(means, gradients, 1 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
    correction1, correction2 = 1 - beta1**count, 1 - beta2**count
    sizes = torch._foreach_div(squares, correction2)
    torch._foreach_sqrt_(sizes)
    torch._foreach_add_(sizes, epsilon)
    directions = torch._foreach_div(means, correction1)
    torch._foreach_div_(directions, sizes)
    if decay:
        torch._foreach_add_(directions, parameters, alpha=decay)
    lengths, of_directions = torch._foreach_norm(parameters), torch._foreach_norm(directions)
    ratios = [torch.where((p > 0) & (d > 0), p / d, 1.0) * -rate for p, d in zip(lengths, of_directions)]
    torch._foreach_mul_(directions, [ratio.to(each.dtype) for ratio, each in zip(ratios, directions)])
    torch._foreach_add_(parameters, directions)


class Lamb(torch.optim.Optimizer):
    def __init__(self, parameters, rate, betas=(0.9, 0.999), epsilon=1e-7, decay=0.0):
        super().__init__(parameters, {"lr": rate})
        self.options = (*betas, epsilon, decay)
        self.run = lamb_step
        everything = [p for group in self.param_groups for p in group["params"]]
        self.count = torch.zeros((), device=everything[0].device)
        self.moments = [[torch.zeros_like(p) for p in everything] for _ in range(2)]

    def compile(self):
        self.run = torch.compile(lamb_step, dynamic=False)

    @torch.no_grad()
    def step(self):
        (group,) = self.param_groups
        gradients = [p.grad for p in group["params"]]
        self.run(group["params"], gradients, *self.moments, self.count, group["lr"], *self.options)

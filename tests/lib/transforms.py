"""What torch.func makes of a function that calls an operator: the transforms that derivatives are tested under."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from transform_cases import Case, values

Tensors = tuple[Tensor, ...]


@dataclass
class Problem:
    """A call inside a function with derivatives of every order, from real tensors to a real vector.

    torch.func takes Jacobians of real tensors only; where `dtype` is complex, they hold real and imaginary parts.
    """

    case: Case
    dtype: torch.dtype
    ops: ModuleType
    at: Tensors = field(init=False)
    tangents: Tensors = field(init=False)
    cotangent: Tensor = field(init=False)
    batch: Tensors = field(init=False)
    every: tuple[int, ...] = field(init=False)  # input, for argnums

    def __post_init__(self) -> None:
        last = (2,) if self.dtype.is_complex else ()
        self.at, self.tangents = (
            tuple(values((*sizes, *last), torch.float64, seed + k) for k, sizes in enumerate(self.case.sizes))
            for seed in (0, 10)
        )
        self.cotangent = values(self.f(*self.at).shape, torch.float64, 20)
        self.batch = tuple(torch.stack(pair) for pair in zip(self.at, self.tangents, strict=True))
        self.every = tuple(range(len(self.at)))

    def f(self, *tensors: Tensor) -> Tensor:
        given = [torch.complex(x[..., 0], x[..., 1]) for x in tensors] if self.dtype.is_complex else tensors
        parts = []
        for result in self.case.results(self.ops, *given):
            weights = torch.linspace(0.5, 1.5, result.numel(), dtype=self.dtype, device=result.device)
            parts.append((result * weights.reshape(result.shape)).sin().flatten())
        y = torch.cat(parts)
        return torch.view_as_real(y).flatten() if self.dtype.is_complex else y

    def total(self, *tensors: Tensor) -> Tensor:
        return self.f(*tensors).sum()


# Each is taken at x, the problem's `at` or for those whose name has a vmap its `batch`.
TRANSFORMS: dict[str, Callable[[Problem, Tensors], Any]] = {
    "grad": lambda p, x: grad(p.total, p.every)(*x),
    "vjp": lambda p, x: vjp(p.f, *x)[1](p.cotangent),
    "jvp": lambda p, x: jvp(p.f, x, p.tangents),
    "linearize": lambda p, x: linearize(p.f, *x)[1](*p.tangents),
    "jacrev": lambda p, x: jacrev(p.f, p.every)(*x),
    "jacfwd": lambda p, x: jacfwd(p.f, p.every)(*x),
    "hessian": lambda p, x: hessian(p.total, p.every)(*x),
    "jacrev of jacrev": lambda p, x: jacrev(jacrev(p.total, p.every), p.every)(*x),
    "jacfwd of jacfwd": lambda p, x: jacfwd(jacfwd(p.total, p.every), p.every)(*x),
    "jacrev of jacfwd": lambda p, x: jacrev(jacfwd(p.total, p.every), p.every)(*x),
    "jvp of jvp": lambda p, x: jvp(lambda *y: jvp(p.f, y, p.tangents)[1], x, p.tangents),
    "jvp of vjp": lambda p, x: jvp(lambda *y: vjp(p.f, *y)[1](p.cotangent), x, p.tangents),
    "vjp of jvp": lambda p, x: vjp(lambda *y: jvp(p.f, y, p.tangents)[1], *x)[1](p.cotangent),
    "vjp of vjp": lambda p, x: vjp(lambda *y: vjp(p.f, *y)[1](p.cotangent), *x)[1](p.tangents),
    "jvp of hessian": lambda p, x: jvp(hessian(p.total, p.every), x, p.tangents),
    "vmap": lambda p, x: vmap(p.f)(*x),
    "vmap of grad": lambda p, x: vmap(grad(p.total, p.every))(*x),
    "grad of vmap": lambda p, x: grad(lambda *y: vmap(p.f)(*y).sum(), p.every)(*x),
    "vmap of jvp": lambda p, x: vmap(lambda *y: jvp(p.f, y, y))(*x),
    "jvp of vmap": lambda p, x: jvp(vmap(p.f), x, x),
    "vmap of hessian": lambda p, x: vmap(hessian(p.total, p.every))(*x),
    "hessian of vmap": lambda p, x: hessian(lambda *y: vmap(p.f)(*y).sum(), p.every)(*x),
    "functionalize": lambda p, x: functionalize(p.f)(*x),
}


def point(problem: Problem, transform: str) -> Tensors:
    return problem.batch if "vmap" in transform else problem.at

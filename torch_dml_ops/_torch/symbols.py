"""Conditions on sizes that may be symbols.

A size that depends on data (the number of rows that a mask selects, for example) cannot be compared with every number:
a condition whose truth is unknown counts as false.
"""

import torch


def is_exporting() -> bool:
    """As torch.compiler's, which torch 2.11 takes for true in all that it compiles."""
    return torch.compiler.is_exporting() and getattr(torch.compiler, "_is_exporting_flag", True)


# Dynamo takes a torch.SymBool for a bool, but not for True or False itself.


def always_true(condition: bool) -> bool:
    """Whether a condition on sizes holds, whatever they are."""
    if condition is True or condition is False:
        return condition
    # Takes as long to import as this package.
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def known_true(condition: bool) -> bool:
    """Whether a condition on sizes holds; in a program that is exported, whether it does for all of its sizes."""
    if condition is True or condition is False:
        return condition
    if is_exporting():  # a guard would limit the program's sizes, and be lost in ONNX
        return always_true(condition)
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(condition)


def is_undecided(condition: bool) -> bool:
    """Whether a condition on sizes depends on data, in a program that is being compiled or exported."""
    if condition is True or condition is False or not torch.compiler.is_compiling():
        return False
    from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true

    return guard_or_true(condition) and not guard_or_false(condition)


def quotient(size: int, divisor: int) -> int:
    """Of a size, which is not negative, rounded down."""
    if is_exporting() and isinstance(size, torch.SymInt):
        # As a term that torch does not take apart. It would put the quotients of parts side by side, and ONNX rounds a
        # negative one towards 0.
        size = torch.sym_max(size, 0)
    return size // divisor

"""How each framework does a case: a module each, with `prepare(case)`, which gives a call to measure, or None where the
framework has no way to do it.
"""

from collections.abc import Callable

Call = Callable[[], object]

"""Pictures of what the operators move; needs matplotlib and NumPy: ``pip install matplotlib``.

Each function takes the arguments of its operator, with a tensor, whose values the cells show, or just the sizes of one;
or a descriptor of :mod:`torch_dml_ops.directml`. It returns a matplotlib figure, which notebooks show and ``.savefig``
saves. :func:`explore` shows widgets in a notebook, with a picture that changes with the arguments.

>>> from torch_dml_ops import viz
>>> figure = viz.plot_slice1([4, 4], window_offsets=[0, 1], window_sizes=[4, 3], window_strides=[-2, 2])
"""

from torch_dml_ops._sentences.packages import need_packages

need_packages("torch_dml_ops.viz", "matplotlib", "numpy")

from torch_dml_ops.viz._explore import explore
from torch_dml_ops.viz.plots import plot_reverse_subsequences, plot_slice1, plot_split

__all__ = ["explore", "plot_reverse_subsequences", "plot_slice1", "plot_split"]

"""Sphinx's configuration, for `make docs`. The source folder is the repository's: pages, notebooks and results are read
where they lie, so that the links between them hold there as well."""

import re
from datetime import date
from importlib.util import find_spec
from typing import Any

import torch_dml_ops

project = "torch_dml_ops"
author = "the torch_dml_ops authors"
copyright = f"{date.today().year}, {author}"
version = release = torch_dml_ops.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
if find_spec("sphinx_copybutton"):  # a convenience, without which the pages are the same
    extensions.append("sphinx_copybutton")
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # is not copied, nor is what the lines print
copybutton_prompt_is_regexp = True
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "notebooks/*.ipynb",
    "benchmarks/results/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "dist"]  # folders that need not be searched

myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are shown with the outputs that they are kept with
suppress_warnings = ["misc.highlighting_failure"]  # of notebooks' cells that run a command

autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80
napoleon_use_rtype = False
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style")]

# A link to something of this package that is not there is an error. Other packages have documents elsewhere, which a
# build does not fetch.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(torch|numpy|matplotlib|collections|onnx|os|types)\..*"),
    ("py:class", r"torch_dml_ops\.directml\.[\w.]+\.[DE]"),  # type variables
    ("py:class", r"torch_dml_ops\._indexing\.(index\.Indexer|negative_steps\.(NegativeSteps|T))"),  # no public names
    ("py:.*", r"\w+"),  # of types without their module: Tensor, Sequence, ValueError
]

html_theme = "furo"
html_title = f"torch_dml_ops {release}"
html_static_path = ["static"]
html_extra_path = ["extra"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_copy_source = False
pygments_dark_style = "github-dark"


def _without_the_line_that_ends_a_doctest(app: Any, docname: str, source: list[str]) -> None:
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def _with_names_of_members(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """TensorFlags.NONE, not <TensorFlags.NONE: 0>, which could not be parsed."""
    return signature and re.sub(r"<(\w+\.\w+): \w+>", r"\1", signature), returned


def setup(app: Any) -> None:
    app.connect("source-read", _without_the_line_that_ends_a_doctest)
    app.connect("autodoc-process-signature", _with_names_of_members)

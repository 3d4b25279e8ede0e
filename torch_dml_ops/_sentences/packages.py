"""One sentence where a package is missing that only a part of this one needs."""

from importlib.util import find_spec


def need_packages(what: str, *packages: str, options: str = "") -> None:
    """Raises ImportError unless there are all these packages, with the command of pip that installs them."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise ImportError(f"{what} needs {' and '.join(missing)}: pip install {options}{' '.join(missing)}")

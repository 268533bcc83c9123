"""Begin the audit of a process as its Python starts; the folder of this file is in ``PYTHONPATH``.

It only prepares an import hook, so that a process without torch is not slowed. Another ``sitecustomize`` that this one
hides runs as well.
"""

import contextlib
import os
import sys


def _run_hidden() -> None:
    """Run the ``sitecustomize`` that the environment has of its own."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would slow every process
    elsewhere = [path for path in sys.path if os.path.abspath(path or ".") != here]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if os.environ.get("GRADGATE_AUDIT_FOLDER"):
    with contextlib.suppress(Exception):  # an environment without gradgate runs its script unobserved
        from gradgate.auditing.process import observe_this_process

        observe_this_process()
_run_hidden()

"""Commands that train nothing answer at once: they import none of the heavy libraries."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.study_folder import write_study

HEAVY = {
    "torch", "transformers", "numba", "pandas", "scipy", "matplotlib", "sklearn", "datasets", "accelerate", "pyarrow",
}  # fmt: skip
# Each command with --help.
EVERY_HELP = """
import typer
from gradgate.cli import app

def show(command, path):
    for name, inner in getattr(command, "commands", {}).items():
        show(inner, (*path, name))
    try:
        root.main([*path, "--help"], standalone_mode=False)
    except SystemExit:
        pass

root = typer.main.get_command(app)
show(root, ())
"""


# Commands one after another; each would end the process.
COMMANDS = """
import sys
from gradgate.cli import main

lines = {"--version": 0, "methods": 0, "tasks": 0, "papers": 0, "train -m gradul": 2}
for words, code in lines.items():
    sys.argv = ["gradgate", *words.split()]
    try:
        main()
    except SystemExit as end:
        assert (end.code or 0) == code, words
"""


FUNCTIONS = """
import gradgate as gg
gg.method("fun:every=50"); dir(gg); gg.train; gg.compare; gg.recommend; gg.Study("x")
"""


def imported_by(*arguments: str | Path) -> tuple[int, set[str], str]:
    """Exit code, the packages that python imported, and what it printed."""
    done = subprocess.run([sys.executable, "-X", "importtime", *map(str, arguments)], capture_output=True, text=True)
    modules = re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)
    said = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("import time:"))
    return done.returncode, {name.partition(".")[0] for name in modules}, done.stdout + said


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", EVERY_HELP + COMMANDS),
        ("-c", FUNCTIONS),
    ],
    ids=["every --help and commands that list", "the functions"],
)
def test_a_light_command_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    code, packages, output = imported_by(*arguments)
    assert code == 0, output
    assert not packages & HEAVY


def test_the_status_of_a_study_imports_nothing_heavy(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", scores={"full": [0.7, 0.8]})
    (study / "runs/method-0").rename(study / "runs/full")
    code, packages, output = imported_by("-m", "gradgate", "study", "status", study)
    assert code == 0, output
    assert "2 finished" in output
    assert not packages & HEAVY


def test_the_package_alone_reads_no_settings_and_no_files() -> None:
    code, packages, output = imported_by("-c", "import gradgate")
    assert code == 0, output
    assert not packages & (HEAVY | {"pydantic", "yaml", "typer", "rich", "numpy"})


def test_the_package_has_what_it_lists() -> None:
    import gradgate

    assert {name for name in dir(gradgate) if not name.startswith("__")} == set(gradgate.__all__)
    assert all(getattr(gradgate, name) is not None for name in gradgate.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Tunner'"):
        _ = gradgate.Tunner  # type: ignore[attr-defined]


MISTAKES = {
    "an unknown method": ("train -m gradul", 2, "There is no method 'gradul'. Did you mean 'gradual'"),
    "an option out of range": ("train --method freeze:layers=-1", 2, "layers=-1"),
    "an unknown option": ("compare -m full -m fun:ever=5 --out OUT", 2, "ever"),
    "an unknown task": ("train --task sampel", 2, "Unknown task 'sampel'. Did you mean 'sample'"),
    "an absent file": ("compare -m full --task tickets.csv --out OUT", 2, "There is no file or folder tickets.csv"),
    "an absent train file": ("train --task DATA --train-file no.csv", 1, "no.csv is missing"),
    "an absent folder of data": ("train --task sst2 --data no/such", 1, "no/such is not a folder"),
    "an unknown column": ("compare -m full --task DATA --label nope --out OUT", 1, "has no column 'nope'"),
    "an unknown adapter": ("train --adapter pfeifer", 2, "no kind of adapter 'pfeifer'. Did you mean 'pfeiffer'"),
    "an adapter out of range": ("train --adapter houlsby:size=0", 2, "size"),
    "an unreadable config": ("train --config no.yaml", 2, "--config no.yaml cannot be read"),
    "an unknown tracker": ("train --report-to tensorbord", 2, "'tensorbord'. Did you mean 'tensorboard'"),
    "a push to no name": ("train --push-to-hub a/b/c", 2, "--push-to-hub 'a/b/c'"),
    "a push without the hub": ("train --push-to-hub ada/tone", 2, "HF_HUB_OFFLINE is set"),
    "an export to nowhere": ("export no-run", 2, "Pass --out FOLDER, --push-to-hub NAME, or both"),
    "no method": ("compare --task DATA --out OUT", 2, "at least one method"),
    "one method twice": ("compare -m full -m full --task DATA --out OUT", 2, "--method lists full twice"),
    "one method in two spellings": ("compare -m gradual -m gradual:every=50 --out OUT", 2, "which train the same"),
    "no adapter twice": ("compare -m full --adapter none --adapter none --out OUT", 2, "--adapter lists none twice"),
    "an unknown sweep": ("compare --sweep freez --out OUT", 2, "freez"),
    "an unknown search": ("compare -m full --search lrr=1 --out OUT", 2, "'lrr' cannot be searched"),
    "a wrong seed": ("compare -m full --seeds x --out OUT", 2, "--seeds 'x'"),
    "a wrong number": ("train --lr much", 2, "'--lr': 'much'; expected a number"),
    "no run": ("evaluate no-run", 1, "no-run holds no run"),
    "no study to work on": ("worker no-study", 1, "no-study"),
    "no study to report": ("report no-study", 1, "no-study"),
    "no run to analyze": ("analyze landscape no-run", 1, "no-run holds neither a run nor a study"),
    "no delta": ("delta info no-file", 1, "There is no file no-file"),
    "a delta of a model without its base": ("delta create DATA -o OUT", 2, "Add --base"),
    "a delta for another library": ("delta export DATA --to onnx -o OUT", 2, "--to 'onnx': expected peft"),
    "one file for dev and test": ("train --task DATA --test-file DATA/dev.csv", 1, "is both dev and test"),
    "a column of a test file": ("compare -m full --task DATA --text nope --out OUT", 1, "has no column 'nope'"),
    "a wrong budget": ("compare -m full --budget 2 --out OUT", 2, "--budget 2: expected a share"),
    "an address for a model": ("compare -m full --store a://b --out OUT", 2, "queue as --queue 'a://b'"),
    "a type of weights": ("memory --precision bfloat16", 2, "goes to --weights"),
    "a plan without a length": ("plan -m full", 2, "--steps is missing"),
    "rows without their flag": ("predict no-run rows.csv", 2, "Rows to predict are a file, as in -f rows.csv"),
    "a model without its flag": ("plan sample", 2, "such as --model"),
    "a path to no data": ("train --task no-data.csv", 2, "name a task that 'gradgate tasks' lists"),
    "no minutes": ("recommend --minutes 0 --out OUT", 2, "--minutes 0.0: expected"),
    "two lengths": ("pretrain-adapter --language-data x --steps 1 --epochs 1", 2, "pass --epochs or --steps, not both"),
}


# Each line in one process. What a line imports is what was not there after the lines before it.
EVERY_MISTAKE = """
import contextlib, io, json, sys
from gradgate.cli import run

said, before = [], set()
for line in json.loads(sys.argv[1]):
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = run(line)
    packages = {name.partition(".")[0] for name in sys.modules}
    said.append((code, sorted(packages - before), output.getvalue()))
    before = packages
print(json.dumps(said))
"""


def _placed(word: str, places: dict[str, str]) -> str:
    """Return a word with the folder that its first part stands for."""
    first, slash, rest = word.partition("/")
    return f"{places.get(first, first)}{slash}{rest}"


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, list[str], str]]:
    """Exit code, imported packages and output of each mistake."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "data").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "data" / f"{split}.csv").write_text("text,label\ngood,yes\nbad,no\n")
    places = {"DATA": str(folder / "data"), "OUT": str(folder / "out")}
    lines = [[_placed(word, places) for word in line.split()] for line, _, _ in MISTAKES.values()]
    command = [sys.executable, "-c", EVERY_MISTAKE, json.dumps(lines)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (folder / "out").exists()
    return dict(zip(MISTAKES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_that_needs_no_model_is_said_before_torch_loads(
    mistakes: dict[str, tuple[int, list[str], str]], mistake: str
) -> None:
    _, expected, message = MISTAKES[mistake]
    code, packages, output = mistakes[mistake]
    assert message in output.replace("\n", " ")
    assert code == expected
    assert not set(packages) & (HEAVY - {"pyarrow"})

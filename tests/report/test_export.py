"""Tables as files: full precision in CSV, and nothing that breaks Markdown or LaTeX."""

from __future__ import annotations

import re

import numpy as np
import pytest

from support.written_report import Page, report, rows

FULL, GRADUAL = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74]
SCORES = {"full": FULL, "gradual:every=40": GRADUAL}


@pytest.fixture(autouse=True)
def _no_figures(draw_only):
    draw_only()


def test_the_csv_has_full_precision_and_the_others_are_rounded(tmp_path):
    report(tmp_path, scores=SCORES)
    full, gradual = rows(tmp_path, "main")
    assert float(gradual["mean"]) == pytest.approx(np.mean(GRADUAL), rel=1e-15)
    assert float(gradual["difference"]) == pytest.approx(0.07 / 3, rel=1e-12)
    assert float(gradual["seconds_per_step_ratio"]) == 0.5
    assert (full["difference"], full["p_holm"], full["finished"]) == ("", "", "3")
    markdown = (tmp_path / "tables" / "main.md").read_text()
    assert "| gradual:every=40 | **72.3 ± 2.1** | +2.3\\* \\[+0.9 to +3.8\\] | 0.020 | 3 of 3 |" in markdown
    assert "| 25 % | 200 | 10.0 ms (0.50×) | 412 MB | 1.00 s (0.50×) |" in markdown


def test_latex_escapes_every_special_sign(tmp_path):
    name = r"a_b:c=5%,$x&y#{z}~^\<>|" + '"[1]'
    report(tmp_path, methods=("full", name), scores={"full": FULL})
    source = (tmp_path / "tables" / "main.tex").read_text()
    assert (
        r"a\_b:c=5\%,\$x\&y\#\{z\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
        r"\textless{}\textgreater{}\textbar{}\char34{}{[}1]"
    ) in source
    body = source.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert [line.endswith(r" \\") for line in body] == [True, True]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {10}
    assert all(sign.isascii() for sign in source)


def test_markdown_escapes_what_would_break_the_table(tmp_path):
    report(tmp_path, methods=("full", "a|b*c_d`<i>"), scores={"full": FULL})
    assert r"| a\|b\*c\_d\`\<i\> |" in (tmp_path / "tables" / "main.md").read_text()


def test_the_best_and_the_second_best_are_marked_in_every_form(tmp_path):
    methods = {"full": FULL, "gradual:every=40": GRADUAL, "head": [0.5, 0.6, 0.55]}
    _, html = report(tmp_path, methods=tuple(methods), scores=methods)
    markdown, latex = ((tmp_path / "tables" / f"main.{kind}").read_text() for kind in ("md", "tex"))
    assert "| **72.3 ± 2.1** |" in markdown
    assert "| *70.0 ± 2.0* |" in markdown
    assert "| 55.0 ± 5.0 |" in markdown
    assert "Bold: best. Italic: second best." in markdown
    assert r"\textbf{72.3 $\pm$ 2.1}" in latex
    assert r"\underline{70.0 $\pm$ 2.0}" in latex
    text = " ".join(Page(html).text.split())
    assert "72.3 ± 2.1 (best)" in text
    assert "70.0 ± 2.0 (second best)" in text

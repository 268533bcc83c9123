"""Tiny random models of many architectures, and a training batch for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor
from transformers import PreTrainedModel

VOCABULARY, WIDTH, LAYERS, LABELS = 96, 16, 3, 3

_ENCODER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": 40,
    "num_labels": LABELS,
}
_DECODER: dict[str, Any] = {
    **_ENCODER,
    "num_key_value_heads": 1,
    "head_dim": WIDTH // 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "d_kv": WIDTH // 2,
    "d_ff": 2 * WIDTH,
    "num_layers": LAYERS,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
_BART: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "encoder_layers": LAYERS,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 2 * WIDTH,
    "decoder_ffn_dim": 2 * WIDTH,
    "max_position_embeddings": 40,
    "num_labels": LABELS,
}
_DEBERTA: dict[str, Any] = {
    **_ENCODER,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 4,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "conv_kernel_size": 3,
    "conv_act": "gelu",
}
_GPT2: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": WIDTH,
    "n_layer": LAYERS,
    "n_head": 2,
    "n_positions": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "num_labels": LABELS,
}
_DISTILBERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "dim": WIDTH,
    "hidden_dim": 2 * WIDTH,
    "n_layers": LAYERS,
    "n_heads": 2,
    "max_position_embeddings": 40,
    "num_labels": LABELS,
}
_MODERNBERT: dict[str, Any] = {
    **_ENCODER,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
_ALBERT: dict[str, Any] = {**_ENCODER, "embedding_size": 8}
_ELECTRA: dict[str, Any] = {**_ENCODER, "embedding_size": 8}
_VIT: dict[str, Any] = {**_ENCODER, "image_size": 8, "patch_size": 4}
_WAV2VEC2: dict[str, Any] = {
    **_ENCODER,
    "conv_dim": (WIDTH, WIDTH),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 8,
    "layerdrop": 0.0,
    "mask_time_prob": 0.0,
}
_MIXTRAL: dict[str, Any] = {**_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2}


def tiny(config: str, model: str, **settings: Any) -> Callable[[], PreTrainedModel]:
    """A builder of a random model from the names of its two classes in transformers; the weights are seeded."""

    def build() -> PreTrainedModel:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return getattr(hf, model)(getattr(hf, config)(**settings))

    return build


TINY: dict[str, Callable[[], PreTrainedModel]] = {
    "bert": tiny("BertConfig", "BertForSequenceClassification", **_ENCODER),
    "bert-tokens": tiny("BertConfig", "BertForTokenClassification", **_ENCODER),
    "bert-qa": tiny("BertConfig", "BertForQuestionAnswering", **_ENCODER | {"num_labels": 2}),
    "bert-lm": tiny("BertConfig", "BertForMaskedLM", **_ENCODER),
    "roberta": tiny("RobertaConfig", "RobertaForSequenceClassification", **_ENCODER),
    "xlm-roberta": tiny("XLMRobertaConfig", "XLMRobertaForTokenClassification", **_ENCODER),
    "distilbert": tiny("DistilBertConfig", "DistilBertForSequenceClassification", **_DISTILBERT),
    "electra": tiny("ElectraConfig", "ElectraForSequenceClassification", **_ELECTRA),
    "deberta-v2": tiny("DebertaV2Config", "DebertaV2ForSequenceClassification", **_DEBERTA),
    "mpnet": tiny("MPNetConfig", "MPNetForSequenceClassification", **_ENCODER),
    "albert": tiny("AlbertConfig", "AlbertForSequenceClassification", **_ALBERT),
    "modernbert": tiny("ModernBertConfig", "ModernBertForSequenceClassification", **_MODERNBERT),
    "gpt2": tiny("GPT2Config", "GPT2LMHeadModel", **_GPT2),
    "gpt2-classifier": tiny("GPT2Config", "GPT2ForSequenceClassification", **_GPT2),
    "llama": tiny("LlamaConfig", "LlamaForCausalLM", **_DECODER),
    "llama-classifier": tiny("LlamaConfig", "LlamaForSequenceClassification", **_DECODER),
    "qwen2": tiny("Qwen2Config", "Qwen2ForCausalLM", **_DECODER),
    "qwen3": tiny("Qwen3Config", "Qwen3ForCausalLM", **_DECODER),
    "gemma": tiny("GemmaConfig", "GemmaForCausalLM", **_DECODER),
    "gemma2": tiny("Gemma2Config", "Gemma2ForSequenceClassification", **_DECODER),
    "gemma3": tiny("Gemma3TextConfig", "Gemma3ForCausalLM", **_DECODER),
    "mixtral": tiny("MixtralConfig", "MixtralForCausalLM", **_MIXTRAL),
    "t5": tiny("T5Config", "T5ForConditionalGeneration", **_T5),
    "bart": tiny("BartConfig", "BartForSequenceClassification", **_BART),
    "bart-lm": tiny("BartConfig", "BartForConditionalGeneration", **_BART),
    "vit": tiny("ViTConfig", "ViTForImageClassification", **_VIT),
    "wav2vec2": tiny("Wav2Vec2Config", "Wav2Vec2ForSequenceClassification", **_WAV2VEC2),
}

# Each has a structure of its own: post- or pre-norm, shared, gated or expert layers, one stack or two, other inputs.
VARIED = (
    *("bert", "distilbert", "deberta-v2", "albert", "modernbert", "gpt2", "llama", "mixtral", "t5", "bart-lm", "vit"),
    "wav2vec2",
)

BARE: dict[str, Callable[[], PreTrainedModel]] = {
    "bert": tiny("BertConfig", "BertModel", **_ENCODER),
    "roberta": tiny("RobertaConfig", "RobertaModel", **_ENCODER),
    "distilbert": tiny("DistilBertConfig", "DistilBertModel", **_DISTILBERT),
    "electra": tiny("ElectraConfig", "ElectraModel", **_ELECTRA),
    "deberta-v2": tiny("DebertaV2Config", "DebertaV2Model", **_DEBERTA),
    "mpnet": tiny("MPNetConfig", "MPNetModel", **_ENCODER),
    "albert": tiny("AlbertConfig", "AlbertModel", **_ALBERT),
    "modernbert": tiny("ModernBertConfig", "ModernBertModel", **_MODERNBERT),
    "gpt2": tiny("GPT2Config", "GPT2Model", **_GPT2),
    "llama": tiny("LlamaConfig", "LlamaModel", **_DECODER),
    "qwen2": tiny("Qwen2Config", "Qwen2Model", **_DECODER),
    "qwen3": tiny("Qwen3Config", "Qwen3Model", **_DECODER),
    "gemma": tiny("GemmaConfig", "GemmaModel", **_DECODER),
    "gemma2": tiny("Gemma2Config", "Gemma2Model", **_DECODER),
    "gemma3": tiny("Gemma3TextConfig", "Gemma3TextModel", **_DECODER),
    "t5": tiny("T5Config", "T5Model", **_T5),
    "bart": tiny("BartConfig", "BartModel", **_BART),
    "vit": tiny("ViTConfig", "ViTModel", **_VIT),
    "wav2vec2": tiny("Wav2Vec2Config", "Wav2Vec2Model", **_WAV2VEC2),
}


def tiny_batch(model: PreTrainedModel, size: int = 4, seed: int = 0) -> dict[str, Tensor]:
    """A training batch, the same for the same seed: ``model(**tiny_batch(model)).loss.backward()`` works."""
    draw = torch.Generator().manual_seed(seed)
    task = type(model).__name__
    classes = torch.randint(LABELS, (size,), generator=draw)
    if model.main_input_name == "pixel_values":
        return {"pixel_values": torch.randn(size, 3, 8, 8, generator=draw), "labels": classes}
    if model.main_input_name == "input_values":
        return {"input_values": torch.randn(size, 400, generator=draw), "labels": classes}
    length = 7
    ids = torch.randint(4, VOCABULARY, (size, length), generator=draw)
    ids[:, -1] = 2  # BART's classifier reads the end-of-text token
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if task.endswith("QuestionAnswering"):
        start = torch.randint(length, (size,), generator=draw)
        return batch | {"start_positions": start, "end_positions": start}
    if task.endswith("TokenClassification"):
        return batch | {"labels": torch.randint(LABELS, (size, length), generator=draw)}
    return batch | {"labels": classes if task.endswith("SequenceClassification") else ids.clone()}

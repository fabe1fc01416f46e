"""VisualQuality-R1 asks with the authors' words, decodes greedily and never makes a score up."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tokenizers import pre_tokenizers
from transformers import (
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
)

from banana100.scoring.metrics import visualquality_r1
from banana100.scoring.metrics.visualquality_r1 import PROMPT, REPOSITORY, VisualQualityR1, parse_answer

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% for part in message.content %}"
    "{% if part.type == 'image' %}{% if add_vision_id %}Picture 1: {% endif %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=["Qwen2VLImageProcessor", "Qwen2_5_VLImageProcessor"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2.5-VL with random weights, one token a byte, in the files of a Hugging Face repository."""
    path = tmp_path_factory.mktemp("model")
    vocabulary = {letter: i for i, letter in enumerate(["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], additional_special_tokens=SPECIAL)
    tokenizer.save_pretrained(path)
    images = Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 12845056}).to_dict()
    # the second name is the one that transformers wrote before 4.50
    (path / "preprocessor_config.json").write_text(json.dumps(images | {"image_processor_type": request.param}))
    (path / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    ids = dict(zip(SPECIAL, tokenizer.convert_tokens_to_ids(SPECIAL), strict=True))
    heads = {"hidden_size": 16, "intermediate_size": 32}
    text = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": len(tokenizer)}
    text |= {"bos_token_id": 0, "eos_token_id": ids["<|im_end|>"]}
    text |= {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]}}
    config = Qwen2_5_VLConfig(
        text_config=heads | text,
        vision_config=heads | {"depth": 2, "num_heads": 2, "out_hidden_size": 16, "fullatt_block_indexes": [1]},
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(1)
    model = Qwen2_5_VLForConditionalGeneration(config)
    # samples by default, as the real one does
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1e-6, top_k=9, eos_token_id=ids["<|im_end|>"], pad_token_id=0
    )
    model.save_pretrained(path)
    return path


@pytest.fixture
def metric(folder: Path) -> VisualQualityR1:
    return VisualQualityR1("visualquality_r1", {REPOSITORY: folder}, CPU)


@pytest.fixture
def calls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let the model answer 3.25, then 3.26 and so on; what it was asked stands in the list."""
    asked: list[dict[str, Any]] = []
    tokenizer = Qwen2Tokenizer.from_pretrained(folder)

    def answer(model: object, **options: Any) -> torch.Tensor:
        words = f"<think>x</think><answer>{3.25 + 0.01 * len(asked):.2f}</answer><|im_end|>"
        asked.append(options)
        return torch.cat([options["input_ids"], tokenizer(words, return_tensors="pt").input_ids], dim=1)

    monkeypatch.setattr(Qwen2_5_VLForConditionalGeneration, "generate", answer)
    return asked


def tensor_of(photograph: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(photograph).permute(2, 0, 1)[None]


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("<think>sharp</think><answer>3.25</answer>", 3.25),
        ("<think>2 or 3?</think>\n<answer>\n 4 \n</answer>", 4.0),
        ("<answer>2.10</answer> no: <answer>1.05</answer>", 1.05),
        ("<answer>Score: 4.5/5</answer>", 4.5),
        ("<answer>1</answer>", 1.0),
        ("<answer>5.00</answer>", 5.0),
    ],
)
def test_the_first_number_of_the_last_answer_is_the_score(text: str, score: float) -> None:
    assert parse_answer(text) == score


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no answer"),
        ("3.25", "no answer"),
        ("<think>perhaps 3.25", "no answer"),
        ("<answer>3.25", "no answer"),
        ("<answer></answer>", "no number"),
        ("<answer>3.25</answer><answer>good</answer>", "no number"),
        ("<answer>٣</answer>", "no number"),
        ("<answer>0.99</answer>", "0.99, outside"),
        ("<answer>.5</answer>", "0.5, outside"),
        ("<answer>5.01</answer>", "5.01, outside"),
        ("<answer>-3</answer>", "-3, outside"),
        ("<answer>82%</answer>", "82, outside"),
        (f"<answer>{'9' * 999}</answer>", "inf, outside"),
    ],
)
def test_an_answer_without_a_score_is_an_error_that_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_answer(text)


@given(st.integers(100, 500))
def test_every_score_of_two_decimals_is_read_as_written(hundredths: int) -> None:
    written = f"{hundredths / 100:.2f}"
    assert parse_answer(f"<think>1</think><answer>{written}</answer>") == float(written)


@given(st.text(), st.text())
def test_any_text_gives_a_score_or_a_value_error(before: str, answer: str) -> None:
    for text in (before, f"{before}<answer>{answer}</answer>"):
        with suppress(ValueError):
            assert 1 <= parse_answer(text) <= 5


def test_every_image_is_asked_about_alone_greedily_and_with_the_authors_words(
    metric: VisualQualityR1, calls: list[dict[str, Any]], folder: Path, photograph: np.ndarray
) -> None:
    scores = metric(tensor_of(photograph).repeat(2, 1, 1, 1))
    assert (scores.dtype, scores.tolist()) == (torch.float64, [3.25, 3.26])
    assert len(calls) == 2
    for options in calls:
        assert options["do_sample"] is False
        assert options["max_new_tokens"] == 2048
        said = Qwen2Tokenizer.from_pretrained(folder).decode(options["input_ids"][0])
        pads = "<|image_pad|>" * 25  # 140 x 140 pixels, 28 x 28 a token
        picture = f"Picture 1: <|vision_start|>{pads}<|vision_end|>"
        assert said == f"<|im_start|>user\n{picture}{PROMPT}<|im_end|>\n<|im_start|>assistant\n"


def test_the_model_sees_the_image_as_pil_resizes_it(
    metric: VisualQualityR1, calls: list[dict[str, Any]], photograph: np.ndarray
) -> None:
    metric(tensor_of(photograph))
    seen = calls[0]["pixel_values"].numpy().reshape(100, 3, 2, 14, 14)  # patch, channel, twice the same moment, pixels
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    resized = Image.fromarray(photograph).resize((140, 140), Image.Resampling.BICUBIC)
    expected = (np.asarray(resized) / 255 - mean) / std
    for channel in range(3):  # sorted: the order of patches is transformers' own
        for moment in range(2):
            values = np.sort(seen[:, channel, moment].ravel())
            np.testing.assert_allclose(values, np.sort(expected[..., channel].ravel()), atol=1e-5)


def test_a_real_model_runs_offline_and_its_babble_is_an_error(
    metric: VisualQualityR1, photograph: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    # too few tokens of one byte for an answer in its tags
    monkeypatch.setattr(visualquality_r1, "LONGEST_ANSWER", 16)
    with pytest.raises(ValueError, match="no answer in answer tags"):
        metric(tensor_of(photograph))

"""VisualQuality-R1: a vision-language model looks at the image, reasons in words and answers with a score."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from PIL import Image
from transformers import (
    AutoTokenizer,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessorPil,
    Qwen2VLVideoProcessor,
)

REPOSITORY = "TianheWu/VisualQuality-R1-7B"
LONGEST_ANSWER = 2048  # tokens, reasoning included

# The authors' words to the letter: another wording is another metric.
PROMPT = (
    "You are doing the image quality assessment task. Here is the question: "
    "What is your overall rating on the quality of this picture? The rating should be a float between 1 and 5, "
    "rounded to two decimal places, with 1 representing very poor quality and 5 representing excellent quality. "
    "First output the thinking process in <think> </think> tags and then output the final answer "
    "with only one score in <answer> </answer> tags."
)

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")


class VisualQualityR1:
    """VisualQuality-R1-7B, a Qwen2.5-VL-7B taught by reinforcement learning to rank; 1 to 5, higher is better.

    Source: Wu et al., "VisualQuality-R1: Reasoning-Induced Image Quality Assessment via Reinforcement Learning to
    Rank", arXiv 2505.14460. The prompt, with reasoning, and the reading of the answer are those of the authors' example
    for single images, bfloat16 on CUDA included; on the CPU it is float32. What differs on purpose:

    - the authors sample the answer; here decoding is greedy, so that an image has one score;
    - where the answer holds no number the authors take a random score; here it is an error;
    - the authors take a number outside 1 to 5 as it is, and read past a minus; here it is an error;
    - where there are no answer tags the authors take the first number of the reasoning; here it is an error.

    Raises:
        KeyError: `files` lacks the model's folder.
        OSError, ValueError: the folder is absent or lacks a file of the model; nothing is ever fetched.
    """

    def __init__(self, name: str, files: Mapping[str, Path], device: torch.device) -> None:
        folder = files[REPOSITORY]
        self._processor = _processor(folder)
        message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": PROMPT}]}
        self._prompt = self._processor.apply_chat_template(
            [message], tokenize=False, add_generation_prompt=True, add_vision_id=True
        )
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=dtype, local_files_only=True)
        self._model = model.to(device).eval()

    def __call__(self, pixels: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
        """Score images, one at a time.

        Args:
            pixels: uint8 tensor of shape (n, 3, height, width), sRGB, on the metric's device.
            reference: not used.

        Returns:
            float64 tensor of shape (n,) on the same device, 1 (very poor) to 5 (excellent).

        Raises:
            ValueError: an answer holds no score from 1 to 5, or an image is over 200 times as long as wide.
        """
        scores = [parse_answer(self._answer(image)) for image in pixels]
        return torch.tensor(scores, dtype=torch.float64, device=pixels.device)

    def _answer(self, image: torch.Tensor) -> str:
        """What the model says of one image, uint8 of shape (3, height, width)."""
        picture = Image.fromarray(image.permute(1, 2, 0).cpu().numpy())
        inputs = self._processor(text=[self._prompt], images=[picture], return_tensors="pt").to(self._model.device)
        # The sampling options of the model's own settings are unset, as transformers warns of them when greedy.
        unset = {"temperature": None, "top_k": None, "top_p": None}
        tokens = self._model.generate(**inputs, max_new_tokens=LONGEST_ANSWER, use_cache=True, do_sample=False, **unset)
        said = tokens[0, inputs["input_ids"].shape[1] :]
        return self._processor.decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _processor(folder: Path) -> Qwen2_5_VLProcessor:
    """What turns words and images into the model's input and its tokens into words.

    Put together here, as AutoProcessor would resize with torchvision, where the authors' qwen_vl_utils resizes with
    PIL; and it refuses files from before transformers 4.50, which call the image processor by another name.
    """
    settings, _ = Qwen2_5_VLProcessor.get_processor_dict(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=settings.get("chat_template", tokenizer.chat_template),
    )


def parse_answer(text: str) -> float:
    """The score in what the model said: the first number in the last `<answer>…</answer>`.

    Args:
        text: the model's words, reasoning included.

    Returns:
        The score, 1 to 5.

    Raises:
        ValueError: there is no answer, no number in it, or one outside 1 to 5; the message is a clause.
    """
    answers = _ANSWER.findall(text)
    if not answers:
        raise ValueError("the model gave no answer in answer tags")
    number = _NUMBER.search(answers[-1])
    if number is None:
        raise ValueError("the model's answer holds no number")
    score = float(number[0])
    if not 1 <= score <= 5:
        raise ValueError(f"the model's answer is {score:.6g}, outside 1 to 5")
    return score

"""How endpoints say that a conversation is too long, and what they count in the same breath.

Owns the table of those words. Pure: refuses to know statuses, rate limits and what is done next.

The words are the vendors' own, as people show them in public bug reports of 2023 to 2026; tests
hold a whole reply of each. Where a reply names figures, `window` is what the model takes and
`asked` what the request had.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from treadle.models.windows import MIN_WINDOW


@dataclass(frozen=True, slots=True)
class Overflow:
    """What an endpoint said of a conversation that is too long.

    Args:
        window: how many tokens the model takes, as far as the reply says so.
        asked: how many the request had, as far as the reply says so.
    """

    window: int | None = None
    asked: int | None = None

    @classmethod
    def counted(cls, window: object, asked: object) -> Overflow:
        """Take an endpoint's figures, as far as they can be any."""
        return cls(_at_least(MIN_WINDOW, window), _at_least(1, asked))


def overflow_in(text: str) -> Overflow | None:
    """Read what an endpoint said, its codes included; None where it says something else."""
    for pattern in _PATTERNS:
        if found := pattern.search(text):
            counted = found.groupdict()
            return Overflow.counted(_figure(counted.get("window")), _figure(counted.get("asked")))
    return None


def _at_least(least: int, figure: object) -> int | None:
    # No `isinstance`: to it `true` is a number.
    return figure if type(figure) is int and figure >= least else None


def _figure(text: str | None) -> int | None:
    return None if text is None else int(text.replace(",", ""))


_ASKED = r"(?P<asked>\d[\d,]{0,14})\b"
_WINDOW = r"(?P<window>\d[\d,]{0,14})\b"

# In this order: what counts the most comes first. No pattern has an unbounded gap, so that a
# long reply costs no more than its length.
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # Anthropic, and Bedrock and Vertex where they serve its models.
        rf"prompt is too long: {_ASKED} tokens > {_WINDOW}",
        rf"exceed context limit: {_ASKED} \+ \d+ > {_WINDOW}",
        # Fireworks
        rf"prompt is too long: {_ASKED}, model maximum context length: {_WINDOW}",
        # vLLM where the request also says how long the answer may be; Cloudflare's
        rf"maximum context length is {_WINDOW} tokens.{{0,120}}"
        rf"for a total of (?:at least )?{_ASKED}",
        # OpenAI, Azure, DeepSeek, OpenRouter, vLLM, xAI, SGLang, NVIDIA, Cloudflare
        rf"maximum (?:context|prompt|model) length\D{{0,12}}{_WINDOW}.{{0,80}}?"
        rf"(?:requested(?: about| a total of)?|resulted in|contains|request has) {_ASKED}"
        r"(?! output)",
        # vLLM, as older versions say it
        rf"\(length {_ASKED}\) is longer than the maximum model length of {_WINDOW}",
        rf"maximum (?:context|prompt|model) length\D{{0,12}}{_WINDOW}",
        # Mistral
        rf"contains {_ASKED} tokens.{{0,60}}too large for model with {_WINDOW}",
        rf"too large for model with {_WINDOW} maximum",
        # OpenAI, since GPT-5
        rf"input tokens exceed the configured limit of {_WINDOW} tokens.{{0,60}}"
        rf"resulted in {_ASKED}",
        r"input tokens exceed the configured limit",
        # Google: Gemini, Vertex
        rf"input token count \({_ASKED}\) exceeds the maximum number of tokens allowed "
        rf"\({_WINDOW}\)",
        rf"exceeds the maximum number of (?:input )?tokens allowed \({_WINDOW}\)",
        r"exceeds the maximum number of (?:input )?tokens",
        rf"input token count is {_ASKED} but model only supports up to {_WINDOW}",
        # Cerebras, Groq
        rf"current length is {_ASKED} while limit is {_WINDOW}",
        r"reduce the length of the messages",
        # llama.cpp, and what is built on it
        rf"request \({_ASKED} tokens\) exceeds the available context size \({_WINDOW}",
        rf"requested tokens \({_ASKED}\) exceed context window of {_WINDOW}",
        # LM Studio
        rf"keep the first {_ASKED} tokens when context the overflows.{{0,80}}only {_WINDOW}",
        r"context the overflows|context length of only",
        # SGLang, Together, Poolside
        rf"\({_ASKED} tokens\) is longer than the model'?s context length \({_WINDOW}",
        rf"input length \(?{_ASKED}(?: tokens\))? exceeds the maximum allowed (?:input )?length "
        rf"(?:of )?\(?{_WINDOW}",
        # Hugging Face TGI, and Together on older models
        rf"max_new_tokens` must be <= {_WINDOW}\. Given: {_ASKED}",
        rf"`inputs` must have less than {_WINDOW} tokens\. Given: {_ASKED}",
        # GitHub
        rf"prompt token count of {_ASKED} exceeds the limit of {_WINDOW}",
        rf"request body too large for .{{1,80}}? model\. max size: {_WINDOW} tokens",
        # Moonshot
        rf"exceeded model token limit: {_WINDOW} \(requested: {_ASKED}\)",
        rf"exceeded model token limit(?:: {_WINDOW})?",
        # Alibaba DashScope
        rf"range of input length should be \[\d+, ?{_WINDOW}",
        # Cohere
        rf"too many tokens: total number of tokens .{{0,40}}cannot exceed {_WINDOW}"
        rf"(?: - received {_ASKED})?",
        r"too many tokens: (?:total|size limit)",
        # Cloudflare
        rf"maximum output tokens \({_ASKED}\) exceeded this model context window limit "
        rf"\({_WINDOW}\)",
        r"exceeded this model context window limit",
        # IBM watsonx
        rf"number of input tokens {_ASKED} cannot exceed the total tokens limit {_WINDOW}",
        # SiliconFlow
        rf"prompt_tokens \({_ASKED}\) must be less than max_seq_len \({_WINDOW}\)",
        # OpenRouter, where what an account may still spend is smaller than the window
        rf"prompt tokens limit exceeded: {_ASKED} > {_WINDOW}",
        # DS4
        rf"prompt has {_ASKED} tokens, but the configured context size is {_WINDOW}",
        # Codes: OpenAI, and the many that follow it; llama.cpp; GitHub; LiteLLM; Z.ai; Qianfan
        r"context_?length_?exceeded|exceed_context_size_error|model_max_prompt_tokens_exceeded",
        r"tokens_limit_reached|ContextWindowExceeded|model_context_window_exceeded",
        r"prompt_tokens?_too_long|request_too_large",
        # OpenAI: one message alone is too long, or there are too many of them
        r"'messages(?:\[\d+\]\.content(?:\[\d+\]\.text)?)?': (?:string|array) too long",
        # Anthropic, where a subscription takes no more than the ordinary window
        r"long context beta is not yet available|usage is required for long context requests",
        # Volcengine, Zhipu, Qianfan, MiniMax, Amazon Nova, Bedrock, Ollama
        r"exceed max message tokens",
        r"prompt exceeds max(?:imum)? (?:context )?length|request more than max tokens allowed",
        r"prompt tokens too long",
        r"context window exceeds limit",
        r"number of input tokens exceeds maximum",
        r"(?:prompt|input) is too long",
        r"exceeded max(?:imum)? context",
        # And as anyone may say it
        r"exceeds? (?:the )?(?:model'?s? )?(?:available |maximum |max )?context",
        r"context (?:size|length|window) (?:has been |was |is )?exceeded",
        r"(?:greater|longer|larger) than (?:the )?(?:model'?s? )?(?:maximum )?context",
        r"exceed context limit",
        r"maximum (?:context|prompt|model) length",
    )
)

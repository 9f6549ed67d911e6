"""What the command says about the reranker and the model of query expansion."""

from __future__ import annotations

from pathlib import Path

from support import local_models
from support.commands import Call, World


def configured(world: World, text: str) -> None:
    own = world.home / ".config/openclaw-mem/config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(text)


REMOTE = """
[rerank]
provider = "http"
base_url = "http://rerank.invalid/v1"
model = "judge"
api_key = "planted-key-1"
budget_s = 0.5
[expansion]
provider = "openai"
model = "writer"
"""


def test_both_are_shown_with_where_text_goes(call: Call, world: World) -> None:
    configured(world, REMOTE)
    said = call("providers")
    assert (said.code, said.err) == (0, "")
    rerank, expansion, missing = said.out.splitlines()[-3:]
    assert rerank.split()[:3] == ["rerank", "http", "judge"]
    assert "chunks of notes and the query to rerank.invalid" in rerank
    assert "config.toml: rerank.api_key" in rerank
    assert expansion.split()[:3] == ["expansion", "openai", "writer"]
    assert "the query to api.openai.com" in expansion
    assert missing.startswith("expansion cannot be used: No API key for api.openai.com: set OPENAI_API_KEY")
    first, second = call("providers", "--json").json["services"]
    assert (first["use"], first["host"], first["missing"]) == ("rerank", "rerank.invalid", "")
    assert second["missing"].startswith("No API key")
    shown = call("config")
    assert "planted" not in said.out + shown.out
    assert [line.split()[1] for line in shown.out.splitlines() if line.startswith("rerank.api_key")] == [
        "set"
    ]


def test_a_search_says_before_it_sends_passages_elsewhere(call: Call, world: World) -> None:
    configured(world, REMOTE)
    assert "rerank.invalid" not in call("search", "router").err
    said = call("search", "router", "--set", "rerank=on")
    assert said.code == 0
    assert "Passages of up to 30 candidates are sent to rerank.invalid for reranking." in said.err
    assert "reranked: " in said.out + said.err


def test_without_a_reranker_a_search_names_the_setting(call: Call) -> None:
    said = call("search", "router", "--set", "rerank=on")
    assert "reranked: no reranker is configured (rerank.provider)." in said.out + said.err


def test_a_missing_local_model_is_named_with_its_download(call: Call, world: World) -> None:
    configured(world, '[rerank]\nprovider = "local"\n')
    said = call("search", "router", "--set", "rerank=on")
    assert said.code == 0
    text = said.out + said.err
    assert "openclaw-mem model download --for rerank" in text or "llama-cpp-python" in text
    assert "Sending" not in said.err


class TestWithLlama:
    pytestmark = local_models.needs_llama_cpp

    def test_a_local_model_reranks_and_the_explanation_shows_its_scores(
        self, call: Call, world: World, tmp_path: Path
    ) -> None:
        model = local_models.causal(tmp_path / "judge.gguf", chat=True)
        configured(world, f'[rerank]\nprovider = "local"\nmodel = "{model}"\n')
        said = call("search", "router vlan", "--set", "rerank=on", "--explain")
        assert said.code == 0, said.err
        assert "+ rerank 0." in said.out
        assert "not reranked" not in said.out + said.err
        (local,) = call("providers", "--json").json["services"]
        assert (local["provider"], local["host"], local["missing"]) == ("local", "", "")

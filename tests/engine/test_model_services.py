"""``rerank.*`` and ``expansion.*``: what they make, whose key is sent where, and a search that uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openclaw_mem_engine.config.groups import ExpansionSettings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.providers.base import Message
from openclaw_mem_engine.providers.services import Services
from openclaw_mem_engine.qmd.queries import SubQuery, parse_expansion
from openclaw_mem_engine.retrieval.expansion import Expander, expand
from support.embed_server import Fault, running_server
from support.memories import settings_for, write_notes
from support.rerank_server import running_reranker

NOTES = {
    "MEMORY.md": "# Facts\n\nCoffee is bought on Mondays.\n",
    "memory/router.md": "# Router\n\nThe router answers on port 8443.\n",
    "memory/firewall.md": "# Firewall\n\nThe router is behind the firewall of vlan 40.\n",
}


def settings_with(tmp_path: Path, toml: str, openclaw: str = "", **environ: str) -> Settings:
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text(toml)
    if openclaw:
        (home / ".openclaw").mkdir(exist_ok=True)
        (home / ".openclaw" / "openclaw.json").write_text(openclaw)
    workspace = write_notes(tmp_path / "workspace", NOTES)
    return settings_for(workspace, home, **{"OPENCLAW_MEM_PROVIDER": "static", **environ})


def test_nothing_is_made_unless_it_is_configured(tmp_path: Path) -> None:
    services = Services(settings_with(tmp_path, ""))
    assert (services.reranker, services.chat, services.states()) == (None, None, ())


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('[rerank]\nprovider = "jina"', r"rerank\.provider is 'jina'; allowed: none, local, http"),
        ('[rerank]\nprovider = "http"', r"is http: name the address of the endpoint in rerank\.base_url"),
        ('[rerank]\nprovider = "http"\nbase_url = "ftp://x"', r"rerank\.base_url is not a usable URL"),
        ("[rerank]\nbudget_s = 0", r"rerank\.budget_s is 0; allowed: a number \(seconds\), 0\.1 to 3600"),
        ('[expansion]\nprovider = "openai"', r"is openai, .*name a model in expansion\.model"),
        ('[expansion]\nprovider = "http"', r"expansion\.provider is 'http'; allowed: none, local"),
        ("[expansion]\ntimeout = 3", r"expansion\.timeout is not a known key.*expansion\.timeout_s"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_key(tmp_path: Path, toml: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings_with(tmp_path, toml)


def test_a_relative_model_starts_at_the_settings_file(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, '[rerank]\nprovider = "local"\nmodel = "r.gguf"')
    assert settings.rerank.model == str(tmp_path / "home" / "config" / "r.gguf")
    services = Services(settings)
    assert services.rerank_batch == 1  # its scores come one by one, as far as the budget goes
    (state,) = services.states()
    assert (state.use, state.provider, state.host, state.key_origin) == ("rerank", "local", "", "")
    assert state.missing.startswith("There is no model file at ")
    services.close()


def states_of(settings: Settings) -> list[tuple[str, str, str, str]]:
    services = Services(settings)
    found = [(str(one.use), one.host, one.key_origin, one.missing) for one in services.states()]
    services.close()
    return found


OPENAI = '[{0}]\nprovider = "openai"\nmodel = "m"\n'


def test_the_key_of_openai_is_for_its_own_address_alone(tmp_path: Path) -> None:
    own = OPENAI.format("expansion")
    key = {"OPENAI_API_KEY": "sk-planted-1234"}
    assert states_of(settings_with(tmp_path, own, **key)) == [
        ("expansion", "api.openai.com", "env OPENAI_API_KEY", "")
    ]
    elsewhere = own + 'base_url = "https://chat.example/v1"\n'
    settings = settings_with(tmp_path, elsewhere, **key)
    assert states_of(settings) == [("expansion", "chat.example", "", "")]
    chat = Services(settings).chat
    assert "planted" not in str(vars(chat._transport))  # type: ignore[union-attr]
    settings = settings_with(tmp_path, elsewhere + 'api_key = "${CHAT_KEY}"', CHAT_KEY="own-key-123", **key)
    ((_, host, origin, missing),) = states_of(settings)
    assert (host, missing) == ("chat.example", "")
    assert origin.endswith("config.toml: expansion.api_key")
    assert "own-key-123" not in repr(settings)


def test_a_missing_key_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, OPENAI.format("rerank"))
    ((_, _, _, missing),) = states_of(settings)
    assert missing == "No API key for api.openai.com: set OPENAI_API_KEY or rerank.api_key."
    with running_reranker() as server:
        toml = f'[rerank]\nprovider = "http"\nbase_url = "{server.base_url}"\napi_key = "${{NOT_SET}}"'
        settings = settings_with(tmp_path, toml)
        ((_, _, _, missing),) = states_of(settings)
        assert "needs the environment variable NOT_SET, which is not set" in missing
        with Memory.open(settings) as memory:
            memory.sync()
            answer = memory.search("router", memory.knobs.set({"rerank": True}))
            (note,) = of_code(answer.pool.notes, "not-reranked")
            assert "the reranker failed: " in note.text
            assert "NOT_SET" in note.text
        assert server.asked == []


def of_code(notes: tuple[Note, ...], code: str) -> list[Note]:
    return [note for note in notes if note.code == code]


def test_a_search_is_reranked_over_http_only_when_the_knob_is_on(tmp_path: Path) -> None:
    with running_reranker() as server:
        toml = f'[rerank]\nprovider = "http"\nbase_url = "{server.base_url}"\nmodel = "m"'
        with Memory.open(settings_with(tmp_path, toml)) as memory:
            memory.sync()
            assert memory.hosts == ()
            memory.search("router vlan")
            assert server.asked == []
            knobs = memory.knobs.set({"rerank": True, "blend": "rerank", "min_score": 0.0})
            answer = memory.search("router vlan", knobs)
            by_path = {id_: one.path for id_, one in answer.pool.candidates.items()}
            scores = {by_path[id_]: score for id_, score in answer.pool.rerank_scores.items()}
            assert scores["memory/firewall.md"] == 1.0
            assert scores["memory/router.md"] == 0.5
            assert answer.hits[0].path == "memory/firewall.md"
            assert of_code(answer.pool.notes, "not-reranked") == []
            asked = len(server.asked)
            memory.search("router vlan", knobs)
            assert len(server.asked) == asked  # cached
            used = {day.provider: day for day in memory.usage()}["http"]
            assert (used.model, used.requests, used.estimated) == ("m", asked, True)
            server.answer = lambda *_: "<html>"
            (note,) = of_code(memory.search("port", knobs).pool.notes, "not-reranked")
            assert "http rerank at 127.0.0.1" in note.text
            assert note.level == "warning"


def lines(*text: str) -> Fault:
    return Fault(body=json.dumps({"choices": [{"message": {"content": "\n".join(text)}}]}))


def test_a_chat_model_expands_a_query_of_the_qmd_backend(tmp_path: Path) -> None:
    answer = lines("vec: where does the router listen", "lex: router port", "ignore this", "lex: bananas")
    with running_server(forever=answer) as server:
        toml = OPENAI.format("expansion") + f'base_url = "{server.base_url}"\ntimeout_s = 60\n'
        settings = settings_with(tmp_path, toml, '{memory: {backend: "qmd"}}')
        with Memory.open(settings) as memory:
            memory.sync()
            knobs = memory.knobs.set({"expansion": "typed", "strong_signal": False})
            pool = memory.retrieve("router", knobs)
            queries = {(found.role, found.query) for found in pool.lists if found.role != "original"}
            assert queries == {("vec", "where does the router listen"), ("lex", '"router"* AND "port"*')}
            assert of_code(pool.notes, "expanded-without-model") == []
            assert [message["content"] for message in server.requests[0].body["messages"]][1] == "router"
            memory.retrieve("router", knobs)
            assert len(server.requests) == 1  # cached
            assert [(day.provider, day.model, day.requests) for day in memory.usage()] == [("openai", "m", 1)]
            server.forever = Fault(500, "{}")
            (note,) = of_code(memory.retrieve("coffee", knobs).notes, "expanded-without-model")
            start = "No model expands the query, so it has no variants: openai chat failed: 500"
            assert note.text.startswith(start)
            asked = len(server.requests)
            (note,) = of_code(memory.retrieve("tea", knobs).notes, "expanded-without-model")
            assert note.text.startswith(start) and note.text.endswith("; retry in 60 s.")
            assert len(server.requests) == asked


def test_an_expansion_is_limited_and_each_line_searched_once() -> None:
    answer = "lex: router\n" * 40 + "\n".join(f"vec: router {n}" for n in range(40))
    made = parse_expansion(answer, "the router")
    assert made == [SubQuery("lex", "router"), *(SubQuery("vec", f"router {n}") for n in range(5))]
    cached = json.dumps([{"type": "lex", "query": f"{n // 2}"} for n in range(40)])

    class Cache:
        def cache_get(self, key: str) -> str | None:
            return cached

        def cache_put(self, key: str, result: str | None) -> None: ...

    found = expand("the router", Expander(Scripted("local")), Cache())  # type: ignore[arg-type]
    assert found.queries == tuple(SubQuery("lex", str(n)) for n in range(6))
    assert ExpansionSettings().timeout_s == 5


class Scripted:
    model, host = "m", ""

    def __init__(self, id: str) -> None:
        self.id = id
        self.asked: list[tuple[list[Message], int | None, float | None]] = []

    def complete(
        self,
        messages: list[Message],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        cancel: object = None,
    ) -> str:
        self.asked.append((messages, max_tokens, temperature))
        return "lex: x"

    def close(self) -> None: ...


def test_a_local_model_gets_the_prompt_it_was_trained_for() -> None:
    local = Scripted("local")
    expander = Expander(local)  # type: ignore[arg-type]
    assert (expander.model, expander.expand("router")) == ("m", "lex: x")
    assert local.asked == [([Message("user", "/no_think Expand this search query: router")], 600, 0.7)]
    remote = Scripted("openai")
    assert Expander(remote).model == "openai:m"  # type: ignore[arg-type]


def test_the_hosts_of_both_are_named(tmp_path: Path) -> None:
    toml = '[rerank]\nprovider = "http"\nbase_url = "https://rerank.example/v1"\n' + OPENAI.format(
        "expansion"
    )
    with Memory.open(settings_with(tmp_path, toml, OPENAI_API_KEY="sk-planted-1234")) as memory:
        assert memory.hosts == ("rerank.example", "api.openai.com")
        assert [one.use for one in memory.services()] == ["rerank", "expansion"]

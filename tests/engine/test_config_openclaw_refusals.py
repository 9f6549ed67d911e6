"""Values, keys and files of openclaw.json that are refused, or have no effect."""

from __future__ import annotations

import time

import pytest

from openclaw_mem_engine.errors import ConfigError, OpenClawMemError
from openclaw_mem_engine.providers.resolve import choices
from support.config_world import World


def messages(world: World) -> str:
    return "\n".join(note.text for note in world.load().warnings)


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "key", "value", "allowed"),
        [
            ({"query": {"minScore": 7}}, "query.minScore", "7", "0 to 1"),
            ({"query": {"minScore": "0.3"}}, "query.minScore", "'0.3'", "a number"),
            ({"query": {"minScore": None}}, "query.minScore", "null", "a number"),
            ({"query": {"minScore": True}}, "query.minScore", "true", "a number"),
            ({"query": {"maxResults": 0}}, "query.maxResults", "0", "1 or more"),
            ({"query": {"maxResults": 2.5}}, "query.maxResults", "2.5", "an integer"),
            ({"query": {"maxResults": 201}}, "query.maxResults", "201", "an integer, 1 to 200"),
            ({"query": []}, "query", "a list", "an object"),
            ({"query": {"hybrid": {"mmr": {"lambda": -1}}}}, "query.hybrid.mmr.lambda", "-1", "0 to 1"),
            ({"chunking": {"tokens": 0}}, "chunking.tokens", "0", "1 or more"),
            ({"sources": ["memory", "mail"]}, "sources[1]", "'mail'", "allowed: memory, sessions"),
            ({"sources": "memory"}, "sources", "'memory'", "a list of"),
            ({"enabled": "yes"}, "enabled", "'yes'", "true or false"),
            ({"extraPaths": ["notes", 5]}, "extraPaths[1]", "5", "allowed: a string."),
            ({"extraPaths": [["a"], 5]}, "extraPaths[0]", "a list", "allowed: a string."),
            ({"extraPaths": {"a": 5}}, "extraPaths", "an object", "a list of strings"),
            ({"model": 5}, "model", "5", "a string"),
            ({"store": {"driver": "lance"}}, "store.driver", "'lance'", "sqlite"),
            ({"sync": {"watch": 1}}, "sync.watch", "1", "true or false"),
        ],
    )
    def test_a_bad_value_names_file_key_value_and_range(
        self, world: World, content: object, key: str, value: str, allowed: str
    ) -> None:
        path = world.memory_search(content)
        with pytest.raises(ConfigError) as caught:
            world.load()
        message = str(caught.value)
        assert message.startswith(f"{path}: agents.defaults.memorySearch.{key} is {value};")
        assert allowed in message

    @pytest.mark.parametrize("number", ["NaN", "Infinity"])
    def test_numbers_that_are_none(self, world: World, number: str) -> None:
        world.openclaw(f"{{agents: {{defaults: {{memorySearch: {{query: {{minScore: {number}}}}}}}}}}}")
        with pytest.raises(ConfigError, match="0 to 1"):
            world.load()

    @pytest.mark.parametrize(
        "content",
        [
            {"agents": []},
            {"agents": {"list": {}}},
            {"agents": {"list": ["main"]}},
            {"agents": {"defaults": {"workspace": 5}}},
            {"memory": {"citations": "maybe"}},
            {"memory": {"backend": "redis"}},
            {"models": {"providers": "openai"}},
        ],
    )
    def test_bad_shapes_outside_of_memory_search(self, world: World, content: object) -> None:
        path = world.openclaw(content)
        with pytest.raises(ConfigError, match="allowed: ") as caught:
            world.load()
        assert str(path) in str(caught.value)

    def test_a_whole_number_may_be_written_with_a_point(self, world: World) -> None:
        world.memory_search({"query": {"maxResults": 4.0}})
        value = world.load().query.overrides["max_results"]
        assert value == 4 and isinstance(value, int)

    def test_a_clamped_value_is_told(self, world: World) -> None:
        world.memory_search({"query": {"hybrid": {"candidateMultiplier": 99}}})
        settings = world.load()
        assert settings.query.overrides["candidate_multiplier"] == 20
        (note,) = settings.warnings
        assert note.code == "config-clamped" and "99" in note.text and "20" in note.text

    def test_an_unknown_key_is_told_and_ignored(self, world: World) -> None:
        world.memory_search({"query": {"rerank": True}, "newThing": {"deep": "sk-" + "s" * 30}})
        notes = world.load().warnings
        assert {note.code for note in notes} == {"config-unknown-key"}
        text = messages(world)
        assert "memorySearch.query.rerank" in text and "memorySearch.newThing" in text and "sss" not in text

    @pytest.mark.parametrize(
        ("content", "text", "level"),
        [
            (
                {
                    "memory": {
                        "qmd": {"mcporter": {"enabled": True, "serverName": "x", "startDaemon": False}},
                    }
                },
                "memory.qmd.mcporter.enabled, memory.qmd.mcporter.serverName, "
                "memory.qmd.mcporter.startDaemon are not used.",
                "warning",
            ),
            ({"compaction": {"mode": "safeguard"}}, "compaction.mode is not used.", "info"),
            (
                {"agents": {"defaults": {"compaction": {"memoryFlush": {"model": "m"}}}}},
                "agents.defaults.compaction.memoryFlush.model is not used.",
                "info",
            ),
            (
                {"agents": {"memorySearch": {"query": {"minScore": 0.1}}}},
                "agents.memorySearch (did you mean agents.defaults.memorySearch?) is not known and ignored.",
                "warning",
            ),
            (
                {"agent": {"memorySearch": {}, "model": "m"}},
                "agent.memorySearch (did you mean agents.defaults.memorySearch?), agent.model are not known "
                "and ignored.",
                "warning",
            ),
            ({"agent": "x"}, "agent (did you mean agents?) is not known and ignored.", "warning"),
            ({"memory": {"zzz": 1}}, "memory.zzz is not known and ignored.", "warning"),
            (
                {"agents": {"list": [{"id": "main", "memorysearch": {}}]}},
                "agents.list[0].memorysearch (did you mean agents.list[0].memorySearch?) is not known "
                "and ignored.",
                "warning",
            ),
            (
                {"memorySearch": {"maxResult": 3}},
                "memorySearch.maxResult (did you mean memorySearch.query.maxResults?) is not known and "
                "ignored.",
                "warning",
            ),
            (
                {"memorySearch": {"query": {"hybird": {"enabled": False}}}},
                "memorySearch.query.hybird (did you mean memorySearch.query.hybrid?) is not known and "
                "ignored.",
                "warning",
            ),
            (
                {"memory": {"qmd": {"limts": {}, "limits": {"maxResult": 3}}}},
                "memory.qmd.limts (did you mean memory.qmd.limits?), memory.qmd.limits.maxResult (did you "
                "mean memory.qmd.limits.maxResults?) are not known and ignored.",
                "warning",
            ),
            (
                {"plugins": {"entries": {"memory-lancedb": {"config": {"autocaptur": True}}}}},
                "plugins.entries.memory-lancedb.config.autocaptur (did you mean "
                "plugins.entries.memory-lancedb.config.autoCapture?) is not known and ignored.",
                "warning",
            ),
            (
                {"agents": {"defaults": {"memorySearch": {"query": {"minscore": 0.1}}}}},
                "agents.defaults.memorySearch.query.minscore (did you mean "
                "agents.defaults.memorySearch.query.minScore?) is not known and ignored.",
                "warning",
            ),
        ],
    )
    def test_a_key_without_effect_is_named_with_its_file(
        self, world: World, content: object, text: str, level: str
    ) -> None:
        path = world.openclaw(content)
        (note,) = world.load().warnings
        assert (note.text, note.level) == (f"{path}: {text}", level)

    def test_what_is_not_about_memory_is_not_named(self, world: World) -> None:
        others = (
            "gateway",
            "channels",
            "meta",
            "messages",
            "media",
            "auth",
            "env",
            "session",
            "tools",
            "skills",
        )
        world.openclaw(
            {name: {"any": 1} for name in others}
            | {"agents": {"defaults": {"model": {}, "models": {}, "heartbeat": {}}, "list": [{"id": "main"}]}}
        )
        assert world.load().warnings == ()

    def test_included_files_are_told(self, world: World) -> None:
        world.openclaw({"agents": {"$include": "./agents.json5"}})
        (note,) = world.load().warnings
        assert note.code == "config-include"

    def test_an_unsupported_provider_is_named_and_no_text_is_sent(self, world: World) -> None:
        world.environ["OPENAI_API_KEY"] = "sk-other"
        path = world.memory_search(
            {
                "provider": "bedrock",
                "fallback": "lmstudio",
                "remote": {"apiKey": "aws", "baseUrl": "https://x"},
            }
        )
        settings = world.load()
        assert (settings.provider.chosen, settings.provider.fallback) == ("static", "none")
        assert settings.provider.endpoints["openai"].base_url is None
        first, second = (note.text for note in settings.warnings)
        assert first.startswith(
            f"{path}: agents.defaults.memorySearch.provider is 'bedrock', a provider that"
        )
        assert "memorySearch.fallback is 'lmstudio'" in second
        primary = next(choice for choice in choices(settings) if choice.role == "primary")
        assert primary.why.startswith(f"provider.name = static (instead of 'bedrock', which {path}: ")
        assert world.load(provider="openai").warnings == settings.warnings[1:]

    def test_google_is_gemini(self, world: World) -> None:
        world.memory_search({"provider": "google", "fallback": "google", "remote": {"apiKey": "AIza-mine"}})
        provider = world.load().provider
        assert (provider.chosen, provider.fallback) == ("gemini", "gemini")
        assert provider.api_key is not None and provider.api_key.reveal() == "AIza-mine"


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("{\n a: 1,\n  b: @\n}", "line 3, column 6"),
            ("{a: 1 b: 2}", "line 1, column"),
            ('{"a": "never closed', "line 1, column"),
            ('{a: "x\ny"}', "line 1, column 5: this is never closed"),
            ("{a: 1}}", "line 1, column 7"),
            ("{a: 1e999}", "line 1, column 5: this is not a number, or it is too large"),
            ("", "the file is empty"),
            ("// only words", "the file is empty"),
            ("[1, 2]", "one object"),
            ("[" * 5000, "nested too deeply"),
        ],
    )
    def test_broken_text_gives_the_position(self, world: World, text: str, place: str) -> None:
        path = world.openclaw(text)
        with pytest.raises(ConfigError, match=place) as caught:
            world.load()
        assert str(path) in str(caught.value)

    def test_a_large_file_is_read_in_linear_time_and_quotes_no_value(self, world: World) -> None:
        lines = "".join(f"  k{number}: 'secret {number}', // c\n" for number in range(30_000))
        start = time.process_time()
        text = f"{{\n{lines} memory: {{backend: 'qmd',}},\n}}"
        assert len(text) > 900_000
        world.openclaw(text)
        assert world.load().openclaw.backend == "qmd"
        world.openclaw(f"{text[:-2]} @ }}")
        with pytest.raises(ConfigError, match='line 30002, column 29: unexpected "@"') as caught:
            world.load()
        # It took 45 s for 600 KB once.
        assert time.process_time() - start < 5
        assert "secret" not in str(caught.value)

    def test_not_utf8(self, world: World) -> None:
        world.openclaw_file.write_bytes(b'{\n"a": "\xff\xfe"}')
        with pytest.raises(ConfigError, match="not UTF-8 text \\(line 2\\)"):
            world.load()

    def test_a_folder_or_a_huge_file(self, world: World) -> None:
        world.openclaw_file.mkdir()
        with pytest.raises(ConfigError, match="not a plain file"):
            world.load()
        world.openclaw_file.rmdir()
        world.openclaw_file.write_bytes(b" " * (1 << 21))
        with pytest.raises(ConfigError, match="larger than"):
            world.load()

    def test_a_file_that_cannot_be_looked_at_is_not_taken_for_absent(self, world: World) -> None:
        world.environ["OPENCLAW_CONFIG_PATH"] = "n" * 300
        with pytest.raises(ConfigError, match="cannot be read: File name too long"):
            world.load()

    def test_a_byte_order_mark_is_fine(self, world: World) -> None:
        world.openclaw('\ufeff{"memory": {"citations": "off"}}')
        assert world.load().citations == "off"

    @pytest.mark.parametrize(
        "text",
        [
            '{"agents": {"defaults": {"workspace": "a\\u0000b"}}}',
            '{"agents": {"defaults": {"workspace": "\\ud800"}}}',
        ],
    )
    def test_paths_that_no_system_can_hold(self, world: World, text: str) -> None:
        world.openclaw(text)
        with pytest.raises(OpenClawMemError, match="workspace"):
            world.load()

"""Our own settings file: strict about names and types, and where it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_mem_engine.config.rules import Rule
from openclaw_mem_engine.config.settings import SETTINGS
from openclaw_mem_engine.errors import ConfigError
from support.config_world import World

FULL = """
workspace = "notes"
data_dir = "~/indexes-here"
sources = ["memory", "sessions"]
extra_paths = ["more"]
citations = "off"
max_file_bytes = 1000
vector_extension = false
editor = "hx"
theme = "paper"

[keys]
rebuild = "f9"

[provider]
name = "voyage"
model = "voyage-4"
base_url = "https://proxy.example/v1/"
api_key = "${MY_KEY}"
headers = { "X-Team" = "a" }
fallback = "static"

[provider.batch]
enabled = true

[chunking]
tokens = 100
overlap = 10

[cache]
enabled = false

[sync]
watch = false
debounce_ms = 10
session_quiet_s = 90

[query]
profile = "workbench"
fusion = "rrf"
rrf_k = 20
min_score = 0
decay = true
keyword_rescue = "fill"
"""


def test_every_table_is_read(world: World) -> None:
    world.environ["MY_KEY"] = "k-1"
    path = world.own(FULL)
    settings = world.load()
    assert settings.workspace == path.parent / "notes"
    assert settings.data_dir == world.home / "indexes-here"
    assert settings.sources == ("memory", "sessions") and settings.extra_paths == ("more",)
    assert (settings.citations, settings.max_file_bytes, settings.vector_extension) == ("off", 1000, False)
    assert (settings.editor, settings.theme) == ("hx", "paper")
    assert dict(settings.keys) == {"rebuild": "f9"}
    provider = settings.provider
    assert (provider.provider, provider.model, provider.fallback) == ("voyage", "voyage-4", "static")
    assert provider.base_url == "https://proxy.example/v1" and dict(provider.headers) == {"X-Team": "a"}
    assert provider.api_key is not None and provider.api_key.reveal() == "k-1"
    assert provider.batch.enabled and provider.batch.concurrency == 2
    assert (settings.chunking.tokens, settings.chunking.overlap) == (100, 10)
    assert not settings.cache.enabled and not settings.sync.watch and settings.sync.debounce_ms == 10
    assert settings.sync.session_quiet_s == 90
    assert settings.query.profile == "workbench"
    assert dict(settings.query.overrides) == {
        "fusion": "rrf",
        "rrf_k": 20,
        "min_score": 0,
        "decay": True,
        "keyword_rescue": "fill",
    }
    assert settings.origins["query.rrf_k"].where == f"{path}: query.rrf_k"
    assert settings.origins["query.rrf_k"].kind == "toml"


def test_a_named_file_must_exist_and_wins_over_the_usual_one(world: World) -> None:
    world.own('theme = "usual"')
    world.environ["OPENCLAW_MEM_CONFIG"] = "mine.toml"
    with pytest.raises(ConfigError, match=r"env OPENCLAW_MEM_CONFIG: .*mine\.toml does not exist"):
        world.load()
    (world.cwd / "mine.toml").write_text('theme = "mine"')
    assert world.load().theme == "mine"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("[query]\nmin_scor = 0.1", "query.min_score"),
        ("min_score = 0.1", "query.min_score"),
        ("[query]\ntext_weight = 0.4", "query.bm25_weight"),
        ('themes = "x"', "theme"),
        ("[chunks]\ntokens = 5", "chunking.tokens"),
        ('[provider]\nkey = "x"', "provider.api_key"),
        ("[provider.batch]\nenable = true", "provider.batch.enabled"),
        ("[chunking.deep.er.still]\na = 1", "chunking"),
        ("[empty]", "Known in the file: workspace, agent, "),
        ("[quite]\nother = 1", "Known in the file: workspace, agent, "),
        ("[query]\nzzzzzzzzzz = 1", "Known in [query]: profile, mode, "),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(world: World, text: str, near: str) -> None:
    path = world.own(text)
    with pytest.raises(ConfigError, match="is not a known key") as caught:
        world.load()
    assert str(path) in str(caught.value) and near in str(caught.value)


def test_every_unknown_key_is_named_up_to_a_limit(world: World) -> None:
    world.own("[query]\ntext_weight = 0.4\ntext_score = 'raw'\n" + "".join(f"x{n} = 1\n" for n in range(30)))
    with pytest.raises(ConfigError) as caught:
        world.load()
    said = str(caught.value)
    assert "query.text_weight is not a known key. Did you mean query.bm25_weight? query.text_score is" in said
    assert said.count("is not a known key") == 20 and said.endswith(" 12 other keys are not known.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[query]\nmin_score = '0.3'", "query.min_score is '0.3'; allowed: a number"),
        ("[query]\nmmr = 1", "query.mmr is 1; allowed: true or false"),
        ("[query]\nrrf_k = 1.5", "query.rrf_k is 1.5; allowed: an integer"),
        ("[query]\nmin_score = nan", "query.min_score is nan"),
        ("[query]\nmin_score = 3", "query.min_score is 3; allowed: a number, 0 to 1."),
        ("[query]\ncandidate_limit = 401", "is 401; allowed: an integer (0: none), 0 to 400."),
        ("[query]\nfusion = 'rff'", "is 'rff'; allowed: weighted, rrf, position. Did you mean rrf?"),
        ("[query]\nprofile = 'qmd-process'", "query.profile is 'qmd-process'; allowed: documented, "),
        ("[chunking]\ntokens = 0", "chunking.tokens is 0; allowed: an integer (tokens), 1 or more"),
        ("[sync]\nsession_quiet_s = -1", "sync.session_quiet_s is -1; allowed: an integer (seconds), 0"),
        ('citations = "maybe"', "citations is 'maybe'; allowed: auto, on, off"),
        ('sources = "memory"', "sources is 'memory'; allowed: a list of: memory, sessions"),
        ("extra_paths = [1]", "extra_paths[0] is 1; allowed: a string."),
        ("workspace = 5", "workspace is 5; allowed: a path"),
        ("query = 5", "query is not a known key. Known in [query]: profile, mode, "),
        ("[keys]\nrebuild = 9", "keys is an object; allowed: a table of strings"),
        ("[theme]", "theme is an object; allowed: a string"),
        ("[provider]\nheaders = {a = 1}", "provider.headers is an object"),
        ("[provider]\nname = 'bedrock'", "provider.name is 'bedrock'; allowed: auto, static, openai"),
        ("[provider]\nfallback = 'auto'", "provider.fallback is 'auto'; allowed: static, openai"),
        (
            "[provider]\nconcurrency = 0",
            "provider.concurrency is 0; allowed: an integer (requests), 1 to 32",
        ),
        ("[provider]\nconcurrency = 33", "provider.concurrency is 33"),
        (
            "[provider]\nlocal_idle_minutes = -1",
            "provider.local_idle_minutes is -1; allowed: a number (minutes)",
        ),
        ("[provider]\nalso = 'static'", "provider.also is 'static'; allowed: a list of strings (provider or"),
        ("[provider]\nalso = ['none']", "provider.also holds 'none'; allowed: a provider, or provider:model"),
        (
            "[provider]\nalso = ['bedrock:titan']",
            "Providers are static, openai, gemini, voyage, mistral, ollama",
        ),
        ("[provider]\nalso = ['static:potion']", "static has one model"),
        ("when = 2026-01-01", "when is not a known key"),
        ("theme = 2026-01-01", "theme is datetime.date(2026, 1, 1)"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(world: World, text: str, said: str) -> None:
    world.own(text)
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [("a = 1\nb = = 2", "line 2, column 5"), ("[query", "line 1"), ("a = 1\na = 2", "line 2")],
)
def test_a_broken_file_gives_line_and_column(world: World, text: str, place: str) -> None:
    path = world.own(text)
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        world.load()
    assert place in str(caught.value) and str(path) in str(caught.value)


def test_deep_nesting_is_not_a_crash(world: World) -> None:
    world.own("a = " + "[" * 5000)
    with pytest.raises(ConfigError, match="not valid TOML"):
        world.load()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://127.0.0.1:99999999/v1", "http://[::1/v1"])
def test_our_own_url_must_be_one(world: World, url: str) -> None:
    path = world.own(f'[provider]\nname = "openai"\nbase_url = "{url}"')
    with pytest.raises(ConfigError, match="not a usable URL") as caught:
        world.load()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "header", ["'X' = 'a\\nEvil: 1'", '"X" = "a\\r\\nEvil: 1"', '"X Y" = "a"', '"" = "a"']
)
def test_headers_cannot_smuggle(world: World, header: str) -> None:
    world.own(f'[provider]\nname = "openai"\nheaders = {{ {header} }}')
    if "'" in header:
        # A literal TOML string: the backslash is an ordinary character.
        assert world.load().provider.headers["X"] == "a\\nEvil: 1"
        return
    with pytest.raises(ConfigError, match="cannot be sent"):
        world.load()


def test_the_knobs_are_those_of_the_ranking() -> None:
    """The names are declared here once more, for the settings cannot see the ranking; they must agree."""
    from dataclasses import fields

    from openclaw_mem_engine.ranking.knobs import Knobs

    ours = {key.removeprefix("query.") for key in SETTINGS if key.startswith("query.")}
    assert ours == {field.name for field in fields(Knobs)}


def test_an_overlap_that_does_not_fit_is_clamped_and_told(world: World) -> None:
    world.own("[chunking]\ntokens = 50")
    settings = world.load()
    assert (settings.chunking.tokens, settings.chunking.overlap) == (50, 49)
    assert [note.code for note in settings.warnings] == ["overlap-clamped"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule("int", low=1, high=5), "an integer, 1 to 5"),
        (Rule("number", unit="days"), "a number (days)"),
        (Rule("text", choices=("a", "b")), "a, b"),
        (Rule("switch"), "true or false"),
    ],
)
def test_a_rule_says_what_it_allows(rule: Rule, words: str) -> None:
    assert rule.allowed == words


@pytest.mark.parametrize("text", ["", "# nothing", "[query]\n# min_score = 0.3\n[provider.batch]\n"])
def test_a_file_that_sets_nothing(world: World, text: str) -> None:
    world.own(text)
    assert world.load().workspace == Path(world.state / "workspace")

"""``cache stats`` and ``cache prune``."""

from __future__ import annotations

import pytest

from support.commands import Call, World


@pytest.mark.parametrize("argv", [["cache"], ["cache", "stats"], ["cache", "prune", "--max", "0"]])
def test_without_an_index_there_is_no_cache_and_none_is_made(
    call: Call, world: World, argv: list[str]
) -> None:
    said = call(*argv)
    assert (said.code, said.err) == (0, "")
    assert "There is no index yet" in said.out
    assert call(*argv, "--json").json["exists"] is False
    assert not world.data.exists()


def test_stats_count_what_is_needed(call: Call, world: World) -> None:
    call("index")
    (world.workspace / "memory/2026-02-25.md").unlink()
    call("index")
    cache = call("cache", "stats", "--json").json
    assert (cache["entries"], cache["live"], cache["maxEntries"]) == (4, 3, 50_000)
    (space,) = cache["spaces"]
    assert (space["provider"], space["entries"], space["live"]) == ("static", 4, 3)
    assert space["bytes"] == 4 * 256 * 4
    assert 0 < space["oldest"] <= space["newest"]
    text = call("cache").out
    assert text.splitlines()[0].split() == [
        "embeddings",
        "of",
        "entries",
        "needed",
        "size",
        "oldest",
        "newest",
    ]
    assert text.splitlines()[1].split()[1:4] == ["4", "3", "4.1"]


def test_prune_forgets_the_idle_and_spares_the_needed(call: Call, world: World) -> None:
    call("index")
    for note in ("memory/2026-02-25.md", "memory/2026-02-20.md"):
        (world.workspace / note).unlink()
    call("index")
    assert call("cache", "prune").out.startswith("0 embeddings removed; 4 remain, 2 of them")
    cache = call("cache", "prune", "--max", "3", "--json").json
    assert (cache["removed"], cache["entries"], cache["live"], cache["spared"]) == (1, 3, 2, 0)
    said = call("cache", "prune", "--max", "0")
    assert said.code == 0
    assert said.out.startswith("1 embedding removed; 2 remain, 2 of them needed by chunks.")
    assert "2 more than 0" in said.out
    found = call("search", "gateway", "--json").json
    assert found["results"][0]["path"] == "MEMORY.md"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["cache", "prune", "--max", "many"], "--max is 'many'"),
        (["cache", "prune", "--max", "-1"], "--max is '-1'"),
        (["cache", "stats", "--max", "1"], "There is no option --max."),
        (["cache", "burn"], "There is no command 'burn'"),
    ],
)
def test_wrong_usage(call: Call, argv: list[str], message: str) -> None:
    said = call(*argv)
    assert (said.code, said.out) == (2, "")
    assert message in said.err

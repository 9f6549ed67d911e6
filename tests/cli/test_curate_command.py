"""``openclaw-mem curate``, and what ``tool memory_search`` keeps for it."""

from __future__ import annotations

import pytest

from support.commands import Call, World

MEMORY = (
    "# Facts\n\n- The gateway is a grey box behind the door.\n- Coffee is bought on Mondays.\n"
    "- the gateway: grey box behind the door\n- cloud token: sk-abcdef1234567890abcdef\n"
)


@pytest.fixture
def ids(call: Call, world: World) -> dict[str, str]:
    """Ids of the candidates of MEMORY by kind."""
    world.write("MEMORY.md", MEMORY)
    found = call("curate", "--json").json["candidates"]
    return {candidate["kind"]: candidate["id"] for candidate in found}


def test_nothing_to_curate_is_said(call: Call, world: World) -> None:
    said = call("curate")
    assert said.out.splitlines() == [
        "MEMORY.md: 4 lines (200 advised), 80 of 20,000 characters",
        "no agent search with results is recorded",
        "",
        "no proposals",
    ]
    assert not list(world.data.glob("indexes/*")) and call("curate", "--rejected").out.endswith(
        "no rejected proposals\n"
    )


def test_candidates_with_evidence_and_diff_and_masked_credentials(call: Call, ids: dict[str, str]) -> None:
    assert set(ids) == {"secret", "duplicate"}
    said = call("curate").out
    assert f"{ids['duplicate']}  duplicate: line 5 of MEMORY.md repeats line 3: remove it" in said
    assert "MEMORY.md:3: The gateway is a grey box behind the door." in said
    assert "  -- the gateway: grey box behind the door" in said
    assert said.splitlines()[-1].startswith("2 proposals; ")
    everything = said + call("curate", "--json").out + call("curate", "--effect", ids["secret"]).out
    assert "1234567890" not in everything and "…" in everything


def test_a_candidate_is_written_after_a_yes_and_undone(call: Call, world: World, ids: dict[str, str]) -> None:
    note = world.workspace / "MEMORY.md"
    refused = call("curate", "--apply", ids["duplicate"])
    assert refused.code == 2 and "add --yes" in refused.err and note.read_text() == MEMORY
    shown = call("curate", "--effect", ids["duplicate"])
    assert (
        shown.code == 0
        and "effect: not measured, because no searches are recorded" in shown.out
        and note.read_text() == MEMORY
    )
    assert "budget after the change: MEMORY.md: 5 lines (200 advised)" in shown.out
    done = call("curate", "--apply", ids["duplicate"][:5], "--yes")
    assert done.out.endswith("written: 1 line removed from MEMORY.md\n`openclaw-mem undo 1` undoes it.\n")
    assert "grey box behind the door\n" not in note.read_text()
    assert call("curate", "--apply", ids["duplicate"], "--yes").code == 2
    call("undo", "--yes")
    assert note.read_text() == MEMORY
    as_json = call("curate", "--apply", ids["duplicate"], "--yes", "--json").json
    assert as_json["written"][0]["path"] == "MEMORY.md" and as_json["effect"]["queries"] == 0


def test_a_rejected_candidate_is_not_listed_until_restored(call: Call, ids: dict[str, str]) -> None:
    assert call("curate", "--reject", ids["secret"]).out.startswith("rejected: MEMORY.md:6 looks like")
    assert ids["secret"] not in call("curate").out
    rejected = call("curate", "--rejected").out
    assert ids["secret"] in rejected
    assert rejected.endswith("1 rejected proposal; `openclaw-mem curate --restore ID` proposes one again\n")
    assert call("curate", "--restore", ids["duplicate"]).code == 2
    assert call("curate", "--restore", ids["secret"], "--json").json == {
        "id": ids["secret"],
        "done": "restored",
    }
    assert ids["secret"] in call("curate").out


def test_the_cut_line_is_named_and_a_long_diff_is_cut(call: Call, world: World) -> None:
    world.write(
        "MEMORY.md",
        "# M\n\n## Shelf\n"
        + "".join(f"- thing number {at} is on the shelf {'x' * 80}\n" for at in range(1_250)),
    )
    said = call("curate").out
    assert "1,253 lines (200 advised)" in said and "the agent gets only the last part line " in said
    assert "over-budget: section “Shelf” (1,251 lines): move to memory/shelf.md" in said.replace(
        "\n          ", " "
    )
    assert "more lines: `openclaw-mem curate --effect" in said and len(said.splitlines()) < 40
    moved = said.partition("  over-budget: ")[0].split()[-1]
    assert call("curate", "--apply", moved, "--yes").out.endswith(
        "\n`openclaw-mem undo 2` and `openclaw-mem undo 1` undo it.\n"
    )


def test_one_thing_at_a_time_and_known_ids(call: Call, ids: dict[str, str]) -> None:
    twice = call("curate", "--reject", ids["secret"], "--effect", ids["secret"])
    assert twice.code == 2 and "--effect, --reject" in twice.err
    assert call("curate", "--rejected", "--apply", ids["secret"]).code == 2
    for wrong, advice in (("", "--effect is empty"), ("nothing", "`openclaw-mem curate` lists them")):
        said = call("curate", "--effect", wrong)
        assert said.code == 2 and advice in said.err


def test_searches_of_the_tool_command_count(call: Call, world: World) -> None:
    for _ in range(2):
        assert call("tool", "memory_search", '{"query": "router VLAN"}').json["results"]
    assert call("tool", "memory_search", '{"query": "zzzz"}').code == 0
    found = call("curate", "--json").json
    assert found["searches"] >= 2
    counts = {file["path"]: file["searches"] for file in found["files"]}
    assert counts["memory/2026-02-20.md"] >= 2
    effect = call("curate").out.splitlines()[1]
    assert ", last 20" in effect
    kept = world.data / "curation.sqlite"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_measured_can_be_written(call: Call, world: World, ids: dict[str, str]) -> None:
    config = world.home / ".openclaw/openclaw.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('{"memory": {"backend": "qmd"}}')
    done = call("curate", "--apply", ids["duplicate"], "--yes")
    assert "effect: The effect is measured only with the built-in backend." in done.out
    assert "written: 1 line removed from MEMORY.md" in done.out

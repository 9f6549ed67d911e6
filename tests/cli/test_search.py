"""``search``: every format, the knobs, empty answers, and keeping up with the notes."""

from __future__ import annotations

import csv
import io
import json
import os
import re

import pytest

from openclaw_mem_engine.answer import Matches, stem
from openclaw_mem_engine.cli.tables import emphasised
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import SELECTABLE
from openclaw_mem_engine.ranking.trace import Operand, recompute
from support.commands import Call, World


def test_explain_json_carries_a_trace_that_adds_up(call: Call) -> None:
    trace = call("search", "router VLAN", "--json", "--explain", "--set", "decay=on").json["trace"]
    assert set(trace) == {"version", "query", "knobs", "stages", "rows", "notes"}
    assert [stage["name"] for stage in trace["stages"]][:4] == ["vector", "bm25", "fusion", "decay"]
    ranked = [row for row in trace["rows"] if "final" in row["scores"]]
    assert ranked
    for row in ranked:
        operands = [
            Operand(o["stage"], o["label"], o["op"], o["value"], o["weight"], o["inputs"])
            for o in row["operands"]
        ]
        assert recompute(operands) == pytest.approx(row["scores"]["final"], abs=1e-9)


def test_json_stands_before_or_after_the_command(call: Call) -> None:
    assert (
        call("--json", "search", "router").json["results"]
        == call("search", "router", "--json").json["results"]
    )


def test_the_first_search_indexes_and_says_so_on_stderr(call: Call) -> None:
    first = call("search", "router")
    assert "indexed 4 new or modified files" in first.err
    assert "indexed" not in first.out
    assert call("search", "router").err == ""


def test_a_changed_note_is_found_at_once(call: Call, world: World) -> None:
    call("index")
    world.write("memory/2026-03-01.md", "# 2026-03-01\n\nThe zeppelin landed.\n")
    (world.workspace / "memory/2026-02-25.md").unlink()
    said = call("search", "zeppelin")
    assert "memory/2026-03-01.md:1-" in said.out
    assert "indexed 1 new or modified file, 1 deleted in" in said.err


def test_no_sync_answers_from_the_index_as_it_is(call: Call, world: World) -> None:
    call("index")
    world.write("memory/2026-03-01.md", "# 2026-03-01\n\nThe zeppelin landed.\n")
    answer = call("search", "zeppelin", "--no-sync", "--json").json
    assert all(hit["path"] != "memory/2026-03-01.md" for hit in answer["results"])
    assert answer["freshness"] is None
    assert "· files not compared ·" in call("search", "router", "--no-sync").out


def test_a_search_that_may_not_sync_still_compares_the_files(call: Call, world: World) -> None:
    call("index")
    world.write("memory/2026-03-01.md", "# 2026-03-01\n\nThe zeppelin landed.\n")
    assert call("config", "set", "sync.on_search=false", "--yes").code == 0
    answer = call("search", "zeppelin", "--json").json
    assert all(hit["path"] != "memory/2026-03-01.md" for hit in answer["results"])
    assert answer["freshness"]["state"] == "stale"
    assert answer["freshness"]["changed"] == ["memory/2026-03-01.md"]


def test_no_sync_without_an_index_says_what_to_do(call: Call) -> None:
    said = call("search", "router", "--no-sync")
    assert said.code == 0
    assert "Nothing found" in said.out
    assert "openclaw-mem index" in said.out


def test_the_table_shows_rank_score_place_and_the_matching_line(call: Call) -> None:
    said = call("search", "router", "VLAN")
    head, *rest = said.out.splitlines()
    rank, score, place = head.split()[:3]
    assert (rank, place) == ("1", "memory/2026-02-20.md:1-6")
    assert 0 < float(score) <= 1
    assert any("The router moved to VLAN 40." in line for line in rest)
    assert "profile documented" in said.out
    assert "\x1b" not in said.out


def test_a_rescued_hit_is_marked(call: Call) -> None:
    said = call("search", "GRN-40417", "--min-score", "0.9")
    assert "[kept by keyword rescue]" in said.out
    assert call("search", "GRN-40417", "--min-score", "0.9", "--json").json["results"][0]["rescued"] is True


def test_explain_tells_stages_arithmetic_and_what_was_dropped(call: Call) -> None:
    said = call("search", "router VLAN", "--explain", "--max-results", "1", "--min-score", "0")
    lines = said.out.splitlines()
    assert lines[0].startswith("1 result. #1 has "), "the first line answers"
    assert lines.count(lines[0]) == 1 and lines[1] == ""
    assert lines[2].split() == ["stage", "in", "out", "effect", "formula"]
    assert any(line.startswith("fusion") and "0.7 × vector + 0.3 × BM25" in line for line in lines)
    (sum_line,) = [line for line in lines if "→ fused" in line]
    assert "× 0.70 =" in sum_line
    assert "BM25 0.500 [1/(1+1)] × 0.30 = 0.150" in sum_line
    assert any(line.startswith("not returned (") for line in lines)
    assert "its rank is 2, and only the first is returned" in said.out
    said = call("search", "where is the router VLAN", "--explain", "--set", "list_rows=auto")
    assert "not searched: where, is, the\n" in said.out


def test_the_nearest_chunks_that_are_not_returned_have_a_line_each(call: Call, world: World) -> None:
    for number in range(3):
        (world.workspace / f"memory/router-{number}.md").write_text(f"# Router {number}\n\nA router.\n")
    options = "--explain", "--min-score", "0.99", "--set", "keyword_rescue=off"
    said = call("search", "router VLAN", *options).out.splitlines()
    rows = call("search", "router VLAN", *options, "--json").json["trace"]["rows"]
    begins = next(at for at, line in enumerate(said) if line.startswith(f"not returned ({len(rows)})")) + 1
    listed = [
        line for line in said[begins:] if re.search(r" min score  its score .* is below min score ", line)
    ]
    places = [f"{row['path']}:{row['startLine']}-{row['endLine']}" for row in rows[:5]]
    assert len(rows) > 5 and [line.split()[1] for line in listed] == places
    assert f"  and {len(rows) - 5} more; --json --explain lists them all" in said


def test_candidates_are_counted_without_those_outside_the_pool(call: Call) -> None:
    small = ["--max-results", "1", "--set", "pool_results=1", "--set", "candidate_multiplier=1"]
    said = call("search", "router VLAN", "--explain", *small)
    rows = call("search", "router VLAN", "--explain", "--json", *small).json["trace"]["rows"]
    outside = sum(row["outcome"].get("stage") == "pool" for row in rows)
    assert outside and f"not returned ({len(rows) - 1}; outside the pool: {outside})" in said.out.splitlines()
    assert said.out.splitlines()[-1].startswith(f"{len(rows) - outside} candidate")


def test_nothing_passes_names_the_best_and_a_setting_that_shows_it(call: Call) -> None:
    said = call("search", "router", "--min-score", "0.99", "--set", "keyword_rescue=off")
    assert said.code == 0
    first = said.out.splitlines()[0]
    assert first.startswith("Nothing reaches min score 0.99: the best is 0.")
    assert ". Try --set min_score=" in first
    advice = first.rpartition("--set ")[2]
    assert "memory/2026-02-20.md" in call("search", "router", "--set", advice).out


def test_a_query_about_nothing_in_the_notes_is_not_advised_to_return_noise(call: Call) -> None:
    said = call("search", "xyzzyq").out.splitlines()[0]
    assert said.startswith("Nothing relevant found; no searched word occurs in the index, best cosine ")
    assert said.endswith(", below 0.32 (weak).") and "min_score" not in said


def test_a_workspace_without_a_note_is_said(bare: Call, world: World) -> None:
    empty = world.root / "empty"
    empty.mkdir()
    for _ in range(2):
        said = bare("search", "router", "--workspace", str(empty))
        assert said.code == 0 and said.out.startswith(f"There is no note in {empty}: ")
    assert f"There is no note in {empty}: " in bare("status", "--workspace", str(empty)).out
    assert bare("index", "--workspace", str(empty)).out.startswith("Nothing to index: 0 files, ")
    note = empty / "MEMORY.md"
    note.write_text("# M\n- the router hums\n", "utf-8")
    assert "no note" not in bare("search", "zzzqq", "--provider", "none", "--workspace", str(empty)).out


def test_nothing_matches_at_all(call: Call) -> None:
    said = call("search", "zzzzqq", "--provider", "none")
    assert said.code == 0
    assert said.out.startswith("Nothing found: no chunk matches.")


def test_csv_is_a_table_that_no_spreadsheet_runs(call: Call, world: World) -> None:
    world.write("memory/formula.md", '=HYPERLINK("http://x","zeppelin"), "quoted"\nzeppelin\n')
    said = call("search", "zeppelin", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert list(rows[0]) == [
        "rank",
        "score",
        "path",
        "start_line",
        "end_line",
        "source",
        "rescued",
        "best_line_cut",
        "snippet",
    ]
    assert rows[0]["path"] == "memory/formula.md"
    assert rows[0]["snippet"].startswith("'=HYPERLINK")
    assert rows[0]["start_line"] == "1"


def test_files_are_bare_paths_each_once(call: Call) -> None:
    said = call("search", "VLAN", "--format", "files", "--min-score", "0")
    paths = said.out.splitlines()
    assert len(paths) == len(set(paths))
    assert {"memory/2026-02-20.md", "memory/2026-02-25.md"} <= set(paths)


@pytest.mark.parametrize("profile", ["documented", "workbench"])
def test_lines_name_the_best_line_of_each_result(call: Call, world: World, profile: str) -> None:
    world.write("memory/odd.md", "# Odd\n\nnothing here\n  the zeppelin\tis \x1b[31mred\r\nand more\n")
    said = call("search", "zeppelin", "--format", "lines", "--profile", profile)
    first = said.out.splitlines()[0]
    location, score, text = first.split("\t")
    assert location == "memory/odd.md:4"
    assert float(score) > 0
    assert text == "the zeppelin^Iis ^[[31mred"
    location = call("search", "tomatoes", "--format", "lines", "--profile", profile).out.partition("\t")[0]
    assert call("get", location, "--lines", "1").out.startswith("Tomatoes want water")


def test_a_line_of_two_results_comes_once(call: Call, world: World) -> None:
    rows = [f"Row {row} of the list of parts, with its shelf, its box and its price." for row in range(40)]
    rows[22] = "The zeppelin is in box 7."
    world.write("memory/parts.md", "\n".join(rows))
    hits = call("search", "zeppelin", "--json", "--min-score", "0").json["results"]
    assert sum(hit["startLine"] <= 23 <= hit["endLine"] for hit in hits if "parts" in hit["path"]) == 2
    lines = call("search", "zeppelin", "--format", "lines", "--min-score", "0").out.splitlines()
    places = [line.partition("\t")[0] for line in lines]
    assert places.count("memory/parts.md:23") == 1 and len(places) == len(hits) - 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no tab in a file name")
def test_null_ends_records_and_leaves_paths_as_they_are(call: Call, world: World) -> None:
    name = "memory/a\tb.md"
    world.write(name, "the zeppelin\n")
    files = call("search", "zeppelin", "--format", "files", "-0")
    assert files.out.split("\0") == [name, ""]
    lines = call("search", "zeppelin", "--format", "lines", "-0").out.split("\0")
    assert lines[0].startswith(f"{name}:1\t")
    assert lines[0].endswith("\tthe zeppelin")
    assert call("search", "zeppelin", "--format", "files").out == "memory/a^Ib.md\n"


def test_markdown_keeps_notes_inside_code_blocks(call: Call, world: World) -> None:
    world.write("memory/fence.md", "zeppelin\n```\n# not a heading\n````\n")
    for explain in ([], ["--explain"]):
        said = call("search", "zeppelin", "--format", "md", *explain)
        assert said.out.startswith("# ")
        assert "`````text\nzeppelin" in said.out


def test_empty_answers_of_program_formats_speak_on_stderr(call: Call) -> None:
    header = "rank,score,path,start_line,end_line,source,rescued,best_line_cut,snippet\n"
    for kind, out in (("files", ""), ("csv", header)):
        said = call("search", "router", "--format", kind, "--min-score", "1", "--set", "keyword_rescue=off")
        assert said.code == 0
        assert said.out == out
        assert "Nothing reaches min score" in said.err


def test_the_option_form_of_the_query_wins(call: Call) -> None:
    assert call("search", "coffee", "--query", "router", "--json").json["query"] == "router"


def test_profile_and_knobs_reach_the_ranking(call: Call) -> None:
    trace = call(
        "search",
        "router",
        "--profile",
        "workbench",
        "--max-results",
        "2",
        "--set",
        "mmr=on",
        "--json",
        "--explain",
    ).json["trace"]
    assert trace["knobs"]["profile"] == "workbench"
    assert (trace["knobs"]["max_results"], trace["knobs"]["mmr"]) == (2, True)


def test_a_profile_keeps_configured_values_however_it_is_named(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = {"query": {"maxResults": 2, "minScore": 0.1, "hybrid": {"temporalDecay": {"enabled": True}}}}
    path = world.home / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"agents": {"defaults": {"memorySearch": query}}}))
    asked = "search", "router", "--json", "--explain"
    name = "openclaw-2026.2"
    answers = [call(*asked, "--profile", name), call(*asked, "--set", f"profile={name}")]
    over = call(*asked, "--profile", name, "--min-score", "0.3").json["trace"]["knobs"]
    monkeypatch.setenv("OPENCLAW_MEM_PROFILE", name)
    flag, knob, variable = [said.json["trace"]["knobs"] for said in [*answers, call(*asked)]]
    assert flag == knob == variable
    assert (flag["max_results"], flag["min_score"], flag["decay"]) == (2, 0.1, True)
    assert flag["lexical_form"] == "and", "what is not configured is that of the profile"
    assert (over["max_results"], over["min_score"]) == (2, 0.3)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["search"], "A query is required"),
        (["search", "  "], "A query is required"),
        (["why-not", "", "MEMORY.md"], 'A query is required, for example "vpn certificate".\n'),
        (["prompt", "--query", " "], "--query is empty: write --query Q, or leave it out."),
        (["chunks", " "], "A path is required"),
        (["undo", "--list", "--show"], "leave CHANGE and --show out"),
        (["undo", "1", "--list"], "leave CHANGE and --show out"),
        (
            ["search", "x", "--set", "dcay=on"],
            "'dcay'. Did you mean decay? `openclaw-mem config show query --v",
        ),
        (["search", "x", "--set", "Decay=on"], "'Decay'. Did you mean decay?"),
        (["search", "x", "--set", "mode=hybird"], "vector. Did you mean hybrid?"),
        (["search", "x", "--set", "zzz=on"], "'zzz'. `openclaw-mem config show query --verbose` lists all"),
        (["config", "set", "decay"], "'decay' is not KEY=VALUE, for example query.min_score=0.3."),
        (["search", "x", "--profile", "workbnch"], "'workbnch'. Did you mean workbench? Known: documented"),
        (["serch", "x"], "There is no command 'serch'. Did you mean search? `openclaw-mem --help` lists"),
        (["search", "x", "--set", "decay"], "'decay' is not NAME=VALUE, for example decay=on."),
        (["search", "x", "--set", "decay=perhaps"], "decay is 'perhaps'; allowed: on or off"),
        (["search", "x", "--max-results", "0"], "--max-results is '0'; allowed: 1 to 200"),
        (["search", "x", "--min-score", "nan"], "--min-score is 'nan'; allowed: 0 to 1"),
        (["search", "x", "--profile", "qdm"], "no profile 'qdm'"),
        (["search", "x", "--profile", "qmd-process"], "only for answers of the external program qmd"),
        (["why-not", "x", "MEMORY.md", "--set", "profile=qmd-process"], "only for answers of the external"),
        (
            ["config", "sett"],
            "There is no command 'sett'. Did you mean set? `openclaw-mem config --help` lists",
        ),
        (["qmd", "collectoin"], "'collectoin'. Did you mean collection? `openclaw-mem qmd --help` lists"),
        (["qmd", "collection", "ad"], "Did you mean add? `openclaw-mem qmd collection --help` lists the"),
        (["store", "ini"], "There is no command 'ini'. Did you mean init? `openclaw-mem store --help`"),
        (
            ["completion", "bsh"],
            "shell is 'bsh'; allowed: bash, zsh, fish. Did you mean bash?",
        ),
        (["search", "x", "--format", "jsn"], "--format is 'jsn'; allowed: table, json, csv, md,"),
        (["search", "x", "--format", "jsn"], "lines. Did you mean json?"),
        (
            ["curate", "aply"],
            "Unexpected argument: aply. Did you mean --apply? See `openclaw-mem curate --",
        ),
        (
            ["demo", "--falt", "x"],
            "There is no option --falt. Did you mean --fault? See `openclaw-mem demo --help`",
        ),
        (["search", "x", "--json", "--format", "csv"], "contradict"),
        (["search", "x", "--explain", "--format", "files"], "is not available"),
        (["search", "x", "--explain", "--format", "lines"], "is not available"),
        (["search", "x", "-0"], "choose files or lines"),
        (["search", "x", "--frobnicate"], "There is no option --frobnicate. A query that begins with -"),
        (
            ["search", "x", "--lesson"],
            "There is no option --lesson. A query",
        ),  # not: did you mean --json?
        (["search", "--limit", "3", "x"], "There is no option --limit. Did you mean --max-results? See"),
        (["search", "x", "--decay"], "There is no option --decay. It is a knob: --set decay=VALUE. See"),
        (["log", "-f"], "There is no option -f. Did you mean --follow? See"),
        (["get", "-n", "3", "MEMORY.md"], "Did you mean --lines? See"),
        (["forget", "x"], "There is no command 'forget'. Did you mean undo or memories forget? `"),
        (["tool", "memory_serch"], "There is no tool 'memory_serch'. Did you mean memory_search? The"),
        (["find", "x"], "There is no command 'find'. Did you mean search? `openclaw-mem --help`"),
        (["config", "get", "x"], "There is no command 'get'. Did you mean show?"),
        (["config", "--set", "a=b"], "There is no option --set."),
        (["search", "-n5", "x"], "There is no option -n5. Did you mean --max-results? See"),
        (["why-not", "x", "MEMORY.md", "--threshold=.1"], "Did you mean --min-score? See"),
        (["qmd", "search", "x", "--top-k", "3"], "Did you mean -n? See"),
        (["log", "-n", "3"], "There is no option -n. Did you mean --limit? See"),
        (["--worksapce", "/x", "status"], "--worksapce. Did you mean --workspace? See `openclaw-mem --help`"),
        (["search", "-x"], "A query that begins with - needs -- before it: `-- -x`."),
        (["search", "--query", "-x"], "one that begins with - is --query=-VALUE. See"),
        (["search", "x", "--provider", "opnai"], "ollama, local, none. Did you mean openai?"),
        (["demo", "--fault", "embeddings-40"], "Did you mean embeddings-401"),
        (["flush", "--session", ""], "--session is empty: write --session ID.\n"),
        (["status", "--json=1"], "--json takes no value. See `openclaw-mem status --help`."),
        (["log", "--since", "-1d"], "--since needs a value, for example 2d. See `openclaw-mem log --help`."),
        (["completion"], "Missing: SHELL. See"),
        (["providers", "--probe", "opnai"], "In use: static. Did you mean openai?\n"),
        (["undo"], "No change of a note is kept here: there is nothing to undo.\n"),
        (["search", "x", "--agent"], "--agent needs a value. See `openclaw-mem search --help`."),
        (["remember"], "Missing: TEXT. See `openclaw-mem remember --help`. Example: openclaw-mem remember"),
        (["store"], "COMMAND. See `openclaw-mem store --help`. Example: openclaw-mem store status\n"),
        (["qmd", "get", " "], "A document is required: a path, a qmd:// path or a #docid."),
        (["qmd", "get", "zzzzzz"], "There is no document zzzzzz. `openclaw-mem qmd ls` lists"),
        (["get", "MEMORY.md:2-1"], "MEMORY.md:2-1 ends before it begins"),
        (["get", "MEMORY.md:0"], "MEMORY.md has no line 0: lines are counted from 1."),
        (["config", "--verbose", "--json"], "--verbose is for the list as text"),
        (["frobnicate"], "There is no command 'frobnicate'"),
        (["get", "MEMORY.md", "--lines", "many"], "--lines is 'many'"),
        (["demo", "--workspace", "/tmp"], "leave --workspace out"),
        (["demo", "--include", "*.md"], "leave --include out"),
        (["search", "x", "--provider", "magic"], "--provider is 'magic'"),
        (["search", "x", "--workspace", ""], "--workspace is empty: write --workspace DIR, or leave it out."),
        (["--include", " ", "search", "x"], "--include is empty: write --include GLOB, or leave it out."),
        (["search", "x", "--agent", "../x"], "--agent is '../x'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(bare: Call, world: World, argv: list[str], message: str) -> None:
    (world.home / ".openclaw").mkdir()
    (world.home / ".openclaw" / "workspace").symlink_to(world.workspace)
    said = bare(*argv)
    assert said.code == 2
    if "--json" in argv:
        assert message in said.json["error"]["message"]
    else:
        assert said.out == ""
    assert message in said.err
    assert len(said.err.splitlines()) == 1


def test_words_may_follow_options(call: Call) -> None:
    assert call("search", "router", "--json", "vlan", "40").json["query"] == "router vlan 40"
    assert call("search", "router", "--json", "--", "-x").json["query"] == "router -x"
    said = call("config", "set", "--dry-run", "query.decay=on", "query.min_score=0.3").out
    assert "+decay = true" in said and "+min_score = 0.3" in said


def test_words_are_marked_in_any_form_and_script() -> None:
    matches = Matches(tuple({stem("router"), stem("café")}), ("防水", "水ケ"))
    line = "Routers in the Cafe; routing; 防水ケース"
    assert (
        emphasised(matches, line, lambda text: f"<{text}>")
        == "<Routers> in the <Cafe>; routing; <防水ケ>ース"
    )
    assert Matches((), ()).ranges(line) == []


def test_a_provider_for_one_call_does_not_reshape_the_index(call: Call, world: World) -> None:
    call("index")
    before = call("status", "--json").json
    said = call("search", "router", "--provider", "none", "--json")
    assert said.code == 0
    assert said.json["results"]
    after = call("status", "--json").json
    assert (after["vectors"], after["freshness"]["generation"]) == (
        before["vectors"],
        before["freshness"]["generation"],
    )


def test_the_time_that_a_sync_took_is_told_apart(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclaw_mem_engine.cli.tables._WAITED_S", 1e-9)
    waited = call("search", "router").out
    assert re.search(r" · [0-9.]+ ms · after [0-9.]+ s of sync$", waited, re.MULTILINE)
    assert "s of sync" not in call("search", "router", "--no-sync").out
    assert call("search", "router", "--json").json["syncSeconds"] >= 0
    assert call("search", "router", "--json", "--no-sync").json["syncSeconds"] is None


def test_a_backend_without_an_index_answers_too(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``qmd`` is the only other name that the configuration knows; here it counts words in the files."""
    from openclaw_mem_engine.retrieval import BACKENDS

    monkeypatch.setitem(BACKENDS, "qmd", "support.grep_backend")
    (world.home / ".openclaw").mkdir()
    (world.home / ".openclaw" / "openclaw.json").write_text('{"memory": {"backend": "qmd"}}')
    said = call("search", "router", "--json")
    assert (said.code, said.json["backend"]) == (0, "grep")
    assert [hit["path"] for hit in said.json["results"]] == ["memory/2026-02-20.md"]
    assert call("search", "router", "--explain").code == 0
    assert call("status", "--json").json["backend"] == "grep"
    for command in (["index"], ["files"], ["chunks", "MEMORY.md"]):
        refused = call(*command)
        assert refused.code == 2 and "The backend grep cannot do this" in refused.err
    assert world.indexes == []


def test_the_exit_status_tells_nothing_relevant_on_request(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As grep: 1 when nothing was found, or only weak results; 0 without the option."""
    nonsense = ("search", "shakespeare sonnet eighteen", "--profile", "workbench")
    said = call(*nonsense)
    assert said.code == 0
    assert "[weak]" in said.out and "All results are weak" in said.err + said.out
    assert call(*nonsense, "--exit-status").code == 1
    assert call("search", "zxqv", "--exit-status", "--set", "min_score=0.9").code == 1
    assert call("search", "router VLAN", "--exit-status").code == 0
    monkeypatch.setattr(Memory, "search", lambda *_, **__: 1 / 0)
    assert call("search", "router VLAN", "--exit-status").code == 8, "not that of an empty answer"


def test_a_truncated_hit_names_the_line_that_is_cut_off(call: Call, world: World) -> None:
    world.write("memory/late.md", "\n".join([*(f"filler {n} of the note" for n in range(60)), "zeppelin"]))
    args = ("search", "zeppelin", "--profile", "documented", "--set", "mode=bm25", "--min-score", "0")
    said = call(*args)
    assert (
        "memory/late.md:1-61  [best line cut]" in said.out
        and "truncated: line 61, the best of its chunk, is not in the snippet" in said.out
    )
    assert all(
        len(line) <= 80 for line in said.out.splitlines() if "·" not in line and "1 result." not in line
    )
    assert "(best line cut)" in call(*args, "--format", "md").out
    packed = call("search", "zeppelin", "--profile", "workbench").out
    assert "zeppelin" in packed and "best line cut" not in packed


def test_the_help_names_every_profile(bare: Call) -> None:
    assert f"(default: documented): {', '.join(SELECTABLE)} " in " ".join(
        bare("search", "--help").out.split()
    )

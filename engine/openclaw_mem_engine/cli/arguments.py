"""The whole command line: commands, their options and help (see ``command_table``)."""

from __future__ import annotations

from openclaw_mem_engine.cli.backend_arguments import BACKEND_COMMANDS
from openclaw_mem_engine.cli.command_table import read

_TEXT = r"""
@common
  --workspace DIR    the folder that holds MEMORY.md and memory/ (default: OpenClaw's)
  --config FILE      an OpenClaw configuration (JSON5) instead of the usual one
  --agent ID         the agent whose memory is used (default: the default agent)
  --provider NAME    embeddings: auto (default), static (built in), local, openai, gemini, voyage,
      mistral, ollama, none
  --include GLOB...  more notes in the workspace, for example '**/*.md'
  --json             the answer as JSON on stdout

@model
  --model M  instead of the configured one: hf:organisation/repository/file.gguf or a path
  use:--for {embedding,rerank,expansion} =embedding  what the model is for (default: embedding)

@shared
  --query Q  the query as an option; one that begins with - is written --query=-x
  --set KNOB=VALUE...  change one knob of the ranking, for example decay=on (`openclaw-mem config show
      query` lists them)
  --no-sync  do not look for changed files (data that a knob needs is still added to the index)
  --exit-status  exit with 1 if there is no result, or only weak ones, as grep does; errors have other codes
  --session-key KEY  session key of the search, for memory.qmd.scope, such as agent:main:telegram:group:1
      (default: a direct chat)
  start:--from N  first line, from 1
  --since WHEN  30m, 12h, 2d or 1w ago, or a date such as 2026-02-20
  --yes  write without asking
  --fault NAME...  simulate a fault on a copy of the index: embeddings-401, embeddings-429,
      embeddings-timeout, embeddings-garbage, zero-vector, wrong-dimension, no-sqlite-vec, no-fts5,
      qmd-missing, qmd-timeout, qmd-json, qmd-exit (screen 2 of the workbench says what each does)
  --dry-run  show what would be written, and write nothing
  --session ID !  the id or key of a session; the start of an id or the end of a key is enough, if it is
      unique, such as main

@remote
  A remote provider may receive the query, and the text of notes that have no vector yet. It may charge for
  both. `openclaw-mem providers` shows the provider.

@ranking
  = ranking
  --profile P      ranking; configured knobs keep their values (default: documented): documented,
      openclaw-2026.2, workbench, qmd-documented, qmd-2.8
  --max-results N  how many results, 1 to 200 (default: as configured, else 6)
  --min-score X    drop scores below X, 0 to 1 (default: as configured, else that of the profile)
  --set

== start here

demo: open the workbench on bundled notes with lessons, to try it
  $ demo
  $ demo --print-workspace --dir /tmp/demo
  $ search vpn --provider static --workspace /tmp/demo/workspace
  $ demo --fault embeddings-401
  It needs no network and no settings. Without a terminal it prints every lesson.
  --print-workspace  write the demo workspace and print only its path
  --reset            write the demo anew: edits of its notes are lost, notes that were added stay
  --query TEXT       search for this instead of running the lessons
  --dir DIR          write the demo workspace there (default: in the data folder)
  --fault

tui: open the workbench: search as you type, see every score
  $ tui "print spooler"
  $ tui --fault embeddings-timeout
  Type a query and press enter. Then `w` asks why a passage is not returned, `p` changes the ranking, `b`
  pins a baseline to compare with, `?` explains the screen, and `q` quits.
  @remote
  The query may be sent also while you type.
  words:QUERY*  the first query
  --theme T     claw-dark (default), claw-light, claw-contrast, or one of yours
  --session-key
  --fault

== search and explain

search: search the notes, best results first
  $ search "when does the certificate expire" --explain
  $ search GRN-40417 --profile workbench --max-results 10
  $ search backup --set decay=on --set half_life_days=90 --json
  @remote
  words:QUERY*  the query
  --query
  --no-sync
  --session-key
  @ranking
  = output
  --explain     also every stage, each part of the scores, and the first dropped chunks (--json: all)
  --format {table,json,csv,md,files,lines}  table (default), json, csv, md, files (only paths) or lines
      (path:line, score and best line of each result, separated by tabs)
  -0, --null    with files or lines: records end in NUL, and paths are not escaped
  --exit-status

why-not (why_not:run): show why a passage is not returned, and what returns it
  $ why-not "vpn certificate" memory/2026-02-20.md:12
  $ why-not "vpn certificate" MEMORY.md --profile workbench --json
  It follows the passage from the file on disk to the snippet, and stops at the first step that drops the
  passage. With a path alone, the passage is the chunk of that note that is nearest to being returned. Every
  change of a knob that it names was tried, in steps (min score: 0.01).
  @remote
  query:QUERY           what is searched
  location:PATH[:LINE]  a line, a chunk as search prints it, or a note: MEMORY.md:3, MEMORY.md:1-25,
      MEMORY.md
  --no-sync
  --session-key
  @ranking

get: print a note, or some lines of it
  $ get memory/2026-02-20.md:12 --lines 5
  A missing memory file gives empty text and no error, as for agents; other paths are refused.
  location:PATH[:FIRST[-LAST]]  as search prints it, for example MEMORY.md:3-8; without LAST to the end
  --from
  --lines N             how many lines (default: all that follow)

tool: call one of the agent's memory tools as the agent does
  $ tool memory_search '{"query": "vpn certificate"}'
  $ tool memory_get '{"path": "MEMORY.md", "from": 3, "lines": 10}'
  It prints the tool's answer as JSON, with citations and scope, by the configured profile and provider.
  @remote
  name:NAME             memory_search, memory_get, memory_recall; memory_store and memory_forget write
  parameters:JSON? ={}  its parameters; - is stdin
  --session-key KEY     decides citations and scope (default: a direct chat)
  --no-sync

== index

status: show the state of the index and what is configured
  $ status

files (status:run_files): list the files of the index and their state
  $ files
  $ files --changed --json
  What the next sync would read or remove comes first, then what is excluded, with the reason.
  --changed  only files that are not up to date

chunks (status:run_chunks): list the chunks of a file, and the lines that they share
  $ chunks MEMORY.md
  $ chunks memory/2026-02-20.md --text
  A search finds chunks, not files: two chunks of a file are found separately.
  path:PATH  as search and files print it
  --text     also the text, with the limits of each chunk

index: sync the index with the notes on disk
  $ index --workspace ~/.openclaw/workspace
  $ index --dry-run --provider openai
  Only what changed is read again. You can stop it at any time: finished work is kept. A remote
  provider gets the text that has no vector yet, and may charge for it: --dry-run shows that.
  --force            rebuild the index; searches keep using the old one meanwhile
  --verify           read every file and compare it, also files with the same time and size
  --prune            remove the notes of an emptied workspace from the index
  --dry-run          only show what would be embedded, where its text would be sent, and the cost
  = many agents
  --agents FILE|all  sync many agents: all in the configuration, or those in a file: on each line an id
      and, if no configuration has it, a workspace
  --jobs N           with --agents: how many at a time (default: 4)

watch: keep the index up to date until Ctrl-C
  $ watch
  $ watch --json >> sync.jsonl
  A remote provider gets the text that has no vector yet, and may charge for it. A line is printed only when
  something happens. It syncs sync.debounce_ms after the last change, even if sync.watch is off, and every
  sync.interval_minutes. The end of a conversation is indexed after sync.session_quiet_s without a message.

doctor: check the index for damage and problems; --fix repairs it
  $ doctor
  $ doctor --fix
  $ doctor --deep --json
  Without --fix it changes nothing. The exit code is 6 if errors remain, but 5 if the
  only one is that the workspace cannot be used.
  --fix   repair it, and sync where that repairs, which may embed text again; notes do not change
  --deep  make every chunk again from the notes and compare it with the index

log: show what happened: syncs, rebuilds, fallbacks, failures
  $ log --since 2d
  $ log --kind fallback,recovered
  $ log --follow --json
  The newest event comes last. Queries and the text of notes are not in it.
  --limit N    the last N events (default: 50)
  --kind K...  only these kinds, separated by commas: sync, rebuild, fallback, recovered, search-failed,
      denied, doctor, watch, flush, snapshot, edit
  --since
  --all        events of every agent and workspace
  --follow     follow new events until Ctrl-C

== write memory

remember: add a fact to MEMORY.md, or an event to the daily log
  $ remember "Ines prefers calls after ten"
  $ remember --dry-run "decided: SQLite stays"
  Preferences and decisions are facts. Where the text goes, and why, is shown with the diff before
  anything is written.
  words:TEXT+          what to remember
  --to {memory,daily}  MEMORY.md or the daily log (default: decided by the words of the text)
  --dry-run
  --yes

undo (remember:undo): undo the last change that openclaw-mem made in a note
  $ undo
  $ undo --list
  $ undo 12 --show
  It refuses if the lines of the change were changed since.
  edit:CHANGE?  its number, as --list prints it (default: the last)
  --list      the changes that can be undone, newest first
  --show      print the note as it was before the change
  --dry-run
  --yes

curate: propose changes of MEMORY.md, with evidence and diffs
  $ curate
  $ curate --effect 3f9c01ab
  $ curate --apply 3f9c01ab
  Without options it lists the proposals; each begins with its ID, of which the first characters are enough.
  Nothing is written without confirmation; `openclaw-mem undo` undoes a change.
  --apply ID    show a proposal and its effect; write it after confirmation
  --effect ID   what a proposal would do to answers, measured on a copy
  --reject ID   do not make a proposal again
  --restore ID  make a rejected proposal again
  --rejected    list the rejected proposals
  --yes

flush: ask a model what to keep from a conversation, and append it
  $ flush --session main --dry-run
  $ flush --session main
  The answer goes to the daily log at once. This is what OpenClaw does before it compacts a
  conversation, with its threshold and prompts. The chat model, which gets the conversation, is that of
  flush.provider and flush.model. Nothing is overwritten; `openclaw-mem undo` undoes it.
  --session
  --dry-run  show the decision and what would be sent; send and write nothing
  --force    flush regardless of tokens and earlier flushes

snapshot: save the last messages of a conversation as a note
  $ snapshot --session main --dry-run
  OpenClaw does this on /new and /reset. Commands, tool calls and errors are not kept. The note is
  memory/DATE-NAME.md. The chat model of flush.model gets the first 2,000 characters of the kept messages, and
  chooses the name. Without a model, the name is the time. The note is written at once. An existing note is
  never replaced.
  --session
  --dry-run

prompt: show what a system prompt gets from memory, with tokens
  $ prompt
  $ prompt --session-type group --citations off
  $ prompt --query "vpn certificate"
  It prints the text, the files with the line at which they are cut, missing files, and the logs of today
  and yesterday. With --query it also shows how many tokens a search saves.
  @remote
  --session-type {main,group,subagent,cron} =main  whose prompt (default: main, a direct chat)
  --citations {auto,on,off}  whether results name their source (default: as configured)
  --query Q                  search this, and compare with reading whole files

timeline: show when memory was written and read, and missed flushes
  $ timeline
  $ timeline --kind flush,compaction --since 1w
  $ timeline --session agent:main:main --json
  A missed flush is a compaction before which no flush ran. The kind flush also lists skipped flushes:
  they did not run. OpenClaw's transcripts are read, never written.
  --session ID  only this session, named as for flush
  --since
  --kind K...   only these kinds, separated by commas: flush, compaction, snapshot, write, search, sync,
      rebuild, fallback, recovered, search-failed, denied, edit, missed
  --limit N     the last N sessions (default: 20); --json lists all

== settings and models

config -> show: show or change settings, with the origin of each value
  $ config --agent ops
  $ config show query.min_score provider
  $ config set query.min_score=0.3 theme=claw-light
  $ config undo
  Without a command it shows the settings. `set` and `undo` change config.toml and no other file.

config show (config:show_settings): show every setting, its value and its origin
  $ config show query.min_score provider
  $ config show --verbose
  No origin is shown for a value that is built in.
  values:KEY*  only these, for example query, provider.name
  --verbose    also the allowed values

config set (config:change): change settings in config.toml
  $ config set query.min_score=0.3 theme=claw-light
  The change is shown first, and written after a yes. `openclaw-mem config undo` undoes it.
  values:KEY=VALUE*  for example query.min_score=0.3
  --dry-run          show the change and write nothing
  --yes

config undo (config:change): undo the last change of config.toml
  $ config undo --dry-run
  Run it again to restore the change.
  --dry-run  show the change and write nothing
  --yes

providers: list the embedding providers and where they send text
  $ providers
  $ providers --probe
  Without --probe no request is sent: earlier results are shown. Keys are never shown.
  --probe [NAME]  probe every provider in use, or the named one; exit code 7 when the primary or the named
      one fails

model -> status: show or download the files of local models
  $ model status
  $ model download --yes
  $ model download --for rerank
  Without a command it shows the state.

model status (model:run): show which model files exist
  $ model status
  @model

model download (model:run_download): download the file of a model
  $ model download --yes
  $ model download --for rerank
  Nothing is downloaded without confirmation. A stopped download continues where it stopped.
  @model
  --yes                download without asking
  base_url:--from URL  another host that serves the same paths as https://huggingface.co

cache -> stats: show or prune the embedding cache
  $ cache stats
  $ cache prune --max 20000
  Without a command it shows the sizes.

cache stats (doctor:run_cache): show how many embeddings the cache holds, by model
  $ cache stats

cache prune (doctor:run_cache): delete the oldest embeddings that no chunk needs
  $ cache prune --max 20000
  An embedding that an indexed chunk needs is never pruned.
  --max N  how many to keep (default: the setting cache.max_entries)

completion: print a script that completes commands in your shell
  $ completion zsh > ~/.zfunc/_openclaw-mem
  $ completion bash > ~/.local/share/bash-completion/completions/openclaw-mem
  shell:SHELL {bash,zsh,fish}  bash, zsh or fish
"""
#: By what they are for, in the order of the help; and among the options those that all commands have.
SECTIONS, _GROUPS = read(_TEXT + BACKEND_COMMANDS)
COMMANDS = [command for section in SECTIONS.values() for command in section]
#: Allowed before and after the command.
COMMON = _GROUPS["common"]

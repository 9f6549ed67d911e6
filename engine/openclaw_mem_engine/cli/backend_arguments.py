"""The commands ``qmd``, ``memories`` and ``store``, as text (see ``command_table``)."""

BACKEND_COMMANDS = r"""
@qmd-formats
  = output
  --format {cli,json,csv,md,xml,files}  cli (default), json, csv, md, xml, or files: one line each
  --csv    the same as --format csv
  --md     the same as --format md
  --xml    the same as --format xml
  --files  the same as --format files

@qmd-lines
  = output
  -l, --lines N      how many lines (default: all)
  --no-line-numbers  only the text

@qmd-search
  words:QUERY*              the query
  --query
  -c, --collection NAME...  search this collection only
  --no-sync
  --session-key KEY         session key, for memory.qmd.scope (default: a direct chat)
  = ranking
  --profile P               ranking: qmd-documented (default), qmd-2.8
  -n N                      how many documents, 200 at most (default: 5; 20 for json and files)
  --all                     all of them, 200 at most
  --min-score X             drop results below this score (default: 0; vsearch: 0.3)
  --no-rerank               do not use the reranker
  --set
  = output
  --full                    the whole document instead of a snippet
  --line-numbers            number the lines
  --explain                 also how each score was made
  --exit-status
  @qmd-formats

@collection
  name:NAME  the collection

== other stores and backends

qmd: search whole documents in collections, as QMD does
  $ qmd query "vpn certificate"
  A remote provider may receive queries (vsearch, query), and the text of documents that have no vector yet
  (also embed). It may charge for both. `openclaw-mem providers` shows the provider. `qmd search` sends
  nothing.

qmd search (qmd_search:run): search documents by words only (BM25, no model)
  $ qmd search "vpn certificate" -c notes --format json
  @qmd-search

qmd vsearch (qmd_search:run): search documents by vectors only
  $ qmd vsearch "how do I log in from home"
  @qmd-search

qmd query (qmd_search:run): search documents by words and vectors, with expansion and reranking
  $ qmd query "vpn" --explain
  $ qmd query $'lex: vpn\nvec: log in from home'
  Lines that begin with lex:, vec: or hyde: are searched as they are, without expansion.
  @qmd-search

qmd get (qmd_documents:get): print one document, by path or #docid
  $ qmd get notes/vpn.md:50 -l 20
  $ qmd get '#a1b2c3'
  reference:PATH[:FROM[:COUNT]]  a path, qmd:// path or #docid
  --from
  @qmd-lines

qmd multi-get (qmd_documents:multi_get): print documents, by glob or by a list of paths and docids
  $ qmd multi-get 'notes/2026-*.md' --format json
  $ qmd multi-get 'a.md, #a1b2c3'
  pattern:GLOB|LIST  a glob, or a list separated by commas
  --max-bytes N      exclude larger documents (default: 65536)
  @qmd-lines
  @qmd-formats

qmd ls (qmd_documents:ls): list the collections, or the documents of one
  $ qmd ls notes/work
  path:COLLECTION[/FOLDER]?  default: all collections

qmd collection: add, list, change or remove the folders that are indexed
  $ qmd collection add ~/notes --name notes

qmd collection add (qmd:add): index a folder under a name
  $ qmd collection add ~/notes --name notes --mask '**/*.md'
  path:FOLDER          `.` is the current one
  --name NAME          default: the name of the folder
  --mask, --glob GLOB  which files (default: **/*.md)
  --ignore GLOB...     which files to exclude

qmd collection list (qmd_collections:show_all): list the collections
  $ qmd collection list

qmd collection show (qmd_collections:show_one): show one collection
  $ qmd collection show notes
  @collection

qmd collection remove (qmd_collections:remove): remove a collection; its files stay
  $ qmd collection remove notes
  To remove a collection of openclaw.json, edit that file.
  @collection

qmd collection rename (qmd_collections:rename): give a collection another name
  $ qmd collection rename notes work
  @collection
  new:NEW  the new name

qmd collection include (qmd_collections:include): search a collection even if none is named
  $ qmd collection include notes
  @collection

qmd collection exclude (qmd_collections:include): search a collection only if it is named
  $ qmd collection exclude notes
  @collection

qmd collection update-cmd (qmd_collections:update_command): set the shell command that `qmd update` first
      runs in the folder
  $ qmd collection update-cmd notes 'rsync -a host:notes/ .'
  Each `qmd update` of the collection runs it, with or without --pull; no search and no `index` does. It may
  change the files there. Only a command that is set here ever runs, never one from an index.yml. Without a
  command, the present one is removed.
  @collection
  words:COMMAND*  in quotes

qmd context: add, list or remove descriptions of folders
  $ qmd context add / "Notes of a system administrator"

qmd context add (qmd_collections:context_add): describe a folder
  $ qmd context add qmd://notes/work "What we do at work"
  path:PATH?  a qmd:// path, `/` for all, or a folder (default: the current one)
  text:TEXT   the description, shown with every document of the folder

qmd context list (qmd_collections:context_list): list the contexts
  $ qmd context list

qmd context rm (qmd_collections:context_rm): remove a context
  $ qmd context rm qmd://notes/work
  path:PATH  a qmd:// path, `/` for all, or a folder

qmd update (qmd:update): update the index with modified files
  $ qmd update --pull
  Commands of `qmd collection update-cmd` run before it. Vectors are made by `qmd embed`, and by `index`.
  --pull                 first run `git pull --ff-only` in collections that are in a git work tree
  -c, --collection NAME  this collection only (default: all)

qmd embed (qmd:embed): make the vectors that are missing
  $ qmd embed
  $ qmd embed -f
  -f, --force  replace all of them; those in the cache are not made again

qmd status (qmd:status): show what the index holds
  $ qmd status

qmd cleanup (qmd:cleanup): empty the caches, and remove deleted documents
  $ qmd cleanup --dry-run
  Embeddings of present documents leave the cache too: `qmd embed -f` makes them again after that, and a
  remote provider may charge for them.
  --dry-run  only count what would be removed

qmd warm-up (qmd:warm_up): prepare the external program: collections, index, one search
  $ qmd warm-up
  Its models are loaded (and downloaded, which takes minutes) if memory.qmd.searchMode needs them.
  --models  make vectors and load the models in every search mode

memories: store and find single memories, as memory-lancedb does
  $ memories list
  A remote provider gets the texts that are stored and searched, and may charge for them. `openclaw-mem
  providers` shows the provider.

memories list (memories:listed): list all memories, newest first
  $ memories list

memories search (memories:search): find the nearest memories, with their scores
  $ memories search "tea"
  words:QUERY+  the query
  --limit N     how many at most (default: 5)

memories stats (memories:stats): count the memories in each category
  $ memories stats

memories store (memories:store): store a text, even if auto-capture refuses it
  $ memories store "the NAS is called heron" --category entity
  words:TEXT+          what to store
  --category C =other  preference, decision, entity, fact, other (default)
  --importance X =0.7  0 to 1 (default: 0.7)

memories forget (memories:forget): remove the memory with this id
  $ memories forget 6f1c22ab
  id:ID  as `list` prints it; the first 8 characters are enough

memories capture (memories:capture): decide about each text as auto-capture does, name the rule, and store
      what it accepts
  $ memories capture --dry-run "I prefer dark mode" "thanks"
  $ memories capture --dry-run --session main
  texts:TEXT*   what a user said; one argument for each text
  --session ID  what the user said in this session
  --dry-run

memories recall (memories:recall): print the memories that would be put before a prompt
  $ memories recall "which tea?"
  words:PROMPT+  the prompt

store: keep indexes in PostgreSQL servers instead of files
  $ store status

store init (store:init): make or update the tables on every server of store.servers
  $ store init
  It connects as the role in OPENCLAW_MEM_STORE_OWNER, which owns the tables, and gives the role of
  store.servers the rights to use them.

store status (store:status): show which server and shard hold the agent's index, and check
      each server
  $ store status
  $ store status --agent ops --json
  Passwords are never shown. Exit code 6 when a server cannot be used.

store migrate (store:migrate): copy the agent's index from its file to the servers, or back, with its
      embeddings
  $ store migrate --to postgres
  $ store migrate --to sqlite --replace
  The source does not change. Searches see the old content of the target until all is copied.
  --to {postgres,sqlite} !  where the copy goes
  --replace                 replace an index with files that the target already has

store remove (store:remove): remove the index of a retired agent from all servers, with the text of its
      notes
  $ store remove --agent ops
  It shows what will be removed, asks, and removes text, words and embeddings. The notes stay. It refuses
  while a sync is running. A host that still syncs the agent makes the index again.
  --yes  remove without asking
"""

//! Every cell of the matrix: what is run, and what must hold of its answer. [`super::holds`] says how that is written.

use super::scene::Scene;
use super::troubles::Trouble::{self, *};

/// A command, what the server suffers from meanwhile, and what the answer must say.
#[derive(Debug)]
pub struct Cell {
    /// The command: `locks`.
    pub command: &'static str,
    /// What its answer is held against, in a phrase.
    pub shows: &'static str,
    /// True where it is in the short form, too.
    pub is_short: bool,
    pub(super) trouble: Trouble,
    /// The command line. `{on}` stands for the flags that lead to the server; the others are [`Scene::words`]'s. None is that
    /// of the recorder, which began before the trouble.
    pub(super) line: &'static str,
    /// All of this holds of the answer.
    pub(super) expects: &'static [&'static str],
    /// What it says instead on a server that lacks what it takes.
    pub(super) without: &'static [Without],
}

/// What some servers lack, and what the answer must say there.
#[derive(Debug)]
pub(super) struct Without {
    /// Whether this server lacks it, from what is known of it without the program under test.
    pub(super) is_lacking: fn(&Scene) -> bool,
    pub(super) expects: &'static [&'static str],
    /// What is lacking and what is seen nevertheless, for the table.
    pub(super) because: &'static str,
}

const fn cell(
    trouble: Trouble,
    command: &'static str,
    shows: &'static str,
    line: &'static str,
    expects: &'static [&'static str],
) -> Cell {
    Cell { command, shows, is_short: false, trouble, line, expects, without: &[] }
}

impl Cell {
    const fn in_short(self) -> Self {
        Self { is_short: true, ..self }
    }

    const fn without(self, without: &'static [Without]) -> Self {
        Self { without, ..self }
    }
}

const NO_PREPARED_TEXT: Without = Without {
    // MySQL from 5.7.4 on lists prepared statements beside the counts by digest, MariaDB from 10.5 on.
    is_lacking: |scene| scene.known("performance_schema_max_prepared_statements_instances") == "null",
    expects: &["stdout has (prepared statements: this|(a prepared statement"],
    because: "the server counts prepared statements under no text: their number and time are shown",
};
const NO_DIGESTS: Without = Without {
    is_lacking: |scene| !scene.counts_statements(),
    expects: &["stdout has no statements: performance_schema is off|no such table in performance_schema"],
    because: "performance_schema is off there unless its option file says otherwise, or counts no statements yet: the screen \
              says so",
};
const NO_METADATA_LOCKS: Without = Without {
    is_lacking: |scene| !scene.lists_metadata_locks(),
    expects: &[
        "roots.0.connection_id = null",
        "roots.0.waiting_in_all = 8",
        "notes.* has metadata lock|METADATA_LOCK",
    ],
    because: "the server lists no metadata locks: the cause and who waits are shown, the holder is not",
};
const NO_METADATA_LOCKS_IN_TEXT: Without = Without {
    expects: &[
        "stdout has 1 CRITICAL 8 sessions wait for a lock of the whole server",
        "stdout has global-lock-pileup",
    ],
    ..NO_METADATA_LOCKS
};

const NO_DIVE_LIMIT: Without = Without {
    is_lacking: |scene| scene.known("eq_range_index_dive_limit") == "null",
    expects: &["exit = 2", "stderr has eq_range_index_dive_limit"],
    because: "the server says neither what it estimates (optimizer_trace) nor from how many values on (eq_range_index_dive_limit)",
};

/// Every cell, trouble by trouble: a line of the support table.
pub static CELLS: &[Cell] = &[
    cell(
        Healthy,
        "doctor",
        "a server with little to do: nothing above a note, most causes checked",
        "doctor {on} --json --duration 3s --fail-on never",
        &[
            "server.version = {version}",
            "server.pid = {pid}",
            "findings.*.severity never warning|critical",
            "clear.# > 20",
            "cost.threads_stopped = 0",
        ],
    ),
    cell(
        Healthy,
        "host",
        "the server's process, and the CPUs that the kernel grants it",
        "host {on} --json",
        &["server.pid = {pid}", "effective_cpus.cpus > 0", "server_cpu.threads > 5"],
    ),
    cell(
        Healthy,
        "connections",
        "a client that comes and goes: how often",
        "connections {on} --json --duration 2s",
        // It stays for 100 ms; a busy machine makes it slower.
        &["pid = {pid}", "made_per_s > 1", "made_per_s < 15", "max_connections = {max_connections}"],
    ),
    cell(
        Healthy,
        "cache",
        "the data and redo files, and how much of them the page cache holds",
        "cache {on} --json --duration 100ms",
        &[
            "server.pid = {pid}",
            "kinds.*.kind = data",
            "kinds.*.kind = redo",
            "kinds.0.cached_bytes > 1000000",
            "buffer_pool_bytes = {innodb_buffer_pool_size}",
        ],
    ),
    cell(
        Healthy,
        "stacks",
        "stacks with names: the thread that accepts, the clients' threads",
        "stacks {on} --json --duration 1s",
        &[
            "process.pid = {pid}",
            // MySQL up to 5.6 and MariaDB; MySQL from 5.7 on.
            "stacks.*.frames.* has handle_connections_sockets|listen_for_connection_event",
            "stacks.*.frames.* has do_command|handle_one_connection|handle_connection",
            "threads_stopped = 0",
        ],
    ),
    cell(
        Healthy,
        "locks",
        "a server on which nobody waits: no root",
        "locks {on} --json",
        // A row of an update that has just begun may be waited for.
        &["roots.# < 2", "waiting < 2"],
    ),
    cell(
        Healthy,
        "indexes",
        "a list of 20 values: how many dives into the index it costs",
        "indexes {on} --json --database sbtest --statement {listed}",
        &[
            "eq_range_index_dive_limit = {eq_range_index_dive_limit}",
            "statements.0.lists.0.values = 20",
            "statements.0.dives = {dives}",
        ],
    )
    .without(&[NO_DIVE_LIMIT]),
    cell(
        Healthy,
        "tune",
        "the plan: every family of settings looked at, with a reason where it is left as it is",
        "tune {on} --json --duration 2s",
        &["server.pid = {pid}", "left.# > 8", "left.*.because has a"],
    ),
    cell(
        Healthy,
        "top",
        "the overview of a live server",
        "top {on} --once --duration 3s --size 120x40",
        &["stdout has {version}", "stdout has LIVE", "stdout has queries"],
    ),
    cell(
        Healthy,
        "fleet query",
        "an answer of the server",
        "fleet query {ask} {fleet} --json",
        &["columns.0 = port", "rows.0.0 = {port}"],
    ),
    cell(
        Healthy,
        "fleet doctor",
        "a server with little to do: no trouble",
        "fleet doctor {fleet} --json",
        &["answered = 1", "troubles.# = 0", "failures.# = 0"],
    ),
    cell(
        Texts,
        "workload",
        "the statement that takes most of the time, sent as text",
        "workload {on} --json --by digest --duration 3s",
        &["groups.0.key has from sbtest1 where pad like", "groups.0.share > 0.5"],
    ),
    cell(
        Texts,
        "top",
        "the same statement, on its screen of queries",
        "top {on} --once --duration 3s --size 250x40 --screen queries",
        &["stdout has from sbtest1 where pad like"],
    )
    .without(&[NO_DIGESTS]),
    cell(
        Prepared,
        "workload",
        "the same statement, prepared by the clients",
        "workload {on} --json --by digest --duration 3s",
        &["groups.0.key has from sbtest1 where pad like", "groups.0.share > 0.5"],
    ),
    cell(
        Prepared,
        "top",
        "the prepared statement, on its screen of queries",
        "top {on} --once --duration 3s --size 250x40 --screen queries",
        &["stdout has from sbtest1 where pad like"],
    )
    .without(&[NO_DIGESTS, NO_PREPARED_TEXT]),
    cell(
        Loaded,
        "tune --apply",
        "a setting is tried under load and put back; nothing is left behind",
        "tune --apply {on} --json --only innodb_sync_spin_loops=25 --put-back --settle 100ms --measure 300ms --max-time 8s",
        &["kept = false", "quads > 0", "{changed} = 0", "{events} = 0"],
    ),
    cell(
        Row,
        "doctor",
        "a row lock: the cause first, its holder named, and what would free the others",
        "doctor {on} --json --duration 3s --fail-on never",
        &[
            "findings.0.cause = row-lock-pileup",
            "findings.0.root.connection_id = {holder}",
            "findings.0.remedies.*.statement = KILL {holder}",
        ],
    )
    .in_short(),
    cell(
        Row,
        "locks",
        "a row lock: its holder, with all who wait behind it",
        "locks {on} --json",
        &["roots.0.holds.kind = row", "roots.0.connection_id = {holder}", "roots.0.waiting_in_all = 8"],
    )
    .in_short(),
    cell(
        Row,
        "stacks",
        "a row lock: the stacks of threads whose UPDATE waits",
        "stacks {on} --json --duration 500ms",
        &[
            "process.pid = {pid}",
            "stacks.*.frames.* has mysql_update|Sql_cmd_update|Sql_cmd_dml",
            "threads_stopped = 0",
        ],
    )
    .in_short(),
    cell(
        Row,
        "workload",
        "a row lock: the statement that waits",
        "workload {on} --json --by digest --duration 2s",
        &["groups.0.key has update sbtest1 set k = k", "groups.0.share > 0.5"],
    )
    .in_short(),
    cell(
        Row,
        "fleet doctor",
        "a row lock: the server in trouble, with the cause and the holder",
        "fleet doctor {fleet} --json",
        &["troubles.0.cause = row-lock-pileup", "troubles.0.servers.0.headline has Connection {holder} "],
    ),
    cell(
        Metadata,
        "doctor",
        "a metadata lock: the cause first, its holder named, and what would free the others",
        "doctor {on} --json --duration 3s --fail-on never",
        &[
            "findings.0.cause = metadata-lock-pileup",
            "findings.0.root.connection_id = {holder}",
            "findings.0.remedies.*.statement = KILL {holder}",
        ],
    ),
    cell(
        Metadata,
        "locks",
        "a metadata lock: its holder, with all who wait behind it",
        "locks {on} --json",
        &["roots.0.holds.kind = metadata", "roots.0.connection_id = {holder}", "roots.0.waiting_in_all = 8"],
    ),
    cell(
        Metadata,
        "fleet doctor",
        "a metadata lock: the server in trouble, with the cause and the holder",
        "fleet doctor {fleet} --json",
        &[
            "troubles.0.cause = metadata-lock-pileup",
            "troubles.0.servers.0.headline has Connection {holder} ",
        ],
    ),
    cell(
        Global,
        "doctor (text)",
        "a global lock: the cause first, its holder named",
        "doctor {on} --duration 3s --fail-on never",
        &["stdout has 1 CRITICAL Connection {holder} ", "stdout has global-lock-pileup"],
    )
    .without(&[NO_METADATA_LOCKS_IN_TEXT]),
    cell(
        Global,
        "locks",
        "a global lock: its holder, with all who wait behind it",
        "locks {on} --json",
        &[
            "roots.0.holds.kind = global|backup",
            "roots.0.connection_id = {holder}",
            "roots.0.waiting_in_all = 8",
        ],
    )
    .without(&[NO_METADATA_LOCKS]),
    cell(
        Global,
        "fleet doctor",
        "a global lock: the server in trouble, with the cause",
        "fleet doctor {fleet} --json",
        &["troubles.0.cause = global-lock-pileup"],
    ),
    cell(
        Recorded,
        "record",
        "samples of the server, and the stall that a row lock made",
        "",
        &["stderr has {version}", "stderr has 1 event"],
    ),
    cell(
        Recorded,
        "report",
        "the stall of the recording: its cause, and who blocked whom",
        "report {recording} --json",
        &[
            "diagnosis.findings.0.cause = row-lock-pileup",
            "diagnosis.findings.0.root.connection_id = {holder}",
        ],
    ),
    cell(
        Recorded,
        "top --replay",
        "the stall's second, with the holder on its screen of locks",
        "top --replay {recording} --once --event 1 --screen locks --size 160x40",
        &["stdout has {version}", "stdout has connection {holder} "],
    ),
    cell(
        Recorded,
        "workload --recording",
        "the statement that waited most",
        "workload --recording {recording} --json --by digest",
        &["groups.0.key has update sbtest1 set k = k"],
    ),
];

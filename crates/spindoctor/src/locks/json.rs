//! JSON, schema `spindoctor.locks/1`: every wait, for machines. Fields may be added; none is renamed or removed. Times
//! are in milliseconds unless the name says otherwise.

use std::sync::LazyLock;

use serde::Serialize;
use spindoctor_model::wait_graph::{LockKind, WaitTransaction, WaitingThread};
use spindoctor_profile::WaitedLatch;

use super::view::doing;
use super::waits::Locks;
use spindoctor_page::json::to_text;
use spindoctor_page::safe::safe_json;

/// The schema's name.
const SCHEMA: &str = "spindoctor.locks/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    server: &'a str,
    pid: Option<u32>,
    at: String,
    took_ms: f64,
    server_ms: f64,
    server_queries: u64,
    threads_stopped: u64,
    waiting: usize,
    left_out: u64,
    moved_on: u64,
    roots: Vec<Root<'a>>,
    edges: Vec<Edge<'a>>,
    cycles: Vec<Vec<Place>>,
    threads: Vec<Thread<'a>>,
    /// As in `stacks`: of one look, so without CPUs that spin.
    latches: &'a [WaitedLatch],
    notes: &'a [String],
}

#[derive(Serialize)]
struct Root<'a> {
    thread_os_id: Option<u64>,
    connection_id: Option<u64>,
    user: &'a str,
    host: &'a str,
    name: &'a str,
    doing: String,
    statement: Option<&'a str>,
    since_s: Option<f64>,
    transaction: Option<WaitTransaction>,
    holds: Held<'a>,
    waiting_directly: u32,
    waiting_in_all: u32,
    longest_wait_s: Option<f64>,
    free_with: Option<&'a str>,
    free_note: &'a str,
    rows_to_roll_back: Option<u64>,
    inferred: bool,
    visible: bool,
    ended: bool,
    stack: &'a [String],
}

#[derive(Serialize)]
struct Held<'a> {
    kind: LockKind,
    object: &'a str,
}

/// Both ids of a waiter and its holder: a thread may have one of them, or both.
#[derive(Serialize)]
struct Edge<'a> {
    waiter: Option<u64>,
    holder: Option<u64>,
    waiter_connection: Option<u64>,
    holder_connection: Option<u64>,
    kind: LockKind,
    object: &'a str,
    mode: &'a str,
    wanted_in: &'a str,
    waited_s: Option<f64>,
    inferred: bool,
}

#[derive(Serialize)]
struct Place {
    thread_os_id: Option<u64>,
    connection_id: Option<u64>,
}

#[derive(Serialize)]
struct Thread<'a> {
    thread_os_id: Option<u64>,
    connection_id: Option<u64>,
    user: &'a str,
    host: &'a str,
    name: &'a str,
    statement: Option<&'a str>,
    server_state: &'a str,
    since_s: Option<f64>,
}

/// The look as indented JSON with a line break at its end.
pub fn render(locks: &Locks) -> serde_json::Result<String> {
    to_text(&written(locks))
}

/// The look as JSON on a single line, for looks that follow each other.
pub fn one_line(locks: &Locks) -> serde_json::Result<String> {
    let mut json = safe_json(&serde_json::to_string(&written(locks))?);
    json.push('\n');
    Ok(json)
}

/// Stands for an owner that nobody can see.
static UNKNOWN: LazyLock<WaitingThread> = LazyLock::new(WaitingThread::default);

fn written(locks: &Locks) -> Written<'_> {
    let graph = &locks.graph;
    let thread = |place: Option<u32>| place.and_then(|place| locks.thread(place));
    let os_id = |place: Option<u32>| thread(place).and_then(|thread| thread.thread_os_id);
    let connection_id = |place: Option<u32>| thread(place).and_then(|thread| thread.connection_id);
    Written {
        schema: SCHEMA,
        server: &locks.server,
        pid: locks.pid,
        at: locks.at.to_string(),
        took_ms: locks.took_ms,
        server_ms: locks.server_ms,
        server_queries: locks.server_queries,
        threads_stopped: locks.threads_stopped,
        waiting: locks.waiting(),
        left_out: graph.left_out,
        moved_on: graph.moved_on,
        roots: locks
            .roots
            .iter()
            .map(|root| {
                let seen = thread(root.thread);
                let who = seen.unwrap_or(&UNKNOWN);
                Root {
                    thread_os_id: who.thread_os_id,
                    connection_id: who.connection_id,
                    user: &who.user,
                    host: &who.host,
                    name: &who.name,
                    doing: match root.doing.as_str() {
                        "" => doing(root, seen),
                        text => text.to_owned(),
                    },
                    statement: who.statement.as_deref(),
                    since_s: who.since_s,
                    transaction: who.transaction,
                    holds: Held { kind: root.kind, object: &root.object },
                    waiting_directly: root.waiting_directly,
                    waiting_in_all: root.waiting_in_all,
                    longest_wait_s: root.longest_wait_s,
                    free_with: root.free_with.as_deref(),
                    free_note: &root.free_note,
                    rows_to_roll_back: root.rows_to_roll_back,
                    inferred: root.is_inferred,
                    visible: seen.is_some(),
                    ended: who.has_ended,
                    stack: &who.stack,
                }
            })
            .collect(),
        edges: graph
            .edges
            .iter()
            .map(|edge| Edge {
                waiter: os_id(Some(edge.waiter)),
                holder: os_id(edge.holder),
                waiter_connection: connection_id(Some(edge.waiter)),
                holder_connection: connection_id(edge.holder),
                kind: edge.kind,
                object: &edge.object,
                mode: &edge.mode,
                wanted_in: &edge.wanted_in,
                waited_s: edge.waited_s,
                inferred: edge.is_inferred,
            })
            .collect(),
        cycles: locks
            .cycles
            .iter()
            .map(|cycle| {
                let place = |place: &u32| Place {
                    thread_os_id: os_id(Some(*place)),
                    connection_id: connection_id(Some(*place)),
                };
                cycle.iter().map(place).collect()
            })
            .collect(),
        threads: graph
            .threads
            .iter()
            .map(|thread| Thread {
                thread_os_id: thread.thread_os_id,
                connection_id: thread.connection_id,
                user: &thread.user,
                host: &thread.host,
                name: &thread.name,
                statement: thread.statement.as_deref(),
                server_state: &thread.server_state,
                since_s: thread.since_s,
            })
            .collect(),
        latches: &locks.latches,
        notes: &graph.notes,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    use crate::locks::examples;

    /// The promise of `spindoctor.locks/1`: fields may be added, none is renamed or removed.
    #[test]
    fn every_field_of_the_public_schema_is_there() {
        let json: Value = serde_json::from_str(&render(&examples::chain()).unwrap()).unwrap();
        for field in ["schema", "took_ms", "server_ms", "left_out", "roots", "edges", "cycles"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        let root = &json["roots"][0];
        for field in [
            "thread_os_id",
            "connection_id",
            "user",
            "doing",
            "statement",
            "since_s",
            "holds",
            "waiting_directly",
            "waiting_in_all",
            "free_with",
            "stack",
        ] {
            assert!(root.get(field).is_some(), "{field}");
        }
        for field in ["waiter", "holder", "kind", "object", "waited_s"] {
            assert!(json["edges"][0].get(field).is_some(), "{field}");
        }
        assert_eq!(json["schema"], "spindoctor.locks/1");
        assert_eq!(root["connection_id"], 12);
        assert_eq!(root["doing"], "idle in transaction");
        assert_eq!(root["holds"]["kind"], "metadata");
        assert_eq!(root["holds"]["object"], "sbtest.sbtest1");
        assert_eq!((&root["waiting_directly"], &root["waiting_in_all"]), (&1.into(), &201.into()));
        assert_eq!(root["free_with"], "KILL 12");
        assert_eq!(json["edges"].as_array().unwrap().len(), 201);
        assert_eq!((&json["edges"][0]["waiter"], &json["edges"][0]["holder"]), (&4344.into(), &4312.into()));
    }

    #[test]
    fn a_ring_and_an_owner_that_nobody_sees_are_shown() {
        let ring: Value = serde_json::from_str(&render(&examples::ring()).unwrap()).unwrap();
        assert_eq!(ring["cycles"][0][1]["connection_id"], 13);
        let mutexes: Value = serde_json::from_str(&render(&examples::mutexes()).unwrap()).unwrap();
        assert_eq!(mutexes["roots"][1]["ended"], true);
        let edges = mutexes["edges"].as_array().unwrap();
        assert!(edges.iter().any(|edge| edge["kind"] == "latch" && edge["holder"].is_null()));
        let latches: Value = serde_json::from_str(&render(&examples::latches()).unwrap()).unwrap();
        assert_eq!(latches["latches"][0]["latch"], "rollback segment");
        assert_eq!(latches["latches"][0]["threads_asleep"], 41.0);
    }

    #[test]
    fn a_look_on_one_line_is_one_line_and_means_the_same() {
        for (name, locks) in examples::all() {
            let line = one_line(&locks).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "{name}");
            let (line, indented): (Value, Value) = (
                serde_json::from_str(&line).unwrap(),
                serde_json::from_str(&render(&locks).unwrap()).unwrap(),
            );
            assert_eq!(line, indented, "{name}");
        }
    }
}

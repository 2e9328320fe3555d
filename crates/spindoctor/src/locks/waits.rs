//! Who blocks whom, from the wait graph to a format: one snapshot of a server, and its graph as trees.

use jiff::Timestamp;
use spindoctor_model::WaitGraph;
use spindoctor_model::wait_graph::{WaitRoot, WaitingThread};
use spindoctor_profile::WaitedLatch;
use spindoctor_rules::wait_graph;

/// One look at who blocks whom.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Locks {
    /// What the server says it is: `MySQL 9.7.4 on db17`; empty where it was not asked.
    pub server: String,
    /// Its process, where that is on this host.
    pub pid: Option<u32>,
    /// When the look was taken.
    pub at: Timestamp,
    /// Who waits for whom.
    pub graph: WaitGraph,
    /// Who is not waiting and blocks others, the one that blocks the most first.
    pub roots: Vec<WaitRoot>,
    /// Rings: places of threads, each of which waits for the next, and the last for the first.
    pub cycles: Vec<Vec<u32>>,
    /// Latches and mutexes that threads sleep for, by the stacks of the look, the one that most sleep for first. Who spins is on a CPU,
    /// and has no stack in one look.
    pub latches: Vec<WaitedLatch>,
    /// Threads that were looked at, where that is known.
    pub threads_seen: Option<u64>,
    /// From the first question to the finished graph, milliseconds.
    pub took_ms: f64,
    /// Statements that the server was asked.
    pub server_queries: u64,
    /// From each question to its answer, summed, milliseconds.
    pub server_ms: f64,
    /// Threads of the server that were stopped.
    pub threads_stopped: u64,
}

impl Locks {
    /// A graph with its roots and rings. What the look at it cost, and whose it is, is for the caller to say.
    pub fn of_graph(graph: WaitGraph, at: Timestamp) -> Self {
        let (roots, cycles) = (wait_graph::roots(&graph), wait_graph::cycles(&graph));
        Self { at, graph, roots, cycles, ..Self::default() }
    }

    /// The thread at a place of the graph; None where there is no such place, as a damaged file may say.
    pub fn thread(&self, place: u32) -> Option<&WaitingThread> {
        self.graph.threads.get(place as usize)
    }

    /// How many threads wait.
    pub fn waiting(&self) -> usize {
        let mut waiters: Vec<u32> = self.graph.edges.iter().map(|edge| edge.waiter).collect();
        waiters.sort_unstable();
        waiters.dedup();
        waiters.len()
    }
}

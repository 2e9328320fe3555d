//! Pile-ups: sessions that wait in a known shape, behind a root that is known by its connection.
//!
//! What a scenario is to the diagnosis, a pile-up is to the wait graph. [`pile_up`] starts the server, brings the
//! sessions there, and returns when the server's own lists show that they wait. They wait until the [`Piled`] is
//! dropped, unless its declaration says otherwise.

mod chain;
mod commit_order;
mod drop_table;
mod global;
mod row;
mod sync;
mod user;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use spindoctor_model::Flavor;
use spindoctor_model::wait_graph::LockKind;

use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::load::Tables;
use crate::load::sessions::Sessions;
use crate::scenario::symptom;
use crate::server::{Server, ServerSpec};

/// Every pile-up.
pub const PILEUPS: &[&Pileup] = &[
    &row::PILEUP,
    &chain::PILEUP,
    &global::PILEUP,
    &user::PILEUP,
    &drop_table::PILEUP,
    &sync::PILEUP,
    &commit_order::PILEUP,
];

/// How long the sessions may take to gather.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often they are looked for.
const EVERY: Duration = Duration::from_millis(100);

/// The tables that they work on.
const TABLES: Tables = Tables { count: 4, rows: 10_000 };

/// MySQL and those made from it, and MariaDB.
const ALL: &[Flavor] = &[Flavor::Mysql, Flavor::Mariadb, Flavor::Percona];

/// Sessions that wait in a known shape.
#[derive(Debug)]
pub struct Pileup {
    /// What it is called.
    pub name: &'static str,
    /// Who waits for whom, in a paragraph.
    pub story: &'static str,
    /// The servers that it can be made on.
    pub flavors: &'static [Flavor],
    /// What it needs of the machine besides the server; empty where nothing.
    pub needs: &'static str,
    /// What those who wait for the root directly wait for: one of these.
    pub kinds: &'static [LockKind],
    /// How many sessions wait for the root directly, where that is known.
    pub directly: Option<u64>,
    /// How many sessions wait for it in all. On a slow disk threads of the server's own may wait as well.
    pub in_all: u64,
    spec: fn(Flavor) -> ServerSpec,
    /// Brings the sessions there; who the root is, or may be.
    begin: Begin,
    /// How many wait, as the server's own lists say.
    waiting: Waiting,
}

type Soon<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;
type Begin = for<'a> fn(&'a Server, &'a mut Sessions) -> Soon<'a, Vec<Root>>;
type Waiting = for<'a> fn(&'a Server) -> Soon<'a, u64>;

/// Who blocks the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// Its connection.
    pub connection_id: u64,
    /// The kernel's id of its thread, which is what can be shown of a server that does not answer.
    pub thread_os_id: u64,
}

/// A pile-up that stands.
#[derive(Debug)]
pub struct Piled {
    /// Who the root is: one of these.
    pub roots: Vec<Root>,
    /// Where.
    pub server: Server,
    _sessions: Sessions,
}

/// Starts a server and piles sessions up on it.
pub async fn pile_up(home: &Home, pileup: &Pileup, which: &Which, progress: Progress<'_>) -> Result<Piled> {
    let flavor = Installation::find(home, which, progress)?.version.flavor;
    if !pileup.flavors.contains(&flavor) {
        return Err(Error::NotOn { scenario: pileup.name, flavor });
    }
    let mut spec = (pileup.spec)(flavor);
    spec.which = which.clone();
    let server = Server::start(home, &spec, progress).await?;
    let mut sessions = Sessions::default();
    let roots = (pileup.begin)(&server, &mut sessions).await?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let waiting = (pileup.waiting)(&server).await?;
        if waiting >= pileup.in_all {
            progress(&format!("{}: {waiting} sessions wait", pileup.name));
            return Ok(Piled { roots, server, _sessions: sessions });
        }
        tokio::time::sleep(EVERY).await;
    }
    Err(Error::NoSymptom { scenario: pileup.name, seconds: PATIENCE.as_secs() })
}

/// The pile-up of this name.
pub fn find(name: &str) -> Option<&'static Pileup> {
    PILEUPS.iter().find(|pileup| pileup.name == name).copied()
}

/// These connections with their threads.
async fn roots(server: &Server, connections: &[u64]) -> Result<Vec<Root>> {
    let question = match server.version().flavor {
        Flavor::Mariadb => "SELECT tid FROM information_schema.processlist WHERE id =",
        _ => "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id =",
    };
    let mut roots = Vec::new();
    for &connection_id in connections {
        let thread_os_id = symptom::number(server, &format!("{question} {connection_id}")).await?;
        roots.push(Root { connection_id, thread_os_id });
    }
    Ok(roots)
}

/// Sessions that wait for a table's metadata lock.
async fn waiting_for_table(server: &Server) -> Result<u64> {
    symptom::sessions_in_state(server, "Waiting for table metadata lock").await
}

/// What makes a server list its metadata locks, where it does not by itself.
fn lists_locks(flavor: Flavor) -> Vec<String> {
    match flavor {
        Flavor::Mariadb => {
            ["--performance-schema=ON", "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON"]
                .map(str::to_owned)
                .into()
        }
        _ => Vec::new(),
    }
}

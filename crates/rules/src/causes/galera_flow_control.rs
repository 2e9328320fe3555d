//! `galera-flow-control`: a node of a cluster, of Galera or Group Replication, holds back the commits of all.

mod group;
#[cfg(test)]
mod tests;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Finding, Remedy, Root, SessionTime, TimeClass, Window, number};

use super::{commit_sync_bound, monitoring_overload};
use crate::draft::Draft;
use crate::killing::LOOK_FIRST;
use crate::sessions::shortened;
use crate::time_model::{InClasses, wait_class};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "galera-flow-control",
    title: "a slow node of a cluster holds back the commits of all",
    what: "In a Galera cluster each transaction goes to all nodes at its commit and is certified there; it returns when this node \
           has it in order. A node that applies slower than the others write fills its queue; beyond gcs.fc_limit it asks the whole \
           cluster to pause, and no node commits until its queue is shorter. Group Replication of MySQL does the like: while a member \
           has more transactions to certify or to apply than group_replication_flow_control_certifier_threshold or \
           _applier_threshold, all members let no more commits through than the slowest keeps up with.",
    why_it_hurts: "The slowest node sets the pace of every write in the cluster. Sessions stand in their commit with their row locks, \
                   and others wait for those; SHOW STATUS may hang behind the same locks, so health checks pile up and the load \
                   balancer takes healthy nodes out.",
    evidence: "Galera: sessions in certification (states that begin with wsrep, or galera::ReplicatorSMM by their stacks), or in commit \
               on a server with wsrep_on, from 5 % of the session time and half a session on. wsrep_flow_control_paused_ns says for \
               which part of the window the cluster paused; wsrep_flow_control_sent whether this node asked for it, \
               wsrep_local_recv_queue how much it has to apply. Of a captured list without variables: it names wsrep, and a session has \
               been in its commit for ten seconds. A DDL that has been at work for ten seconds in total order isolation is named; where sessions wait for one, the oldest. Of a \
               single status, wsrep_flow_control_paused: a mean since the last FLUSH STATUS. \
               Group Replication: as many sessions in Flow_control_module::do_wait by their stacks. Where only the list or a plugin \
               without names is seen, in their commit, while a queue of replication_group_member_stats is longer than its threshold \
               and group_replication_flow_control_mode is not DISABLED.",
    looks_alike: "Commits that wait for this node's own disk are commit-sync-bound. InnoDB prints ACTIVE (PREPARED) for a \
                  transaction in certification: that is no XA, and prepared-xa-left does not count it. Commits of a replication group \
                  that wait for the agreement of its members alone, as over a slow network, are unnamed-wait.",
    remedies: "Find the slow node: it is the one whose wsrep_flow_control_sent grows and whose wsrep_local_recv_queue is long, or the \
               one with the longest queue in replication_group_member_stats. Give it what it lacks (disk, CPU, appliers: \
               wsrep_slave_threads, replica_parallel_workers), stop its backup or large read, or take it out of the cluster. \
               A larger gcs.fc_limit, or a larger threshold of the group, lets it fall further behind before the others wait. Split \
               large transactions.",
    safety: "A node that is taken out has to catch up, by IST or by a whole copy. A larger gcs.fc_limit or threshold lets reads on \
             that node be older, and certification conflicts be more.",
    references: &[
        "https://galeracluster.com/library/documentation/node-states.html",
        "https://mariadb.com/docs/galera-cluster/reference/galera-cluster-status-variables",
        "MySQL Reference Manual: Group Replication, Flow Control",
    ],
    costs: Costs::Waits(&[TimeClass::Galera]),
    explains_time: &[TimeClass::Galera, TimeClass::GroupReplication, TimeClass::Commit],
    stacks: Stacks::Standing(&[
        "galera::ReplicatorSMM::replicate",
        "galera::ReplicatorSMM::certify",
        "Flow_control_module::do_wait",
    ]),
    rule: Rule::TimeOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// Share of the window in which the cluster paused, from which on flow control is what commits wait for.
const PAUSED: f64 = 0.05;

/// A commit on a node that is well takes milliseconds, of a large transaction seconds: who is in it for longer waits for the
/// cluster. Chosen, not derived.
const LONG_COMMIT_S: f64 = 10.0;

/// True where the variables are not known, the list of threads is a Galera node's by its words, and somebody has been in a commit
/// for long.
fn is_node_by_its_list(window: &Window) -> bool {
    if window.variable("version").is_some() {
        return false;
    }
    let threads = window.latest(|sample| &sample.server.threads).map(Vec::as_slice).unwrap_or_default();
    let names_galera = |thread: &ServerThread| {
        let has = |text: &str| text.to_ascii_lowercase().contains("wsrep");
        has(&thread.state) || thread.statement.as_deref().is_some_and(has)
    };
    let is_in_commit = |thread: &&ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        thread.is_connection && ["query end", "commit"].iter().any(|begins| state.starts_with(begins))
    };
    threads.iter().any(names_galera)
        && threads.iter().filter(is_in_commit).any(|thread| thread.time_s >= LONG_COMMIT_S)
}

/// Words of the states in which a session waits for a DDL that is executed on all nodes at once (TOI), in lower case, or for its turn
/// to execute one.
const ISOLATION: [&str; 5] =
    ["toi ddl", "in isolation", "initiating toi", "total order isolation", "to isolation"];

/// The DDL that is executed on all nodes at once (TOI), as a list shows it.
#[derive(Debug, Clone, Copy)]
enum Isolated<'w> {
    /// It is at work, by a client of this node or by an applier.
    AtWork(&'w ServerThread),
    /// It waits for its own certification, for far longer than that takes.
    Uncertified(&'w ServerThread),
    /// None is seen at work: the one that has waited longest for its turn.
    Oldest(&'w ServerThread),
}

/// Words of the states in which a session waits until its write set is certified, in lower case.
const CERTIFICATION: [&str; 2] = ["waiting for certification", "certifying"];

impl<'w> Isolated<'w> {
    /// Where nobody is seen to wait for a DDL, one that has been at work for long alone.
    fn from_window(window: &'w Window, is_waited_for: bool) -> Option<Self> {
        let threads = window.latest(|sample| &sample.server.threads)?;
        // The list of MariaDB says of appliers that they sleep.
        let is_there = |thread: &&ServerThread| thread.is_at_work() || thread.user == "system user";
        let ddls = || threads.iter().filter(is_there).filter(|thread| is_of_all_nodes(thread));
        let by_time = |one: &&ServerThread, other: &&ServerThread| one.time_s.total_cmp(&other.time_s);
        let at_work = ddls()
            .filter(|thread| wait_class(&thread.state, &[]).is_none())
            .filter(|thread| is_waited_for || thread.time_s >= LONG_COMMIT_S)
            .max_by(by_time);
        let waits_for_its_turn = |thread: &&ServerThread| {
            let state = thread.state.to_ascii_lowercase();
            ISOLATION.iter().any(|words| state.contains(words)) || state.contains("certif")
        };
        let oldest = || ddls().filter(waits_for_its_turn).max_by(by_time).filter(|_| is_waited_for);
        let is_uncertified = |thread: &&ServerThread| {
            let state = thread.state.to_ascii_lowercase();
            thread.time_s >= LONG_COMMIT_S && CERTIFICATION.iter().any(|words| state.contains(words))
        };
        let uncertified = || ddls().filter(is_uncertified).max_by(by_time).map(Self::Uncertified);
        at_work.map(Self::AtWork).or_else(uncertified).or_else(|| oldest().map(Self::Oldest))
    }

    fn thread(self) -> &'w ServerThread {
        match self {
            Self::AtWork(thread) | Self::Uncertified(thread) | Self::Oldest(thread) => thread,
        }
    }

    /// Whose DDL it is, for a headline.
    fn words(self) -> String {
        let ddl = self.thread();
        let who = match ddl.connection_id.filter(|_| ddl.user != "system user") {
            Some(id) => format!("connection {id}"),
            None => "an applier".to_owned(),
        };
        let whose = format!("{who} runs");
        let statement = shortened(ddl.statement.as_deref().unwrap_or_default());
        // A list may have no times.
        let lasts =
            if ddl.time_s > 0.0 { format!(" for {}", number::duration(ddl.time_s)) } else { String::new() };
        match self {
            Self::AtWork(_) => {
                format!(
                    "{whose} {statement} on all nodes at once (TOI){lasts}, and nothing else commits meanwhile"
                )
            }
            Self::Uncertified(_) => format!(
                "{who} waits{lasts} until its DDL is certified, which takes milliseconds where all nodes answer: {statement}"
            ),
            Self::Oldest(_) => format!(
                "DDL is executed on all nodes at once (TOI), and nothing else commits meanwhile; of those that are listed the oldest is \
                 that which {whose}{lasts}: {statement}"
            ),
        }
    }
}

/// What to do where the order of the cluster does not go on.
fn stuck_order() -> Remedy {
    Remedy {
        statement: "On each node: SHOW GLOBAL STATUS LIKE 'wsrep%'. The one that is not Synced (wsrep_local_state_comment), not in the primary part \
                    (wsrep_cluster_status), or whose wsrep_local_recv_queue grows holds the others back: the end of its error log and the stacks of \
                    its threads say why. Where it does not go on: restart that node"
            .into(),
        why: "Each node certifies a write set by itself once it has come in the order of the cluster: where that takes longer than seconds the \
              order stands, and not the DDL. KILL does not end it."
            .into(),
        dynamic: true,
        risk: "Looking is safe. A node that is restarted takes what it missed from another one (IST, or all data by SST).".into(),
        undo: String::new(),
    }
}

/// The session that locks this node for longest by its statement, as a backup does: appliers then do not come to the end of what they commit.
fn locker(window: &Window) -> Option<&ServerThread> {
    let threads = window.latest(|sample| &sample.server.threads)?;
    let locks = |thread: &&ServerThread| {
        thread.is_at_work() && thread.statement.as_deref().is_some_and(spindoctor_sql::locks_the_server)
    };
    threads.iter().filter(locks).max_by(|one, other| one.time_s.total_cmp(&other.time_s))
}

/// Ending what locks this node.
fn end_locker(locker: &ServerThread) -> Option<Remedy> {
    let id = locker.connection_id.filter(|_| locker.command != "Killed")?;
    Some(Remedy {
        statement: format!("KILL {id}"),
        why: format!(
            "{LOOK_FIRST}Its statement locks this node, as a backup does, and appliers come to the end of their commits only when the \
             lock is given back."
        ),
        dynamic: true,
        risk: "The backup, or the program that switches the server to read-only, fails.".into(),
        undo: "Run it again on a node that takes no writes of clients, with wsrep_desync = ON there.".into(),
    })
}

/// True for a statement that all nodes of a cluster execute at the same place of their order: a DDL, or one that changes accounts.
fn is_of_all_nodes(thread: &ServerThread) -> bool {
    let statement = thread.statement.as_deref().unwrap_or_default();
    let kind = spindoctor_sql::kind(statement);
    // These lock tables of this node alone.
    let is_local = ["LOCK", "FLUSH"].contains(&kind.as_str());
    spindoctor_sql::wants_a_table(statement) && !is_local || ["GRANT", "REVOKE"].contains(&kind.as_str())
}

/// What a single status says: for which part of the time since the last FLUSH STATUS the cluster paused.
fn of_status(window: &Window) -> Option<Finding> {
    if window.status_growth("wsrep_flow_control_paused_ns").is_some() {
        return None;
    }
    let last = |name: &str| window.status_series(name).last().map(|&(_, value)| value);
    let paused = last("wsrep_flow_control_paused").filter(|&paused| paused >= PAUSED)?.min(1.0);
    let (sent, received) = (last("wsrep_flow_control_sent"), last("wsrep_flow_control_recv"));
    // What a node sends it receives too.
    let is_this_node = sent.zip(received).map(|(sent, received)| sent > received / 2.0);
    let (whose, first) = match is_this_node {
        Some(true) => ("this node asked for most of it", THIS_NODE),
        Some(false) => ("other nodes asked for most of it", OTHER_NODE),
        None => ("the status does not say which node asked for it", OTHER_NODE),
    };
    let status = "SHOW GLOBAL STATUS wsrep_*";
    let queue = last("wsrep_local_recv_queue");
    Some(
        Draft::new(
            &CAUSE,
            paused,
            format!("The cluster paused for {:.0} % of the time since the last FLUSH STATUS: {whose}", paused * 100.0),
        )
        .why("While it pauses no node commits. A mean of so long a time does not say whether it pauses now: read the status twice, \
              ten seconds apart, or run FLUSH STATUS first.")
        .evidence(Evidence::new("time paused by flow control", paused, "ratio", status).expected(format!("< {PAUSED}")))
        .evidence_if(queue.map(|queue| Evidence::new("transactions that this node has to apply", queue, "", status)))
        .evidence_if(sent.map(|sent| Evidence::new("pauses asked for by this node", sent, "", status)))
        .evidence_if(received.map(|received| Evidence::new("pauses received", received, "", status)))
        .remedy(slow_node(first))
        .finding(),
    )
}

/// What to do first on the slow node, and where another one is it.
const THIS_NODE: &str =
    "Stop the backup or the large reads of this node; SET GLOBAL wsrep_slave_threads to its number of CPUs";
const OTHER_NODE: &str = "Look on each node for the one whose wsrep_flow_control_sent grows: SHOW GLOBAL STATUS LIKE \
                          'wsrep_flow_control_sent'";

/// What to do first where an applier does not come to the end of its commit.
const APPLIER_WAITS: &str = "SHOW FULL PROCESSLIST, and who has FLUSH TABLES WITH READ LOCK, LOCK TABLES or BACKUP STAGE, as a backup \
                             takes it; then the row and metadata locks of this node: spindoctor locks";

fn slow_node(first: &str) -> Remedy {
    Remedy {
        statement: first.into(),
        why: "The slowest node sets the pace of every commit. KILL does not end a commit.".into(),
        dynamic: true,
        ..Remedy::default()
    }
}

/// What to do where each waits for its turn on this node.
fn first_in_order() -> Remedy {
    Remedy {
        statement: "Look for the first in the order, an applier as a rule, and for what it waits: SHOW FULL PROCESSLIST (user system user), \
                    and the stacks of all threads of the same moment; then the sync of this node's logs"
            .into(),
        why: "Appliers and clients commit in one order, and the first holds back all behind it. Where it waits for a row or metadata lock \
              of a session that stands in the order behind it, neither ends by itself."
            .into(),
        dynamic: true,
        risk: "They only read; the server is stopped while gdb reads stacks, for seconds.".into(),
        undo: String::new(),
    }
}

/// What to do about a DDL that keeps all nodes.
fn slow_ddl() -> Remedy {
    Remedy {
        statement: "Let the DDL end; the next one with pt-online-schema-change or gh-ost, or with wsrep_OSU_method = RSU, node by node".into(),
        why: "In total order isolation each node executes it at the same place of the order: what comes behind it waits on every node \
              until it has ended there."
            .into(),
        dynamic: true,
        risk: "With RSU the node is apart from the cluster meanwhile, and the change must get along with the old form of the table.".into(),
        undo: String::new(),
    }
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    match group::examine(window, time) {
        Some(finding) => Outcome::Fired(finding),
        None => of_galera(window, time),
    }
}

fn of_galera(window: &Window, time: &SessionTime) -> Outcome {
    let is_node = window.variable("wsrep_on").is_some_and(|on| on.eq_ignore_ascii_case("ON") || on == "1");
    // The growth of the nanoseconds is of this window; `wsrep_flow_control_paused` is of all time since FLUSH STATUS.
    let paused =
        window.status_per_s("wsrep_flow_control_paused_ns").map(|ns_per_s| (ns_per_s / 1e9).clamp(0.0, 1.0));
    // A single status that somebody gave has a mean since the last FLUSH STATUS, and some versions a word for now.
    let last = |name: &str| window.status_series(name).last().map(|&(_, value)| value);
    let mean = || last("wsrep_flow_control_paused").filter(|_| window.is_given());
    let paused = paused.or_else(mean);
    let is_node = is_node || window.is_given() && last("wsrep_cluster_size").is_some_and(|size| size >= 1.0);
    let is_paused = is_node && paused.is_some_and(|paused| paused >= PAUSED);
    let is_listed = is_node_by_its_list(window);
    let classes: &[TimeClass] =
        if is_paused || is_listed { &[TimeClass::Galera, TimeClass::Commit] } else { &[TimeClass::Galera] };
    let Some(waits) = InClasses::from_time(time, classes) else { return Outcome::Clear };
    let sent_most = last("wsrep_flow_control_sent")
        .zip(last("wsrep_flow_control_recv"))
        .is_some_and(|(sent, received)| sent > received / 2.0);
    let asked = match window.status_growth("wsrep_flow_control_sent") {
        Some(growth) => growth > 0.0,
        None => sent_most,
    };
    let queue = last("wsrep_local_recv_queue");
    let size = last("wsrep_cluster_size");
    let status = "SHOW GLOBAL STATUS wsrep_*";
    let is_for_a_ddl = ISOLATION.iter().any(|words| is_seen(time, words));
    let is_applied = is_seen(time, "committing write set") || is_seen(time, "applying write set");
    let is_in_order = !is_paused
        && !is_listed
        && !is_applied
        && (is_seen(time, "commitorder") || most_stand_in(time, &MONITORS));
    let (why_so, first) = match (is_paused, asked) {
        (true, true) => ("this node applies too slowly and asked the cluster to pause", THIS_NODE),
        (true, false) => ("another node applies too slowly and asked the cluster to pause", OTHER_NODE),
        (false, _) if is_listed => (
            "the list is of a Galera node, and its commits have lasted for long",
            "Ask each node: SHOW GLOBAL STATUS LIKE 'wsrep%'. The slow one has a long wsrep_local_recv_queue and a wsrep_flow_control_sent \
             that grows; a node without wsrep_ready = ON commits nothing",
        ),
        (false, _) if is_applied => {
            ("appliers of this node do not come to the end of what other nodes committed", APPLIER_WAITS)
        }
        (false, _) if is_in_order => ("an earlier transaction of this node has to end first", ""),
        (false, _) if is_seen(time, "flow control") => ("they say that flow control holds them", OTHER_NODE),
        (false, _) if is_for_a_ddl => (
            "a DDL is executed on all nodes at once (TOI), and nothing else commits meanwhile",
            "Let the DDL end: the list shows it. The next one at a quiet time, or with wsrep_OSU_method = RSU, node by node",
        ),
        (false, _) => (
            "write sets are certified by the cluster",
            "Look at the network between the nodes and at the slowest of them: SHOW GLOBAL STATUS LIKE 'wsrep_evs_repl_latency'",
        ),
    };
    let ddl = Isolated::from_window(window, is_for_a_ddl).filter(|_| !is_paused);
    let locker = locker(window).filter(|_| first == APPLIER_WAITS && ddl.is_none());
    let end_locker = locker.and_then(end_locker);
    let why_so = match locker.and_then(|locker| Some((locker, locker.connection_id?))) {
        Some((locker, id)) => {
            let statement = shortened(locker.statement.as_deref().unwrap_or_default());
            format!("{why_so}; connection {id} most likely keeps them from it: it runs {statement}")
        }
        None => why_so.to_owned(),
    };
    let (why_so, first) = match ddl {
        Some(ddl @ Isolated::Uncertified(_)) => (ddl.words(), stuck_order()),
        Some(ddl) => (ddl.words(), slow_ddl()),
        None if is_in_order => (why_so, first_in_order()),
        None => (why_so, slow_node(first)),
    };
    Outcome::Fired(
        waits
            .draft(&CAUSE, format!("{} for the Galera cluster at a commit: {why_so}", who_waits(waits.sessions)))
            .why(match (paused.filter(|_| is_paused), size) {
                (Some(paused), Some(size)) => {
                    format!("The {size:.0} nodes paused for {:.0} % of the time.", paused * 100.0)
                }
                (Some(paused), None) => format!("The cluster paused for {:.0} % of the time.", paused * 100.0),
                (None, _) if is_in_order => {
                    "Transactions, those of appliers among them, pass each node in the order of the cluster: who stands there waits for \
                     one of this node that comes before, and not for the network."
                        .to_owned()
                }
                (None, _) => "A commit returns when every node has the transaction in order.".to_owned(),
            })
            .evidence_if(paused.map(|paused| {
                Evidence::new("time paused by flow control", paused, "ratio", status).expected(format!("< {PAUSED}"))
            }))
            .evidence_if(queue.map(|queue| Evidence::new("transactions that this node has to apply", queue, "", status)))
            .evidence_if(
                window
                    .status_per_s("wsrep_flow_control_sent")
                    .map(|per_s| Evidence::new("pauses asked for by this node", per_s, "1/s", status)),
            )
            .evidence_if(
                window
                    .status_per_s("wsrep_flow_control_recv")
                    .map(|per_s| Evidence::new("pauses received", per_s, "1/s", status)),
            )
            .remedy_if(end_locker)
            .remedy(first)
            .remedy_if(is_paused.then(|| Remedy {
                statement: "SET GLOBAL wsrep_provider_options = 'gcs.fc_limit=256' on the slow node".into(),
                why: "It then asks for a pause only when 256 transactions wait for it.".into(),
                dynamic: true,
                risk: "Reads on that node are older, and it takes longer to leave or to become the writer.".into(),
                undo: "SET GLOBAL wsrep_provider_options with the gcs.fc_limit that SHOW VARIABLES LIKE 'wsrep_provider_options' \
                       shows before."
                    .into(),
            }))
            .root(ddl.map(Isolated::thread).or(locker).map(|root| Root {
                connection_id: root.connection_id,
                user: root.user.clone(),
                statement: root.statement.clone().unwrap_or_default(),
                ..Root::default()
            }))
            .explains(&[commit_sync_bound::CAUSE.name, monitoring_overload::CAUSE.name])
            .finding(),
    )
}

/// `12.0 sessions wait`; fewer than one on average is one in a part of the looks.
fn who_waits(sessions: f64) -> String {
    // What one digit behind the point shows as less than one.
    if sessions < 0.95 {
        return "In some looks one session waits".to_owned();
    }
    format!("{sessions:.1} sessions wait")
}

/// True where sessions that wait for the cluster were seen in a state with these words, in lower case.
fn is_seen(time: &SessionTime, words: &str) -> bool {
    let of_galera = time.classes.iter().filter(|one| one.class == TimeClass::Galera);
    of_galera.flat_map(|one| &one.seen).any(|(seen, _)| seen.to_ascii_lowercase().contains(words))
}

/// Where a transaction waits for its turn on this node (galera/src/monitor.hpp), in lower case, as stacks with the order's name and
/// without it have it.
const MONITORS: [&str; 4] = [
    "galera::monitor::enter",
    "galera::monitor<galera::replicatorsmm::localorder>::enter",
    "galera::monitor<galera::replicatorsmm::commitorder>::enter",
    "galera::monitor<galera::replicatorsmm::applyorder>::enter",
];

/// True where most of the sessions that wait for the cluster stand in one of these functions.
fn most_stand_in(time: &SessionTime, functions: &[&str]) -> bool {
    let of_galera = || time.classes.iter().filter(|one| one.class == TimeClass::Galera);
    let stands = |seen: &str| {
        let seen = seen.to_ascii_lowercase();
        functions.iter().any(|function| seen.contains(function))
    };
    let all: f64 = of_galera().map(|one| one.share).sum();
    let there: f64 =
        of_galera().flat_map(|one| &one.seen).filter(|(seen, _)| stands(seen)).map(|(_, share)| share).sum();
    there > all / 2.0
}

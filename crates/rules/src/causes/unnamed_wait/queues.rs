//! Sessions that seem to sleep: their answer is not taken by the client, or a request of theirs waits to be read.

use std::collections::BTreeSet;

use spindoctor_model::host::TcpQueue;
use spindoctor_model::{Evidence, Finding, Remedy, SessionTime, Severity, TimeClass, Window, number};

use super::CAUSE;
use crate::causes::{cpu_saturated, cpu_throttled, noisy_neighbour, server_stopped, thread_pool_starved};
use crate::draft::Draft;
use crate::rank::NOTE;
use crate::tcp_queues::{SOURCE, Stuck, of_unread};

/// Connections below which nothing is said: a client's host that went away in the middle of an answer is one. Chosen.
const FEW: usize = 3;

/// Causes for which requests wait: no thread of the pool is free, none runs, or each waits for a CPU. A server that is short of CPUs reads
/// one request after the other, and the next ones wait.
const SAY_WHY: [&str; 5] = [
    thread_pool_starved::CAUSE.name,
    server_stopped::CAUSE.name,
    cpu_saturated::CAUSE.name,
    noisy_neighbour::CAUSE.name,
    cpu_throttled::CAUSE.name,
];

/// Clients that the evidence names.
const NAMED: usize = 3;

/// Bytes that stay where they are, of sessions that are not at work.
pub(super) struct Queues<'w> {
    stuck: Stuck<'w>,
    /// Connections whose answer is not taken; 0 where they are too few to be said.
    unsent: usize,
    /// Connections with a request unread at both ends; 0 where they are too few, or another finding says why.
    unread: usize,
    /// A session that rests, that others wait for, and that is of the host of one whose answer is not taken.
    blocks: Option<u64>,
    port: String,
}

impl<'w> Queues<'w> {
    pub(super) fn from_window(window: &'w Window, time: &SessionTime, findings: &[Finding]) -> Option<Self> {
        let stuck = Stuck::from_window(window)?;
        let sessions = |classes: &dyn Fn(TimeClass) -> bool| {
            let such = time.classes.iter().filter(|one| classes(one.class)).map(|one| one.share);
            (such.sum::<f64>() * time.session_seconds_per_second).ceil() as usize
        };
        let blocks = blocker(window, &stuck.unsent);
        let least = if blocks.is_some() { 1 } else { FEW };
        // Who is seen to wait for its client is counted where its time is.
        let unsent = stuck.unsent.len().saturating_sub(sessions(&|class| class == TimeClass::Network));
        // A client may send its next request before the answer to the one that runs.
        let unread = stuck.unread.len().saturating_sub(sessions(&|_| true));
        let is_explained = findings.iter().any(|finding| SAY_WHY.contains(&finding.cause.as_str()));
        let unsent = if unsent >= least { unsent } else { 0 };
        let unread = if unread >= FEW && !is_explained { unread } else { 0 };
        let port = window.variable("port").unwrap_or("3306").to_owned();
        (unsent > 0 || unread > 0).then_some(Self { stuck, unsent, unread, blocks, port })
    }

    /// As evidence of a finding that says more.
    pub(super) fn beside(&self, mut finding: Finding) -> Finding {
        finding.evidence.extend(self.evidence());
        finding
    }

    /// A note of its own.
    pub(super) fn finding(&self) -> Finding {
        Draft::new(&CAUSE, NOTE, self.headline())
            .why(self.why())
            .evidence_all(self.evidence().into_iter())
            .remedy(self.look())
            .severity(Severity::Note)
            .finding()
    }

    fn headline(&self) -> String {
        let for_s = number::roughly(self.stuck.seconds);
        let connections = |count: usize| number::counted(count as u64, "connection", "connections");
        match (self.unsent, self.unread) {
            (0, unread) => format!(
                "On {} a request waited both at the beginning and at the end of {for_s}; the sessions seem to sleep",
                connections(unread)
            ),
            (unsent, 0) => format!(
                "Clients have not taken the answers on {} for {for_s}; the sessions seem to sleep",
                connections(unsent)
            ),
            (unsent, unread) => format!(
                "For {for_s} clients have not taken the answers on {}, and on {} a request waited at the beginning and at the end",
                connections(unsent),
                connections(unread)
            ),
        }
    }

    fn why(&self) -> String {
        let mut why = Vec::new();
        if self.unsent > 0 {
            why.push(
                "The server has answered, and the kernel sends the answer again and again, or waits for room at the client's end: the \
                 client hangs, its host is gone, or the network between drops packets. Such a session keeps its transaction and its \
                 locks until the kernel gives up (net.ipv4.tcp_retries2: a quarter of an hour).",
            );
        }
        if self.unread > 0 {
            why.push(
                "A request that lies in the socket is no session at work for the server, and its client waits. Whether it was the same \
                 one both times is not known. The thread that is to read it is late: a pool of threads has none free, or the server was \
                 held or had no CPU.",
            );
        }
        let blocks = self.blocks.map(|id| {
            format!(" Connection {id}, which others wait for, is idle and of the host of such a client.")
        });
        why.join(" ") + &blocks.unwrap_or_default()
    }

    fn evidence(&self) -> Vec<Evidence> {
        let unsent = (self.unsent > 0).then(|| {
            let name = "connections with an answer unsent for the whole window";
            Evidence::new(name, self.unsent as f64, "", SOURCE).expected("0")
        });
        let most = if self.unsent > 0 { NAMED } else { 0 };
        let clients = self.stuck.unsent.iter().take(most).map(|one| {
            let tries = number::counted(one.tries.into(), "try", "tries");
            let text = format!("{}, {} after {tries}", one.peer, number::bytes(one.unsent_bytes as f64));
            Evidence::new("unsent", text, "", SOURCE)
        });
        let unread = (self.unread > 0).then(|| of_unread(self.unread));
        unsent.into_iter().chain(clients).chain(unread).collect()
    }

    fn look(&self) -> Remedy {
        Remedy {
            statement: format!("On the server's host: ss -tnoi sport = :{}; on the client's: ss -tnoi dport = :{0}", self.port),
            why: "Send-Q on the server's side with Recv-Q full on the client's is a client that does not read; with Recv-Q empty, or where \
                  the client's host has no such connection, it is the network or a host that is gone. Recv-Q on the server's side is a \
                  request that the server has not read: see thread_pool_max_threads where it has a pool."
                .into(),
            dynamic: true,
            risk: "They only read.".into(),
            undo: String::new(),
        }
    }
}

/// A session that rests and has a row that others wait for, of the host of one of these clients. The list of threads has no ports: where
/// it has more sessions of that host, as of a proxy's, it may be any of these.
fn blocker(window: &Window, unsent: &[&TcpQueue]) -> Option<u64> {
    let hosts: BTreeSet<&str> =
        unsent.iter().filter_map(|one| Some(one.peer.rsplit_once(':')?.0.trim_matches(['[', ']']))).collect();
    let waits = window.latest(|sample| &sample.server.row_lock_waits)?;
    let blocking: BTreeSet<u64> = waits.iter().filter_map(|wait| wait.blocking_connection_id).collect();
    let threads = window.latest(|sample| &sample.server.threads)?;
    let is_such = |id: &u64| blocking.contains(id);
    let is_alone = |host: &str| threads.iter().filter(|thread| thread.host == host).count() == 1;
    threads
        .iter()
        .filter(|thread| thread.command == "Sleep" && hosts.contains(thread.host.as_str()))
        .filter(|thread| is_alone(&thread.host))
        .filter_map(|thread| thread.connection_id)
        .find(is_such)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::{RowLockWait, ServerThread};

    use super::*;
    use crate::tcp_queues::tests::{queue, with};
    use crate::testing::{Build, answer, session};

    /// So many answers that their clients do not take.
    fn untaken(count: u8) -> Vec<TcpQueue> {
        (1..=count).map(|at| queue(at, 36, 0, 7)).collect()
    }

    /// So many connections with a request that waits.
    fn not_read(count: u8) -> Vec<TcpQueue> {
        (1..=count).map(|at| queue(at, 0, 40, 0)).collect()
    }

    fn found(build: Build) -> Option<Finding> {
        let findings = crate::diagnose(&build.window()).findings;
        findings.into_iter().find(|finding| finding.cause == CAUSE.name)
    }

    fn noted(connections: Vec<TcpQueue>) -> Option<Finding> {
        found(with(Build::busy("8.0.36"), connections.clone(), connections))
    }

    #[test]
    fn clients_that_do_not_take_their_answers_are_a_note_where_their_sessions_seem_to_sleep() {
        let finding = noted(untaken(4)).unwrap();
        assert_eq!(
            (finding.severity, finding.headline.as_str()),
            (
                Severity::Note,
                "Clients have not taken the answers on 4 connections for 10 s; the sessions seem to sleep"
            )
        );
        let all = serde_json::to_string(&finding.evidence).unwrap();
        assert!(all.contains("10.0.0.1:51234, 36 B after 7 tries") && !all.contains("10.0.0.4"), "{all}");
        assert!(
            finding.remedies[0].statement.contains("sport = :3306; on the client's"),
            "{:?}",
            finding.remedies
        );
        assert_eq!(noted(untaken(2)), None, "a host that went away");
        assert_eq!(noted(Vec::new()), None);
    }

    #[test]
    fn who_is_seen_to_write_to_its_client_is_counted_where_its_time_is() {
        let writing =
            |_| (20..24).map(|id| session(id, "Query", "Writing to net", "SELECT * FROM t")).collect();
        let build = Build::busy("8.0.36").sessions(writing).without_profile();
        let all = serde_json::to_string(&found(with(build, untaken(4), untaken(4)))).unwrap();
        assert!(!all.contains("have not taken") && !all.contains("unsent"), "{all}");
    }

    #[test]
    fn one_is_enough_where_others_wait_for_an_idle_session_of_that_host() {
        let of_host = |more: usize| {
            let sessions = move |_| {
                let of_it = |id| ServerThread { host: "10.0.0.1".into(), ..session(id, "Sleep", "", "") };
                let mut all = vec![of_it(7), session(20, "Query", "updating", "UPDATE t SET a = 1")];
                all.extend((30..).take(more).map(of_it));
                all
            };
            Build::busy("8.0.36").sessions(sessions).each(|at_s, server, _| {
                let wait = RowLockWait {
                    waiting_connection_id: Some(20),
                    blocking_connection_id: Some(7),
                    waited_s: 1.0,
                    ..RowLockWait::default()
                };
                server.row_lock_waits = answer(at_s, vec![wait]);
            })
        };
        let build = || of_host(0);
        let window = with(build(), untaken(1), untaken(1)).window();
        let time = crate::session_time(&window).unwrap();
        let queues = Queues::from_window(&window, &time, &[]).unwrap();
        assert!(
            queues
                .why()
                .ends_with("Connection 7, which others wait for, is idle and of the host of such a client.")
        );
        let elsewhere = vec![queue(9, 36, 0, 7)];
        let window = with(build(), elsewhere.clone(), elsewhere).window();
        assert!(Queues::from_window(&window, &time, &[]).is_none());
        // A proxy has many connections: that one of these is stuck says nothing of the one that blocks.
        let of_proxy = with(of_host(2), untaken(1), untaken(1)).window();
        assert!(Queues::from_window(&of_proxy, &time, &[]).is_none());
    }

    #[test]
    fn requests_that_wait_are_a_note_unless_another_finding_says_why() {
        let finding = noted(not_read(30)).unwrap();
        let expected =
            "a request waited both at the beginning and at the end of 10 s; the sessions seem to sleep";
        assert!(
            finding.headline.starts_with("On ") && finding.headline.ends_with(expected),
            "{}",
            finding.headline
        );
        assert!(finding.why.contains("the same one both times is not known"), "{}", finding.why);
        assert_eq!(finding.severity, Severity::Note);
        let window = with(Build::busy("8.0.36"), not_read(30), not_read(30)).window();
        let time = crate::session_time(&window).unwrap();
        let pool = Draft::new(&thread_pool_starved::CAUSE, 0.5, "the pool is full").finding();
        assert!(Queues::from_window(&window, &time, &[pool]).is_none());
        assert_eq!(noted(not_read(2)), None);
    }

    /// Each connection may have a request waiting at both ends, though the server reads one after the other.
    #[test]
    fn where_the_cpus_are_full_requests_that_wait_are_no_finding_of_their_own() {
        let full = [
            Build::busy("8.0.36").runs(3.8, 12.2).host_cpu(3.8, 0.2),
            Build::busy("8.0.36").runs(1.0, 6.0).host_cpu(3.95, 0.05),
            Build::busy("8.0.36").quota(1.0, 4).throttled(90.0, 20.0).runs(1.0, 12.0),
        ];
        for build in full {
            let window = with(build, not_read(30), not_read(30)).window();
            let findings = crate::diagnose(&window).findings;
            assert!(findings.iter().any(|one| SAY_WHY.contains(&one.cause.as_str())), "{findings:#?}");
            let all = serde_json::to_string(&findings).unwrap();
            assert!(!all.contains("a request waited") && !all.contains("request unread"), "{all}");
        }
    }
}

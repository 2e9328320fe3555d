//! Bytes that lie in the queues of clients' connections: those that a client does not take, and those that wait for the server.
//!
//! In: the queues at both ends of a window. Out: the connections with bytes in them both times. A session whose answer lies there
//! seems to sleep: for the server it is sent as soon as the socket's buffer has it. So does one whose request lies there. Pure.

use std::collections::{BTreeSet, HashMap};

use spindoctor_model::host::{TcpQueue, TcpQueues};
use spindoctor_model::{Evidence, Window};

/// Between two readings so far apart a client that works acknowledges its answer, and a server that works reads a request. The kernel
/// has sent what is lost again three times by then: after 0.2 s, and after twice as long each time (the least timeout in include/net/tcp.h).
const LEAST_S: f64 = 3.0;

/// Where the readings come from.
pub(crate) const SOURCE: &str = "/proc/PID/net/tcp";

/// Variables with the ports at which a server takes clients.
const PORTS: [&str; 4] = ["port", "admin_port", "extra_port", "mysqlx_port"];

/// Connections of clients with bytes in a queue at both ends of a window.
pub(crate) struct Stuck<'w> {
    /// Those with the same bytes unsent at both ends, and sent again or waiting for room at the client's end.
    pub(crate) unsent: Vec<&'w TcpQueue>,
    /// Those with bytes unread at both ends, and no fewer at the last. They need not be the same bytes: a server that reads all that
    /// comes, but late, has as many again.
    pub(crate) unread: Vec<&'w TcpQueue>,
    /// For how long, at least.
    pub(crate) seconds: f64,
}

impl<'w> Stuck<'w> {
    /// None where the queues were not read twice.
    pub(crate) fn from_window(window: &'w Window) -> Option<Self> {
        let change = window.change(|sample| &sample.host.tcp_queues)?;
        let (first, last): (&'w TcpQueues, &'w TcpQueues) = (change.first, change.last);
        if change.seconds < LEAST_S {
            return None;
        }
        let ports = ports(window);
        let before: HashMap<(u64, &str), &TcpQueue> =
            first.connections.iter().map(|one| ((one.inode, one.peer.as_str()), one)).collect();
        let both: Vec<(&'w TcpQueue, &'w TcpQueue)> = last
            .connections
            .iter()
            .filter(|now| ports.contains(&now.port))
            .filter_map(|now| Some((*before.get(&(now.inode, now.peer.as_str()))?, now)))
            .collect();
        let unsent = both.iter().filter(|(then, now)| {
            now.unsent_bytes > 0 && now.unsent_bytes == then.unsent_bytes && now.tries > 0
        });
        let unread =
            both.iter().filter(|(then, now)| then.unread_bytes > 0 && now.unread_bytes >= then.unread_bytes);
        Some(Self {
            unsent: unsent.map(|(_, now)| *now).collect(),
            unread: unread.map(|(_, now)| *now).collect(),
            seconds: change.seconds,
        })
    }
}

/// Requests that wait, for a finding that says why.
pub(crate) fn unread(window: &Window) -> Option<Evidence> {
    let count = Stuck::from_window(window)?.unread.len();
    (count > 0).then(|| of_unread(count))
}

/// So many of them.
pub(crate) fn of_unread(count: usize) -> Evidence {
    Evidence::new("connections with a request unread at both ends of the window", count as f64, "", SOURCE)
        .expected("0")
}

/// The ports of clients: as the variables say, or else all that listen. Connections that the server made itself have none of these.
fn ports(window: &Window) -> BTreeSet<u16> {
    let set =
        PORTS.iter().filter_map(|name| window.variable(name)?.parse::<u16>().ok()).filter(|&port| port > 0);
    let set: BTreeSet<u16> = set.collect();
    if !set.is_empty() {
        return set;
    }
    let listening = window.latest(|sample| &sample.host.listen_queues);
    listening.into_iter().flat_map(|queues| &queues.sockets).map(|socket| socket.port).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use spindoctor_model::host::{ListenQueue, ListenQueues};

    use super::*;
    use crate::testing::{Build, answer};

    /// A connection to port 3306 from a host of its own.
    pub(crate) fn queue(at: u8, unsent_bytes: u64, unread_bytes: u64, tries: u32) -> TcpQueue {
        TcpQueue {
            port: 3306,
            peer: format!("10.0.0.{at}:51234"),
            inode: 31_000 + u64::from(at),
            unsent_bytes,
            unread_bytes,
            tries,
        }
    }

    /// These connections at both ends.
    pub(crate) fn with(build: Build, first: Vec<TcpQueue>, last: Vec<TcpQueue>) -> Build {
        build.variable("port", "3306").each(move |at_s, _, host| {
            let connections = match at_s {
                0.0 => first.clone(),
                10.0 => last.clone(),
                _ => return,
            };
            host.tcp_queues = answer(at_s, TcpQueues { connections, is_cut: false });
        })
    }

    fn counts(build: Build) -> Option<(usize, usize)> {
        let window = build.window();
        let stuck = Stuck::from_window(&window)?;
        Some((stuck.unsent.len(), stuck.unread.len()))
    }

    #[test]
    fn what_is_the_same_at_both_ends_is_stuck_and_what_moved_is_not() {
        let first = vec![
            queue(1, 36, 0, 1),
            queue(2, 36, 0, 0),
            queue(3, 90_000, 0, 0),
            queue(4, 0, 9, 0),
            queue(5, 0, 9, 0),
            queue(6, 36, 0, 1),
        ];
        let last = vec![
            queue(1, 36, 0, 7),
            queue(2, 36, 0, 0),
            queue(3, 80_000, 0, 1),
            queue(4, 0, 14, 0),
            queue(5, 0, 4, 0),
            // Another one with the same number.
            TcpQueue { peer: "10.0.0.66:51234".into(), ..queue(6, 36, 0, 7) },
        ];
        let build = || with(Build::busy("8.0.36"), first.clone(), last.clone());
        assert_eq!(counts(build()), Some((1, 1)));
        assert_eq!(counts(build().variable("port", "3307")), Some((0, 0)), "another server's");
        assert_eq!(counts(Build::busy("8.0.36")), None);
        // Both within a moment.
        let brief = build().each(|at_s, _, host| {
            if let spindoctor_model::Reading::Available { at_s: then_s, .. } = &mut host.tcp_queues {
                *then_s = at_s / 5.0;
            }
        });
        assert_eq!(counts(brief), None);
    }

    #[test]
    fn without_variables_the_ports_that_listen_are_those_of_clients() {
        let stuck = || vec![queue(1, 0, 9, 0)];
        let of = |port: u16| {
            let build = with(Build::busy("8.0.36"), stuck(), stuck()).each(move |at_s, server, host| {
                server.variables = spindoctor_model::Reading::NotAsked;
                let sockets = vec![ListenQueue { port, waiting: 0 }];
                host.listen_queues = answer(at_s, ListenQueues { sockets, ..ListenQueues::default() });
            });
            counts(build)
        };
        assert_eq!((of(3306), of(8080)), (Some((0, 1)), Some((0, 0))));
    }
}

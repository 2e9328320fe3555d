//! `/proc/PID/net`: who waits before the listening sockets, and how many were dropped there. Of a server in our own
//! network namespace the kernel gives the queues by sock_diag(7), which is a hundred times cheaper.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use rustix::net::AddressFamily;
use spindoctor_model::Unavailable;
use spindoctor_model::host::{ListenQueue, ListenQueues};

use super::source::{HostSource, Target, reading};
use super::{kernel_file, sock_diag};
use crate::pace::Pace;
use crate::source::Cadence;

/// Sockets read at most: a host with more listeners has other troubles.
const LIMIT: usize = 256;

/// Listening sockets of the server's network namespace.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/net",
    help: "connections that nobody has accepted yet, and those that were dropped before a full queue",
    cost: "two questions to the kernel and one small file; of a server in another network namespace the first lines of two \
           files, some 5 ms each",
    needs: "",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read: |target, sample, now| sample.listen_queues = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<ListenQueues, Unavailable> {
    let mut queues = ListenQueues::default();
    let is_ours = target.is_in_our_network();
    // A kernel without IPv6 has no second file.
    for (family, table, may_be_missing) in
        [(AddressFamily::INET, "net/tcp", false), (AddressFamily::INET6, "net/tcp6", true)]
    {
        // A kernel without sock_diag still has the file.
        if is_ours && let Ok(sockets) = sock_diag::listeners(family, LIMIT) {
            queues.sockets.extend(sockets);
            continue;
        }
        let path = target.process(table);
        match listeners(&path) {
            Ok(sockets) => queues.sockets.extend(sockets),
            Err(error) if may_be_missing && error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(kernel_file::because(&path, &error)),
        }
    }
    if let Some(text) = kernel_file::read_if_any(&target.process("net/netstat"))? {
        let counter = |name| parse_counter(&text, "TcpExt:", name);
        queues.overflows = counter("ListenOverflows");
        queues.drops = counter("ListenDrops");
        queues.syn_queue_drops = counter("TCPReqQFullDrop");
    }
    Ok(queues)
}

/// Reads to the first socket that does not listen: the kernel walks the listeners first (net/ipv4/tcp_ipv4.c,
/// `tcp_seq_start`), and a busy server has tens of thousands of others behind them.
fn listeners(path: &Path) -> std::io::Result<Vec<ListenQueue>> {
    let mut lines = BufReader::with_capacity(4_096, File::open(path)?).split(b'\n');
    let _header = lines.next();
    let mut sockets = Vec::new();
    for line in lines.take(LIMIT) {
        match parse_listener(&String::from_utf8_lossy(&line?)) {
            Some(socket) => sockets.push(socket),
            None => break,
        }
    }
    Ok(sockets)
}

/// A socket that listens; None for any other.
///
/// Format is like (proc_net_tcp; state 0A is LISTEN; of such a socket the second queue counts who waits to be accepted)
/// `   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000003 00:00000000 00000000   104        0 31337 1 ...`
pub fn parse_listener(line: &str) -> Option<ListenQueue> {
    let mut fields = line.split_ascii_whitespace();
    let (_, port) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let (_, waiting) = fields.next()?.split_once(':')?;
    (state == "0A").then_some(())?;
    Some(ListenQueue {
        port: u16::from_str_radix(port, 16).ok()?,
        waiting: u64::from_str_radix(waiting, 16).ok()?,
    })
}

/// A counter of `net/netstat` or `net/snmp`: names in one line, values in the next (Linux 6.18):
///
/// ```text
/// TcpExt: SyncookiesSent SyncookiesRecv ListenOverflows ListenDrops
/// TcpExt: 0 0 12 12
/// ```
pub fn parse_counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let place = lines.next()?.split_ascii_whitespace().position(|other| other == name)?;
    lines.next()?.split_ascii_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::testing::never_panics;
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:0CEA 00000000:0000 0A 00000000:00000003 00:00000000 00000000   104        0 31337 1 0 100 0 0 10 0\n\
        1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000   104        0 31338 1 0 100 0 0 10 0\n\
        2: 0100007F:0CEA 0100007F:C350 01 00000000:00000000 00:00000000 00000000   104        0 31339 1 0 100 0 0 10 0\n";

    const NETSTAT: &str = "TcpExt: SyncookiesSent TCPReqQFullDrop ListenOverflows ListenDrops\n\
        TcpExt: 0 4 12 13\nIpExt: InNoRoutes ListenDrops\nIpExt: 0 99\n";

    #[test]
    fn listeners_are_read_and_what_stands_behind_them_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tcp");
        std::fs::write(&path, TCP).unwrap();
        assert_eq!(
            listeners(&path).unwrap(),
            [ListenQueue { port: 3306, waiting: 3 }, ListenQueue { port: 8080, waiting: 0 }]
        );
        let ipv6 = "   0: 00000000000000000000000000000000:0CEA 00000000000000000000000000000000:0000 0A \
                    00000000:00000011 00:00000000 00000000     0        0 31340 1";
        assert_eq!(parse_listener(ipv6), Some(ListenQueue { port: 3306, waiting: 17 }));
    }

    #[test]
    fn a_counter_is_found_by_its_name_in_its_group() {
        assert_eq!(parse_counter(NETSTAT, "TcpExt:", "ListenDrops"), Some(13));
        assert_eq!(parse_counter(NETSTAT, "TcpExt:", "ListenOverflows"), Some(12));
        assert_eq!(parse_counter(NETSTAT, "TcpExt:", "NoSuchCounter"), None);
        assert_eq!(parse_counter("TcpExt: A B\n", "TcpExt:", "B"), None);
        never_panics(|text| parse_counter(text, "TcpExt:", "B"));
        never_panics(parse_listener);
    }

    #[test]
    fn who_waits_before_a_real_socket_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _waiting: Vec<TcpStream> =
            (0..2).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let queues = collect(&Target::live(std::process::id())).unwrap();
        let found = queues.sockets.iter().find(|socket| socket.port == port);
        assert_eq!(found.map(|socket| socket.waiting), Some(2), "{queues:?}");
        assert!(queues.overflows.is_some() && queues.drops.is_some());
    }
}

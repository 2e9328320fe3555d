//! `/proc/PID/net/tcp` and `tcp6`: connections with bytes that their client does not take, or that the server does not read. Of a server in
//! our own network namespace the kernel gives them by sock_diag(7), without the text of all others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::AddressFamily;
use spindoctor_model::Unavailable;
use spindoctor_model::host::{TcpQueue, TcpQueues};

use super::sock_diag::{self, Bounds, TIMERS};
use super::source::{HostSource, Target, reading};
use super::{kernel_file, process};
use crate::pace::Pace;
use crate::source::Cadence;

/// Connections that may be stuck, of which so many are kept at most. A server that does well has few at an instant: what it has sent once
/// is not kept, and it reads a request at once.
const LIMIT: usize = 1_024;

/// For so long the kernel is asked at most, both families together. It is asked twice in a window, and once a minute by a recorder.
/// Chosen: 20,000 connections are 3 MB of text, or half of that as messages.
const MOST_TIME: Duration = Duration::from_millis(50);

/// The queues of the server's connections.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/net/tcp",
    help: "connections with bytes that the client does not take, or that the server does not read",
    cost: "two questions to the kernel and 72 bytes for each connection; of a server in another network namespace two files with a line \
           for each; 50 ms at most",
    needs: "",
    cadence: Cadence::Ends,
    pace: Pace::host(60, 600),
    read: |target, sample, now| sample.tcp_queues = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<TcpQueues, Unavailable> {
    let path = target.process("status");
    let uid = process::parse_status(&kernel_file::read(&path)?).uid;
    let uid = uid.ok_or_else(|| kernel_file::unknown_form(&path))?;
    let until = Instant::now() + MOST_TIME;
    let is_ours = target.is_in_our_network();
    let mut queues = TcpQueues::default();
    // A kernel without IPv6 has no second file.
    for (family, table, may_be_missing) in
        [(AddressFamily::INET, "net/tcp", false), (AddressFamily::INET6, "net/tcp6", true)]
    {
        let room = LIMIT.saturating_sub(queues.connections.len());
        let within = until.saturating_duration_since(Instant::now());
        // A kernel without sock_diag still has the file.
        if is_ours && let Ok((found, is_whole)) = sock_diag::queues(family, uid, Bounds::within(room, within))
        {
            queues.connections.extend(found);
            queues.is_cut |= !is_whole;
            continue;
        }
        match text(&target.process(table), may_be_missing, within)? {
            Some(text) => {
                let all = text.lines().filter_map(|line| parse_connection(line, uid));
                let mut found = all.filter(TcpQueue::may_be_stuck);
                queues.connections.extend(found.by_ref().take(room));
                queues.is_cut |= found.next().is_some();
            }
            None => queues.is_cut = true,
        }
    }
    Ok(queues)
}

/// A table's text, empty where there may be none; None where it takes too long: what was read of it until then is no list.
fn text(path: &Path, may_be_missing: bool, within: Duration) -> Result<Option<String>, Unavailable> {
    match kernel_file::read_within(path, within) {
        Ok(text) => Ok(text),
        Err(error) if may_be_missing && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Some(String::new()))
        }
        Err(error) => Err(kernel_file::because(path, &error)),
    }
}

/// A connection of that account with bytes in a queue; None for any other socket.
///
/// Format is like (proc_net_tcp; `get_tcp4_sock`, net/ipv4/tcp_ipv4.c: state 01 is ESTABLISHED, the queues are of what is to be sent and
/// of what is to be read; behind the timer stands how often it was sent again, and behind the account how often room was asked for)
/// `   2: 0100007F:0CEA 0100007F:C350 01 00000024:00000000 01:00000122 00000006   999        0 31339 2 ...`
pub fn parse_connection(line: &str, uid: u32) -> Option<TcpQueue> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    let (unsent, unread) = fields.next()?.split_once(':')?;
    let (timer, _) = fields.next()?.split_once(':')?;
    let (again, owner, asked, inode) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    (state == "01" && owner.parse() == Ok(uid)).then_some(())?;
    let bytes = |hex| u64::from_str_radix(hex, 16).ok();
    let (unsent_bytes, unread_bytes) = (bytes(unsent)?, bytes(unread)?);
    (unsent_bytes > 0 || unread_bytes > 0).then_some(())?;
    let tries = match u8::from_str_radix(timer, 16).ok()? {
        timer if timer == TIMERS[0] => u32::from_str_radix(again, 16).ok()?,
        timer if timer == TIMERS[1] => asked.parse().ok()?,
        _ => 0,
    };
    Some(TcpQueue {
        port: end(local)?.port(),
        peer: end(remote)?.to_string(),
        inode: inode.parse().ok()?,
        unsent_bytes,
        unread_bytes,
        tries,
    })
}

/// `0100007F:0CEA`: words of 32 bits in the host's order, in hexadecimal; one of IPv4, four of IPv6.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let hex = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(hex, 16).ok()?.to_ne_bytes())
    };
    let address: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (at, octets) in octets.chunks_exact_mut(4).enumerate() {
                octets.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use super::super::testing::{never_panics, put, target};
    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    /// A listener; a connection with empty queues; one whose bytes are sent again; one that waits for room; one that is closed by its
    /// client; one of another account; one with a request that nobody has read.
    const TCP: &str = "\
        0: 00000000:0CEA 00000000:0000 0A 00000000:00000003 00:00000000 00000000   999        0 31337 1 0 100 0 0 10 0\n\
        1: 0100007F:0CEA 0100007F:C350 01 00000000:00000000 00:00000000 00000000   999        0 31338 1 0 20 4 30 10 -1\n\
        2: 0100000A:0CEA 0700000A:C822 01 00000024:00000000 01:00000122 00000006   999        0 31339 2 0 3200 0 0 1 7\n\
        3: 0100000A:0CEA 0800000A:C823 01 00004000:00000000 04:00000122 00000000   999        5 31340 2 0 3200 0 0 1 7\n\
        4: 0100000A:0CEA 0900000A:C824 08 00000000:00000001 00:00000000 00000000   999        0 31341 1 0 20 4 30 10 -1\n\
        5: 0100000A:1F90 0A00000A:C825 01 00000024:00000000 01:00000122 00000006    33        0 31342 2 0 3200 0 0 1 7\n\
        6: 0100000A:0CEA 0B00000A:C826 01 00000000:00000009 02:00000122 00000000   999        0 31343 2 0 20 4 30 10 -1\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn connections_with_bytes_in_a_queue_are_read_and_no_other_sockets() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/status", "Name:\tmysqld\nUid:\t999\t999\t999\t999\n");
        put(root.path(), "proc/7/net/tcp", &format!("{HEAD}{TCP}"));
        let queues = collect(&target(root.path())).unwrap();
        let seen: Vec<_> = queues
            .connections
            .iter()
            .map(|one| (one.peer.as_str(), one.unsent_bytes, one.unread_bytes, one.tries))
            .collect();
        assert_eq!(
            seen,
            [("10.0.0.7:51234", 36, 0, 6), ("10.0.0.8:51235", 16_384, 0, 5), ("10.0.0.11:51238", 0, 9, 0)]
        );
        assert!(queues.connections.iter().all(|one| one.port == 3306) && !queues.is_cut);
        let mapped = end("0000000000000000FFFF00000700000A:C822").unwrap();
        assert_eq!(mapped.to_string(), "10.0.0.7:51234");
        assert_eq!(end("00000000000000000000000001000000:0CEA").unwrap().to_string(), "[::1]:3306");
    }

    /// Sent once to four clients, who have not acknowledged it yet.
    #[test]
    #[cfg(target_endian = "little")]
    fn of_a_server_that_does_well_nothing_is_kept() {
        let line = "0: 0100000A:0CEA 0700000A:C822 01 00000024:00000000 01:00000014 00000000   999        0 31339 2\n";
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/status", "Uid:\t999\t999\t999\t999\n");
        put(root.path(), "proc/7/net/tcp", &format!("{HEAD}{}", line.repeat(4)));
        assert_eq!(collect(&target(root.path())), Ok(TcpQueues::default()));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn more_connections_than_are_kept_are_said_to_be_cut() {
        let line = "0: 0100000A:0CEA 0700000A:C822 01 00000024:00000000 01:00000122 00000006   999        0 31339 2\n";
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/status", "Uid:\t999\t999\t999\t999\n");
        put(root.path(), "proc/7/net/tcp", &format!("{HEAD}{}", line.repeat(LIMIT + 1)));
        let queues = collect(&target(root.path())).unwrap();
        assert_eq!((queues.connections.len(), queues.is_cut), (LIMIT, true));
    }

    #[test]
    fn without_the_account_nothing_is_known() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/status", "Name:\tmysqld\n");
        assert!(collect(&target(root.path())).unwrap_err().because.contains("status"));
    }

    #[test]
    fn no_line_makes_the_parser_panic() {
        never_panics(|text| parse_connection(text, 0));
        never_panics(end);
        assert_eq!(end("é00007F:0CEA"), None);
    }

    #[test]
    fn a_request_that_nobody_reads_is_seen_in_a_real_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        client.write_all(b"SELECT").unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        let seen = loop {
            let queues = collect(&Target::live(std::process::id())).unwrap();
            if let Some(seen) = queues.connections.into_iter().find(|one| one.port == port) {
                break seen;
            }
            assert!(Instant::now() < patience, "the kernel shows no such connection");
            std::thread::yield_now();
        };
        assert_eq!((seen.peer, seen.unread_bytes, seen.unsent_bytes), (peer.to_string(), 6, 0));
        assert!(seen.inode > 0);
    }
}

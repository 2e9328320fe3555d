//! How many connections were closed a moment ago and wait for their end, by `ss -s`, `/proc/net/sockstat`, and a shell that counts what
//! `netstat` prints; and how many wait until a server accepts them, by `ss -ltn` and `netstat -s`.
//!
//! ```text
//! TCP:   30112 (estab 411, closed 29112, orphaned 3, timewait 29110)
//! TCP: inuse 12 orphan 0 tw 33365 alloc 23 mem 16
//!   28112 TIME_WAIT
//!
//! State      Recv-Q Send-Q Local Address:Port               Peer Address:Port
//! LISTEN     51     50           *:3306                     *:*
//!     22438 times the listen queue of a socket overflowed
//! TcpExtListenOverflows           22438              0.0
//! ```

use std::collections::BTreeMap;

use spindoctor_model::number;

use crate::system::{MOST_ROWS, MOST_WORDS, SystemText};

/// From so many on a host that connects to one address comes near to the 28,232 ports that Linux gives (net.ipv4.ip_local_port_range).
const MANY: u64 = 10_000;
/// How `netstat -s` counts connections for which a queue had no room; `nstat` has it with its name in front.
const OVERFLOWED: &str = "times the listen queue of a socket overflowed";
const OVERFLOWS: &str = "TcpExtListenOverflows";
/// Connections that wait to be accepted, where it is not known for how many there is room: a server that is well accepts each at once. By
/// judgement.
const LONG: u64 = 10;
/// Bytes that a client has not taken: less is on its way. By judgement.
const UNTAKEN_BYTES: u64 = 256 << 10;
/// Ports at which servers of MySQL and MariaDB listen.
const PORTS: [&str; 4] = [":3306", ":3307", ":33060", ":mysql"];

/// True for a line that has such a number.
pub(crate) fn is_line(line: &str) -> bool {
    let is_head =
        || ["State", "Netid"].iter().any(|name| line.starts_with(name)) && line.contains(" Recv-Q ");
    closed(line).is_some() || overflows(line).is_some() || is_head()
}

/// Says so, where they are many.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let most = text.lines().take(MOST_ROWS).filter_map(closed).max();
    if let Some(many) = most.filter(|many| *many >= MANY) {
        let sentence = format!(
            "{} that were closed wait for their end (TIME_WAIT): clients connect for each piece of work, and their ports may run out. A pool \
             keeps connections",
            number::counted(many, "connection", "connections")
        );
        found.add("sockets", None, sentence);
    }
    let mut listening = text.lines().take(MOST_ROWS).filter_map(queue);
    let is_long = |(_, waiting, room): &(&str, u64, Option<u64>)| *waiting >= room.unwrap_or(LONG);
    if let Some((address, waiting, room)) = listening.find(is_long) {
        let room = room.map_or_else(String::new, |room| format!(", and there is room for {room}"));
        let sentence = format!(
            "{} on {address} until the server accepts them{room}: the kernel drops those for which there is none, and their clients try again \
             after a second or time out. A larger back_log (and net.core.somaxconn) lets more wait; what the accepting thread does its \
             stack says",
            number::counted(waiting, "connection waits", "connections wait")
        );
        found.add("ss", None, sentence);
    }
    slow_clients(text, found);
    let overflowed = text.lines().take(MOST_ROWS).filter_map(overflows).max();
    if let Some(times) = overflowed.filter(|times| *times > 0) {
        let sentence = format!(
            "Since the host's start {} dropped, because nobody accepted those before it in time: of which port ss -ltn says while it lasts \
             (Recv-Q of the row)",
            number::counted(times, "new connection was", "new connections were")
        );
        found.add("netstat", None, sentence);
    }
}

/// The state of a connection, what its two queues have, and both addresses: `ESTAB 0 2626560 10.0.0.5:3306 10.0.0.9:51022` of `ss`, and
/// `tcp 0 2626560 10.0.0.5:3306 10.0.0.9:51022 ESTABLISHED` of `netstat`.
fn socket(line: &str) -> Option<(&str, [u64; 2], [&str; 2])> {
    let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
    let (state, received, sent, addresses) = match words.as_slice() {
        ["tcp" | "tcp4" | "tcp6", received, sent, own, other, state, ..]
            if received.parse::<u64>().is_ok() =>
        {
            (*state, *received, *sent, [*own, *other])
        }
        ["tcp", state, received, sent, own, other, ..] | [state, received, sent, own, other, ..] => {
            (*state, *received, *sent, [*own, *other])
        }
        _ => return None,
    };
    Some((state, [received.parse().ok()?, sent.parse().ok()?], addresses))
}

fn is_port(address: &str) -> bool {
    PORTS.iter().any(|port| address.ends_with(port))
}

/// The address at which a MySQL or MariaDB server listens, how many connections wait there until it accepts them, and for how many there is
/// room, which `ss` alone says.
fn queue(line: &str) -> Option<(&str, u64, Option<u64>)> {
    let (_, [waiting, room], [address, _]) = socket(line).filter(|(state, ..)| *state == "LISTEN")?;
    let is_of_server =
        is_port(address) || ["\"mysqld\"", "\"mariadbd\""].iter().any(|name| line.contains(name));
    is_of_server.then_some((address, waiting, (room > 0).then_some(room)))
}

/// Says how many clients have not taken what the server sent them, and which host has most of them.
fn slow_clients(text: &str, found: &mut SystemText) {
    let untaken = |line| {
        let (state, [_, bytes], [own, client]) = socket(line)?;
        let is_one = state.starts_with("ESTAB") && is_port(own) && bytes >= UNTAKEN_BYTES;
        is_one.then(|| (client.rsplit_once(':').map_or(client, |(host, _)| host), bytes))
    };
    let all: Vec<(&str, u64)> = text.lines().take(MOST_ROWS).filter_map(untaken).collect();
    let mut hosts: BTreeMap<&str, u64> = BTreeMap::new();
    for (host, _) in &all {
        *hosts.entry(*host).or_default() += 1;
    }
    let most = hosts.into_iter().max_by_key(|(_, connections)| *connections);
    if let (Some((host, connections)), Some(bytes)) = (most, all.iter().map(|(_, bytes)| *bytes).max()) {
        let sentence = format!(
            "{} what the server sent, up to {} each (Send-Q), {connections} of them from {host}: the client works on its rows before it takes \
             more, or the network between is slow or lost. A transaction that is open meanwhile keeps its locks",
            number::counted(all.len() as u64, "client has not taken", "clients have not taken"),
            number::bytes(bytes as f64)
        );
        found.add("ss", None, sentence);
    }
}

/// How many connections found no room in a queue, by a line.
fn overflows(line: &str) -> Option<u64> {
    let line = line.trim();
    let of_netstat = || line.strip_suffix(OVERFLOWED)?.trim_end().parse::<u64>().ok();
    let of_nstat = || line.strip_prefix(OVERFLOWS)?.split_whitespace().next()?.parse().ok();
    of_netstat().or_else(of_nstat)
}

/// The connections in TIME_WAIT, by a line.
fn closed(line: &str) -> Option<u64> {
    let line = line.trim();
    let is_likely = line.starts_with("TCP:") || line.ends_with("TIME_WAIT");
    if !is_likely {
        return None;
    }
    let words: Vec<&str> =
        line.split([' ', '\t', '(', ')', ',']).filter(|word| !word.is_empty()).take(MOST_WORDS).collect();
    let behind = |name: &str| words.iter().skip_while(|word| **word != name).nth(1);
    match words.as_slice() {
        [count, "TIME_WAIT"] => count.parse().ok(),
        ["TCP:", "inuse", ..] => behind("tw")?.parse().ok(),
        ["TCP:", _, "estab", ..] => behind("timewait")?.split('/').next()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn many_connections_that_were_closed_are_said_in_each_form() {
        for text in [
            "Total: 31231\nTCP:   30112 (estab 411, closed 29112, orphaned 3, timewait 29110)\n\nTransport Total     IP        IPv6\n",
            "Total: 31231 (kernel 0)\nTCP:   30112 (estab 411, closed 29112, orphaned 3, synrecv 0, timewait 29110/0), ports 0\n",
            "sockets: used 341\nTCP: inuse 12 orphan 0 tw 29110 alloc 23 mem 16\nUDP: inuse 9 mem 2\n",
            "$ netstat -ant | awk '{print $6}' | sort | uniq -c\n  29110 TIME_WAIT\n    311 ESTABLISHED\n",
        ] {
            let parts = recognise("x", text);
            let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
            assert!(says.len() == 1 && says[0].starts_with("29,110 connections"), "{text}: {says:?}");
            let few = system::read(&text.replace("29110", "120"));
            assert_eq!(few.says, Vec::<String>::new(), "{text}");
        }
        assert!(!super::is_line("state: TIME_WAIT"));
    }

    #[test]
    fn clients_that_do_not_take_what_was_sent_are_said() {
        let ss = |bytes: u64| {
            format!(
                "State   Recv-Q   Send-Q     Local Address:Port      Peer Address:Port\n\
                 ESTAB   0        {bytes}    10.0.0.5:3306           10.0.0.9:51022\n\
                 ESTAB   0        {bytes}    10.0.0.5:3306           10.0.0.9:51023\n\
                 ESTAB   0        0          10.0.0.5:3306           10.0.0.8:51024\n"
            )
        };
        let wanted = "2 clients have not taken what the server sent, up to 2.5 MiB each (Send-Q), 2 of them from 10.0.0.9";
        let netstat =
            "tcp        0  2621440 10.0.0.5:3306           10.0.0.9:51022          ESTABLISHED\n".repeat(2);
        for text in [&ss(2_621_440), &netstat] {
            let said = system::read(text).says;
            assert!(said.len() == 1 && said[0].starts_with(wanted), "{text}: {said:?}");
        }
        let parts = recognise("x", &ss(2_621_440));
        assert!(parts[0].says[0].starts_with(wanted), "{parts:?}");
        assert_eq!(system::read(&ss(4_096)).says, Vec::<String>::new());
        // What the host itself sends as a client of another server is no matter of this one.
        assert_eq!(system::read(&ss(2_621_440).replace(":3306", ":3990")).says, Vec::<String>::new());
    }

    #[test]
    fn connections_that_nobody_accepts_are_said() {
        let list = |waiting: u64, port: &str| {
            format!(
                "State      Recv-Q Send-Q Local Address:Port               Peer Address:Port\n\
                 LISTEN     0      128          *:22                       *:*\n\
                 LISTEN     {waiting}     50           *:{port}                     *:*\n"
            )
        };
        let says = |text: &str| -> Vec<String> {
            recognise("x", text).into_iter().flat_map(|part| part.says).collect()
        };
        let wanted = "51 connections wait on *:3306 until the server accepts them, and there is room for 50";
        let full = says(&format!("# ss -lnt\n{}", list(51, "3306")));
        assert!(full.len() == 1 && full[0].starts_with(wanted), "{full:?}");
        let named = "Netid State   Recv-Q  Send-Q   Local Address:Port   Peer Address:Port Process\n\
                     tcp   LISTEN  129     128      0.0.0.0:3310         0.0.0.0:*     users:((\"mysqld\",pid=71,fd=21))\n";
        assert!(says(named)[0].starts_with("129 connections wait on 0.0.0.0:3310"), "{:?}", says(named));
        let netstat = "Active Internet connections (servers and established)\n\
                       Proto Recv-Q Send-Q Local Address               Foreign Address             State\n\
                       tcp      129      0 0.0.0.0:3306                0.0.0.0:*                   LISTEN\n";
        assert!(
            says(netstat)[0].starts_with("129 connections wait on 0.0.0.0:3306 until"),
            "{:?}",
            says(netstat)
        );
        for text in [list(0, "3306"), list(51, "8080"), netstat.replace("129", "  0")] {
            assert_eq!(system::read(&text).says, Vec::<String>::new(), "{text}");
        }
        for text in [
            "# netstat -s | grep -i listen\n    22438 times the listen queue of a socket overflowed\n    49148 SYNs to LISTEN sockets dropped\n",
            "TcpExtListenOverflows           22438              0.0\nTcpExtListenDrops               49148              0.0\n",
        ] {
            let said = says(text);
            assert!(said.len() == 1 && said[0].contains("22,438 new connections were dropped"), "{said:?}");
        }
        assert_eq!(
            system::read("    0 times the listen queue of a socket overflowed\n").says,
            Vec::<String>::new()
        );
    }
}

//! What `tcpdump` prints of a client's connections that no server answers.
//!
//! ```text
//! 10:11:12.110221 IP 10.0.3.9.51122 > 10.0.3.20.3306: Flags [S], seq 812203312, win 62727, options [mss 8961], length 0
//! 10:11:13.130221 IP 10.0.3.9.51122 > 10.0.3.20.3306: Flags [S], seq 812203312, win 62727, options [mss 8961], length 0
//! ```

use std::collections::BTreeMap;

use crate::system::{MOST_ROWS, SystemText};

/// So often is a connection asked for that nobody answers: a packet that was lost once is sent a second time. By judgement.
const LEAST_TIMES: u64 = 3;
/// The port of a server, where nothing else is set.
const PORT: &str = ".3306";

/// A packet of a connection's beginning.
struct Packet<'l> {
    from: &'l str,
    to: &'l str,
    flags: &'l str,
}

/// True for a line of such a packet.
pub(crate) fn is_line(line: &str) -> bool {
    packet(line).is_some()
}

/// The packet of a line, from or to a server.
fn packet(line: &str) -> Option<Packet<'_>> {
    let (ends, rest) = line.split_once(": Flags [")?;
    let (flags, _) = rest.split_once(']')?;
    let (before, to) = ends.split_once(" > ")?;
    let from = before.rsplit(' ').next().filter(|from| !from.is_empty())?;
    let is_of_server = from.ends_with(PORT) || to.ends_with(PORT);
    (is_of_server && before.contains(" IP")).then_some(Packet { from, to, flags })
}

/// Says which server does not answer.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let mut asked: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let packets = || text.lines().take(MOST_ROWS).filter_map(packet);
    for packet in packets().filter(|packet| packet.flags == "S" && packet.to.ends_with(PORT)) {
        *asked.entry((packet.from, packet.to)).or_default() += 1;
    }
    // One who answers a client, or refuses it, is there.
    let answers = |server: &str| packets().any(|packet| packet.from == server);
    let most = asked.iter().max_by_key(|(_, times)| **times);
    let Some(((client, server), times)) = most.filter(|(_, times)| **times >= LEAST_TIMES) else { return };
    if !answers(server) {
        let sentence = format!(
            "{client} asked {server} for a connection {times} times (SYN), and no packet came back: a firewall drops them, the host is not there, \
             or the server's queue of connections is full. nstat -az TcpExtListenDrops on the server, and its firewall, say which"
        );
        found.add("tcpdump", None, sentence);
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    fn line(second: u64, from: &str, to: &str, flags: &str) -> String {
        format!(
            "10:11:{second}.110221 IP {from} > {to}: Flags [{flags}], seq 812203312, win 62727, length 0\n"
        )
    }

    #[test]
    fn a_connection_that_nobody_answers_is_said_and_one_that_is_refused_is_not() {
        let (client, server) = ("10.0.3.9.51122", "10.0.3.20.3306");
        let asks: String = [12, 13, 15].map(|second| line(second, client, server, "S")).concat();
        let wanted =
            "10.0.3.9.51122 asked 10.0.3.20.3306 for a connection 3 times (SYN), and no packet came back";
        let parts = recognise("x", &asks);
        assert!(parts.iter().any(|part| part.says.iter().any(|said| said.starts_with(wanted))), "{parts:?}");
        for answer in ["S.", "R.", "."] {
            let text = format!("{asks}{}", line(16, server, client, answer));
            assert_eq!(system::read(&text).says, Vec::<String>::new(), "{text}");
        }
        let once = line(12, client, server, "S");
        assert_eq!(system::read(&once).says, Vec::<String>::new());
        let of_web = asks.replace(".3306", ".443");
        assert_eq!(system::read(&of_web).says, Vec::<String>::new());
    }
}

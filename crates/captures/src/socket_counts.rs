//! How many connections were closed a moment ago and wait for their end, by `ss -s`, `/proc/net/sockstat`, and a shell that counts what
//! `netstat` prints.
//!
//! ```text
//! TCP:   30112 (estab 411, closed 29112, orphaned 3, timewait 29110)
//! TCP: inuse 12 orphan 0 tw 33365 alloc 23 mem 16
//!   28112 TIME_WAIT
//! ```

use spindoctor_model::number;

use crate::system::{MOST_ROWS, MOST_WORDS, SystemText};

/// From so many on a host that connects to one address comes near to the 28,232 ports that Linux gives (net.ipv4.ip_local_port_range).
const MANY: u64 = 10_000;

/// True for a line that has such a number.
pub(crate) fn is_line(line: &str) -> bool {
    closed(line).is_some()
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
}

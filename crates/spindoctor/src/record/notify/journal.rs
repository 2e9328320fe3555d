//! The journal of systemd, by its own protocol: a datagram of fields (systemd's "Native Journal Protocol"). It is used where
//! systemd has the recorder's standard error in its journal, which `JOURNAL_STREAM` says.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use super::message::Message;

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Which kind of message this is, for `journalctl MESSAGE_ID=...`; a number of our own, as the protocol wants it.
const MESSAGE_ID: &str = "7a1c0f5e8d3b4f6f9a2e51d0c4b86e13";
/// `warning` of syslog.
const PRIORITY: &str = "4";

/// The journal.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
}

impl Journal {
    /// The one that this process writes to; none where it writes to none.
    pub fn of_this_process() -> Option<Self> {
        std::env::var_os("JOURNAL_STREAM")?;
        Self::at(Path::new(SOCKET))
    }

    fn at(path: &Path) -> Option<Self> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect(path).ok()?;
        // What is full is not waited for.
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket })
    }

    /// Writes a message; one that the journal has no room for is lost there, and is in the recording.
    pub fn write(&self, message: &Message) {
        let _ = self.socket.send(&fields(message));
    }
}

/// The fields of a message: `NAME=value` on a line, or, where the value has lines, the name, its length and the value.
fn fields(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |name: &str, value: &str| {
        bytes.extend(name.as_bytes());
        match value.contains('\n') {
            false => bytes.push(b'='),
            true => {
                bytes.push(b'\n');
                bytes.extend((value.len() as u64).to_le_bytes());
            }
        }
        bytes.extend(value.as_bytes());
        bytes.push(b'\n');
    };
    add("MESSAGE", &message.line());
    add("MESSAGE_ID", MESSAGE_ID);
    add("PRIORITY", PRIORITY);
    add("SYSLOG_IDENTIFIER", "spindoctor");
    for name in Message::FIELDS {
        let value = message.field(name).unwrap_or_default();
        add(&format!("SPINDOCTOR_{}", name.to_uppercase()), &value);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::message::examples::message;
    use super::*;

    #[test]
    fn a_message_arrives_with_its_fields_and_no_value_makes_a_field_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listens = UnixDatagram::bind(&path).unwrap();
        Journal::at(&path).unwrap().write(&message());
        let mut bytes = [0; 4_096];
        let length = listens.recv(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..length]);
        assert!(text.contains("\nSPINDOCTOR_CAUSE=row-lock-pileup\n"), "{text}");
        // The headline ends in a line break: its length stands before it.
        let headline = "39 sessions wait for one row of \"shop\".\"orders\"\n";
        let mut wanted = b"SPINDOCTOR_HEADLINE\n".to_vec();
        wanted.extend((headline.len() as u64).to_le_bytes());
        wanted.extend(headline.as_bytes());
        assert!(bytes[..length].windows(wanted.len()).any(|part| part == wanted), "{text}");
        assert!(Journal::at(&folder.path().join("nobody")).is_none());
    }
}

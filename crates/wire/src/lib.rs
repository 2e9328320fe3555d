//! MySQL's protocol, the same for every command: who may get a password, what is trusted in an answer, and how much of
//! it is read.
//!
//! In: an [`Endpoint`](peer::Endpoint), an account, and what the user trusts. Out: a [`connection::Connection`] and the items
//! of its answers. It lies below `collect`: `collect`'s sessions, `tune`'s writer and `fleet` speak through it and through
//! nothing else, so that there is one rule for passwords and one set of bounds.
//!
//! The meaning of bytes is read without input or output of its own, of servers that may be anything, so nothing here trusts a
//! length or a count: [`bytes`] reads within bounds, [`packets`] cuts a stream into packets, [`greeting`], [`login`] and
//! [`answer`] say what they mean, [`rows`] keeps the rows of an answer as they came. `fuzz/fuzz_targets/fleet_wire.rs` feeds all of
//! it with anything. [`connection`] moves the bytes, [`tls`] encrypts them, [`peer`] says who has proved what.
//!
//! Why not a driver (mysql_async, which the lab uses with servers of its own): it gives the password to anyone who
//! sends a key of its own, makes room for as many columns as a server claims to have, and keeps rows without a bound.
//! It takes each cell of each row into an allocation of its own, and each packet twice through a parser; hundreds of
//! megabytes of process lists then take several times as long as the network. Its connection also takes 14 kB, ours
//! below three.

pub mod answer;
pub mod bytes;
pub mod connection;
pub mod greeting;
pub mod login;
mod loopback;
pub mod packets;
pub mod peer;
mod public_key;
pub mod rows;
mod stream;
mod tickets;
pub mod tls;

pub use public_key::PublicKey;

use thiserror::Error;

/// What the other end sent does not mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Wrong(pub &'static str);

/// A server's own refusal: an error packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// MySQL's error number.
    pub code: u16,
    /// The server's words.
    pub message: String,
}

/// The header of an error packet.
pub const ERROR: u8 = 0xff;
/// The header of an OK packet.
pub const OK: u8 = 0x00;
/// The header of an EOF packet, and of a request for another way of login.
pub const EOF: u8 = 0xfe;

/// Capabilities that are spoken of here (MySQL's `mysql_com.h`).
pub mod capability {
    /// Column definitions and errors in their newer form. Demanded.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// Longer passwords, flags and column flags.
    pub const LONG_PASSWORD: u32 = 1;
    /// Longer column flags.
    pub const LONG_FLAG: u32 = 1 << 2;
    /// The database comes with the login.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// TLS.
    pub const SSL: u32 = 1 << 11;
    /// Transaction flags in answers.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// The way of login since 4.1.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// A CALL may answer with result sets.
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// Ways of login have names.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// The client says who it is.
    pub const CONNECT_ATTRS: u32 = 1 << 20;
}

/// `ff CODE[2] #STATE[5] MESSAGE`; before the login is answered, older servers leave the state out.
pub fn server_error(payload: &[u8]) -> Result<ServerError, Wrong> {
    let mut bytes = bytes::Bytes::new(payload);
    let cut = Wrong("an error packet that is cut off");
    bytes.u8().ok_or(cut)?;
    let code = bytes.u16().ok_or(cut)?;
    let rest = bytes.rest();
    let message = match rest {
        [b'#', state_and_message @ ..] if state_and_message.len() >= 5 => &state_and_message[5..],
        _ => rest,
    };
    Ok(ServerError { code, message: printable(message) })
}

/// Bytes of a text of the server's that is shown: messages of MySQL have 512 (`MYSQL_ERRMSG_SIZE`).
const MOST_PRINTABLE_BYTES: usize = 512;

/// A text of the server's that goes into a message: of bounded length, on one line, with nothing in it that a terminal would
/// obey or that turns the direction of what follows.
pub fn printable(text: &[u8]) -> String {
    let cut = &text[..text.len().min(MOST_PRINTABLE_BYTES)];
    let plain = |c: char| match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        // Marks and overrides of direction.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let mut shown: String = String::from_utf8_lossy(cut).chars().map(plain).collect();
    if cut.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_state_or_not() {
        let denied = server_error(b"\xff\x15\x04#28000Access denied").unwrap();
        assert_eq!((denied.code, denied.message.as_str()), (1045, "Access denied"));
        assert_eq!(
            server_error(b"\xff\x10\x04Too many connections").unwrap().message,
            "Too many connections"
        );
        assert_eq!(server_error(b"\xff\x10"), Err(Wrong("an error packet that is cut off")));
    }

    #[test]
    fn a_long_error_is_cut_and_none_steers_the_terminal() {
        let long = [b"\xff\x15\x04#28000".as_slice(), &vec![b'x'; 16 << 20]].concat();
        assert!(server_error(&long).unwrap().message.len() <= MOST_PRINTABLE_BYTES + 3);
        let odd = "a\x1b[2J\u{9b}31m\nb\u{202e}c\0".as_bytes();
        let text = printable(odd);
        assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
        assert_eq!(printable("Zugriff verweigert für 'ö'@'%'".as_bytes()), "Zugriff verweigert für 'ö'@'%'");
    }
}

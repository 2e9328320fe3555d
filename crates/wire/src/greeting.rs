//! The server's first packet: who it is, what it can, and the random bytes that a password is mixed with.

use crate::bytes::Bytes;
use crate::{ERROR, ServerError, Wrong, capability, printable, server_error};

/// What a server says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// `9.7.4`, `5.5.5-10.11.19-MariaDB`.
    pub version: String,
    /// The number of the connection, as the process list shows it.
    pub id: u32,
    /// What it can.
    pub capabilities: u32,
    /// The way of login that it would take first.
    pub plugin: String,
    /// Twenty random bytes.
    pub nonce: Vec<u8>,
}

/// Reads the first packet; a server that is full or does not admit this host sends its error at once.
pub fn parse(payload: &[u8]) -> Result<Result<Greeting, ServerError>, Wrong> {
    if payload.first() == Some(&ERROR) {
        return server_error(payload).map(Err);
    }
    greeting(payload).map(Ok)
}

/// Protocol 10: `0a VERSION 0 ID[4] NONCE[8] 0 CAP[2] CHARSET[1] STATUS[2] CAP[2] LEN[1] 0[10] NONCE[12] 0 PLUGIN 0`.
fn greeting(payload: &[u8]) -> Result<Greeting, Wrong> {
    let cut = Wrong("a greeting that is cut off");
    let mut bytes = Bytes::new(payload);
    if bytes.u8() != Some(10) {
        return Err(Wrong("no greeting of protocol 10"));
    }
    let version = printable(bytes.until_zero().ok_or(cut)?);
    let id = bytes.u32().ok_or(cut)?;
    let mut nonce = bytes.take(8).ok_or(cut)?.to_vec();
    bytes.u8().ok_or(cut)?;
    let low = bytes.u16().ok_or(cut)?;
    bytes.take(3).ok_or(cut)?;
    let high = bytes.u16().ok_or(cut)?;
    let capabilities = u32::from(low) | u32::from(high) << 16;
    if capabilities & (capability::PROTOCOL_41 | capability::SECURE_CONNECTION)
        != capability::PROTOCOL_41 | capability::SECURE_CONNECTION
    {
        return Err(Wrong("a server older than MySQL 4.1"));
    }
    bytes.take(11).ok_or(cut)?;
    nonce.extend_from_slice(bytes.take(12).ok_or(cut)?);
    let mut plugin = "mysql_native_password".to_owned();
    if capabilities & capability::PLUGIN_AUTH != 0 {
        // MySQL bug 59453: some servers leave out the last zero.
        let name = bytes.rest().strip_prefix(b"\0").unwrap_or(bytes.rest());
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        plugin = printable(name);
    }
    Ok(Greeting { version, id, capabilities, plugin, nonce })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MySQL 9.7.4's own, with its nonce replaced.
    fn of_mysql() -> Vec<u8> {
        let mut packet = b"\x0a9.7.4-2\0\x0c\0\0\0aaaaaaaa\0".to_vec();
        packet.extend_from_slice(b"\xff\xff\xff\x02\0\xff\xdf\x15");
        packet.extend_from_slice(&[0; 10]);
        packet.extend_from_slice(b"bbbbbbbbbbbb\0caching_sha2_password\0");
        packet
    }

    #[test]
    fn a_greeting_says_who_and_how() {
        let greeting = parse(&of_mysql()).unwrap().unwrap();
        assert_eq!(
            (greeting.version.as_str(), greeting.plugin.as_str()),
            ("9.7.4-2", "caching_sha2_password")
        );
        assert_eq!((greeting.id, greeting.nonce.as_slice()), (12, b"aaaaaaaabbbbbbbbbbbb".as_slice()));
        assert!(greeting.capabilities & capability::SSL != 0);
    }

    #[test]
    fn a_greeting_cut_anywhere_is_refused() {
        let whole = of_mysql();
        for end in 0..50 {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
        assert!(parse(b"SSH-2.0-OpenSSH_9.2p1\r\n").is_err());
    }

    #[test]
    fn a_full_server_says_so_in_place_of_a_greeting() {
        let refused = parse(b"\xff\x10\x04Too many connections").unwrap().unwrap_err();
        assert_eq!(refused.code, 1040);
    }
}

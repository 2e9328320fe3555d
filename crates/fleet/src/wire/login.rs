//! The login: what is sent for what the server says. No password leaves in clear text but where nobody else can read
//! it.
//!
//! `mysql_native_password` and `caching_sha2_password` by what the server says, `mysql_clear_password` where it was
//! allowed. A `caching_sha2_password` that the server does not have in its cache, and a `sha256_password`, need TLS or a
//! socket: the server's public key, which MySQL's clients can ask for instead, would be anybody's who sits between.

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::bytes::{Bytes, put_number, put_text};
use super::greeting::Greeting;
use super::{EOF, ERROR, OK, ServerError, Wrong, capability, server_error};

/// utf8mb4_general_ci: every server since 5.5.3 knows it.
const UTF8MB4: u8 = 45;
/// utf8_general_ci, for those before.
const UTF8: u8 = 33;
/// The largest packet that we would send or take, as the server is told.
const MAX_PACKET: u32 = 64 << 20;
/// Who we are, as `performance_schema.session_connect_attrs` shows it.
const ATTRIBUTES: [(&str, &str); 2] = [("program_name", "spindoctor"), ("_client_name", "spindoctor-fleet")];

/// What a login needs to know.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    /// The account's name.
    pub user: &'a str,
    /// Its password; empty without one.
    pub password: &'a str,
    /// The database to begin in.
    pub database: Option<&'a str>,
    /// True where the password may be sent as it is, once the connection is private.
    pub cleartext: bool,
}

/// What is due after a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this payload, then read on.
    Send(Vec<u8>),
    /// Read on.
    Wait,
    /// Logged in.
    Done,
}

/// Why there will be no login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The server says so.
    Server(ServerError),
    /// The account's way of login is not known here.
    Plugin(String),
    /// The password would have to be sent as it is, over a connection that others may read.
    NeedsPrivacy,
    /// The server wants the password as it is, and that was not allowed.
    Cleartext,
    /// No login at all.
    Wrong(Wrong),
}

impl From<Wrong> for Refused {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

/// A login on its way.
pub struct Login<'a> {
    account: Account<'a>,
    capabilities: u32,
    charset: u8,
    plugin: String,
    nonce: Vec<u8>,
    /// True where nobody else can read: TLS, a socket.
    is_private: bool,
}

impl<'a> Login<'a> {
    /// After the greeting.
    pub fn new(greeting: Greeting, account: Account<'a>, is_private: bool) -> Self {
        let wanted = capability::LONG_PASSWORD
            | capability::LONG_FLAG
            | capability::PROTOCOL_41
            | capability::TRANSACTIONS
            | capability::SECURE_CONNECTION
            | capability::MULTI_RESULTS
            | capability::PLUGIN_AUTH
            | capability::CONNECT_ATTRS;
        let database = if account.database.is_some() { capability::CONNECT_WITH_DB } else { 0 };
        let old = greeting.version.starts_with("5.0.")
            || greeting.version.starts_with("5.1.")
            || greeting.version.starts_with("4.");
        Self {
            account,
            capabilities: greeting.capabilities & (wanted | database),
            charset: if old { UTF8 } else { UTF8MB4 },
            plugin: greeting.plugin,
            nonce: greeting.nonce,
            is_private,
        }
    }

    /// Asks for TLS: sent before anything else, and in clear.
    pub fn tls_request(&mut self) -> Vec<u8> {
        self.capabilities |= capability::SSL;
        self.head()
    }

    /// TLS stands.
    pub fn is_private_now(&mut self) {
        self.is_private = true;
    }

    fn head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        out.extend_from_slice(&self.capabilities.to_le_bytes());
        out.extend_from_slice(&MAX_PACKET.to_le_bytes());
        out.push(self.charset);
        out.extend_from_slice(&[0; 23]);
        out
    }

    /// The first answer to the greeting: who we are, with the proof of the password.
    pub fn response(&mut self) -> Vec<u8> {
        // What the server would take first and is not known here is answered with what most accounts have; the
        // server asks again where the account has another.
        if proof(&self.plugin, &self.nonce, self.account.password).is_none() {
            self.plugin = "mysql_native_password".to_owned();
        }
        let proof = proof(&self.plugin, &self.nonce, self.account.password).unwrap_or_default();
        let mut out = self.head();
        out.extend_from_slice(self.account.user.as_bytes());
        out.push(0);
        out.push(proof.len() as u8);
        out.extend_from_slice(&proof);
        if let Some(database) = self.account.database {
            out.extend_from_slice(database.as_bytes());
            out.push(0);
        }
        if self.capabilities & capability::PLUGIN_AUTH != 0 {
            out.extend_from_slice(self.plugin.as_bytes());
            out.push(0);
        }
        if self.capabilities & capability::CONNECT_ATTRS != 0 {
            let mut attributes = Vec::new();
            for (name, value) in ATTRIBUTES {
                put_text(&mut attributes, name.as_bytes());
                put_text(&mut attributes, value.as_bytes());
            }
            put_number(&mut out, attributes.len() as u64);
            out.extend_from_slice(&attributes);
        }
        out
    }

    /// What a packet of the server's means for the login.
    pub fn packet(&mut self, payload: &[u8]) -> Result<Step, Refused> {
        match payload.first() {
            Some(&OK) => Ok(Step::Done),
            Some(&ERROR) => Err(Refused::Server(server_error(payload)?)),
            Some(&EOF) => self.switch(&payload[1..]),
            Some(1) => self.more(&payload[1..]),
            _ => Err(Wrong("an answer to the login that means nothing").into()),
        }
    }

    /// `fe PLUGIN 0 NONCE 0`: this account logs in another way.
    fn switch(&mut self, rest: &[u8]) -> Result<Step, Refused> {
        let mut bytes = Bytes::new(rest);
        let Some(name) = bytes.until_zero() else {
            // A lone fe, or a name without its end: the way of login before 4.1.
            return Err(Refused::Plugin("mysql_old_password".to_owned()));
        };
        let nonce = bytes.rest();
        self.nonce = nonce.strip_suffix(b"\0").unwrap_or(nonce).to_vec();
        self.plugin = String::from_utf8_lossy(name).into_owned();
        if self.plugin == "mysql_clear_password" {
            return match (self.account.cleartext, self.is_private) {
                (true, true) => Ok(Step::Send(self.password_as_it_is())),
                _ => Err(Refused::Cleartext),
            };
        }
        if self.plugin == "sha256_password" {
            return match self.is_private {
                true => Ok(Step::Send(self.password_as_it_is())),
                false => Err(Refused::NeedsPrivacy),
            };
        }
        match proof(&self.plugin, &self.nonce, self.account.password) {
            Some(proof) => Ok(Step::Send(proof)),
            None => Err(Refused::Plugin(self.plugin.clone())),
        }
    }

    /// `01 03`: the server had it in its cache; `01 04`: it wants the password itself.
    fn more(&mut self, rest: &[u8]) -> Result<Step, Refused> {
        match (self.plugin.as_str(), rest) {
            ("caching_sha2_password", [3]) => Ok(Step::Wait),
            ("caching_sha2_password", [4]) if self.is_private => Ok(Step::Send(self.password_as_it_is())),
            ("caching_sha2_password", [4]) => Err(Refused::NeedsPrivacy),
            _ => Err(Refused::Plugin(self.plugin.clone())),
        }
    }

    fn password_as_it_is(&self) -> Vec<u8> {
        let mut out = self.account.password.as_bytes().to_vec();
        out.push(0);
        out
    }
}

/// What proves the password; None for a way of login that is not known here.
fn proof(plugin: &str, nonce: &[u8], password: &str) -> Option<Vec<u8>> {
    match plugin {
        "mysql_native_password" | "caching_sha2_password" if password.is_empty() => Some(Vec::new()),
        // SHA1(password) xor SHA1(nonce SHA1(SHA1(password)))
        "mysql_native_password" => {
            let once = Sha1::digest(password);
            let twice = Sha1::digest(once);
            let mixed = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
            Some(once.iter().zip(mixed).map(|(a, b)| a ^ b).collect())
        }
        // SHA256(password) xor SHA256(SHA256(SHA256(password)) nonce)
        "caching_sha2_password" => {
            let once = Sha256::digest(password);
            let twice = Sha256::digest(once);
            let mixed = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
            Some(once.iter().zip(mixed).map(|(a, b)| a ^ b).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: Account<'_> =
        Account { user: "app", password: "secret", database: None, cleartext: false };

    fn greeting(plugin: &str) -> Greeting {
        Greeting {
            version: "9.7.4".to_owned(),
            capabilities: u32::MAX,
            plugin: plugin.to_owned(),
            nonce: (1..=20).collect(),
        }
    }

    #[test]
    fn proofs_are_those_of_the_mysql_client() {
        // From mysql_common's own tests of its scrambles (nonce and password of a capture).
        let nonce = [
            0x64, 0x4c, 0x2b, 0x22, 0x40, 0x33, 0x5d, 0x66, 0x62, 0x36, 0x4a, 0x28, 0x75, 0x73, 0x3e, 0x7c,
            0x3e, 0x46, 0x6b, 0x7a,
        ];
        let native = proof("mysql_native_password", &nonce, "password").unwrap();
        // SHA1(nonce SHA1(SHA1(password))) xor the proof must be SHA1(password): what the server checks.
        let twice = Sha1::digest(Sha1::digest("password"));
        let mixed = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
        let once: Vec<u8> = native.iter().zip(mixed).map(|(a, b)| a ^ b).collect();
        assert_eq!(once, Sha1::digest("password").to_vec());
        assert_eq!(proof("caching_sha2_password", &nonce, "password").unwrap().len(), 32);
        assert_eq!(proof("caching_sha2_password", &nonce, ""), Some(Vec::new()));
        assert_eq!(proof("sha256_password", &nonce, "password"), None);
    }

    #[test]
    fn the_password_itself_goes_over_private_connections_only() {
        let mut login = Login::new(greeting("caching_sha2_password"), ACCOUNT, false);
        let response = login.response();
        assert!(!response.windows(6).any(|window| window == b"secret"));
        assert_eq!(login.packet(b"\x01\x03"), Ok(Step::Wait));
        assert_eq!(login.packet(b"\x01\x04"), Err(Refused::NeedsPrivacy));
        login.is_private_now();
        assert_eq!(login.packet(b"\x01\x04"), Ok(Step::Send(b"secret\0".to_vec())));
        assert_eq!(login.packet(b"\0\0\0\x02\0\0\0"), Ok(Step::Done));
        assert_eq!(login.packet(b"\xfemysql_clear_password\0"), Err(Refused::Cleartext), "nobody allowed it");
        let allowed = Account { cleartext: true, ..ACCOUNT };
        let mut open = Login::new(greeting("mysql_native_password"), allowed, false);
        assert_eq!(open.packet(b"\xfemysql_clear_password\0"), Err(Refused::Cleartext));
        let mut private = Login::new(greeting("mysql_native_password"), allowed, true);
        assert_eq!(private.packet(b"\xfemysql_clear_password\0"), Ok(Step::Send(b"secret\0".to_vec())));
    }

    #[test]
    fn a_server_may_ask_for_another_way() {
        let mut login = Login::new(greeting("caching_sha2_password"), ACCOUNT, false);
        let Step::Send(sent) = login.packet(b"\xfemysql_native_password\0abcdefghijklmnopqrst\0").unwrap()
        else {
            panic!("a proof is due")
        };
        assert_eq!(Some(sent), proof("mysql_native_password", b"abcdefghijklmnopqrst", "secret"));
        let older = b"\xfesha256_password\0abcdefghijklmnopqrst\0";
        assert_eq!(login.packet(older), Err(Refused::NeedsPrivacy));
        login.is_private_now();
        assert_eq!(login.packet(older), Ok(Step::Send(b"secret\0".to_vec())));
        let unknown = login.packet(b"\xfedialog\0x");
        assert_eq!(unknown, Err(Refused::Plugin("dialog".to_owned())));
        assert_eq!(login.packet(b"\xfe"), Err(Refused::Plugin("mysql_old_password".to_owned())));
        assert!(matches!(login.packet(b""), Err(Refused::Wrong(_))));
    }
}

//! The login: our packets for the server's packets. The password itself leaves only for a server that has proved who it
//! is, or that the user trusts by name.
//!
//! `mysql_native_password`, `caching_sha2_password` and `client_ed25519` by what the server says: none of their proofs is
//! the password. A `caching_sha2_password` that the server does not have in its cache, and a `sha256_password`, want the
//! password itself: it goes over verified TLS, a unix socket, and TLS over loopback where the kernel says that the process
//! is root's, our user's or the server's. Without TLS it is encrypted with the key of
//! `--server-public-key-path`, or with the server's own where the user asked for that by name
//! (`--get-server-public-key`); over TLS that is not verified it goes with `--trust-unverified-server`.
//! `mysql_clear_password`, where it was allowed, goes over verified TLS and a unix socket and nowhere else.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use zeroize::{Zeroize as _, Zeroizing};

use crate::bytes::{Bytes, put_number, put_text};
use crate::greeting::Greeting;
use crate::peer::Channel;
use crate::public_key::PublicKey;
use crate::{EOF, ERROR, OK, ServerError, Wrong, capability, printable, server_error};

/// utf8mb4_general_ci: every server since 5.5.3 knows it.
const UTF8MB4: u8 = 45;
/// utf8_general_ci, for those before.
const UTF8: u8 = 33;
/// The largest packet that we would send or take, as announced to the server.
const MAX_PACKET: u32 = 64 << 20;
/// Who we are, as `performance_schema.session_connect_attrs` shows it.
const ATTRIBUTES: [(&str, &str); 1] = [("program_name", "spindoctor")];
/// Packets of one login at most: the longest takes five.
const MOST_PACKETS: u32 = 16;

/// What a login needs to know.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    /// The account's name.
    pub user: &'a str,
    /// Its password; empty without one.
    pub password: &'a str,
    /// The database to begin in.
    pub database: Option<&'a str>,
    /// True where the password may be given to plugins that want it as it is, once the server has proved who it is.
    pub cleartext: bool,
}

/// What the user allows where the server has not proved who it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed<'a> {
    /// Without TLS the password is encrypted with this key.
    pub key: Option<&'a PublicKey>,
    /// Without TLS and without a key of the user's, it is encrypted with the key that the server sends.
    pub any_key: bool,
    /// It is sent over TLS that is not verified, and over any socket.
    pub unverified_server: bool,
}

/// What is sent in a login. It is never shown, and cleared when it is dropped.
#[derive(PartialEq, Eq)]
pub struct Payload(Zeroizing<Vec<u8>>);

impl Payload {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

/// What is due after a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this payload, then read on.
    Send(Payload),
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
    /// The server wants the password itself and has not proved who it is.
    Unproved(Channel),
    /// The server wants the password for a plugin that sends it as it is.
    Cleartext {
        /// Whether the user allowed such plugins.
        is_allowed: bool,
        /// What lies between the server and us.
        channel: Channel,
    },
    /// The key of the user's or the server's is of no use.
    Key(String),
    /// No login at all.
    Wrong(Wrong),
}

impl From<Wrong> for Refused {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

/// What to do where the server wants the password itself and has not proved who it is; for all commands the same words.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "error {}: {}", error.code, error.message),
            Self::Plugin(plugin) => write!(
                f,
                "the login asks for the plugin {plugin}, which spindoctor cannot; the account does not exist, or it needs caching_sha2_password or mysql_native_password"
            ),
            Self::Unproved(Channel::Unverified) => f.write_str(
                "the server wants the password itself, and its certificate is not verified; give its authority with --ssl-ca, use a unix socket (-S), or allow it with --trust-unverified-server",
            ),
            Self::Unproved(Channel::OpenSocket) => f.write_str(
                "the server wants the password itself, and anybody could have made its socket: the folder is open to everyone and the process is another user's; move the socket, or allow it with --trust-unverified-server",
            ),
            Self::Unproved(_) => f.write_str(
                "the server wants the password itself, and there is no TLS; use TLS with --ssl-ca, a unix socket (-S), or --server-public-key-path with the server's public_key.pem",
            ),
            Self::Cleartext { channel: Channel::OpenSocket, .. } => f.write_str(
                "the server wants the password in clear text, and anybody could have made its socket: the folder is open to everyone and the process is another user's; move the socket, or use TLS with --ssl-ca, and allow it with enable-cleartext-plugin in [client]",
            ),
            Self::Cleartext { channel: Channel::Verified | Channel::Socket, .. } => f.write_str(
                "the server wants the password in clear text; allow it with enable-cleartext-plugin in [client] of an option file, as of --defaults-extra-file",
            ),
            Self::Cleartext { is_allowed: true, .. } => f.write_str(
                "the server wants the password in clear text and has not proved who it is; give its authority with --ssl-ca, or use a unix socket (-S)",
            ),
            Self::Cleartext { is_allowed: false, .. } => f.write_str(
                "the server wants the password in clear text; allow it with enable-cleartext-plugin in [client], over TLS with --ssl-ca or a unix socket (-S)",
            ),
            Self::Key(why) => write!(f, "the server's public key cannot be used: {why}"),
            Self::Wrong(wrong) => wrong.fmt(f),
        }
    }
}

/// A login on its way.
pub struct Login<'a> {
    account: Account<'a>,
    allowed: Allowed<'a>,
    capabilities: u32,
    charset: u8,
    plugin: String,
    nonce: Vec<u8>,
    channel: Channel,
    /// The server asked for another way of login: it may do so once.
    has_switched: bool,
    /// The server was asked for its key.
    awaits_key: bool,
    packets: u32,
}

impl<'a> Login<'a> {
    /// After the greeting.
    pub fn new(greeting: Greeting, account: Account<'a>, allowed: Allowed<'a>, channel: Channel) -> Self {
        // Neither CLIENT_LOCAL_FILES nor CLIENT_COMPRESS nor CLIENT_MULTI_STATEMENTS: a server gets no file of this
        // host, an answer is as large as what came, and one statement is one.
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
            allowed,
            capabilities: greeting.capabilities & (wanted | database),
            charset: if old { UTF8 } else { UTF8MB4 },
            plugin: greeting.plugin,
            nonce: greeting.nonce,
            channel,
            has_switched: false,
            awaits_key: false,
            packets: 0,
        }
    }

    /// Asks for TLS: sent before anything else, and in clear.
    pub fn tls_request(&mut self) -> Payload {
        self.capabilities |= capability::SSL;
        Payload::new(self.head())
    }

    /// TLS stands: what it proved.
    pub fn is_encrypted_now(&mut self, channel: Channel) {
        self.channel = channel;
    }

    /// What the packet before wanted and did not get: now the kernel says who the other end is.
    ///
    /// # Errors
    /// Why there will be no login.
    pub fn is_known_to_the_kernel(&mut self) -> Result<Step, Refused> {
        self.channel = Channel::Loopback;
        self.password_itself()
    }

    fn head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&self.capabilities.to_le_bytes());
        out.extend_from_slice(&MAX_PACKET.to_le_bytes());
        out.push(self.charset);
        out.extend_from_slice(&[0; 23]);
        out
    }

    /// The first answer to the greeting: who we are, with the proof of the password.
    pub fn response(&mut self) -> Payload {
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
        if let Some(database) = self.account.database
            && self.capabilities & capability::CONNECT_WITH_DB != 0
        {
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
        Payload::new(out)
    }

    /// What a packet of the server's means for the login.
    ///
    /// # Errors
    /// Why there will be no login.
    pub fn packet(&mut self, payload: &[u8]) -> Result<Step, Refused> {
        self.packets += 1;
        if self.packets > MOST_PACKETS {
            return Err(Wrong("a login without an end").into());
        }
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
        if std::mem::replace(&mut self.has_switched, true) {
            return Err(Wrong("another way of login, asked for twice").into());
        }
        let mut bytes = Bytes::new(rest);
        let Some(name) = bytes.until_zero() else {
            // A lone fe, or a name without its end: the way of login before 4.1.
            return Err(Refused::Plugin("mysql_old_password".to_owned()));
        };
        let nonce = bytes.rest();
        self.nonce = nonce.strip_suffix(b"\0").unwrap_or(nonce).to_vec();
        self.plugin = printable(name);
        match self.plugin.as_str() {
            "mysql_clear_password" if self.account.password.is_empty() => Ok(self.password_as_it_is()),
            "mysql_clear_password" => match (self.account.cleartext, self.channel.is_proved()) {
                (true, true) => Ok(self.password_as_it_is()),
                (is_allowed, _) => Err(Refused::Cleartext { is_allowed, channel: self.channel }),
            },
            "sha256_password" => self.password_itself(),
            _ => match proof(&self.plugin, &self.nonce, self.account.password) {
                Some(proof) => Ok(Step::Send(Payload::new(proof.to_vec()))),
                None => Err(Refused::Plugin(self.plugin.clone())),
            },
        }
    }

    /// `01 03`: the server had it in its cache; `01 04`: it wants the password itself; `01 KEY`: the key that it was asked for.
    fn more(&mut self, rest: &[u8]) -> Result<Step, Refused> {
        if std::mem::take(&mut self.awaits_key) {
            let key = PublicKey::from_pem(rest).map_err(Refused::Key)?;
            return self.encrypted(&key);
        }
        match (self.plugin.as_str(), rest) {
            ("caching_sha2_password", [3]) => Ok(Step::Wait),
            ("caching_sha2_password", [4]) => self.password_itself(),
            _ => Err(Wrong("an answer to the login that means nothing").into()),
        }
    }

    /// The password itself is wanted: by a `caching_sha2_password` that is not in the server's cache, or a `sha256_password`.
    fn password_itself(&mut self) -> Result<Step, Refused> {
        match self.channel {
            _ if self.account.password.is_empty() => Ok(self.password_as_it_is()),
            Channel::Verified | Channel::Socket | Channel::Loopback => Ok(self.password_as_it_is()),
            Channel::Unverified | Channel::OpenSocket if self.allowed.unverified_server => {
                Ok(self.password_as_it_is())
            }
            Channel::Plain => match self.allowed.key {
                Some(key) => self.encrypted(key),
                None if self.allowed.any_key => {
                    self.awaits_key = true;
                    // sha2_password's `request_public_key`; sha256_password's is 1.
                    let request = if self.plugin == "sha256_password" { 1 } else { 2 };
                    Ok(Step::Send(Payload::new(vec![request])))
                }
                None => Err(Refused::Unproved(self.channel)),
            },
            Channel::Unverified | Channel::OpenSocket => Err(Refused::Unproved(self.channel)),
        }
    }

    fn encrypted(&self, key: &PublicKey) -> Result<Step, Refused> {
        let sent = key.encrypt(self.account.password, &self.nonce).map_err(Refused::Key)?;
        Ok(Step::Send(Payload::new(sent)))
    }

    fn password_as_it_is(&self) -> Step {
        let mut out = Vec::with_capacity(self.account.password.len() + 1);
        out.extend_from_slice(self.account.password.as_bytes());
        out.push(0);
        Step::Send(Payload::new(out))
    }
}

/// What proves the password; None for a way of login that is not known here.
fn proof(plugin: &str, nonce: &[u8], password: &str) -> Option<Zeroizing<Vec<u8>>> {
    let proof = match plugin {
        "mysql_native_password" | "caching_sha2_password" | "client_ed25519" if password.is_empty() => {
            Vec::new()
        }
        // SHA1(password) xor SHA1(nonce SHA1(SHA1(password)))
        "mysql_native_password" => {
            let mut once = Sha1::digest(password);
            let twice = Sha1::digest(once);
            let mixed = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
            let proof = once.iter().zip(mixed).map(|(a, b)| a ^ b).collect();
            once.as_mut_slice().zeroize();
            proof
        }
        // SHA256(password) xor SHA256(SHA256(SHA256(password)) nonce)
        "caching_sha2_password" => {
            let mut once = Sha256::digest(password);
            let twice = Sha256::digest(once);
            let mixed = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
            let proof = once.iter().zip(mixed).map(|(a, b)| a ^ b).collect();
            once.as_mut_slice().zeroize();
            proof
        }
        // Ed25519's signature of the nonce, by the key whose seed's hash is SHA512(password)
        // (MariaDB's plugin/auth_ed25519: the password takes the place of the seed).
        "client_ed25519" => {
            let hash: Zeroizing<[u8; 64]> = Zeroizing::new(Sha512::digest(password).into());
            let secret = ExpandedSecretKey::from_bytes(&hash);
            raw_sign::<Sha512>(&secret, nonce, &VerifyingKey::from(&secret)).to_vec()
        }
        _ => return None,
    };
    Some(Zeroizing::new(proof))
}

#[cfg(test)]
mod tests {
    use rsa::pkcs8::{EncodePublicKey as _, LineEnding};
    use rsa::rand_core::OsRng;
    use rsa::{Oaep, RsaPrivateKey};

    use super::*;

    const ACCOUNT: Account<'_> =
        Account { user: "app", password: "secret", database: None, cleartext: false };
    const CHANNELS: [Channel; 6] = [
        Channel::Plain,
        Channel::Unverified,
        Channel::Loopback,
        Channel::Verified,
        Channel::Socket,
        Channel::OpenSocket,
    ];
    const FULL: &[u8] = b"\x01\x04";
    const OLDER: &[u8] = b"\xfesha256_password\0abcdefghijklmnopqrst\0";
    const CLEAR: &[u8] = b"\xfemysql_clear_password\0";

    fn greeting(plugin: &str) -> Greeting {
        Greeting {
            version: "9.7.4".to_owned(),
            id: 1,
            capabilities: u32::MAX,
            plugin: plugin.to_owned(),
            nonce: (1..=20).collect(),
        }
    }

    fn login<'a>(account: Account<'a>, allowed: Allowed<'a>, channel: Channel) -> Login<'a> {
        let mut login = Login::new(greeting("caching_sha2_password"), account, allowed, channel);
        let response = login.response();
        assert!(!response.bytes().windows(6).any(|window| window == b"secret"));
        login
    }

    fn sent(step: Result<Step, Refused>) -> Option<Vec<u8>> {
        match step {
            Ok(Step::Send(payload)) => Some(payload.bytes().to_vec()),
            _ => None,
        }
    }

    const ITSELF: &[u8] = b"secret\0";

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
        assert!(proof("caching_sha2_password", &nonce, "").unwrap().is_empty());
        assert_eq!(proof("sha256_password", &nonce, "password"), None);
    }

    #[test]
    fn mariadbs_ed25519_signs_what_the_server_sent() {
        // MariaDB's mysql-test/suite/plugins/t/auth_ed25519.test: the key of the password "secret".
        let hash: [u8; 64] = Sha512::digest("secret").into();
        let public = VerifyingKey::from(&ExpandedSecretKey::from_bytes(&hash));
        // ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY
        let expected = [
            0x64, 0x88, 0x14, 0x44, 0x45, 0x20, 0xe4, 0xf5, 0x60, 0x43, 0xa2, 0xec, 0x92, 0x15, 0xe6, 0x3b,
            0xe7, 0x99, 0x2d, 0x2d, 0x27, 0x0b, 0xc6, 0xde, 0xe8, 0x73, 0xe3, 0x61, 0x64, 0x78, 0x60, 0x96,
        ];
        assert_eq!(public.as_bytes(), &expected);
        let nonce = [7; 32];
        let signature = proof("client_ed25519", &nonce, "secret").unwrap();
        let signature = ed25519_dalek::Signature::from_slice(&signature).unwrap();
        assert!(public.verify_strict(&nonce, &signature).is_ok());
    }

    #[test]
    fn the_password_itself_goes_to_who_has_proved_who_he_is_and_to_nobody_else() {
        for channel in CHANNELS {
            for asked in [FULL, OLDER] {
                let step = login(ACCOUNT, Allowed::default(), channel).packet(asked);
                match channel.is_proved() || channel == Channel::Loopback {
                    true => assert_eq!(sent(step).as_deref(), Some(ITSELF), "{channel:?}"),
                    false => assert_eq!(step, Err(Refused::Unproved(channel)), "{channel:?}"),
                }
                // Of an account without a password there is nothing to lose.
                let none = Account { password: "", ..ACCOUNT };
                assert_eq!(sent(login(none, Allowed::default(), channel).packet(asked)), Some(vec![0]));
            }
            // Nobody allowed it; then allowed, and then even what is trusted by name.
            assert_eq!(
                login(ACCOUNT, Allowed::default(), channel).packet(CLEAR),
                Err(Refused::Cleartext { is_allowed: false, channel })
            );
            let open = Account { cleartext: true, ..ACCOUNT };
            for unverified_server in [false, true] {
                let allowed = Allowed { unverified_server, any_key: true, ..Allowed::default() };
                let step = login(open, allowed, channel).packet(CLEAR);
                match channel.is_proved() {
                    true => assert_eq!(sent(step).as_deref(), Some(ITSELF), "{channel:?}"),
                    false => {
                        assert_eq!(
                            step,
                            Err(Refused::Cleartext { is_allowed: true, channel }),
                            "{channel:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_trusted_by_name_is_trusted_and_no_more() {
        let trusting = Allowed { unverified_server: true, ..Allowed::default() };
        for (channel, is_sent) in
            [(Channel::Unverified, true), (Channel::OpenSocket, true), (Channel::Plain, false)]
        {
            assert_eq!(
                sent(login(ACCOUNT, trusting, channel).packet(FULL)).is_some(),
                is_sent,
                "{channel:?}"
            );
        }
        // A key is for connections without TLS: over TLS servers want the password as it is.
        let any = Allowed { any_key: true, ..Allowed::default() };
        assert_eq!(
            login(ACCOUNT, any, Channel::Unverified).packet(FULL),
            Err(Refused::Unproved(Channel::Unverified))
        );
    }

    #[test]
    fn the_password_is_encrypted_with_the_users_key_and_with_the_servers_only_where_that_was_asked_for() {
        let private = |bits| RsaPrivateKey::new(&mut OsRng, bits).unwrap();
        let (ours, theirs) = (private(1024), private(1024));
        let pem = |key: &RsaPrivateKey| key.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        let key = PublicKey::from_pem(pem(&ours).as_bytes()).unwrap();
        let read = |by: &RsaPrivateKey, sent: &[u8], nonce: &[u8]| {
            let mixed = by.decrypt(Oaep::new::<Sha1>(), sent).ok()?;
            Some(mixed.iter().zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect::<Vec<u8>>())
        };
        let nonces: [(&[u8], Vec<u8>); 2] =
            [(FULL, (1..=20).collect()), (OLDER, b"abcdefghijklmnopqrst".to_vec())];
        for (asked, nonce) in nonces {
            // With a key of the user's the server is not even asked for one.
            let pinned = Allowed { key: Some(&key), any_key: true, ..Allowed::default() };
            let sealed = sent(login(ACCOUNT, pinned, Channel::Plain).packet(asked)).unwrap();
            assert_eq!(read(&ours, &sealed, &nonce).as_deref(), Some(ITSELF));
            assert_eq!(read(&theirs, &sealed, &nonce), None);
            let any = Allowed { any_key: true, ..Allowed::default() };
            let mut login = login(ACCOUNT, any, Channel::Plain);
            assert_eq!(sent(login.packet(asked)), Some(vec![if asked == FULL { 2 } else { 1 }]));
            let sealed = sent(login.packet(&[b"\x01", pem(&theirs).as_bytes()].concat())).unwrap();
            assert_eq!(read(&theirs, &sealed, &nonce).as_deref(), Some(ITSELF));
            // A key that nobody asked for is none.
            assert!(matches!(
                login.packet(&[b"\x01", pem(&theirs).as_bytes()].concat()),
                Err(Refused::Wrong(_))
            ));
        }
        let any = Allowed { any_key: true, ..Allowed::default() };
        let mut odd = login(ACCOUNT, any, Channel::Plain);
        odd.packet(FULL).unwrap();
        assert!(matches!(odd.packet(b"\x01no key"), Err(Refused::Key(_))));
    }

    #[test]
    fn a_server_may_ask_for_another_way_once() {
        let mut begun = login(ACCOUNT, Allowed::default(), Channel::Plain);
        let answer = sent(begun.packet(b"\xfemysql_native_password\0abcdefghijklmnopqrst\0")).unwrap();
        assert_eq!(answer, *proof("mysql_native_password", b"abcdefghijklmnopqrst", "secret").unwrap());
        assert!(matches!(begun.packet(CLEAR), Err(Refused::Wrong(_))), "twice");
        let fresh = || login(ACCOUNT, Allowed::default(), Channel::Plain);
        assert_eq!(fresh().packet(b"\xfedialog\0x"), Err(Refused::Plugin("dialog".to_owned())));
        assert_eq!(fresh().packet(b"\xfe"), Err(Refused::Plugin("mysql_old_password".to_owned())));
        assert!(matches!(fresh().packet(b""), Err(Refused::Wrong(_))));
        let esc = fresh().packet(b"\xfe\x1b[2Jx\0").unwrap_err().to_string();
        assert!(!esc.contains('\x1b') && !esc.contains('\n'), "{esc}");
    }

    #[test]
    fn a_login_without_an_end_ends() {
        let mut login = login(ACCOUNT, Allowed::default(), Channel::Plain);
        let ended = (0..1000).find_map(|_| login.packet(b"\x01\x03").err());
        assert_eq!(ended, Some(Refused::Wrong(Wrong("a login without an end"))));
    }

    #[test]
    fn neither_files_nor_compression_nor_many_statements_are_offered() {
        let sent = login(ACCOUNT, Allowed::default(), Channel::Plain).tls_request();
        let capabilities = u32::from_le_bytes(sent.bytes()[..4].try_into().unwrap());
        // CLIENT_COMPRESS, CLIENT_LOCAL_FILES, CLIENT_MULTI_STATEMENTS, CLIENT_ZSTD_COMPRESSION_ALGORITHM.
        assert_eq!(capabilities & (1 << 5 | 1 << 7 | 1 << 16 | 1 << 26), 0);
    }

    #[test]
    fn every_refusal_is_one_line_that_says_what_to_do() {
        let refusals = CHANNELS
            .map(Refused::Unproved)
            .into_iter()
            .chain(CHANNELS.map(|channel| Refused::Cleartext { is_allowed: true, channel }))
            .chain(CHANNELS.map(|channel| Refused::Cleartext { is_allowed: false, channel }));
        for refused in refusals {
            let message = refused.to_string();
            assert!(!message.contains('\n') && message.contains("--"), "{message}");
            // Who has come over a socket is not sent to one.
            let is_socket = match refused {
                Refused::Unproved(channel) | Refused::Cleartext { channel, .. } => {
                    matches!(channel, Channel::Socket | Channel::OpenSocket)
                }
                _ => false,
            };
            assert!(!(is_socket && message.contains("-S)") && message.contains("clear text")), "{message}");
        }
    }
}

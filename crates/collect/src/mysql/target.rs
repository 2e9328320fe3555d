//! A server and the account that logs in there.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

pub use spindoctor_wire::peer::{Endpoint, SslMode, Tls, Trust};

use super::logins::Logins;
use super::secret::Secret;
use super::session::Limits;

/// Everything that a login needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where the server listens.
    pub endpoint: Endpoint,
    /// The account's name.
    pub user: String,
    /// The account's password; None logs in without one.
    pub password: Option<Secret>,
    /// The database to begin in.
    pub database: Option<String>,
    /// TLS.
    pub tls: Tls,
    /// What is allowed where the server has not proved who it is.
    pub trust: Trust,
    /// True where plugins may have the password in clear text, over verified TLS or a socket (PAM, LDAP, IAM).
    pub cleartext: bool,
    /// Deadlines.
    pub limits: Limits,
    /// What was passed over on the way here: option files, unknown options.
    pub notes: Vec<String>,
    /// What became of logins; clones share it.
    pub logins: Logins,
    pub(super) ask_password: bool,
}

impl Target {
    /// A target for a program that knows it all, such as a test.
    pub fn new(endpoint: Endpoint, user: impl Into<String>) -> Self {
        Self {
            endpoint,
            user: user.into(),
            password: None,
            database: None,
            tls: Tls::default(),
            trust: Trust::default(),
            cleartext: false,
            limits: Limits::default(),
            notes: Vec::new(),
            logins: Logins::default(),
            ask_password: false,
        }
    }

    /// What is connected to: `/run/mysqld/mysqld.sock`, `db17:3306`, `[::1]:3306`.
    pub fn address(&self) -> String {
        match &self.endpoint {
            Endpoint::Socket(path) => path.display().to_string(),
            Endpoint::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
        }
    }

    /// True where the server's socket is on this host: a unix socket, a loopback address or one of
    /// this host's own. A name is looked up, which may take as long as the resolver takes.
    pub fn is_local(&self) -> bool {
        match &self.endpoint {
            Endpoint::Socket(_) => true,
            Endpoint::Tcp { host, port } => addresses(host, *port).iter().any(|&ip| is_own(ip)),
        }
    }

    /// True when the user wants to be asked for the password, and has not been yet.
    pub fn needs_password(&self) -> bool {
        self.ask_password && self.password.is_none()
    }

    /// Puts in the password that the user typed.
    #[must_use]
    pub fn with_password(mut self, password: Secret) -> Self {
        self.password = Some(password);
        self
    }
}

/// The addresses of a host, none where its name is not known.
pub(crate) fn addresses(host: &str, port: u16) -> Vec<IpAddr> {
    if let Ok(ip) = host.parse() {
        return vec![ip];
    }
    (host, port)
        .to_socket_addrs()
        .map(|found| found.map(|address| address.ip()).collect())
        .unwrap_or_default()
}

/// True for an address of this host: loopback, or one that a socket can be bound to.
fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
}

//! Logging in: a [`Target`] as `spindoctor_wire` takes it, and its refusals as [`ConnectError`]s.

use std::io::ErrorKind;

use spindoctor_wire::connection::{Connection, OpenError, Request};
use spindoctor_wire::login::{Account, Refused};
use spindoctor_wire::tls::Connectors;

use super::error::ConnectError;
use super::secret::Secret;
use super::target::{Endpoint, Target};
use super::tls;

/// Connects and logs in. The caller has the deadline.
pub(super) async fn log_in(target: &Target) -> Result<Connection, ConnectError> {
    // Certificates are read at each login: they may be renewed while the tool runs.
    let connectors = Connectors::default();
    Connection::open(&target.request(), &connectors).await.map_err(|error| failed(target, error))
}

impl Target {
    /// What the login needs of it.
    pub fn request(&self) -> Request<'_> {
        Request {
            endpoint: &self.endpoint,
            tls: &self.tls,
            trust: &self.trust,
            account: Account {
                user: &self.user,
                password: self.password.as_ref().map_or("", Secret::expose),
                database: self.database.as_deref(),
                cleartext: self.cleartext,
            },
        }
    }
}

fn failed(target: &Target, error: OpenError) -> ConnectError {
    let address = target.address();
    match error {
        OpenError::UnknownHost(reason) => ConnectError::UnknownHost { address, reason },
        OpenError::Unreachable(error) => unreachable(target, &error),
        OpenError::Broken(error) => match error.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => ConnectError::Closed { address },
            _ => ConnectError::Unreachable { address, reason: error.to_string() },
        },
        OpenError::TlsNotOffered(mode) => ConnectError::TlsNotOffered { address, mode: mode.name() },
        OpenError::Tls(reason) | OpenError::TlsOptions(reason) => tls::failed(address, &reason),
        OpenError::Refused(Refused::Server(error)) => refused(address, error.code, error.message),
        OpenError::Refused(Refused::Plugin(plugin)) => ConnectError::Plugin { address, plugin },
        OpenError::Refused(
            withheld @ (Refused::Unproved(_) | Refused::Cleartext { .. } | Refused::Key(_)),
        ) => ConnectError::PasswordWithheld { address, because: withheld.to_string() },
        OpenError::Refused(Refused::Wrong(wrong)) | OpenError::Wrong(wrong) => {
            ConnectError::NotMysql { address, reason: wrong.to_string() }
        }
    }
}

/// Nobody was reached: what the system says of a socket or an address.
fn unreachable(target: &Target, error: &std::io::Error) -> ConnectError {
    let (address, reason) = (target.address(), error.to_string());
    match (error.kind(), &target.endpoint) {
        (ErrorKind::NotFound | ErrorKind::NotADirectory, Endpoint::Socket(path)) => {
            ConnectError::NoSocket { path: path.clone() }
        }
        (ErrorKind::PermissionDenied, Endpoint::Socket(path)) => {
            ConnectError::SocketDenied { path: path.clone(), reason }
        }
        (ErrorKind::ConnectionRefused, _) => ConnectError::Refused { address },
        _ => ConnectError::Unreachable { address, reason },
    }
}

/// The server's refusals during login. Numbers: MySQL's error reference, mysqld_error.h.
pub(super) fn refused(address: String, code: u16, message: String) -> ConnectError {
    match code {
        1040 => ConnectError::TooManyConnections { address, message },
        1203 | 1226 => ConnectError::AccountLimit { address, message },
        1129 | 1130 => ConnectError::HostNotAllowed { address, message },
        // 1044 database denied, 1045 access denied, 1698 denied without a password, 1862 password
        // expired, 1820 it must be changed, 3118 and 4151 account locked, 3955 and 4150 locked after wrong passwords,
        // 3159 secure transport required.
        1044 | 1045 | 1698 | 1820 | 1862 | 3118 | 3159 | 3955 | 4150 | 4151 => {
            ConnectError::Denied { address, code, message }
        }
        _ => ConnectError::Server { address, code, message },
    }
}

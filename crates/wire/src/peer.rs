//! The server that a connection goes to, how the server must prove its identity, and where the password may be sent
//! without proof.

use std::path::PathBuf;
use std::str::FromStr;

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket on this host.
    Socket(PathBuf),
    /// A host and port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
}

/// How much TLS is wanted; MySQL's `--ssl-mode`, in order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SslMode {
    /// None.
    Disabled,
    /// Where the server offers it; nothing is verified.
    #[default]
    Preferred,
    /// Always; nothing is verified.
    Required,
    /// Always, and the certificate must be signed by a trusted authority.
    VerifyCa,
    /// As before, and the certificate must name the host.
    VerifyIdentity,
}

impl SslMode {
    /// All modes, weakest first.
    pub const ALL: [Self; 5] =
        [Self::Disabled, Self::Preferred, Self::Required, Self::VerifyCa, Self::VerifyIdentity];

    /// MySQL's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "DISABLED",
            Self::Preferred => "PREFERRED",
            Self::Required => "REQUIRED",
            Self::VerifyCa => "VERIFY_CA",
            Self::VerifyIdentity => "VERIFY_IDENTITY",
        }
    }
}

impl FromStr for SslMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.replace('-', "_");
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(&wanted)).ok_or_else(|| {
            "it is one of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY".to_owned()
        })
    }
}

/// What TLS needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// How much is wanted.
    pub mode: SslMode,
    /// The authorities' certificates, PEM.
    pub ca: Option<PathBuf>,
    /// The client's certificate, PEM.
    pub cert: Option<PathBuf>,
    /// The client's key, PEM.
    pub key: Option<PathBuf>,
}

impl Tls {
    /// True where a TLS connection that came about proves who the server is.
    ///
    /// VERIFY_CA without an authority of the user's own trusts the public ones, which sign for everybody: that
    /// somebody has a certificate of theirs proves nothing unless its name is looked at.
    pub fn proves_the_server(&self) -> bool {
        match self.mode {
            SslMode::Disabled | SslMode::Preferred | SslMode::Required => false,
            SslMode::VerifyCa => self.ca.is_some(),
            SslMode::VerifyIdentity => true,
        }
    }
}

/// What the user allows, by name, where a server has not proved who it is and wants the password itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trust {
    /// `--server-public-key-path`: without TLS the password is encrypted with this key (PEM) and with no other.
    pub server_public_key: Option<PathBuf>,
    /// `--get-server-public-key`: without TLS it is encrypted with the key that the server sends.
    pub get_server_public_key: bool,
    /// `--trust-unverified-server`: it may be sent over TLS whose certificate is not verified.
    pub unverified_server: bool,
}

/// What lies between the server and us, as far as a password is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// TCP without TLS, loopback included: everybody on the way can read, and anybody may answer.
    Plain,
    /// TLS with an unverified server: nobody on the way can read, but the other end has not proved who it is.
    Unverified,
    /// TLS over loopback with a process of root's, of our own user's or of the server's: so says the kernel, and nobody is on
    /// the way. A password may go there, but none in clear text.
    Loopback,
    /// TLS with a certificate that proves who the server is.
    Verified,
    /// A unix socket in a folder that only its owner or root may write.
    Socket,
    /// A unix socket that anybody could have made, of a process of another user.
    OpenSocket,
}

impl Channel {
    /// True where the other end has proved who it is and nobody else can read.
    pub fn is_proved(self) -> bool {
        matches!(self, Self::Verified | Self::Socket)
    }
}

//! TLS as MySQL's clients mean it: what each mode verifies, and what its failures tell.
//!
//! In: [`Tls`] and a mode. Out: the driver's options. rustls with ring does the work.

use mysql_async::{ClientIdentity, SslOpts};

use super::error::ConnectError;
use super::target::{SslMode, Tls};

/// The driver's options for a mode other than DISABLED.
pub(crate) fn options(tls: &Tls, mode: SslMode) -> SslOpts {
    let identity = tls
        .cert
        .as_ref()
        .zip(tls.key.as_ref())
        .map(|(cert, key)| ClientIdentity::new(cert.clone().into(), key.clone().into()));
    let options = SslOpts::default().with_client_identity(identity);
    match mode {
        // MySQL: "PREFERRED and REQUIRED do not verify the server's certificate", --ssl-ca or not.
        SslMode::Disabled | SslMode::Preferred | SslMode::Required => {
            options.with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true)
        }
        SslMode::VerifyCa => with_authority(options, tls)
            .with_danger_skip_domain_validation(true)
            // The driver (mysql_async 0.37.1) recognises "the chain is good, the name is not" by the
            // text NotValidForName in rustls' error, which since rustls 0.23.24 reads "not valid for
            // name \"<the name asked for>\"". Asking for this name makes the text match again. The
            // chain is verified before the name is looked at, so nothing else is let through.
            .with_danger_tls_hostname_override(Some("NotValidForName.invalid")),
        SslMode::VerifyIdentity => with_authority(options, tls),
    }
}

/// Trusts the given authority alone, or the public ones where none is given.
fn with_authority(options: SslOpts, tls: &Tls) -> SslOpts {
    match &tls.ca {
        Some(ca) => options.with_root_certs(vec![ca.clone().into()]).with_disable_built_in_roots(true),
        None => options,
    }
}

/// What a failed handshake means to the user.
pub(crate) fn failed(address: String, reason: &str) -> ConnectError {
    let lower = reason.to_ascii_lowercase();
    let advice = if lower.contains("unknownissuer") || lower.contains("unknown issuer") {
        "check that --ssl-ca names the authority that signed the server's certificate"
    } else if lower.contains("not valid for") || lower.contains("notvalidforname") {
        "connect by a name in the certificate's subjectAltName, or use --ssl-mode=VERIFY_CA"
    } else if lower.contains("expired") || lower.contains("not valid yet") {
        "renew the server's certificate, or check this host's clock"
    } else if lower.contains("version") || lower.contains("badencoding") {
        "the certificate is of a form (X.509 version 1) that cannot be checked: give the server an X.509 v3 certificate, or use a unix socket"
    } else if lower.contains("handshake") || lower.contains("incompatible") {
        "the server must offer TLS 1.2 or 1.3"
    } else {
        "check --ssl-mode, --ssl-ca, --ssl-cert and --ssl-key"
    };
    ConnectError::Tls { address, reason: reason.to_owned(), advice }
}

//! What the failures of TLS mean to the user. TLS itself is `spindoctor_wire`'s.

use super::error::ConnectError;

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

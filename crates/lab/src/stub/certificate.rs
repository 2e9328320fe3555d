//! A certificate that signs itself, made when it is wanted: stub servers show it, and a client that shall trust it is
//! given it as PEM. It names `localhost` and 127.0.0.1, and has no end.
//!
//! The key is one of Ed25519: any 32 bytes are one, and a stub server signs with it in a fraction of the time that a key of
//! RSA takes.

use std::io;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::sign::any_eddsa_type;
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ServerConfig, SignatureScheme};

/// A private key of Ed25519 without its 32 bytes (RFC 8410, section 7): version 0, the algorithm, a string in a string.
const PKCS8: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// The algorithm's name (RFC 8410, section 3).
const ED25519: &[u8] = b"\x30\x05\x06\x03\x2b\x65\x70";
/// Names of a subject's common name and of its other names (RFC 5280, appendix A).
const COMMON_NAME: &[u8] = b"\x06\x03\x55\x04\x03";
const ALTERNATIVE_NAMES: &[u8] = b"\x06\x03\x55\x1d\x11";
/// Version 3, serial number 1.
const VERSION_AND_SERIAL: &[u8] = b"\xa0\x03\x02\x01\x02\x02\x01\x01";
/// From 2020 on, and without an end (RFC 5280, section 4.1.2.5).
const VALIDITY: &[u8] = b"\x17\x0d200101000000Z\x18\x0f99991231235959Z";

/// Tags of DER (X.690).
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const UTF8: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// Of names (RFC 5280, section 4.2.1.6), and of a certificate's extensions.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
const EXTENSIONS: u8 = 0xa3;

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    key: Arc<dyn SigningKey>,
}

impl Certificate {
    /// Makes one, with a new key.
    pub fn new() -> io::Result<Self> {
        let mut seed = [0; 32];
        let filled = default_provider().secure_random.fill(&mut seed);
        filled.map_err(|_| io::Error::other("the system has no random bytes"))?;
        let pkcs8 = [PKCS8, &seed].concat();
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8)).map_err(io::Error::other)?;
        let der = signed_by(key.as_ref())?;
        Ok(Self { der, key })
    }

    /// As a file of authorities holds it.
    pub fn pem(&self) -> String {
        // 48 bytes are a line of 64 letters (RFC 7468).
        let lines: String = self.der.chunks(48).map(|line| base64(line) + "\n").collect();
        format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
    }

    /// What takes clients in with it: TLS 1.3 alone, and two tickets for each, as servers with OpenSSL send them.
    pub(super) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let key = CertifiedKey::new(vec![self.der.clone()], self.key.clone());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        // The session is in the ticket: any number of clients may come back.
        config.ticketer = Ticketer::new().map_err(io::Error::other)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The certificate of this key, signed with it (RFC 5280, section 4.1).
fn signed_by(key: &dyn SigningKey) -> io::Result<CertificateDer<'static>> {
    let missing = || io::Error::other("it is no key of Ed25519");
    let signer = key.choose_scheme(&[SignatureScheme::ED25519]).ok_or_else(missing)?;
    let public = key.public_key().ok_or_else(missing)?;
    let common = [COMMON_NAME, &der(UTF8, b"stub server")].concat();
    let name = der(SEQUENCE, &der(SET, &der(SEQUENCE, &common)));
    let names = [der(DNS_NAME, b"localhost"), der(IP_ADDRESS, &[127, 0, 0, 1])].concat();
    let extension = [ALTERNATIVE_NAMES, &der(OCTETS, &der(SEQUENCE, &names))].concat();
    let extensions = der(EXTENSIONS, &der(SEQUENCE, &der(SEQUENCE, &extension)));
    let validity = der(SEQUENCE, VALIDITY);
    // The issuer, and the subject: the same.
    let signed =
        [VERSION_AND_SERIAL, ED25519, &name, &validity, &name, public.as_ref(), &extensions].concat();
    let signed = der(SEQUENCE, &signed);
    let signature = signer.sign(&signed).map_err(io::Error::other)?;
    // No bit of the last byte is unused.
    let signature = der(BITS, &[&[0][..], &signature].concat());
    Ok(CertificateDer::from(der(SEQUENCE, &[signed.as_slice(), ED25519, &signature].concat())))
}

/// `TAG LENGTH CONTENT`, for contents below 64 KiB.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..=0x7f => out.push(length as u8),
        0x80..=0xff => out.extend_from_slice(&[0x81, length as u8]),
        _ => {
            out.push(0x82);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(content);
    out
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::RootCertStore;
    use tokio_rustls::rustls::client::WebPkiServerVerifier;
    use tokio_rustls::rustls::client::danger::ServerCertVerifier as _;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    /// Whether a client that trusts this text takes a certificate for that of a host.
    fn is_trusted(trusted: &str, shown: &Certificate, host: &'static str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let name = ServerName::try_from(host).unwrap();
        verifier.verify_server_cert(&shown.der, &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn it_is_trusted_by_who_has_it_for_the_names_in_it_and_by_nobody_else() {
        let (ours, theirs) = (Certificate::new().unwrap(), Certificate::new().unwrap());
        for host in ["localhost", "127.0.0.1"] {
            assert!(is_trusted(&ours.pem(), &ours, host), "{host}");
            assert!(!is_trusted(&theirs.pem(), &ours, host), "{host}");
        }
        for host in ["db1", "127.0.0.2"] {
            assert!(!is_trusted(&ours.pem(), &ours, host), "{host}");
        }
    }

    #[test]
    fn letters_and_lengths_are_those_of_the_standards() {
        // RFC 4648, section 10.
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(b"\xfb\xff\xfe"), "+//+");
        assert_eq!(der(OCTETS, b"ab"), b"\x04\x02ab");
        assert_eq!(der(OCTETS, &[0; 200])[..3], [0x04, 0x81, 200]);
        assert_eq!(der(OCTETS, &[0; 300])[..4], [0x04, 0x82, 1, 44]);
    }
}

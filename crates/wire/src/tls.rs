//! TLS as MySQL's clients mean it, made once for all servers that want the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::peer::{SslMode, Tls};
use crate::tickets::LastTicket;

/// Connectors that were made, one for each way that was asked for: certificates are read once, not for each server.
#[derive(Default)]
pub struct Connectors {
    made: Mutex<Vec<Made>>,
    resumes: bool,
}

struct Made {
    tls: Tls,
    connector: TlsConnector,
    /// What is kept of each server, by its host and port. Each way has its own: what one way did not verify, another does not
    /// take for verified.
    tickets: HashMap<(String, u16), Arc<LastTicket>>,
}

impl Connectors {
    /// Connectors for servers that are met again and again: with TLS 1.3 the second connection to one resumes the session of the
    /// first. It has a key exchange of its own and sends no certificate: only the server that was verified then can take part in it.
    /// Nothing is sent before the handshake is over.
    pub fn resuming() -> Self {
        Self { resumes: true, ..Self::default() }
    }

    /// The connector for these options, to this server.
    pub(crate) fn connector(&self, tls: &Tls, host: &str, port: u16) -> Result<TlsConnector, String> {
        let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match all.iter().position(|made| made.tls == *tls) {
            Some(at) => at,
            None => {
                let connector = TlsConnector::from(Arc::new(config(tls)?));
                all.push(Made { tls: tls.clone(), connector, tickets: HashMap::new() });
                all.len() - 1
            }
        };
        let made = &mut all[at];
        if !self.resumes {
            return Ok(made.connector.clone());
        }
        let ticket = made.tickets.entry((host.to_owned(), port)).or_default().clone();
        let mut config = ClientConfig::clone(made.connector.config());
        config.resumption = Resumption::store(ticket).tls12_resumption(Tls12Resumption::Disabled);
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// Whom the certificate should name; a host that can be no name in a certificate is asked for as nobody.
pub(crate) fn name(host: &str) -> ServerName<'static> {
    ServerName::try_from(host.to_owned())
        .unwrap_or_else(|_| ServerName::try_from("host.invalid").expect("it is a name"))
}

fn config(tls: &Tls) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match tls.mode {
        // MySQL: "PREFERRED and REQUIRED do not verify the server's certificate", --ssl-ca or not.
        SslMode::Disabled | SslMode::Preferred | SslMode::Required => Arc::new(Anybody(provider.clone())),
        SslMode::VerifyCa => Arc::new(AnyName(authorities(tls, provider.clone())?)),
        SslMode::VerifyIdentity => authorities(tls, provider.clone())?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match tls.cert.as_ref().zip(tls.key.as_ref()) {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let unreadable = |path: &std::path::Path, error: &dyn std::fmt::Display| {
                format!("{} cannot be read: {error}", path.display())
            };
            let chain = CertificateDer::pem_file_iter(cert)
                .and_then(Iterator::collect)
                .map_err(|error| unreadable(cert, &error))?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
                format!("no private key in the file of --ssl-key: {}", unreadable(key, &error))
            })?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
        }
    };
    // Each server is met once, unless somebody says otherwise.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn authorities(tls: &Tls, provider: Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    match &tls.ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let unreadable =
                |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", path.display());
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
                roots
                    .add(certificate.map_err(|error| unreadable(&error))?)
                    .map_err(|error| unreadable(&error))?;
            }
        }
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("--ssl-ca: {error}"))
}

/// Accepts every certificate, of any form: nothing was promised but that the line is encrypted.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Accepts a certificate of a trusted authority, whomever it names.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain is verified before the name is looked at.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::version::{TLS12, TLS13};
    use rustls::{
        ClientConnection, Connection, HandshakeKind, NamedGroup, ServerConfig, ServerConnection,
        SupportedProtocolVersion,
    };

    use super::*;

    const HOST: &str = "127.0.0.1";

    fn server(versions: &[&'static SupportedProtocolVersion]) -> Arc<ServerConfig> {
        // Made by `openssl req`: anybody can make one.
        let file = |name: &str| format!("{}/../spindoctor/tests/tls/{name}", env!("CARGO_MANIFEST_DIR"));
        let chain = CertificateDer::pem_file_iter(file("cert.pem")).unwrap().flatten().collect();
        let key = PrivateKeyDer::from_pem_file(file("key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Arc::new(config)
    }

    /// Everything that one end has to say, to the other.
    fn carry(from: &mut Connection, to: &mut Connection) {
        let mut flight = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut flight).unwrap();
        }
        let mut flight = flight.as_slice();
        while !flight.is_empty() {
            to.read_tls(&mut flight).unwrap();
            to.process_new_packets().unwrap();
        }
    }

    /// A handshake without a network, and the tickets behind it.
    fn handshake(connectors: &Connectors, port: u16, server: &Arc<ServerConfig>) -> HandshakeKind {
        let tls = Tls { mode: SslMode::Required, ..Tls::default() };
        let connector = connectors.connector(&tls, HOST, port).unwrap();
        let client = ClientConnection::new(connector.config().clone(), name(HOST)).unwrap();
        let mut client = Connection::from(client);
        let mut server = Connection::from(ServerConnection::new(server.clone()).unwrap());
        while client.wants_write() || server.wants_write() {
            carry(&mut client, &mut server);
            carry(&mut server, &mut client);
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        let group = client.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group, NamedGroup::X25519, "the first that we offer: no second hello");
        client.handshake_kind().unwrap()
    }

    #[test]
    fn the_second_connection_to_a_server_resumes_the_first_where_that_is_wanted() {
        let server = server(&[&TLS13]);
        let resuming = Connectors::resuming();
        assert_eq!(handshake(&resuming, 3306, &server), HandshakeKind::Full);
        assert_eq!(handshake(&resuming, 3307, &server), HandshakeKind::Full, "it is another server");
        for _ in 0..3 {
            assert_eq!(handshake(&resuming, 3306, &server), HandshakeKind::Resumed);
        }
        assert_eq!(
            handshake(&Connectors::resuming(), 3306, &server),
            HandshakeKind::Full,
            "of another command"
        );
        let once = Connectors::default();
        for _ in 0..2 {
            assert_eq!(handshake(&once, 3306, &server), HandshakeKind::Full);
        }
    }

    #[test]
    fn sessions_without_a_key_exchange_of_their_own_are_not_resumed() {
        let server = server(&[&TLS12]);
        let resuming = Connectors::resuming();
        for _ in 0..2 {
            assert_eq!(handshake(&resuming, 3306, &server), HandshakeKind::Full);
        }
    }

    #[test]
    fn what_was_not_verified_is_not_resumed_as_verified() {
        let server = server(&[&TLS13]);
        let resuming = Connectors::resuming();
        assert_eq!(handshake(&resuming, 3306, &server), HandshakeKind::Full);
        let ca = format!("{}/../spindoctor/tests/tls/cert.pem", env!("CARGO_MANIFEST_DIR"));
        let verified = Tls { mode: SslMode::VerifyIdentity, ca: Some(ca.into()), ..Tls::default() };
        let connector = resuming.connector(&verified, HOST, 3306).unwrap();
        let client = ClientConnection::new(connector.config().clone(), name(HOST)).unwrap();
        let mut client = Connection::from(client);
        let mut server = Connection::from(ServerConnection::new(server).unwrap());
        carry(&mut client, &mut server);
        let mut flight = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        let (mut flight, mut outcome) = (flight.as_slice(), Ok(()));
        while outcome.is_ok() && !flight.is_empty() {
            client.read_tls(&mut flight).unwrap();
            outcome = client.process_new_packets().map(drop);
        }
        assert!(matches!(outcome, Err(Error::InvalidCertificate(_))), "{outcome:?}");
    }
}

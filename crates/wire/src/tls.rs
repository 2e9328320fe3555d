//! TLS as MySQL's clients mean it, made once for all servers that want the same.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::peer::{SslMode, Tls};

/// Connectors that were made, one for each way that was asked for: certificates are read once, not for each server.
#[derive(Default)]
pub struct Connectors(Mutex<Vec<(Tls, TlsConnector)>>);

impl Connectors {
    /// The connector for these options.
    pub(crate) fn connector(&self, tls: &Tls) -> Result<TlsConnector, String> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, connector)) = made.iter().find(|(of, _)| of == tls) {
            return Ok(connector.clone());
        }
        let connector = TlsConnector::from(Arc::new(config(tls)?));
        made.push((tls.clone(), connector.clone()));
        Ok(connector)
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
    // Each server is met once.
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

//! A server's public RSA key, and a password that only its owner can read.

use std::fmt;

use rsa::pkcs1::DecodeRsaPublicKey as _;
use rsa::pkcs8::DecodePublicKey as _;
use rsa::rand_core::OsRng;
use rsa::{Oaep, RsaPublicKey};
use sha1::Sha1;
use zeroize::Zeroizing;

/// A key file is never larger: one of 16,384 bits takes three thousand bytes.
pub(crate) const MOST_KEY_BYTES: usize = 16 << 10;

/// A server's public key.
#[derive(Clone)]
pub struct PublicKey(RsaPublicKey);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey")
    }
}

impl PublicKey {
    /// Reads `-----BEGIN PUBLIC KEY-----`, as servers send it and keep it in `public_key.pem`, or `BEGIN RSA PUBLIC KEY`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        if pem.len() > MOST_KEY_BYTES {
            return Err("it is larger than any public key".to_owned());
        }
        let text = std::str::from_utf8(pem).map_err(|_| "it is not a public key in PEM".to_owned())?;
        let text = text.trim_end_matches('\0').trim();
        RsaPublicKey::from_public_key_pem(text)
            .or_else(|_| RsaPublicKey::from_pkcs1_pem(text))
            .map(Self)
            .map_err(|error| format!("it is not a public RSA key in PEM: {error}"))
    }

    /// The password for the owner of the key: with a zero behind it, mixed with the nonce so that it serves once, by
    /// RSA with OAEP and SHA-1 (MySQL's `sha2_password` since 8.0.4, `sha256_password` since 5.6).
    ///
    /// # Errors
    /// The password is too long for the key.
    pub(crate) fn encrypt(&self, password: &str, nonce: &[u8]) -> Result<Vec<u8>, String> {
        if nonce.is_empty() {
            return Err("the server sent nothing to mix the password with".to_owned());
        }
        let ended = password.bytes().chain(std::iter::once(0));
        let mixed: Zeroizing<Vec<u8>> =
            Zeroizing::new(ended.zip(nonce.iter().cycle()).map(|(byte, mix)| byte ^ mix).collect());
        self.0.encrypt(&mut OsRng, Oaep::new::<Sha1>(), &mixed).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use rsa::RsaPrivateKey;
    use rsa::pkcs1::EncodeRsaPublicKey as _;
    use rsa::pkcs8::{EncodePublicKey as _, LineEnding};

    use super::*;

    #[test]
    fn only_the_owner_of_the_key_reads_the_password() {
        let private = RsaPrivateKey::new(&mut OsRng, 1024).unwrap();
        let pems = [
            private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap(),
            private.to_public_key().to_pkcs1_pem(LineEnding::LF).unwrap(),
        ];
        let nonce: Vec<u8> = (1..=20).collect();
        for pem in pems {
            let key = PublicKey::from_pem(pem.as_bytes()).unwrap();
            let sent = key.encrypt("a password that is longer than twenty", &nonce).unwrap();
            let mixed = private.decrypt(Oaep::new::<Sha1>(), &sent).unwrap();
            let read: Vec<u8> = mixed.iter().zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect();
            assert_eq!(read, b"a password that is longer than twenty\0");
            assert!(key.encrypt(&"x".repeat(300), &nonce).is_err());
            assert!(key.encrypt("x", &[]).is_err());
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for odd in [
            &b""[..],
            b"\xff\xfe",
            b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
            &[b'-'; 20_000],
        ] {
            assert!(PublicKey::from_pem(odd).is_err());
        }
    }
}

//! `.mylogin.cnf`, as `mysql_config_editor` writes it: an option file, weakly encrypted.
//!
//! The format (client/mysql_config_editor.cc): 4 zero bytes; 20 bytes of key; then chunks, each a
//! length as 4 bytes little endian and that many bytes of AES-128-ECB with PKCS#7 padding, one line a
//! chunk. The 20 bytes fold into 16 by XOR. The key lies beside the lock: this hides passwords from
//! a glance, not from an attacker.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aes::Aes128;
use cipher::{BlockDecrypt, Key, KeyInit};
use zeroize::Zeroizing;

/// Bytes of the key as stored.
const KEY_BYTES: usize = 20;

/// Bytes of a block of AES, and of its key.
const BLOCK_BYTES: usize = 16;

/// The option file's text inside of a login path file; an error says what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let rest = bytes.strip_prefix(&[0; 4]).ok_or("it does not begin with four zero bytes")?;
    let (key, mut rest) = rest.split_at_checked(KEY_BYTES).ok_or("its key is cut off")?;
    let aes = Aes128::new(&fold(key));
    // Never longer than the file, so that it does not move in memory and leave copies behind.
    let mut text = Vec::with_capacity(bytes.len());
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let (chunk, after) = after.split_at_checked(length).ok_or("a line is cut off")?;
        if length == 0 || !length.is_multiple_of(BLOCK_BYTES) {
            return Err("a line is not a whole number of blocks");
        }
        let start = text.len();
        for block in chunk.chunks_exact(BLOCK_BYTES) {
            let mut block = *cipher::Block::<Aes128>::from_slice(block);
            aes.decrypt_block(&mut block);
            text.extend_from_slice(&block);
        }
        let padding = usize::from(text[text.len() - 1]);
        if !(1..=BLOCK_BYTES).contains(&padding) || text.len() - start < padding {
            return Err("a line does not decrypt: wrong padding");
        }
        text.truncate(text.len() - padding);
        rest = after;
    }
    Ok(text)
}

/// 20 bytes become 16: byte i goes to i mod 16 by XOR (mysys/my_aes_impl, `my_aes_create_key`).
fn fold(key: &[u8]) -> Key<Aes128> {
    let mut folded = Key::<Aes128>::default();
    for (at, byte) in key.iter().enumerate() {
        folded[at % BLOCK_BYTES] ^= byte;
    }
    folded
}

/// Reads a login path file: its text, nothing where there is none, or a note why it is passed over.
///
/// As MySQL does, one that group or others may read, write or run is passed over (my_default.cc,
/// `check_file_permissions`).
pub fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
    let passed_over = |why: &str| format!("the login path file {} is passed over: {why}", path.display());
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| passed_over(&error.to_string()))?,
    };
    if meta.permissions().mode() & 0o177 != 0 {
        return Err(passed_over("others may read it; run chmod 600 on it"));
    }
    let bytes = fs::read(path).map_err(|error| passed_over(&error.to_string()))?;
    decode(&bytes).map(|text| Some(Zeroizing::new(text))).map_err(passed_over)
}

/// True where the text of a login path file has this group, in any case.
pub(crate) fn has_group(text: &[u8], name: &str) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| {
        let group = line.trim_ascii().strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
        group.is_some_and(|group| group.eq_ignore_ascii_case(name.as_bytes()))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use cipher::BlockEncrypt;
    use proptest::prelude::*;

    /// As `mysql_config_editor` writes.
    pub(crate) fn encode(text: &str, key: [u8; KEY_BYTES]) -> Vec<u8> {
        let aes = Aes128::new(&fold(&key));
        let mut bytes = vec![0; 4];
        bytes.extend(key);
        for line in text.split_inclusive('\n') {
            let mut line = line.as_bytes().to_vec();
            let padding = BLOCK_BYTES - line.len() % BLOCK_BYTES;
            line.extend(std::iter::repeat_n(padding as u8, padding));
            bytes.extend((line.len() as u32).to_le_bytes());
            for block in line.chunks_exact(BLOCK_BYTES) {
                let mut block = *cipher::Block::<Aes128>::from_slice(block);
                aes.encrypt_block(&mut block);
                bytes.extend(block);
            }
        }
        bytes
    }

    #[test]
    fn a_file_is_passed_over_when_others_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".mylogin.cnf");
        assert_eq!(read(&path), Ok(None));
        fs::write(&path, encode("[client]\n", [7; KEY_BYTES])).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path).unwrap_err().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path), Ok(Some(b"[client]\n".to_vec().into())));
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(text in "([ -~]{0,40}\n){0,8}", key in any::<[u8; KEY_BYTES]>()) {
            prop_assert_eq!(decode(&encode(&text, key)).unwrap(), text.as_bytes());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = decode(&[&[0; 4][..], &bytes].concat());
        }
    }
}

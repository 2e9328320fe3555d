//! Decompression of `xz` data within bounds.
//!
//! In: a stream of xz (<https://tukaani.org/xz/xz-file-format.txt>), as `.gnu_debugdata` holds one. Out: its bytes, or
//! none where it is damaged or larger than a bound. The container is parsed here, because the header of a block decides
//! how much memory its dictionary takes: up to 4 GiB. Its checksums are not checked: the content is trusted no more
//! than the rest of the file.

use std::io::Read as _;

use lzma_rust2::Lzma2Reader;

/// The first bytes of every stream.
const MAGIC: &[u8] = b"\xfd7zXZ\0";
/// The filter that every block ends with.
const LZMA2: u8 = 0x21;

/// Unpacks a stream; none where it is damaged, uses filters of machine code, or is larger than `most` bytes.
#[must_use]
pub fn unpack(packed: &[u8], most: u32) -> Option<Vec<u8>> {
    let flags: [u8; 2] = packed.strip_prefix(MAGIC)?.get(..2)?.try_into().ok()?;
    let check = check_bytes(flags[1])?;
    let mut rest = packed.get(12..)?;
    let mut unpacked = Vec::new();
    // A byte of zero is the index behind the last block.
    while *rest.first()? != 0 {
        let header = (usize::from(rest[0]) + 1) * 4;
        let dictionary = dictionary_bytes(rest.get(..header)?)?;
        let body = &rest[header..];
        let mut reader = Lzma2Reader::new(body, dictionary.min(most), None);
        let left = u64::from(most) + 1 - unpacked.len() as u64;
        reader.by_ref().take(left).read_to_end(&mut unpacked).ok()?;
        if unpacked.len() as u64 > u64::from(most) {
            return None;
        }
        let taken = body.len() - reader.into_inner().len();
        rest = body.get(taken.next_multiple_of(4) + check..)?;
    }
    Some(unpacked)
}

/// Bytes of the checksum behind each block: none, CRC32, CRC64, SHA-256.
fn check_bytes(flags: u8) -> Option<usize> {
    Some(match flags {
        0 => 0,
        1 => 4,
        4 => 8,
        10 => 32,
        _ => return None,
    })
}

/// How large a block's dictionary is, from the header of the block.
fn dictionary_bytes(header: &[u8]) -> Option<u32> {
    let flags = *header.get(1)?;
    // One filter alone.
    if flags & 0x3f != 0 {
        return None;
    }
    let mut rest = header.get(2..)?;
    for is_there in [flags & 0x40 != 0, flags & 0x80 != 0] {
        if is_there {
            // A number of a variable length: its last byte is below 0x80.
            let last = rest.iter().take(9).position(|byte| *byte < 0x80)?;
            rest = &rest[last + 1..];
        }
    }
    let [LZMA2, 1, size, ..] = *rest else { return None };
    match size {
        0..=39 => Some((2 | u32::from(size & 1)) << (size / 2 + 11)),
        40 => Some(u32::MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'spindoctor spindoctor spindoctor' | xz --check=crc32`
    const PACKED: &str = "fd377a585a0000016922de360200210116000000742fe5a3e0001f00125d00399c09568b29d69b8b590d679255ad6000000000000ed140ec00012a20cb5983749042990d010000000001595a";
    fn bytes(hex: &str) -> Vec<u8> {
        hex.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn what_xz_packed_is_unpacked() {
        assert_eq!(unpack(&bytes(PACKED), 1 << 20).unwrap(), b"spindoctor spindoctor spindoctor");
        assert_eq!(unpack(&bytes(PACKED), 31), None, "it has 32 bytes");
        for cut in 0..bytes(PACKED).len() {
            let _ = unpack(&bytes(PACKED)[..cut], 1 << 20);
        }
    }

    #[test]
    fn a_dictionary_takes_no_more_than_may_come_out() {
        let mut packed = bytes(PACKED);
        // The property of the filter: 4 GiB.
        let place = packed.windows(2).position(|pair| pair == [LZMA2, 1]).unwrap() + 2;
        packed[place] = 40;
        assert_eq!(dictionary_bytes(&packed[12..]), Some(u32::MAX));
        assert!(unpack(&packed, 1 << 20).is_some());
    }
}

//! What claims to be packed by xz: nothing more comes out than may, and no dictionary is larger.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_stacks::names::xz::unpack;

const MOST: u32 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    // Nearly no bytes begin as a stream of xz with one block does.
    let head = b"\xfd7zXZ\0\0\x01\x69\x22\xde\x36\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3";
    for bytes in [bytes.to_vec(), [head, bytes].concat()] {
        if let Some(unpacked) = unpack(&bytes, MOST) {
            assert!(unpacked.len() <= MOST as usize);
        }
    }
});

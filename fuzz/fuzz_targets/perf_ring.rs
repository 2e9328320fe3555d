//! The ring that the kernel puts samples into: whatever is in it, samples lie within it.
//!
//! Four bytes say from where and how much is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_stacks::capture::cpu::parse_ring;

const RING: usize = 4_096;

fuzz_target!(|bytes: &[u8]| {
    let Some(([a, b, c, d], records)) = bytes.split_first_chunk() else { return };
    let (from, len) = (u64::from(u16::from_le_bytes([*a, *b])), u64::from(u16::from_le_bytes([*c, *d])));
    let mut ring = records.to_vec();
    ring.resize(RING, 0);
    let read = parse_ring(&ring, from, from + len, 7);
    for sample in read.samples {
        assert!(sample.stack.end <= read.stacks.len());
    }
});

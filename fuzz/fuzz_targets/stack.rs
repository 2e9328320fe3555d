//! Damaged stacks, walked with the unwind tables of a real program: this one. A walk ends, and leads to code only.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::registers::Registers;
use spindoctor_stacks::unwind::{Copied, MAX_FRAMES, Unwinder};

const STACK: u64 = 0x7ffd_0000_0000;

thread_local! {
    static OWN: RefCell<(Modules, Unwinder)> = RefCell::new((
        Modules::of_process(std::process::id()).expect("a process may read its own maps"),
        Unwinder::new(),
    ));
}

/// Nine bytes are a word: a number as it is, an address of code, or one of the stack.
fn word(bytes: &[u8; 9]) -> u64 {
    let [kind, rest @ ..] = *bytes;
    let number = u64::from_le_bytes(rest);
    let offset = number & 0xf_ffff;
    // The fuzzer's own code, around this function; glibc's; the stack's.
    match kind % 4 {
        0 => number,
        1 => (word as fn(&[u8; 9]) -> u64 as usize as u64).wrapping_add(offset).wrapping_sub(0x8_0000),
        2 => (libc_function() as u64).wrapping_add(offset).wrapping_sub(0x8_0000),
        _ => STACK + (number & 0xfff),
    }
}

fn libc_function() -> usize {
    unsafe extern "C" {
        safe fn getpid() -> i32;
    }
    getpid as extern "C" fn() -> i32 as usize
}

fuzz_target!(|bytes: &[u8]| {
    let mut words = bytes.as_chunks::<9>().0.iter().map(word);
    let mut next = || words.next().unwrap_or(0);
    let registers =
        Registers { pc: next(), sp: STACK + (next() & 0xff), fp: Some(next()).filter(|fp| fp & 1 == 0), lr: None };
    let stack: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    OWN.with_borrow_mut(|(modules, unwinder)| {
        let mut out = Vec::new();
        for whole in [false, true] {
            unwinder.walk(modules, &registers, Copied { start: STACK, bytes: &stack, whole }, &mut out);
            assert_eq!(out[0], registers.pc);
            assert!(out.len() <= MAX_FRAMES);
            for (index, &address) in out.iter().enumerate().skip(1) {
                let called = !unwinder.interrupted().contains(&index);
                assert!(modules.is_code(address.wrapping_sub(u64::from(called))), "{address:#x}");
            }
        }
    });
});

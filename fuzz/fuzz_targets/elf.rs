//! Damaged programs and libraries, their unwind tables, symbols and debug information included: no panic, no
//! endless loop, and always a frame for an address.

#![no_main]

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use libfuzzer_sys::fuzz_target;
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::module::elf::Elf;
use spindoctor_stacks::names::Names;
use spindoctor_stacks::registers::Registers;
use spindoctor_stacks::unwind::{Copied, MAX_FRAMES, Unwinder};

const STACK: u64 = 0x7ffd_0000_0000;

fuzz_target!(|bytes: &[u8]| {
    let _ = Elf::from_bytes(bytes.to_vec(), &Default::default());
    let path = env::temp_dir().join(format!("spindoctor-fuzz-elf-{}", std::process::id()));
    fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    if let Ok(mut modules) = Modules::of_file(&path) {
        let mut names = Names::with_debuginfod("", PathBuf::new(), Duration::ZERO);
        let mut unwinder = Unwinder::new();
        // Addresses stand in the headers: of segments at the file's beginning, of sections at its end.
        let words = bytes.as_chunks::<8>().0;
        let headers = words.iter().take(64).chain(words.iter().rev().take(256));
        let starts: Vec<u64> = headers.map(|word| u64::from_le_bytes(*word)).collect();
        let around = |start: u64| [0, 1, 16, 100].map(|within| start.wrapping_add(within));
        let addresses: Vec<u64> = starts.into_iter().flat_map(around).collect();
        let mut code: Vec<u64> = addresses.into_iter().filter(|&address| modules.is_code(address)).collect();
        code.sort_unstable();
        code.dedup();
        code.truncate(100);
        let stack: Vec<u8> = code.iter().flat_map(|address| address.to_le_bytes()).collect();
        let mut out = Vec::new();
        for &pc in &code {
            for is_return in [false, true] {
                assert!(!names.frames(&mut modules, pc, is_return).is_empty());
            }
            modules.code(pc, 64);
            let registers = Registers { pc, sp: STACK, fp: Some(STACK + 16), lr: Some(pc) };
            unwinder.walk(&mut modules, &registers, Copied { start: STACK, bytes: &stack, whole: true }, &mut out);
            assert!(out.len() <= MAX_FRAMES);
        }
    }
    fs::remove_file(&path).expect("it was written above");
});

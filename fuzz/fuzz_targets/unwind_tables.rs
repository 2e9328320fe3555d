//! Damaged unwind tables in a file that is otherwise sound: instructions of one function, a whole `.eh_frame`, or an
//! `.eh_frame_hdr`. The first byte says which.

#![no_main]

use std::{env, fs};

use libfuzzer_sys::fuzz_target;
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::registers::Registers;
use spindoctor_stacks::unwind::{Copied, MAX_FRAMES, Unwinder};

const CODE: u64 = 0x1000;
const LEN: u64 = 0x1000;
const FRAMES: u64 = 0x10_0000;
const HEADER: u64 = 0x20_0000;
const STACK: u64 = 0x7ffd_0000_0000;

/// An entry of `.eh_frame`: its length, then what it holds, padded with DW_CFA_nop.
fn entry(mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(8) + 4, 0);
    [u32::try_from(body.len()).expect("inputs are short").to_le_bytes().to_vec(), body].concat()
}

/// One function, the whole of the code.
fn frames(of_all: &[u8], of_function: &[u8]) -> Vec<u8> {
    // No id, version 1, augmentation zR, units of 1 and -8, return address in 16; addresses absolute.
    let common = entry([&[0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0], of_all].concat());
    let back = u32::try_from(common.len() + 4).expect("inputs are short").to_le_bytes();
    let function = entry([&back[..], &CODE.to_le_bytes(), &LEN.to_le_bytes(), &[0], of_function].concat());
    [common, function, vec![0; 4]].concat()
}

/// A file with code, `.eh_frame` and perhaps `.eh_frame_hdr`.
fn file(eh_frame: &[u8], eh_frame_hdr: Option<&[u8]>) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.text\0.eh_frame\0.eh_frame_hdr\0.shstrtab\0";
    let code = vec![0x90; usize::try_from(LEN).expect("a page")];
    let header = eh_frame_hdr.unwrap_or_default();
    let mut contents = vec![0; 64 + 56];
    // Name, type, address, contents of each section.
    let sections: [(u32, u32, u64, &[u8]); 5] = [
        (0, 0, 0, b""),
        (1, 1, CODE, &code),
        (7, 1, FRAMES, eh_frame),
        (17, if eh_frame_hdr.is_some() { 1 } else { 8 }, HEADER, header),
        (31, 3, 0, NAMES),
    ];
    let mut table = Vec::new();
    for (name, kind, address, bytes) in sections {
        let offset = contents.len() as u64;
        for word in [name, kind] {
            table.extend(word.to_le_bytes());
        }
        for word in [6, address, offset, bytes.len() as u64, 0, 1, 0] {
            table.extend(word.to_le_bytes());
        }
        contents.extend(bytes);
    }
    let place = contents.len() as u64;
    contents.extend(table);
    // 64 bits, little endian, version 1; a shared library for x86-64.
    contents[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    contents[16..24].copy_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
    contents[32..40].copy_from_slice(&64_u64.to_le_bytes());
    contents[40..48].copy_from_slice(&place.to_le_bytes());
    contents[52..64].copy_from_slice(&[64, 0, 56, 0, 1, 0, 64, 0, 5, 0, 4, 0]);
    // PT_LOAD, to be read and run.
    let segment = [1 | 5 << 32, 120, CODE, CODE, LEN, LEN, 0x1000];
    for (place, word) in segment.into_iter().enumerate() {
        contents[64 + 8 * place..72 + 8 * place].copy_from_slice(&u64::to_le_bytes(word));
    }
    contents
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let contents = match kind % 4 {
        0 => file(&frames(&[], bytes), None),
        1 => file(&frames(one, other), None),
        2 => file(bytes, None),
        _ => file(&frames(&[], &[0x0e, 16]), Some(bytes)),
    };
    let path = env::temp_dir().join(format!("spindoctor-fuzz-unwind-{}", std::process::id()));
    fs::write(&path, contents).expect("the folder for temporary files can be written to");
    let mut modules = Modules::of_file(&path).expect("the file is sound but for its unwind tables");
    let mut unwinder = Unwinder::new();
    let stack: Vec<u8> = (0..128)
        .flat_map(|word| if word % 2 == 0 { STACK + 8 * word + 64 } else { CODE + 64 + word }.to_le_bytes())
        .collect();
    let mut out = Vec::new();
    for pc in [CODE, CODE + 1, CODE + 100, CODE + LEN - 1] {
        let registers = Registers { pc, sp: STACK, fp: Some(STACK + 16), lr: None };
        unwinder.walk(&mut modules, &registers, Copied { start: STACK, bytes: &stack, whole: true }, &mut out);
        assert!((1..=MAX_FRAMES).contains(&out.len()));
        assert!(out.iter().all(|&address| modules.is_code(address.wrapping_sub(1)) || modules.is_code(address)));
    }
    drop(modules);
    fs::remove_file(&path).expect("it was written above");
});

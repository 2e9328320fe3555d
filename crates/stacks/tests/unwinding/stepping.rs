//! One program, one instruction at a time: the way back is known at each.

use std::io::Write;
use std::ops::Range;

use object::{Object, ObjectSection};
use rustix::process::WaitOptions;
use spindoctor_model::stack::StackEnd;
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::unwind::{Copied, Unwinder};

use crate::program::Built;

/// The first call of a function searches for it, which takes some thousand instructions; the loader's version
/// tables decide.
const PATIENCE: u32 = 100_000;

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_through_the_plt_is_walked_at_every_instruction() {
    let built = Built::with(&["-O2", "-fomit-frame-pointer", "-Wl,-z,lazy"]);
    let mut running = built.start(&["calling"]);
    let mut modules = Modules::of_process(running.pid).unwrap();
    let program = std::fs::read(built.path()).unwrap();
    let program = object::File::parse(&*program).unwrap();
    let plt: Vec<Range<u64>> = program
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".plt")))
        .map(|section| section.address()..section.address() + section.size())
        .collect();
    let described = modules.described();
    let mut unwinder = Unwinder::new();
    let mut out = Vec::new();
    let mut in_plt = std::collections::BTreeSet::new();
    let mut in_loader = 0;
    let mut resolver = 0;
    let held = running.hold();
    running.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    for step in 0..PATIENCE {
        let stopped = running.read(&held);
        let registers = &stopped.registers;
        let place = modules.place(registers.pc).unwrap();
        let path = &described[place.module.unwrap() as usize].path;
        let stack = Copied { start: registers.sp, bytes: &stopped.stack, whole: true };
        let end = unwinder.walk(&mut modules, registers, stack, &mut out);
        let loader = path.contains("ld-linux");
        if loader
            && end == StackEnd::Cut("register 3 is not known, and the way to the caller needs it".into())
        {
            // The loader's trampoline keeps its way back in rbx, which no source of snapshots reads.
            resolver += 1;
        } else {
            assert_eq!(end, StackEnd::Root, "step {step} in {path} at {:#x}: {out:x?}", place.address);
        }
        in_loader += u32::from(loader);
        if path == built.path().to_str().unwrap() && plt.iter().any(|plt| plt.contains(&place.address)) {
            in_plt.insert(place.address);
            // Found by the loader before, and called again.
            if in_loader > 0 && in_plt.len() > 3 {
                break;
            }
        }
        held.step().unwrap();
        held.wait(WaitOptions::empty()).unwrap();
    }
    assert!(in_plt.len() > 3 && in_loader > 100, "{in_plt:x?} {in_loader}");
    assert!(resolver * 2 < in_loader, "{resolver} of {in_loader} instructions of the loader");
}

//! The kernel's list of symbols, which a container's runtime may replace: names lie where their addresses do.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_stacks::names::kernel::Kernel;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(kernel) = Kernel::parse(bytes) {
        for address in [0, 1, 0xffff_ffff_8100_0000, u64::MAX] {
            kernel.name(address);
        }
    }
});

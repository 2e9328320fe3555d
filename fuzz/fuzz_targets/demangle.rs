//! Mangled names, which a damaged or hostile program may have any of: no panic, and no endless name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_stacks::names::demangle::demangle;

fuzz_target!(|bytes: &[u8]| {
    let text = &*String::from_utf8_lossy(bytes);
    // Nearly no text begins as mangled names do.
    for name in [text.to_owned(), format!("_Z{text}"), format!("_ZN{text}E"), format!("_R{text}")] {
        let demangled = demangle(&name);
        // rustc-demangle stops after 1,000,000 bytes, the other earlier.
        assert!(demangled.short.len() <= (1 << 20) + name.len());
        assert!(!demangled.short.is_empty() || name.is_empty());
    }
});

//! DSNs and URLs on the command line: any text is a target or a refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::mysql::{ConnectFlags, Environment, Secret, resolve};

fuzz_target!(|text: &str| {
    // No option file is read but the one that the DSN itself names.
    let environment = Environment { root: "/nonexistent".into(), ..Environment::default() };
    for text in [text.to_owned(), format!("mysql://{text}")] {
        let flags =
            ConnectFlags { dsn: Some(Secret::from(text)), no_defaults: true, ..ConnectFlags::default() };
        if let Ok(target) = resolve(&flags, &environment) {
            assert!(!target.address().is_empty());
        }
    }
});

//! A statement's text, as a server or a capture gives it: cut anywhere, in any mode, with any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_sql::{
    Mode, check_reads, compared_columns, digest, first_table, kind, lex, may_use_a_table, shape, tags,
};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    shape(&text);
    digest(&digest(&text));
    kind(&text);
    first_table(&text);
    may_use_a_table(&text);
    compared_columns(&text);
    tags(&text);
    for mode in Mode::ALL.into_iter().chain([Mode::UNKNOWN]) {
        let lexed = lex(&text, mode);
        // Tokens stand in their order, within the text, and no two overlap.
        let mut at = 0;
        for token in &lexed.tokens {
            assert!(token.start >= at && &text[token.start..token.end()] == token.text);
            at = token.end();
        }
        assert!(at <= lexed.end_at && lexed.end_at <= text.len());
    }
    if check_reads(&text).is_ok() {
        let upper = text.to_ascii_uppercase();
        assert!(!(upper.contains("SLEEP(") && !upper.contains(['\'', '"', '`', '/', '-', '#'])));
    }
});

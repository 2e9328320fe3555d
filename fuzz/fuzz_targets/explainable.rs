//! Statements that others wrote: EXPLAIN is asked about those that are plain reading, and about no other.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_sql::Select;

fuzz_target!(|text: &str| {
    if let Ok(select) = Select::parse(text) {
        for table in &select.tables {
            select.with_hint(table, "USE INDEX ()");
        }
    }
});

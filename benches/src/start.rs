//! How long the program takes to start, and what it weighs.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

/// How often each is started.
const STARTS: usize = 50;
/// What it may take from start to exit.
const MOST_MS: f64 = 10.0;
/// What it may weigh without its symbols.
const MOST_MIB: f64 = 25.0;
const MIB: f64 = 1_048_576.0;
/// Crates that are listed.
const CRATES: usize = 10;
/// What is written in another language: SQLite, zstd, ring.
const NOT_RUST: &str = "C and assembler";

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "start",
    of: &["crates", "Cargo.toml", "Cargo.lock"],
    minutes: 1,
    story: "`--version` and `--help`, each 50 times from start to exit. The size of the program is that of its file without symbols \
            and debug information; `.text` is its code. Where the file has symbols, the ten crates with the most code stand here, by \
            the sizes of their functions: a generic function counts for the crate that its name begins with.",
    run: |bench| Box::pin(run(bench)),
};

#[expect(clippy::unused_async, reason = "a benchmark is a future, and this one waits for nothing")]
async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for flag in ["--version", "--help"] {
        progress(&format!("start: {flag}"));
        let mut took_ms = Vec::with_capacity(STARTS);
        for _ in 0..STARTS {
            let mut command = bench.spindoctor.command();
            command.arg(flag).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let begun = Instant::now();
            ensure!(command.status()?.success(), "{flag} failed");
            took_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let took = Spread::from_values(&took_ms);
        rows.push(Row::goal(
            format!("`{flag}`, from start to exit"),
            took.text("ms"),
            format!("<= {MOST_MS:.0} ms"),
            took.median <= MOST_MS,
        ));
    }
    let program = fs::read(bench.spindoctor.path())?;
    rows.extend(sizes(&program)?);
    Ok(rows)
}

/// What a program in ELF weighs.
fn sizes(program: &[u8]) -> anyhow::Result<Vec<Row>> {
    let file = object::File::parse(program).context("the program is not in ELF")?;
    let is_stripped_off = |name: &str| name == ".symtab" || name == ".strtab" || name.starts_with(".debug_");
    let (mut text, mut stripped_off) = (0, 0);
    for section in file.sections() {
        let name = section.name()?;
        if name == ".text" {
            text = section.size();
        }
        if is_stripped_off(name) {
            stripped_off += section.file_range().map_or(0, |(_, bytes)| bytes);
        }
    }
    let mib = (program.len() as u64 - stripped_off) as f64 / MIB;
    let mut rows = vec![
        Row::goal(
            "the program without symbols",
            format!("{} MiB", short(mib)),
            format!("<= {MOST_MIB:.0} MiB"),
            mib <= MOST_MIB,
        ),
        Row::plain("`.text`", format!("{} MiB", short(text as f64 / MIB))),
    ];
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let mut by_crate: BTreeMap<String, u64> = BTreeMap::new();
    for function in functions {
        let of = krate(function.name()?).unwrap_or_else(|| NOT_RUST.to_owned());
        *by_crate.entry(of).or_default() += function.size();
    }
    let mut by_crate: Vec<(String, u64)> = by_crate.into_iter().collect();
    by_crate.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    if by_crate.is_empty() {
        rows.push(Row::plain("the crates with the most code", "not available: the program has no symbols"));
    }
    rows.extend(by_crate.into_iter().take(CRATES).map(|(name, bytes)| {
        Row::plain(format!("code of {name}"), format!("{} MiB", short(bytes as f64 / MIB)))
    }));
    Ok(rows)
}

/// The crate of a function: `alloc` of `<&mut alloc::vec::Vec<T> as core::fmt::Debug>::fmt`, `core` of `<T as core::fmt::Debug>::fmt`;
/// None of one that is not Rust's.
fn krate(symbol: &str) -> Option<String> {
    let name = format!("{:#}", rustc_demangle::try_demangle(symbol).ok()?);
    let named = name.split(" as ").find_map(|part| {
        let mut part = part;
        while let Some(inner) = ["<", "&", "*", "[", "(", "mut ", "const ", "dyn "]
            .iter()
            .find_map(|lead| part.strip_prefix(*lead))
        {
            part = inner;
        }
        let (first, _) = part.split_once("::")?;
        let is_name = first.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !first.is_empty();
        is_name.then(|| first.to_owned())
    });
    named.or_else(|| Some(name.split(['<', ' ']).next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_belongs_to_the_crate_that_its_name_begins_with() {
        let krate = |symbol: &str| krate(symbol).unwrap_or_else(|| NOT_RUST.to_owned());
        assert_eq!(krate("_ZN4core3fmt5write17h0123456789abcdefE"), "core");
        // <&mut alloc::vec::Vec<T> as core::fmt::Debug>::fmt
        let of_a_type = "_ZN73_$LT$$RF$mut$u20$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE";
        assert_eq!(krate(of_a_type), "alloc");
        // <T as core::fmt::Debug>::fmt
        let of_any_type = "_ZN38_$LT$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE";
        assert_eq!(krate(of_any_type), "core");
        assert_eq!(krate("sqlite3_step"), NOT_RUST);
    }

    #[test]
    fn a_program_has_code_and_a_size() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let rows = sizes(&own).unwrap();
        let whats: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
        assert_eq!(whats[..2], ["the program without symbols", "`.text`"]);
        assert!(rows[1].measured.ends_with(" MiB") && !rows[1].measured.starts_with("0.00"), "{whats:?}");
        assert!(whats.len() > 2);
    }
}

//! The probe's readings of real servers, as `crates/lab/examples/probes.rs` records them.

use std::path::Path;

use spindoctor_model::Probe;

use crate::judge::Made;

/// One recording of probes.
#[derive(Debug)]
pub(crate) struct Series {
    /// The server, its load and the stalls in it.
    pub(crate) what: String,
    /// Each with how it was made: `read-lock`.
    pub(crate) made: Vec<(String, Made)>,
    pub(crate) probes: Vec<Probe>,
}

/// Reads a file, compressed or not.
pub(crate) fn read(path: &Path) -> Series {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let bytes = match path.extension().is_some_and(|ending| ending == "zst") {
        true => zstd::decode_all(&bytes[..]).expect("it was compressed with zstd"),
        false => bytes,
    };
    parse(std::str::from_utf8(&bytes).expect("it is text")).unwrap_or_else(|| panic!("{}", path.display()))
}

fn parse(text: &str) -> Option<Series> {
    let (what, rest) = text.split_once('\n')?;
    let mut series = Series { what: what.to_owned(), made: Vec::new(), probes: Vec::new() };
    let (mut at, mut counts) = (0, [0; 3]);
    for line in rest.lines() {
        if let Some(stall) = line.strip_prefix("stall ") {
            let mut words = stall.split(' ');
            let kind = words.next()?.to_owned();
            let mut next_s = || Some(words.next()?.parse::<f64>().ok()? / 1e3);
            let (asked_s, held_s, ended_s) = (next_s()?, next_s()?, next_s()?);
            series.made.push((kind, Made { kinds: &[], asked_s, held_s, ended_s }));
            continue;
        }
        // Tenths of milliseconds, and of what is counted by how much it changed.
        let numbers: Option<Vec<i64>> = line.split(' ').map(|word| word.parse().ok()).collect();
        let (after, took, answer) = match numbers?[..] {
            [after, took] => (after, took, None),
            [after, took, running, questions, commits, age] => {
                (after, took, Some((running, [questions, commits, age])))
            }
            _ => return None,
        };
        at += after;
        let mut probe = Probe { at_s: at as f64 / 1e4, took_ms: took as f64 / 10.0, ..Probe::default() };
        if let Some((running, changes)) = answer {
            counts.iter_mut().zip(changes).for_each(|(count, change)| *count += change);
            let [questions, commits, age] = counts.map(|count| u64::try_from(count).ok());
            probe.answered = true;
            probe.threads_running = u64::try_from(running).ok();
            (probe.questions, probe.commits, probe.checkpoint_age_bytes) = (questions, commits, age);
        }
        series.probes.push(probe);
    }
    Some(series)
}

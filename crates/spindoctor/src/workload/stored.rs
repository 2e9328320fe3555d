//! The workload of a recording, and of a captured file.

use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use spindoctor_collect::mysql::perf_schema_statement_digests;

use super::args::Workload as Asked;
use super::captured::Captured;
use super::panel::{Ground, panel};
use super::run::{begun, what};
use super::tally::{By, Sighting, Tally, What};
use super::view::Workload;
use crate::common::moment::Moment;
use crate::common::recorded::{self, window};
use crate::common::stalls::day_and_time;
use spindoctor_record::Recording;
use spindoctor_record::span::Span;
use spindoctor_statements::Span as Statements;

/// Of a part of a recording: its lists of threads, one a second, and its counters. Without a beginning or an end it is the
/// recording's.
pub fn recording(
    asked: &Asked,
    file: &Path,
    (from, to): (Option<Moment>, Option<Moment>),
) -> anyhow::Result<Workload> {
    let recording = recorded::open(file)?;
    let name = file.display();
    let Some((first, last)) = recording.extent()? else {
        bail!("{name} has no sample yet; the recorder writes one a second");
    };
    let from = from.map_or(first, |from| from.resolved(last)).max(first);
    let to = to.map_or(last, |to| to.resolved(last)).min(last);
    if from > to {
        bail!(
            "{name} has nothing in that time: it reaches from {} to {}",
            day_and_time(first),
            day_and_time(last)
        );
    }
    let tally = counted(&recording, Span::new(from, to), what(asked))?;
    if tally.looks() == 0 {
        bail!(
            "{name} has no list of threads from {} to {}; `spindoctor top --replay` shows why",
            day_and_time(from),
            day_and_time(to)
        );
    }
    let mut workload = begun(asked, &name.to_string());
    workload.start = Some(from);
    if let Some(window) = window(&recording, Span::new(from, to))? {
        if let Some(version) = window.server.version {
            workload.subject = format!("{version} on {}", window.server.hostname);
        }
        let not_kept = || "a recording does not hold it".to_owned();
        let ground = Ground { links: Vec::new(), device: Err(not_kept()), rows_sent: None };
        workload.panel = panel(&window, &ground);
        workload.judge(&window);
        workload.count_by_server(&window);
    }
    workload.split =
        Err("a recording holds stacks of its events only; spindoctor report shows them".to_owned());
    workload.counted = tally.finish();
    if workload.counted.groups.iter().all(|(by, _)| *by != By::Tag) {
        workload.notes.push(
            "tags stand in comments, which a recording has only if it was made with --literals".to_owned(),
        );
    }
    Ok(workload)
}

/// What of a part of a recording is compared with another time. None where it has no list of threads.
pub fn span_of(recording: &Recording, name: &str, part: Span) -> anyhow::Result<Option<Statements>> {
    let tally = counted(recording, part, What::default())?;
    let is_seen = tally.looks() > 0;
    let span = Statements { name: name.to_owned(), start: Some(part.from), ..tally.finish().span };
    Ok(is_seen.then_some(span))
}

/// The lists of threads and the counts of the server in a part of a recording.
fn counted(recording: &Recording, part: Span, what: What) -> anyhow::Result<Tally> {
    let mut tally = Tally::new(what);
    let mut second = None;
    let mut segment = None;
    for piece in recording.pieces(part) {
        let piece = piece?;
        for recorded in recording.samples(piece.from, piece.to)? {
            let at_s = recorded.at.duration_since(part.from).as_secs_f64();
            let server = &recorded.sample.server;
            if segment.replace(recorded.segment).is_some_and(|before| before != recorded.segment) {
                tally.restarted();
            }
            if let Some(digests) = server.digests.value() {
                let is_cut = server.cut.iter().any(|name| name == perf_schema_statement_digests::SOURCE.name);
                tally.reading(at_s, digests, is_cut);
            }
            // In a stall the recorder looks more often: a second counts once, whatever happened in it.
            if let Some(threads) = server.threads.value()
                && is_another_second(&mut second, recorded.at)
            {
                tally.look(&Sighting { at_s, threads: threads.clone(), ..Sighting::default() });
            }
        }
    }
    Ok(tally)
}

/// True for the first list of each second.
fn is_another_second(second: &mut Option<i64>, at: Timestamp) -> bool {
    second.replace(at.as_second()) != Some(at.as_second())
}

/// Of a captured file, or of standard input.
pub fn captured(asked: &Asked, file: &Path) -> anyhow::Result<Workload> {
    let name = file.display();
    let reader: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => {
            let opened = spindoctor_safefile::open_named(file);
            Box::new(BufReader::new(opened.with_context(|| format!("could not open {name}"))?))
        }
    };
    let mut captured = Captured::new(reader, asked.every.as_secs_f64(), asked.replica);
    let mut tally = Tally::new(what(asked));
    while let Some(seen) = captured.next().with_context(|| format!("could not read {name}"))? {
        tally.look(&seen);
    }
    if tally.looks() == 0 {
        bail!(
            "{name} has no process list and no statement; `SHOW FULL PROCESSLIST` again and again makes one"
        );
    }
    let mut workload = begun(asked, &name.to_string());
    let in_file = || "a captured process list does not hold it".to_owned();
    workload.split = Err(in_file());
    workload.panel = Err(in_file());
    workload.replica = Err(in_file());
    workload.counted = tally.finish();
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_counts_once_however_often_the_recorder_looked_in_it() {
        let mut second = None;
        // Ten samples per second in a stall of two seconds, one in the calm around it.
        let stall = (0..20).map(|tenth| 5_000 + tenth * 100);
        let looks = [3_000, 4_000].into_iter().chain(stall).chain([7_000, 8_000]);
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        assert_eq!(looks.filter(|ms| is_another_second(&mut second, at(*ms))).count(), 6);
    }
}

//! Tables for the terminal: the cost of accepting, threads and queues, how long connections last, the accounts that
//! make them.

use spindoctor_model::Unavailable;
use spindoctor_model::connections::{AcceptPart, AcceptRow, AcceptTime};
use spindoctor_rules::connections::AccountRate;

use super::formats::account;
use super::view::{Connections, Queue, Threads};
use crate::common::words::severity_word;
use spindoctor_page::number;
use spindoctor_page::number::{duration, percent, plain};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened};

/// Column in which what is said of a field begins.
const FIELD: usize = 18;
/// Rows of one part of the work that are shown; the others are one row.
const ROWS_SHOWN: usize = 6;
/// A row with a smaller share is counted with others.
const LEAST_SHARE: f64 = 0.005;
/// Accounts that are shown.
const ACCOUNTS_SHOWN: usize = 10;

/// The look as text.
pub fn render(look: &Connections, terminal: Look) -> String {
    let mut page = Page::new(terminal);
    let pid = look.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let subject = format!("{}{pid}, {}", safe(&look.server), duration(look.seconds));
    let findings = number::counted(look.findings.len() as u64, "finding", "findings");
    page.line_with_right(&subject, &findings, STRONG, PLAIN);
    page.blank();
    for finding in &look.findings {
        let lead = format!("{}  ", severity_word(finding.severity));
        page.headline(&lead, STRONG, &safe(&finding.headline), &finding.cause);
        if let Some(remedy) = finding.remedies.first() {
            page.hanging("    ", "    ", &safe(&format!("do: {}", remedy.statement)), PLAIN);
        }
    }
    if !look.findings.is_empty() {
        page.blank();
    }
    page.field("connections", &made(look), FIELD);
    page.field("threads", &threads(&look.threads), FIELD);
    match &look.queue {
        Ok(queue) => page.field("queue", &queued(queue), FIELD),
        Err(why) => page.field("queue", &unknown(why), FIELD),
    }
    if !look.lifetimes.is_empty() {
        let ages: Vec<String> = look
            .lifetimes
            .iter()
            .map(|age| format!("{} within {}", percent(age.closed_ratio), duration(age.within_s)))
            .collect();
        page.field("closed again", &ages.join(", "), FIELD);
    }
    match &look.accept {
        Ok(time) => accept(&mut page, time),
        Err(why) => page.field("accepting thread", &unknown(why), FIELD),
    }
    page.blank();
    match &look.accounts {
        Ok(accounts) => who(&mut page, accounts),
        Err(why) => page.field("who connects", &unknown(why), FIELD),
    }
    page.blank();
    page.paragraph("", &cost(look), QUIET);
    page.finish()
}

fn unknown(why: &Unavailable) -> String {
    let unlock = why.unlock.as_ref().map(|unlock| format!("; {unlock}")).unwrap_or_default();
    safe(&format!("not known: {}{unlock}", why.because))
}

fn rate(per_s: f64) -> String {
    number::quantity(if per_s < 10.0 { (per_s * 10.0).round() / 10.0 } else { per_s.round() }, "1/s")
}

fn made(look: &Connections) -> String {
    let Some(made) = look.made_per_s else { return "not known: the server's status was not read".to_owned() };
    let mut parts = vec![format!("{} made", rate(made))];
    parts.extend(
        look.failed_per_s.filter(|failed| *failed > 0.0).map(|failed| format!("{} failed", rate(failed))),
    );
    if let (Some(connected), Some(most)) = (look.connected, look.max_connections) {
        parts.push(format!("{} of {} open", plain(connected), plain(most)));
    }
    parts.join(", ")
}

fn threads(threads: &Threads) -> String {
    if threads.is_pool {
        return "connections share the threads of a pool".to_owned();
    }
    let mut parts = Vec::new();
    parts.extend(threads.created_per_s.map(|created| format!("{} made", rate(created))));
    parts.extend(
        threads.hit_ratio.map(|hits| format!("{} of the connections found one in the cache", percent(hits))),
    );
    parts.extend(threads.cache_size.map(|size| format!("thread_cache_size {}", plain(size))));
    parts.extend(threads.cached.map(|cached| format!("{} cached now", plain(cached))));
    if parts.is_empty() { "not known".to_owned() } else { parts.join(", ") }
}

fn queued(queue: &Queue) -> String {
    let mut parts = vec![match queue.waiting {
        Some(0) => "no client waited at its ports in any sample".to_owned(),
        Some(waiting) => {
            let clients = number::counted(waiting, "client", "clients");
            format!("at most {clients} waited at its ports to be accepted")
        }
        None => "the server listens on no port here".to_owned(),
    }];
    parts.extend(dropped(queue));
    parts.extend(queue.back_log.map(|back_log| format!("back_log {back_log}")));
    parts.join(", ")
}

/// The kernel counts these for all sockets together.
fn dropped(queue: &Queue) -> Option<String> {
    let text = |count: Option<u64>, one: &str, many: &str| {
        count.filter(|count| *count > 0).map(|count| number::counted(count, one, many))
    };
    let half_open = "of them for half-open connections";
    let counted = [
        text(queue.overflows, "client found a queue full", "clients found a queue full"),
        text(queue.drops, "SYN was dropped", "SYNs were dropped"),
        text(queue.syn_queue_drops, half_open, half_open),
    ];
    let counted: Vec<String> = counted.into_iter().flatten().collect();
    match counted.is_empty() {
        true => queue.overflows.or(queue.drops).map(|_| "no client was dropped".to_owned()),
        false => Some(format!("{} (all programs of this network together)", counted.join(", "))),
    }
}

fn accept(page: &mut Page, accept: &AcceptTime) {
    let mut text = vec![format!("busy {} of the time", percent(accept.busy_ratio))];
    text.extend(accept.us_each.map(|us| {
        let connections = number::counted(accept.accepted, "connection", "connections");
        format!("{} for each of {connections}", duration(us / 1e6))
    }));
    text.extend(accept.cpu_ratio.map(|cpu| format!("{} of a CPU", percent(cpu))));
    text.extend(
        accept
            .run_queue_ratio
            .filter(|ratio| *ratio >= LEAST_SHARE)
            .map(|ratio| format!("ready and without a CPU {} of the time", percent(ratio))),
    );
    if accept.accepts_failed > 0 {
        text.push(number::counted(accept.accepts_failed, "accept failed", "accepts failed"));
    }
    page.field("accepting thread", &text.join(", "), FIELD);
    if accept.rows.is_empty() {
        page.field("", "no connections: it slept all the time", FIELD);
        return;
    }
    page.field(
        "",
        &format!(
            "{} of its busy time is accounted for below; time outside of system calls is measured by {}",
            percent(accept.accounted_ratio),
            number::counted(accept.samples, "CPU sample", "CPU samples")
        ),
        FIELD,
    );
    page.blank();
    page.table(&COLUMNS, std::iter::empty());
    for (part, share) in accept.parts() {
        if part == AcceptPart::Unknown && share < LEAST_SHARE {
            continue;
        }
        let rows: Vec<&AcceptRow> = accept.rows.iter().filter(|row| row.part == part).collect();
        let is_alone = rows.len() == 1;
        if !is_alone {
            page.push(&cells(&percent(share), "", "", part.title()));
        }
        let shown = rows.iter().take(ROWS_SHOWN).filter(|row| row.share >= LEAST_SHARE).count().max(1);
        for row in &rows[..shown] {
            let what = match is_alone {
                true => format!("{}: {}", part.title(), safe(&row.name)),
                false => format!("  {}", safe(&row.name)),
            };
            let calls = row.calls.map_or_else(String::new, |calls| plain(calls as f64));
            let each =
                row.calls.filter(|calls| *calls > 0).map(|calls| duration(row.ms / 1e3 / calls as f64));
            let what = shortened(&what, page.look.width.saturating_sub(WHAT_AT + 1));
            page.push(&cells(&percent(row.share), &calls, &each.unwrap_or_default(), &what));
        }
        if rows.len() > shown {
            let share: f64 = rows[shown..].iter().map(|row| row.share).sum();
            page.push(&cells(&percent(share), "", "", &format!("  {} more", rows.len() - shown)));
        }
    }
    for note in &accept.notes {
        page.hanging("    ", "  ", &safe(note), QUIET);
    }
}

/// Widths of the table of the accepting thread's time.
const COLUMNS: [(&str, i32); 4] = [("busy time", 13), ("calls", 10), ("each", 10), ("what", -16)];

/// Columns before the last of them.
const WHAT_AT: usize = 35;

fn cells(share: &str, calls: &str, each: &str, what: &str) -> String {
    format!("{share:>13}{calls:>10}{each:>10}  {what}")
}

fn who(page: &mut Page, accounts: &[AccountRate]) {
    if accounts.is_empty() {
        page.field("who connects", "no connections", FIELD);
        return;
    }
    page.table(
        &[("who connects", -32), ("/s", 8), ("share", 9), ("statements", 12), ("lasts", 10), ("open", 6)],
        accounts.iter().take(ACCOUNTS_SHOWN).map(|one| {
            vec![
                safe(&account(&one.user, &one.host)),
                number::quantity(one.per_s, "1/s").trim_end_matches(" /s").to_owned(),
                percent(one.share),
                one.statements_each.map_or_else(|| "?".to_owned(), |each| format!("{each:.1}")),
                one.lifetime_s.map_or_else(|| "?".to_owned(), duration),
                plain(one.open as f64),
            ]
        }),
    );
    if accounts.len() > ACCOUNTS_SHOWN {
        let more = accounts.len() - ACCOUNTS_SHOWN;
        page.paragraph("  ", &format!("and {more} more that connect less often; --json has all"), QUIET);
    }
}

fn cost(look: &Connections) -> String {
    let mut text = format!(
        "cost: {}, {} of the server's time, no thread stopped",
        number::counted(look.cost.server_queries, "query", "queries"),
        number::quantity(look.cost.server_busy_ms, "ms")
    );
    if let Ok(accept) = &look.accept {
        text.push_str(&format!(
            "; {} system calls of the machine counted for {} of its CPU time",
            plain((accept.passes / 2) as f64),
            number::quantity(accept.passes_cpu_ms, "ms")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Finding, Remedy, Severity};

    use super::*;

    use crate::connections::view::sample;

    #[test]
    fn a_busy_server_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&sample::busy(), Look::of_file()));
    }

    #[test]
    fn what_is_not_known_is_shown_with_the_reason() {
        insta::assert_snapshot!(render(&sample::remote(), Look::of_file()));
    }

    #[test]
    fn what_was_dropped_is_shown_with_whose_it_may_be_and_nothing_where_nobody_counts() {
        let counted = |overflows, drops| Queue { overflows, drops, ..Queue::default() };
        assert_eq!(
            dropped(&counted(Some(1), Some(12))).as_deref(),
            Some("1 client found a queue full, 12 SYNs were dropped (all programs of this network together)")
        );
        assert_eq!(dropped(&counted(Some(0), Some(0))).as_deref(), Some("no client was dropped"));
        assert_eq!(dropped(&Queue::default()), None);
    }

    #[test]
    fn what_to_do_stands_below_a_finding() {
        let mut look = sample::busy();
        let remedy = Remedy { statement: "SET GLOBAL thread_cache_size = 64".into(), ..Remedy::default() };
        look.findings = vec![Finding {
            cause: "thread-cache-miss".into(),
            severity: Severity::Note,
            score: 0.01,
            headline: "A thread is made for each connection".into(),
            evidence: Vec::new(),
            why: String::new(),
            remedies: vec![remedy],
            root: None,
            explains: Vec::new(),
            is_elsewhere: false,
            references: Vec::new(),
        }];
        assert!(render(&look, Look::of_file()).contains("    do: SET GLOBAL thread_cache_size = 64\n"));
    }

    #[test]
    fn a_thread_that_slept_is_shown_to_have_slept() {
        let mut look = sample::busy();
        look.accept = Ok(AcceptTime { tid: 1, seconds: 10.0, accounted_ratio: 1.0, ..AcceptTime::default() });
        assert!(render(&look, Look::of_file()).contains("no connections"));
    }
}

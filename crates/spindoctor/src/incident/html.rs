//! An incident as one HTML file: what happened, over time, the cause, who blocked whom, what the threads did, what ran,
//! settings, gaps. No network, no script; light and dark as the reader's system is set; printable.

use maud::{Markup, PreEscaped, html};

use super::changes::earlier;
use super::view::Incident;
use super::words::{change_text, changes_words, compared_text, load_text, nothing_changed};
use super::{loads_html, picture, statements};
use crate::common::local_time::beside;
use crate::common::session_time;
use crate::common::stalls::{day_and_time, event_lasted, time};
use crate::common::words::severity_word;
use crate::doctor::{acts, examined, explained_here, finding, host, severity_class};
use crate::locks::html;
use crate::workload::in_few_words;
use spindoctor_page::html::{breakable, narrow, page};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_profile::formats;
use spindoctor_record::span::Span;
use spindoctor_statements::changes::{ROWS, TIMES};

/// What this page needs beyond the style of all pages.
const OWN_STYLE: &str = include_str!("incident.css");

/// The incident as a page.
pub fn render(incident: &Incident) -> String {
    let title = incident.title();
    let body = html! {
        main.incident {
            (head(incident, &title))
            (story(incident))
            (picture::section(incident))
            (loads_html::section(incident))
            (session_time::compared(incident.time.before.as_ref(), incident.time.during.as_ref()))
            (events(incident))
            (cause(incident))
            @if let Some(waits) = &incident.waits {
                (html::section_of_stall("Who blocked whom at the worst moment", waits))
            }
            (flames(incident))
            (statements(incident))
            (changes(incident))
            (settings(incident))
            (missing(incident))
            @if let Some(diagnosis) = &incident.diagnosis { (host(&diagnosis.host)) (examined(diagnosis)) }
            footer {
                p {
                    "spindoctor " (env!("CARGO_PKG_VERSION")) ", spindoctor.incident/1"
                    @if !incident.written_by.is_empty() { "; recorded by spindoctor " (breakable(&incident.written_by)) }
                }
            }
        }
    };
    page(&format!("{}: {title}", safe(&place(incident))), OWN_STYLE, &body)
}

/// `db17`, or the address where the server never said its host.
fn place(incident: &Incident) -> String {
    let server = &incident.server;
    let named = [&server.hostname, &server.address].into_iter().find(|name| !name.is_empty());
    named.cloned().unwrap_or_else(|| "a server".to_owned())
}

fn head(incident: &Incident, title: &str) -> Markup {
    let server = &incident.server;
    let began = incident.scope.stall.from;
    html! {
        h1 { (title) }
        ul.facts {
            li {
                @if let Some(version) = server.version { (version) " on " }
                (breakable(&place(incident)))
            }
            @if let Some(pid) = server.pid { li { "pid " (pid) } }
            li { time datetime=(began) { (day_and_time(began)) } (beside(began)) }
            @if let (Some(event), false) = (&incident.event, incident.scope.is_asked) { li { "event " (event.head.id) } }
        }
    }
}

fn story(incident: &Incident) -> Markup {
    let first = incident.diagnosis.as_ref().and_then(|diagnosis| diagnosis.findings.first());
    let severity = first.map(|first| severity_class(first.severity)).unwrap_or_default();
    html! {
        section.card.verdict.story.(severity) {
            p.sentence { (breakable(&incident.sentence())) }
            @if let Some((cause, _)) = incident.cause() {
                p.quiet { "First cause: " a href="#finding-1" { code { (breakable(cause)) } } }
            }
            @if let Some(first) = first { (acts(first, 1)) }
            @if !incident.numbers.is_empty() {
                table.wide.compared {
                    thead {
                        tr {
                            th { "" }
                            th { "before" @if let Some(calm) = incident.scope.calm { span.quiet { ", " (number::duration(calm.seconds().round())) } } }
                            th { "during" @if incident.scope.calm.is_some() { span.quiet { ", " (number::duration(incident.scope.stall.seconds())) } } }
                            th { "change" }
                        }
                    }
                    tbody {
                        @for row in &incident.numbers {
                            @let [before, during] = compared_text(row);
                            tr {
                                td { (row.name) }
                                td.number data-label="before " { (before) }
                                td.value.number data-label="during " { (during) }
                                td.number.quiet { (change_text(row.before, row.during)) }
                            }
                        }
                    }
                }
            }
            @if incident.scope.calm.is_none() {
                p.quiet { "The recording has no baseline before it to compare it with." }
            }
        }
    }
}

/// The events of the stretch, where it is not this one alone.
fn events(incident: &Incident) -> Markup {
    let is_alone = !incident.scope.is_asked && incident.events.len() <= 1;
    html! {
        @if !incident.events.is_empty() && !is_alone {
            section.card {
                h2 { "Events" }
                table.wide.events {
                    thead { tr { th { "event" } th { "began" } th { "lasted" } th { "what was seen" } } }
                    tbody {
                        @for head in &incident.events {
                            @let is_reported = incident.event.as_ref().is_some_and(|event| event.head.id == head.id);
                            tr.reported[is_reported] {
                                td { (head.id) @if is_reported { span.quiet { " reported here" } } }
                                td { time datetime=(head.began) { (time(head.began)) } }
                                td { (event_lasted(head)) }
                                td {
                                    (head.stall.kind.title())
                                    @if !head.stall.because.is_empty() { ": " (breakable(&head.stall.because)) }
                                    @if let Some(cause) = &head.cause { div.quiet { code { (breakable(cause)) } " " (breakable(&head.headline)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cause(incident: &Incident) -> Markup {
    html! {
        @if let Some(diagnosis) = &incident.diagnosis {
            @if diagnosis.findings.is_empty() {
                section.card { h2 { "No cause was found" } p.quiet { "The causes that were checked and are not present are listed below." } }
            }
            @if diagnosis.findings.len() > 1 {
                section.card.verdict {
                    h2 { "Causes" }
                    ol {
                        @for (at, found) in diagnosis.findings.iter().enumerate() {
                            li.(severity_class(found.severity)) {
                                span.severity { (severity_word(found.severity)) }
                                a href=(format!("#finding-{}", at + 1)) { (breakable(&found.headline)) }
                            }
                        }
                    }
                }
            }
            @for (at, found) in diagnosis.findings.iter().enumerate() {
                (finding(at + 1, found, &explained_here(found, diagnosis)))
            }
        } @else {
            section.card { h2 { "No diagnosis" } p.quiet { "There are too few samples of this time to look for a cause." } }
        }
    }
}

fn flames(incident: &Incident) -> Markup {
    let event = incident.event.as_ref();
    let during = event.and_then(|event| event.during.as_ref());
    let before = event.and_then(|event| event.before.as_ref());
    let changed = before.zip(during).and_then(|(before, during)| formats::difference_graph(before, during));
    let alone =
        if changed.is_none() { during.and_then(|during| formats::flame_graph(during, false)) } else { None };
    let on_cpu = during.and_then(|during| formats::flame_graph(during, true));
    html! {
        @if changed.is_some() || alone.is_some() {
            section.card.stacks {
                h2 { "What the threads did" }
                @if let Some(changed) = &changed {
                    p.quiet {
                        "The stacks of the stall: red is more than in the baseline before, blue is less."
                    }
                    div.picture { (PreEscaped(changed)) }
                }
                @if let Some(alone) = &alone {
                    p.quiet { "The stacks of the stall. There are none from before it to compare with." }
                    div.picture { (PreEscaped(alone)) }
                }
                @if let Some(on_cpu) = &on_cpu {
                    h3 { "Where the CPU went" }
                    div.picture { (PreEscaped(on_cpu)) }
                }
            }
        }
    }
}

fn statements(incident: &Incident) -> Markup {
    let text = &incident.statements;
    let has = |pick: fn(&statements::Load) -> Option<f64>| {
        text.rows.iter().any(|row| pick(&row.during).or(pick(&row.before)).is_some())
    };
    let columns = [
        ("at once", has(|load| load.at_once)),
        ("ended", has(|load| load.ended_per_s)),
        ("mean time", has(|load| load.mean_ms)),
    ];
    html! {
        @if !text.rows.is_empty() {
            section.card {
                h2 { "What ran" }
                table.wide.statements {
                    thead {
                        tr {
                            th { "statement" }
                            @for (title, is_there) in columns { @if is_there { th { (title) } } }
                        }
                    }
                    tbody {
                        @for row in &text.rows {
                            @let (before, during) = (load_text(&row.before), load_text(&row.during));
                            tr {
                                td { code { (breakable(&row.text)) } }
                                @for (at, (title, is_there)) in columns.iter().enumerate() {
                                    @if *is_there {
                                        td.number data-label=(format!("{title} ")) {
                                            strong { @if during[at].is_empty() { "–" } @else { (during[at]) } }
                                            @if !before[at].is_empty() { div.quiet { "before " (before[at]) } }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                p.quiet {
                    @if !text.at_once_by.is_empty() { "At once: how many threads were in it, on average, by " (text.at_once_by) ". " }
                    @if let Some(over) = text.digests_over {
                        "Ended and mean time: by the server's digests between " (time(over.from)) " and " (time(over.to))
                        ", the readings around it; a statement that hangs is counted when it ends."
                    }
                }
            }
        }
    }
}

/// Statements of one comparison that the page shows.
const CHANGES_SHOWN: usize = 12;

/// The statements that changed, against each earlier time that there is.
fn changes(incident: &Incident) -> Markup {
    html! {
        @for compared in &incident.changes {
            section.card {
                h2 {
                    (first_letter_large(&changes_words(compared)))
                    @if let Some(earlier) = earlier(compared) {
                        " (from " time datetime=(earlier.from) { (day_and_time(earlier.from)) }
                        ", " (number::duration(earlier.seconds())) ")"
                    }
                }
                @let changed: Vec<_> = compared.changed().take(CHANGES_SHOWN).collect();
                @if changed.is_empty() {
                    p.quiet { (nothing_changed(compared)) }
                } @else {
                    table.wide.statements {
                        thead { tr { th { "statement" } th { "what changed" } } }
                        tbody {
                            @for change in changed {
                                tr {
                                    td { code { (breakable(&change.statement)) } }
                                    td { (in_few_words(change)) }
                                }
                            }
                        }
                    }
                    p.quiet {
                        "As " code { "spindoctor workload --diff" } " compares two times: beyond " (TIMES) " times in time or calls, or "
                        (ROWS) " times in rows read, and beyond chance."
                     }
                }
            }
        }
    }
}

/// A title from words that stand within a sentence elsewhere.
fn first_letter_large(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn settings(incident: &Incident) -> Markup {
    let text = &incident.settings;
    html! {
        section.card {
            h2 { "Settings" }
            @match text.known_since {
                None => p.quiet { "No settings were recorded." },
                Some(since) if text.changes.is_empty() => {
                    p { "No setting changed from " (day_and_time(since)) " to the end of this." }
                }
                Some(since) => {
                    h3 { "What changed" }
                    table.wide.changes {
                        thead { tr { th { "setting" } th { "from" } th { "to" } th { "seen" } } }
                        tbody {
                            @for change in &text.changes {
                                tr {
                                    td { code { (narrow(&change.name)) } }
                                    td { (value(change.from.as_deref())) }
                                    td { strong { (value(change.to.as_deref())) } }
                                    td {
                                        time datetime=(change.at) { (day_and_time(change.at)) }
                                        div.quiet { (when(change.at, incident.scope.stall)) }
                                    }
                                }
                            }
                        }
                    }
                    @if text.not_listed > 0 { p.quiet { (text.not_listed) " earlier changes are not listed." } }
                    p.quiet { "Settings are recorded since " (day_and_time(since)) "." }
                }
            }
            @if !text.shown.is_empty() {
                h3 { "As it found them" }
                dl.settings {
                    @for (name, is) in &text.shown { div { dt { code { (narrow(name)) } } dd { (value(Some(is))) } } }
                }
                p.quiet { "Of " (number::counted(text.count as u64, "setting", "settings")) "; " code { "spindoctor export" } " has them all." }
            }
        }
    }
}

/// Values of this many characters are cut: lists of modes and of optimizer switches.
const VALUE_SHOWN: usize = 160;

fn value(value: Option<&str>) -> Markup {
    html! {
        @match value {
            None => span.quiet { "none" },
            Some("") => span.quiet { "empty" },
            Some(value) if value.chars().count() > VALUE_SHOWN => {
                (narrow(&value.chars().take(VALUE_SHOWN).collect::<String>())) "…"
            }
            Some(value) => (narrow(value)),
        }
    }
}

/// `32 s before`, `while it lasted`
fn when(at: jiff::Timestamp, stall: Span) -> String {
    match stall.offset_s(at) {
        before if before < 0.0 => format!("{} before", number::duration(-before.round())),
        _ => "while it lasted".to_owned(),
    }
}

fn missing(incident: &Incident) -> Markup {
    html! {
        @if !incident.gaps.is_empty() {
            section.card {
                h2 { "Gaps" }
                table.wide {
                    thead { tr { th { "from" } th { "to" } th { "what happened" } } }
                    tbody {
                        @for gap in &incident.gaps {
                            tr {
                                td { (day_and_time(gap.from)) }
                                td { @if let Some(to) = gap.to { (day_and_time(to)) } @else { "it goes on" } }
                                td { (breakable(&gap.because)) }
                            }
                        }
                    }
                }
            }
        }
        @if !incident.unrecorded.is_empty() {
            section.card {
                h2 { "What was not recorded" }
                table.wide.missing {
                    thead { tr { th { "source" } th { "because" } th { "what would enable it" } } }
                    tbody {
                        @for one in &incident.unrecorded {
                            tr {
                                td { (narrow(&one.sources.join(", "))) }
                                td { (breakable(&one.because)) }
                                td { (breakable(&one.unlock)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::common::browser;
    use crate::incident::changes::{Against, Compared};
    use crate::incident::examples;
    use spindoctor_statements::Span as Statements;

    #[test]
    fn no_width_cuts_the_page_or_breaks_its_words() {
        let pages = [("pile-up", render(&examples::pileup())), ("stretch", render(&examples::stretch()))];
        assert_eq!(browser::faults(&pages), "");
    }

    #[test]
    fn the_date_in_a_heading_is_one_word() {
        let mut incident = examples::pileup();
        let before =
            Statements { start: Some(examples::at(-3_600.0)), seconds: 3_600.0, ..Statements::default() };
        let after = Statements { start: Some(examples::at(0.0)), seconds: 3_600.0, ..Statements::default() };
        let changes = spindoctor_statements::changes(&before, &after);
        incident.changes = vec![Compared { against: Against::WeekAgo, before, after, changes }];
        let page = render(&incident);
        let heading = "<h2>Statements that changed, against the same time a week ago (from <time \
                       datetime=\"2026-07-01T08:30:00Z\">2026-07-01 08:30:00 UTC</time>, ";
        assert!(page.contains(heading), "{page}");
        assert!(OWN_STYLE.contains(".incident h2 time, .incident .facts time { white-space: nowrap; }"));
        assert_eq!(browser::faults(&[("changes", page)]), "");
    }

    #[test]
    fn every_part_of_an_incident_is_on_the_page() {
        let page = render(&examples::pileup()).replace("<wbr>", "");
        for part in [
            "<title>db17: Commits stopped for 3.1 s</title>",
            "no commit for 1.1 s while 212 threads run",
            "First cause: ",
            "time to answer",
            "Over time",
            "<polyline",
            "id=\"finding-1\"",
            "KILL 12",
            "Who blocked whom at the worst moment",
            "What the threads did",
            "red is more than in the baseline",
            "What ran",
            "SELECT `c` FROM `sbtest1`",
            "max_connections",
            "32 s before",
            "innodb_redo_log_capacity",
            "performance_schema = ON",
            "recorded by spindoctor 0.1.0",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(!page.contains("gtid_executed"), "values that change by themselves are not changes");
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }

    #[test]
    fn the_page_asks_for_nothing_from_anywhere_and_obeys_no_hostile_string() {
        for incident in [examples::pileup(), examples::calm(), examples::stretch(), examples::hostile()] {
            let page = render(&incident);
            for forbidden in ["<script", "<link", "<img", "url(", "@import", "@font-face"] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
            // The words may stand in a statement's text; in a tag they may not.
            let tags = page.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
            for (tag, _) in tags {
                assert!(!tag.contains(" src=") && !tag.contains(" onload="), "<{tag}>");
            }
            assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
            assert_eq!(page.matches("</html>").count(), 1);
        }
    }

    #[test]
    fn a_stretch_lists_its_events_and_names_its_gaps() {
        let page = render(&examples::stretch());
        for part in [
            "2 events in 2 min 15 s",
            "reported here",
            "Commits wait 580 ms for fsync",
            "Gaps",
            "the server was restarted",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn a_calm_stretch_has_its_page() {
        let page = render(&examples::calm());
        assert!(page.contains("20 s without an event") && page.contains("saw no stall"), "{page}");
        assert!(!page.contains("Who blocked whom"));
    }

    #[test]
    fn every_link_leads_to_one_place() {
        let page = render(&examples::pileup());
        for link in page.split("href=\"#").skip(1) {
            let (place, _) = link.split_once('"').unwrap();
            assert_eq!(page.matches(&format!(" id=\"{place}\"")).count(), 1, "{place}");
        }
    }
}

//! The report as one HTML file.

use maud::{Markup, PreEscaped, html};

use spindoctor_model::diagnosis::DiagnosedHost;

use spindoctor_model::{Diagnosis, Evidence, Finding, Profile, Remedy, Root, Severity, Value};

use super::captured::{NO_PROOF, described};
use super::view::{
    NotExaminedTogether, WITHOUT_ACCOUNT, explained_here, findings_counted, latches_text,
    not_examined_together, proof, root_named, seen_s, stacks_text, undo,
};
use crate::common::local_time::beside;
use crate::common::session_time;
use crate::common::words::{
    cost_text, from_what_was_given, interruption_text, server_named, server_place, severity_word,
};
use crate::locks::html;
use crate::locks::waits::Locks;
use spindoctor_page::html::{breakable, linked, narrow, page};
use spindoctor_page::safe::safe;
use spindoctor_page::{chart, number};
use spindoctor_profile::formats;

/// The diagnosis as a page, with pictures of who blocked whom and of the profile that was taken for it.
pub fn render(diagnosis: &Diagnosis, profile: Option<&Profile>, waits: Option<&Locks>) -> String {
    let title = match diagnosis.given.is_empty() {
        true => format!("{} on {}", server_named(&diagnosis.server), safe(server_place(&diagnosis.server))),
        false => from_what_was_given(&diagnosis.server),
    };
    let body = html! {
        main {
            (head(diagnosis, &title))
            (verdict(diagnosis))
            @if let Some(time) = &diagnosis.time { (session_time::section(time)) }
            @for (at, found) in diagnosis.findings.iter().enumerate() {
                (finding(at + 1, found, &explained_here(found, diagnosis)))
            }
            @if let Some(waits) = waits { (html::section(waits)) }
            @if let Some(profile) = profile { (pictures(diagnosis, profile)) }
            (host(&diagnosis.host))
            (examined(diagnosis))
            footer {
                // What was given cost no server anything.
                @if diagnosis.given.is_empty() { p { "Cost of this examination: " (cost_text(&diagnosis.cost)) "." } }
                p { "spindoctor " (env!("CARGO_PKG_VERSION")) ", " (diagnosis.schema) }
            }
        }
    };
    page(&format!("{title}: {}", findings_counted(diagnosis)), "", &body)
}

fn head(diagnosis: &Diagnosis, title: &str) -> Markup {
    let server = &diagnosis.server;
    if !diagnosis.given.is_empty() {
        return html! {
            h1 { (title) }
            ul.facts {
                @for document in &diagnosis.given {
                    li { (breakable(&described(document))) @for said in &document.says { "; " (breakable(said)) } }
                }
            }
        };
    }
    html! {
        h1 { (title) }
        ul.facts {
            @if !server.address.is_empty() { li { (breakable(&server.address)) } }
            @if let Some(pid) = server.pid { li { "pid " (pid) } }
            @if let Some(uptime) = server.uptime_s { li { "up " (number::quantity(uptime as f64, "s")) } }
            @if let Some(threads) = server.threads { li { (number::counted(threads, "thread", "threads")) } }
            li {
                "watched for " (number::tenths(diagnosis.window.seconds)) " from "
                time datetime=(diagnosis.window.start) { (diagnosis.window.start.strftime("%Y-%m-%d %H:%M:%S UTC")) }
                (beside(diagnosis.window.start))
            }
        }
    }
}

fn verdict(diagnosis: &Diagnosis) -> Markup {
    let counted = findings_counted(diagnosis);
    html! {
        section.card.verdict {
            @if let Some(interrupted) = &diagnosis.interrupted {
                p.interrupted { strong { (breakable(&interruption_text(interrupted, diagnosis.window.seconds))) } }
            }
            @if diagnosis.findings.is_empty() {
                @if diagnosis.clear.is_empty() {
                    h2 { "No cause could be checked" }
                    p { "So nothing is known about this server." }
                } @else if !diagnosis.given.is_empty() {
                    h2 { (NO_PROOF) }
                    p.quiet {
                        (number::counted(diagnosis.clear.len() as u64, "cause was", "causes were")) " checked and not seen in it."
                    }
                } @else if diagnosis.interrupted.is_some() {
                    h2 { "Nothing found until then; what came after was not seen" }
                    p.quiet {
                        (number::counted(diagnosis.clear.len() as u64, "cause was", "causes were"))
                        " checked over " (number::tenths(seen_s(diagnosis))) ", none present."
                    }
                } @else if diagnosis.time.is_none() {
                    h2 { (WITHOUT_ACCOUNT) }
                } @else {
                    h2.good { "Nothing found that costs this server time now" }
                    p.quiet {
                        (number::counted(diagnosis.clear.len() as u64, "cause was", "causes were"))
                        " checked, none present."
                    }
                }
            } @else {
                h2 { (counted) }
                ol {
                    @for (at, finding) in diagnosis.findings.iter().enumerate() {
                        li.(severity_class(finding.severity)) {
                            span.severity { (severity_word(finding.severity)) }
                            a href=(format!("#finding-{}", at + 1)) { (breakable(&finding.headline)) }
                        }
                    }
                }
            }
        }
    }
}

/// One finding in the order of a person who has to act: what is wrong, which thread blocks the others, what to do with its risk
/// and undo, why, and last what it rests on.
pub fn finding(rank: usize, finding: &Finding, explained: &[&str]) -> Markup {
    let charts: Vec<Markup> = finding
        .evidence
        .iter()
        .filter_map(|evidence| chart::line(&evidence.reading, &evidence.unit, &evidence.series))
        .collect();
    html! {
        section.card.finding.(severity_class(finding.severity)) id=(format!("finding-{rank}")) {
            header {
                span.severity { (severity_word(finding.severity)) }
                code { (breakable(&finding.cause)) }
                @if let Some(loss) = finding.estimated_loss() {
                    span.lost { "about " (number::percent(loss)) " lost" }
                }
            }
            h2 { (breakable(&finding.headline)) }
            (acts(finding, usize::MAX))
            @if let Some(command) = proof(finding) {
                div.remedy { dl { dt { "prove" } dd { code { (breakable(&command)) } } } }
            }
            @if !finding.why.is_empty() {
                h3 { "Why" }
                p { (breakable(&finding.why)) }
            }
            @if !explained.is_empty() {
                h3 { "Explains" }
                p { (causes(explained.iter().copied())) }
            }
            @if !finding.evidence.is_empty() {
                h3 { "Evidence" }
                table.wide.evidence {
                    thead { tr { th { "reading" } th { "value" } th { "expected" } th { "source" } } }
                    tbody { @for evidence in &finding.evidence { (evidence_row(evidence)) } }
                }
            }
            @if !charts.is_empty() {
                div.charts { @for chart in charts { (chart) } }
            }
            @if let Some(root) = &finding.root { (stack(root)) }
            @if !finding.references.is_empty() {
                h3 { "References" }
                ul.references { @for reference in &finding.references { li { (linked(reference)) } } }
            }
        }
    }
}

/// Which thread blocks the others, and what to do: at most so many remedies.
pub fn acts(finding: &Finding, most: usize) -> Markup {
    html! {
        @if let Some(root) = &finding.root { (root_box(root)) }
        @if !finding.remedies.is_empty() {
            h3 { "What to do" }
            @for remedy in finding.remedies.iter().take(most) { (remedy_block(remedy)) }
        }
    }
}

fn evidence_row(evidence: &Evidence) -> Markup {
    html! {
        tr {
            td { (narrow(&evidence.reading)) }
            @if matches!(evidence.value, Value::Text(_)) && evidence.expected.is_empty() {
                td.value.text colspan="2" { (narrow(&number::value(&evidence.value, &evidence.unit))) }
            } @else {
                td.value.text[matches!(evidence.value, Value::Text(_))] { (narrow(&number::value(&evidence.value, &evidence.unit))) }
                td.expected { (narrow(&number::expected(&evidence.expected, &evidence.unit))) }
            }
            td.source { (narrow(&evidence.source)) }
        }
    }
}

fn root_box(root: &Root) -> Markup {
    html! {
        aside.root {
            h3 { "The thread that blocks the others" }
            dl {
                dt { "thread" } dd { strong { (breakable(&root_named(root))) } }
                @if !root.statement.is_empty() {
                    dt { "statement" } dd { code { (breakable(&root.statement)) } }
                }
            }
        }
    }
}

/// The call stack of the thread that blocks the others.
fn stack(root: &Root) -> Markup {
    html! {
        @if !root.stack.is_empty() {
            h3 { "Stack of the thread that blocks the others" }
            ol.frames { @for frame in &root.stack { li { code { (breakable(frame)) } } } }
        }
    }
}

/// A remedy: what to run, why it helps, what could go wrong, and how to take it back.
fn remedy_block(remedy: &Remedy) -> Markup {
    html! {
        div.remedy {
            code.statement { (breakable(&remedy.statement)) }
            dl {
                @if !remedy.why.is_empty() { dt { "why" } dd { (breakable(&remedy.why)) } }
                @if !remedy.risk.is_empty() { dt { "risk" } dd { (breakable(&remedy.risk)) } }
                @if !remedy.dynamic { dt { "note" } dd { "needs a restart" } }
                @if let Some(undo) = undo(remedy) {
                    dt { "undo" }
                    dd { @if remedy.undo.is_empty() { (undo) } @else { code { (breakable(undo)) } } }
                }
            }
        }
    }
}

/// Flame graphs: where the CPU went, and what every thread did.
fn pictures(diagnosis: &Diagnosis, profile: &Profile) -> Markup {
    let graphs = [("Where the CPU went", true), ("What the threads did", false)]
        .map(|(title, on_cpu)| (title, formats::flame_graph(profile, on_cpu)));
    html! {
        @if graphs.iter().any(|(_, graph)| graph.is_some()) {
            section.card.stacks {
                h2 { "Stacks" }
                @if let Some(text) = stacks_text(diagnosis) { p.quiet { (text) "." } }
                @if let Some(text) = latches_text(profile) { p.quiet { "Latches: " (breakable(&text)) "." } }
                @for (title, graph) in &graphs {
                    @if let Some(graph) = graph {
                        h3 { (title) }
                        div.picture { (PreEscaped(graph)) }
                    }
                }
            }
        }
    }
}

/// The host's CPUs as bars, and what else is known of it.
pub fn host(host: &DiagnosedHost) -> Markup {
    let cpus = [
        ("the server counts", host.server_believes_cpus.map(f64::from), ""),
        ("the kernel grants", host.effective_cpus, "granted"),
        ("online", host.online_cpus.map(f64::from), ""),
    ];
    let most = cpus.iter().filter_map(|(_, cpus, _)| *cpus).fold(0.0, f64::max);
    html! {
        section.card.host {
            h2 { "The host" }
            @if let Some(because) = &host.unavailable { p.quiet { "Not read: " (breakable(because)) } }
            @if most > 0.0 {
                div.bars {
                    @for (label, cpus, class) in cpus {
                        @if let Some(cpus) = cpus {
                            div.row.(class) {
                                span.quiet { (label) }
                                div.track { div.fill style=(format!("width:{:.1}%", cpus / most * 100.0)) {} }
                                span.amount { (number::quantity(cpus, "CPUs")) }
                            }
                        }
                    }
                }
            }
            dl {
                @if let Some(quota) = &host.quota {
                    dt { "quota" }
                    dd {
                        (number::quantity(quota.quota_us as f64, "us")) " of CPU every "
                        (number::quantity(quota.period_us as f64, "us")) ", set by " code { (breakable(&quota.cgroup)) }
                    }
                }
                @if let Some(cpu) = &host.cpu { dt { "CPU" } dd { (breakable(cpu)) } }
                @if let Some(pause) = host.pause_latency_ns {
                    dt { "PAUSE" }
                    dd {
                        (number::quantity(pause, "ns"))
                        @if let Some(cycles) = host.pause_latency_cycles { ", " (number::quantity(cycles, "cycles")) }
                    }
                }
                @if let Some(nodes) = host.numa_nodes { dt { "NUMA nodes" } dd { (nodes) } }
            }
        }
    }
}

/// What could not be examined, and what is clear.
pub fn examined(diagnosis: &Diagnosis) -> Markup {
    html! {
        @if !diagnosis.not_examined.is_empty() {
            section.card {
                h2 { "Not checked" }
                table.wide.missing {
                    thead { tr { th { "cause" } th { "because" } th { "what would enable it" } } }
                    tbody { @for missing in not_examined_together(&diagnosis.not_examined) { (not_examined_row(&missing)) } }
                }
            }
        }
        @if !diagnosis.clear.is_empty() {
            section.card {
                h2 { "Checked, not present" }
                ul.causes { @for cause in &diagnosis.clear { li { code { (breakable(cause)) } } } }
            }
        }
    }
}

fn not_examined_row(missing: &NotExaminedTogether<'_>) -> Markup {
    html! {
        tr {
            td { (causes(missing.causes.iter().copied())) }
            td { (breakable(missing.because)) }
            td { (breakable(missing.unlock)) }
        }
    }
}

/// Names of causes, one after the other.
fn causes<'a>(names: impl Iterator<Item = &'a str>) -> Markup {
    html! {
        @for (at, name) in names.enumerate() {
            @if at > 0 { ", " }
            code { (breakable(name)) }
        }
    }
}

/// The class that gives a severity its colour.
pub fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::common::browser;
    use crate::doctor::examples;
    use spindoctor_profile::examples as stacks_examples;

    /// A page without the places where its names may be broken.
    fn whole(page: &str) -> String {
        page.replace("<wbr>", "")
    }

    /// A diagnosis whose remedy has a name that is longer than a telephone's line.
    fn with_a_long_name() -> Diagnosis {
        let mut diagnosis = examples::suffering();
        diagnosis.findings[0].remedies.push(Remedy {
            statement: "SELECT MEMBER_HOST, MEMBER_STATE FROM performance_schema.replication_group_members"
                .into(),
            why: "It names those that performance_schema.replication_group_member_stats has queues of."
                .into(),
            ..Remedy::default()
        });
        diagnosis
    }

    #[test]
    fn no_width_cuts_the_page_or_breaks_its_words() {
        let suffering = render(&with_a_long_name(), Some(&stacks_examples::busy()), None);
        let pages = [("suffering", suffering), ("silent", render(&examples::silent(), None, None))];
        assert_eq!(browser::faults(&pages), "");
    }

    #[test]
    fn a_finding_that_does_not_fit_on_the_first_sheet_of_paper_begins_there() {
        let page = render(&examples::suffering(), Some(&stacks_examples::busy()), None);
        if let Some(filled) = browser::filled_of_first_sheet(&page) {
            assert!(filled > 0.75, "text down to {filled:.2} of the sheet");
        }
    }

    #[test]
    fn a_long_name_of_a_statement_may_be_broken_behind_its_signs() {
        let page = render(&with_a_long_name(), None, None);
        assert!(
            page.contains("FROM performance_<wbr>schema.<wbr>replication_<wbr>group_<wbr>members</code>"),
            "{page}"
        );
    }

    #[test]
    fn the_page_asks_for_nothing_from_anywhere() {
        let page = render(&examples::suffering(), Some(&stacks_examples::busy()), None);
        for forbidden in ["<script", "<link", "<img", "src=", "url(", "@import", "@font-face"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn what_was_given_is_no_place_and_cost_no_server_anything() {
        let document =
            spindoctor_model::diagnosis::GivenDocument { file: "list".to_owned(), ..Default::default() };
        let page = render(&Diagnosis { given: vec![document], ..examples::suffering() }, None, None);
        assert!(page.contains(", from what was given</h1>"), "{page}");
        assert!(!page.contains("Cost of this examination"), "{page}");
        assert!(render(&examples::suffering(), None, None).contains("Cost of this examination"));
    }

    #[test]
    fn a_server_that_was_lost_in_the_middle_is_not_shown_to_be_well() {
        let page = render(&examples::interrupted(), None, None);
        assert!(page.contains("interrupted after 4.1 s of 10 s: the server's process ended"), "{page}");
        assert!(!page.contains("Nothing found that costs this server time now"));
    }

    #[test]
    fn every_part_of_a_diagnosis_is_on_the_page() {
        let page = whole(&render(&examples::suffering(), Some(&stacks_examples::busy()), None));
        for part in [
            "of 1250 CPU samples 74 % were spinning: commits 68 %, redo log threads 6 %.",
            "What the threads did",
            "<svg",
            "<title>MySQL 9.7.4 on db17: 3 findings</title>",
            "13 min 32 s",
            "2026-07-01 09:30:00 UTC",
            "Commits burn 21 % of the CPU spinning",
            "about 21 % lost",
            "&lt; 2 %",
            r#"<code class="statement">SET GLOBAL innodb_log_spin_cpu_pct_hwm = 8</code>"#,
            "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 50",
            "needs a restart",
            r#"<a href="https://dev.mysql.com/doc/refman/8.4/en/innodb-performance-log-spin.html""#,
            "connection 12, thread 4351, user app",
            "my_net_read_packet",
            "/kubepods/burstable/pod7/mysql",
            "10.9 ns, 39 cycles",
            "set performance_schema=ON in my.cnf and restart",
            "44 queries",
            "<polyline",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn hostile_strings_are_shown_and_not_obeyed() {
        let page = render(&examples::hostile(), Some(&stacks_examples::hostile()), None);
        assert!(!page.contains("<script"));
        assert!(!page.contains("<img"));
        assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        assert!(whole(&page).contains("db&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(page.contains("adm\\u{202e}nimda"));
    }

    #[test]
    fn a_healthy_and_a_silent_server_have_their_pages() {
        assert!(
            render(&examples::healthy(), None, None)
                .contains("Nothing found that costs this server time now")
        );
        let silent = render(&examples::silent(), None, None);
        assert!(silent.contains("A server that does not answer on db17:3306"));
        assert!(silent.contains("Not read: the server runs on another host"));
    }
}

//! One screen for the owner of the fleet: the servers in trouble and what it costs them, then servers with odd
//! settings, then spin settings that do not fit, then what was not checked. Lists are bounded; JSON has all of it.

use anstyle::{AnsiColor, Style};
use spindoctor_fleet::peers::Odd;
use spindoctor_model::{Finding, Severity};
use unicode_width::UnicodeWidthStr as _;

use super::report::Report;
use super::view::{FleetDiagnosis, Trouble};
use crate::common::words::severity_word;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened};

/// Causes that are shown.
const CAUSES_SHOWN: usize = 8;
/// Servers of one cause whose finding is shown; the others are shown by name.
const FINDINGS_SHOWN: usize = 3;
/// Servers that are named after each other.
const NAMED: usize = 8;
/// Settings with odd values that are shown.
const ODD_SHOWN: usize = 10;
/// A server that is odd in so many settings is shown once, and not with each of them: it was set up in another way.
const STRANGER: usize = 10;
/// Reasons for causes that were not checked that are shown.
const REASONS_SHOWN: usize = 4;
/// Columns of a value of a setting.
const VALUE: usize = 40;
/// Names of settings stand in a column of at most this.
const WIDEST_SETTING: usize = 36;
/// Names of servers stand in a column of at most this.
const WIDEST_NAME: usize = 28;
/// The column of labels where all have a line of their own.
const LEAST_LABEL: usize = 6;
/// Where a body begins.
const INDENT: &str = "    ";

/// The diagnosis as text.
pub fn render(text: &Report<'_>, look: Look) -> String {
    let mut page = Page::new(look);
    let fleet = text.diagnosis;
    head(&mut page, text);
    for trouble in fleet.troubles.iter().take(CAUSES_SHOWN) {
        page.blank();
        of_trouble(&mut page, trouble, text.names);
    }
    let more = fleet.troubles.len().saturating_sub(CAUSES_SHOWN);
    if more > 0 {
        page.blank();
        page.paragraph(
            "",
            &format!("and {}; --json has them", counted(more, "other cause", "other causes")),
            QUIET,
        );
    }
    if fleet.troubles.is_empty() && fleet.judged > 0 {
        page.blank();
        page.paragraph(
            "",
            "Nothing found that costs these servers time now.",
            AnsiColor::Green.on_default().bold(),
        );
    }
    odd_ones(&mut page, fleet, text.names);
    cpus(&mut page, fleet);
    misfits(&mut page, fleet, text.names);
    page.blank();
    unexamined(&mut page, fleet);
    let cost = format!(
        "cost: {}, answered in {}, read only",
        number::counted(fleet.queries, "query", "queries"),
        number::quantity(fleet.busy_ms.ceil(), "ms"),
    );
    page.paragraph("", &cost, QUIET);
    page.finish()
}

fn head(page: &mut Page, text: &Report<'_>) {
    let fleet = text.diagnosis;
    let left = format!(
        "{} of {} sampled twice, {} apart, in {}",
        number::plain(fleet.judged as f64),
        counted(text.names.len(), "server", "servers"),
        number::duration(text.interval_s),
        number::duration(text.took_s),
    );
    let troubled = match fleet.in_trouble() {
        0 => "none in trouble".to_owned(),
        some => format!("{} in trouble", number::plain(some as f64)),
    };
    let right = match fleet.noted() {
        0 => troubled,
        1 => format!("{troubled}, 1 with a note"),
        some => format!("{troubled}, {} with notes", number::plain(some as f64)),
    };
    page.line_with_right(&left, &right, STRONG, STRONG);
}

fn of_trouble(page: &mut Page, trouble: &Trouble, names: &[String]) {
    let lead = format!("{:<8}  ", severity_word(trouble.severity()));
    let servers = counted(trouble.found.len(), "server", "servers");
    let who = match trouble.found.len() {
        _ if trouble.severity() == Severity::Note => servers,
        1 => format!("{servers} loses {}", number::percent(trouble.worst())),
        _ => format!("{servers} lose up to {}", number::percent(trouble.worst())),
    };
    let title = spindoctor_rules::find(&trouble.cause).map_or("", |cause| cause.title);
    page.headline(&lead, accent(trouble.severity()), &format!("{who}: {title}"), &safe(&trouble.cause));
    let (text, named) = trouble.found.split_at(trouble.found.len().min(FINDINGS_SHOWN));
    let widths = text.iter().map(|(server, _)| safe(&names[*server]).width());
    let column = column(page, widths, WIDEST_NAME);
    for (server, finding) in text {
        page.field(&safe(&names[*server]), &safe(&sentence(finding)), column);
        if let Some(remedy) = finding.remedies.first() {
            page.field("", &format!("do: {}", safe(&remedy.statement)), column);
        }
    }
    if !named.is_empty() {
        let servers = named.iter().take(NAMED).map(|(server, finding)| {
            format!("{} {}", safe(&names[*server]), lost(finding)).trim_end().to_owned()
        });
        let text = and_others(&servers.collect::<Vec<_>>(), named.len());
        page.hanging(INDENT, "  ", &format!("also {text}"), PLAIN);
    }
}

/// The column of labels as wide as these, which leaves half of the page to what stands behind them. One that is too wide
/// for it does not count: it has a line of its own.
fn column(page: &Page, widths: impl Iterator<Item = usize>, widest: usize) -> usize {
    let room = widest.min(page.look.width / 2);
    widths.filter(|width| *width <= room).max().unwrap_or(LEAST_LABEL) + 2
}

/// What it costs this server, in a column as wide as the most of it, and what was found.
fn sentence(finding: &Finding) -> String {
    format!("{:>5}  {}", lost(finding), finding.headline)
}

/// What a server loses; empty where that is not estimated.
fn lost(finding: &Finding) -> String {
    finding.estimated_loss().map_or_else(String::new, number::percent)
}

fn odd_ones(page: &mut Page, fleet: &FleetDiagnosis, names: &[String]) {
    let strangers = fleet.settings.strangers(STRANGER);
    let is_stranger = |server: usize| strangers.iter().any(|(stranger, _)| *stranger == server);
    let odd: Vec<&Odd> = fleet.settings.odd.iter().filter(|odd| !odd.servers().all(is_stranger)).collect();
    let several = fleet.versions.len() > 1;
    if odd.is_empty() && strangers.is_empty() && !several {
        return;
    }
    page.blank();
    page.paragraph("", "odd ones out", STRONG);
    let titles: Vec<String> = odd.iter().take(ODD_SHOWN).map(|odd| safe(&odd.setting)).collect();
    let widths = titles.iter().map(|title| title.width()).chain(["version".len()]);
    let column = column(page, widths, WIDEST_SETTING);
    if several {
        page.field("version", &versions(fleet, names), column);
    }
    if !strangers.is_empty() {
        let some = strangers.iter().take(NAMED);
        let some = some.map(|(server, settings)| format!("{} in {settings} settings", safe(&names[*server])));
        page.field("much", &and_others(&some.collect::<Vec<_>>(), strangers.len()), column);
    }
    for (odd, title) in odd.iter().take(ODD_SHOWN).zip(&titles) {
        page.field(title, &odd_text(odd, names, &is_stranger), column);
    }
    let more = odd.len().saturating_sub(ODD_SHOWN);
    if more > 0 {
        let text = format!("and {}; --json has them", counted(more, "other setting", "other settings"));
        page.paragraph(INDENT, &text, QUIET);
    }
}

/// `997 of 1,000 MySQL 8.0: 1; db17:3306, db3:3306: 0`
fn odd_text(odd: &Odd, names: &[String], is_stranger: &impl Fn(usize) -> bool) -> String {
    let mut text = format!(
        "{} of {} {}: {}",
        number::plain(odd.norm_servers as f64),
        number::plain(odd.of as f64),
        safe(&odd.peers),
        value(&odd.norm),
    );
    for (other, servers) in &odd.others {
        let servers: Vec<usize> = servers.iter().copied().filter(|server| !is_stranger(*server)).collect();
        if !servers.is_empty() {
            text.push_str(&format!("; {}: {}", named(&servers, names), value(other)));
        }
    }
    text
}

/// `997 MySQL 8.0.36; MySQL 8.0.35: db17:3306`
fn versions(fleet: &FleetDiagnosis, names: &[String]) -> String {
    let text = fleet.versions.iter().enumerate().map(|(at, (version, servers))| {
        let count = format!("{} {}", number::plain(servers.len() as f64), safe(version));
        // The most frequent version's servers are what all others differ from.
        if at == 0 { count } else { format!("{count}: {}", named(servers, names)) }
    });
    text.collect::<Vec<_>>().join("; ")
}

/// `Intel(R) Xeon(R) Silver 4110, PAUSE 66 ns: 200 servers, 3 with spin settings that do not fit it`
fn cpus(page: &mut Page, fleet: &FleetDiagnosis) {
    if fleet.cpus.is_empty() {
        return;
    }
    page.blank();
    page.paragraph("", "CPUs", STRONG);
    for group in fleet.cpus.iter().take(ODD_SHOWN) {
        let cpu = if group.cpu.is_empty() { "CPU without a name".to_owned() } else { safe(&group.cpu) };
        let misfits = match group.misfits.len() {
            0 => String::new(),
            some => format!(", {} with spin settings that do not fit it", number::plain(some as f64)),
        };
        let servers = counted(group.servers.len(), "server", "servers");
        let pause = number::quantity(group.pause_ns, "ns");
        page.hanging(INDENT, "  ", &format!("{cpu}, PAUSE {pause}: {servers}{misfits}"), PLAIN);
    }
    let more = fleet.cpus.len().saturating_sub(ODD_SHOWN);
    if more > 0 {
        page.paragraph(INDENT, &format!("and {}; --json has them", counted(more, "other", "others")), QUIET);
    }
}

fn misfits(page: &mut Page, fleet: &FleetDiagnosis, names: &[String]) {
    if fleet.misfits.is_empty() {
        return;
    }
    page.blank();
    page.paragraph("", "spin settings that do not fit", STRONG);
    for (misfit, servers) in fleet.misfits.iter().take(ODD_SHOWN) {
        let text = format!(
            "{} = {}, {} fits: {} ({})",
            misfit.variable,
            safe(&misfit.value),
            misfit.fits,
            named(servers, names),
            misfit.why,
        );
        page.hanging(INDENT, "  ", &text, PLAIN);
    }
    let more = fleet.misfits.len().saturating_sub(ODD_SHOWN);
    if more > 0 {
        page.paragraph(INDENT, &format!("and {}; --json has them", counted(more, "other", "others")), QUIET);
    }
}

fn unexamined(page: &mut Page, fleet: &FleetDiagnosis) {
    for missing in fleet.unexamined.iter().take(REASONS_SHOWN) {
        let unlock = match missing.unlock.as_str() {
            "" => String::new(),
            unlock => format!("; to enable: {}", safe(unlock)),
        };
        let text = format!(
            "not checked on {}: {}: {}{unlock}",
            counted(missing.servers.len(), "server", "servers"),
            counted(missing.causes.len(), "cause", "causes"),
            safe(&missing.because),
        );
        page.hanging("", "  ", &text, QUIET);
    }
}

fn named(servers: &[usize], names: &[String]) -> String {
    let some: Vec<String> = servers.iter().take(NAMED).map(|&server| safe(&names[server])).collect();
    and_others(&some, servers.len())
}

/// Some of so many, after each other.
fn and_others(some: &[String], of: usize) -> String {
    let more = of - some.len();
    let text = some.join(", ");
    if more > 0 { format!("{text} and {}", counted(more, "other", "others")) } else { text }
}

/// A value of a setting on one line; one without anything in it can be seen.
fn value(value: &str) -> String {
    match safe(value) {
        empty if empty.trim().is_empty() => format!("'{empty}'"),
        text => shortened(&text, VALUE),
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    number::counted(number as u64, one, many)
}

fn accent(severity: Severity) -> Style {
    match severity {
        Severity::Critical => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Note => AnsiColor::Cyan.on_default(),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_fleet::failure::Failures;
    use spindoctor_fleet::peers::Compared;

    use super::*;

    use crate::fleet::doctor::examples;

    fn rendered(diagnosis: &FleetDiagnosis, names: &[String]) -> String {
        rendered_at(100, diagnosis, names)
    }

    fn rendered_at(width: usize, diagnosis: &FleetDiagnosis, names: &[String]) -> String {
        let failures = Failures::default();
        let text =
            Report { diagnosis, names, failures: &failures, not_asked: &[], interval_s: 2.0, took_s: 2.31 };
        render(&text, Look { width, colour: false })
    }

    #[test]
    fn the_costliest_server_stands_first_and_the_odd_ones_are_named() {
        // How many causes there are changes with each that is added.
        let is_count =
            |at: usize, words: &[&str]| words.get(at + 1).is_some_and(|next| next.starts_with("causes:"));
        let text = rendered(&examples::fleet(), &examples::names());
        let words: Vec<&str> = text.split(' ').collect();
        let uncounted: Vec<&str> =
            (0..words.len()).map(|at| if is_count(at, &words) { "N" } else { words[at] }).collect();
        insta::assert_snapshot!(uncounted.join(" "));
    }

    #[test]
    fn no_line_is_wider_than_the_page_however_long_the_names_are() {
        let socket = |at| format!("/home/dba/.cache/lab/servers/{at}-mysql/mysqld.sock");
        let host = |at| format!("db{at}.production.eu-central-1.internal.example.com:3306");
        let mut fleet = examples::fleet();
        fleet.settings.odd[0].setting = "a_setting_of_a_plugin_with_a_long_name_of_its_own".to_owned();
        for names in [
            (1..=6).map(socket).collect::<Vec<_>>(),
            (1..=6).map(host).collect(),
            (1..=6).map(|at| format!("{at}{}", "x".repeat(120))).collect(),
            examples::names(),
        ] {
            for width in [50, 80, 100] {
                let text = rendered_at(width, &fleet, &names);
                for line in text.lines() {
                    assert!(line.width() <= width, "{} of {width}: {line}\n{text}", line.width());
                }
                let is_whole = names[0].width() > width - INDENT.len() || text.contains(&names[2]);
                assert!(is_whole, "a name can be copied: {text}");
            }
        }
    }

    #[test]
    fn a_fleet_without_trouble_says_so() {
        let mut fleet = examples::fleet();
        fleet.troubles.clear();
        fleet.settings = Compared::default();
        fleet.versions.truncate(1);
        let text = rendered(&fleet, &examples::names());
        assert!(text.contains("none in trouble") && text.contains("Nothing found"), "{text}");
        assert!(!text.contains("odd ones"), "{text}");
    }

    #[test]
    fn a_note_is_no_trouble_and_loses_nothing() {
        let mut fleet = examples::fleet();
        for (_, finding) in &mut fleet.troubles[0].found {
            finding.severity = Severity::Note;
        }
        let text = rendered(&fleet, &examples::names());
        assert!(text.contains("none in trouble, 3 with notes"), "{text}");
        assert!(text.contains("note      3 servers: max_connections reached"), "{text}");
        assert!(!text.contains("lose"), "{text}");
    }

    #[test]
    fn long_lists_are_cut_and_say_how_much_is_left_out() {
        let mut fleet = examples::fleet();
        let (_, finding) = fleet.troubles[0].found[1].clone();
        fleet.troubles[0].found = (0..200).map(|server| (server, finding.clone())).collect();
        let names: Vec<String> = (0..200).map(|at| format!("db{at}")).collect();
        let text = rendered(&fleet, &names);
        assert!(text.contains("200 servers lose up to 5 %"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("db10 5 % and 189 others"), "{text}");
        assert!(text.lines().count() < 40, "{text}");
    }

    #[test]
    fn a_server_that_differs_in_everything_is_shown_once() {
        let mut fleet = examples::fleet();
        let odd = fleet.settings.odd[0].clone();
        fleet.settings.odd = (0..STRANGER)
            .map(|at| Odd {
                setting: format!("setting_{at}"),
                others: vec![
                    ("x".to_owned(), vec![3]),
                    ("y".to_owned(), if at == 0 { vec![2] } else { vec![] }),
                ],
                ..odd.clone()
            })
            .collect();
        let text = rendered(&fleet, &examples::names());
        assert!(text.contains("db4:3306 in 10 settings"), "{text}");
        assert_eq!(text.matches("setting_").count(), 1, "{text}");
        assert!(text.contains("db3:3306: y") && !text.contains("db4:3306: x"), "{text}");
    }

    #[test]
    fn no_text_of_a_server_steers_the_terminal() {
        let mut fleet = examples::fleet();
        for text in [
            &mut fleet.settings.odd[0].norm,
            &mut fleet.versions[0].0,
            &mut fleet.troubles[0].found[0].1.headline,
        ] {
            text.push_str(examples::HOSTILE);
        }
        let names: Vec<String> = (0..6).map(|at| format!("db{at}{}", examples::HOSTILE)).collect();
        let text = rendered(&fleet, &names);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
        assert!(text.contains(r"\u{1b}]2;owned"), "{text}");
    }
}

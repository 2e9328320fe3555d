//! Session time by class, as a line, a bar for the terminal and a bar for a page: the same classes and colours
//! everywhere.

use anstyle::{AnsiColor, Style};
use maud::{Markup, html};
use spindoctor_model::{SessionTime, TimeClass};
use unicode_width::UnicodeWidthStr as _;

use spindoctor_page::html::breakable;
use spindoctor_page::number;
use spindoctor_page::text::{Page, QUIET, STRONG};

/// Classes that are shown; what is smaller is folded into one.
const SHOWN: usize = 7;

/// A class with a smaller share is folded.
const SMALLEST: f64 = 0.01;

/// Below this many sessions at work nobody works: one statement of 50 ms a second.
const IDLE: f64 = 0.05;

/// A part of the bar.
struct Part {
    class: Option<TimeClass>,
    share: f64,
}

impl Part {
    fn label(&self) -> &'static str {
        self.class.map_or("other classes", TimeClass::label)
    }
}

/// The largest classes, and one for the rest.
fn parts(time: &SessionTime) -> Vec<Part> {
    let is_shown = |at: usize, share: f64| at < SHOWN && share >= SMALLEST;
    let shown = time.classes.iter().enumerate().take_while(|(at, one)| is_shown(*at, one.share));
    let mut parts: Vec<Part> =
        shown.map(|(_, one)| Part { class: Some(one.class), share: one.share }).collect();
    let rest: f64 = time.classes.iter().skip(parts.len()).map(|one| one.share).sum();
    if rest >= SMALLEST {
        parts.push(Part { class: None, share: rest });
    }
    parts
}

/// `24.0 sessions at work, 2 sleeping: 96 % metadata lock, 3 % writing`
pub fn line(time: &SessionTime) -> String {
    let sleeping = match time.sleeping {
        sleeping if sleeping >= IDLE => format!(", {sleeping:.1} in SLEEP()"),
        _ => String::new(),
    };
    if time.session_seconds_per_second < IDLE {
        return format!("almost no session at work{sleeping}");
    }
    let shares: Vec<String> =
        parts(time).iter().map(|part| format!("{} {}", number::percent(part.share), part.label())).collect();
    format!("{:.1} sessions at work{sleeping}: {}", time.session_seconds_per_second, shares.join(", "))
}

/// The line and the bar.
pub fn print(page: &mut Page, time: &SessionTime) {
    page.paragraph("", &line(time), STRONG);
    if time.session_seconds_per_second >= IDLE {
        let bar = bar(page, time);
        page.push(&bar);
    }
}

/// A bar over the whole width: each class as wide as its share, in its colour, and in a pattern where there is no colour.
fn bar(page: &Page, time: &SessionTime) -> String {
    const PATTERNS: [&str; 4] = ["█", "▒", "▓", "░"];
    let width = page.look.width as f64;
    let (mut bar, mut sum, mut drawn) = (String::new(), 0.0, 0.0);
    for (at, part) in parts(time).iter().enumerate() {
        sum += part.share;
        let end = (sum * width).round().min(width);
        let cells = PATTERNS[at % PATTERNS.len()].repeat((end - drawn).max(0.0) as usize);
        bar.push_str(&page.paint(style(part.class), &cells));
        drawn = end;
    }
    bar
}

/// The bar of a page, and its legend.
pub fn section(time: &SessionTime) -> Markup {
    html! {
        section.card.session-time {
            h2 { "Session time" }
            (bar_and_legend(time))
        }
    }
}

/// Two bars, one below the other; nothing where `during` is not known.
pub fn compared(before: Option<&SessionTime>, during: Option<&SessionTime>) -> Markup {
    html! {
        @if let Some(during) = during {
            section.card.session-time {
                h2 { "Session time" }
                @if let Some(before) = before { h3 { "Before" } (bar_and_legend(before)) h3 { "During" } }
                (bar_and_legend(during))
            }
        }
    }
}

fn bar_and_legend(time: &SessionTime) -> Markup {
    let parts = parts(time);
    html! {
            @if time.session_seconds_per_second < IDLE {
                p.quiet { (line(time)) "." }
            } @else {
                div.share-bar {
                    @for part in &parts {
                        div style=(format!("width:{:.2}%;background:{}", part.share * 100.0, hex(part.class)))
                            title=(format!("{} {}", number::percent(part.share), part.label())) {}
                    }
                }
                ul.share-legend {
                    @for part in &parts {
                        li {
                            span.key style=(format!("background:{}", hex(part.class))) {}
                            strong { (number::percent(part.share)) } " " (part.label())
                            @if let Some(seen) = seen(time, part.class) { span.quiet { " " (breakable(seen)) } }
                        }
                    }
                }
                p.quiet {
                    (format!("{:.1}", time.session_seconds_per_second)) " sessions at work"
                    @if time.sleeping >= IDLE { ", " (format!("{:.1}", time.sleeping)) " more in SLEEP()" }
                    // Clocks have no error of counting, and nobody believes a number that is right to 0 points.
                    @if time.error >= 0.005 {
                        "; 95 % confidence interval of the largest share: ± " (format!("{:.0}", time.error * 100.0)) " points"
                    }
                    "."
                }
            }
    }
}

/// What most sessions of a class were seen in.
fn seen(time: &SessionTime, class: Option<TimeClass>) -> Option<&str> {
    let one = time.classes.iter().find(|one| Some(one.class) == class)?;
    one.seen.first().map(|(seen, _)| seen.as_str()).filter(|seen| seen.width() > 0)
}

/// The colour of a class on a page; of none, that of the rest.
pub fn hex(class: Option<TimeClass>) -> &'static str {
    class.map_or("#8a9199", |class| colour(class).1)
}

/// The style of a class on a terminal; of none, that of the rest.
pub fn style(class: Option<TimeClass>) -> Style {
    class.map_or(QUIET, |class| colour(class).0)
}

/// The colour of a class, for a terminal and for a page. Work is green, waiting for a CPU yellow, locks red, a commit blue,
/// files purple.
fn colour(class: TimeClass) -> (Style, &'static str) {
    use TimeClass::{
        AutoIncrementLock, Commit, CommitDelay, CommitOrder, ConcurrencyTicket, Cpu, CpuQueue, CpuQuota,
        CpuTaken, DiskFull, FreePage, Galera, GlobalLock, GroupReplication, Kernel, Latch, LogSpace, Login,
        MetadataLock, Mutex, Network, Other, PageFault, PrivilegeCache, PurgeDelay, QueryCache, Read,
        ReplicaWait, Rollback, RowLock, Running, SemiSync, Spin, StatementLog, Stopped, TableCache,
        TableLock, UserLock, Write,
    };
    let (ansi, hex) = match class {
        Cpu | Running => (AnsiColor::Green, "#2e8b57"),
        Kernel => (AnsiColor::BrightGreen, "#74b98f"),
        CpuQueue => (AnsiColor::Yellow, "#d9a521"),
        CpuQuota => (AnsiColor::Yellow, "#b8860b"),
        CpuTaken => (AnsiColor::Yellow, "#e8c468"),
        Spin => (AnsiColor::BrightYellow, "#c46f1a"),
        RowLock => (AnsiColor::Red, "#b42318"),
        AutoIncrementLock => (AnsiColor::Red, "#cf5646"),
        MetadataLock => (AnsiColor::Red, "#8f1d2c"),
        TableLock => (AnsiColor::Red, "#d97b6c"),
        UserLock => (AnsiColor::Red, "#a83a5b"),
        GlobalLock => (AnsiColor::Red, "#6f1d1b"),
        Latch => (AnsiColor::BrightRed, "#e07a8b"),
        Mutex | QueryCache | StatementLog | PrivilegeCache => (AnsiColor::BrightRed, "#c9667f"),
        TableCache | ConcurrencyTicket => (AnsiColor::BrightRed, "#e3a0a0"),
        Commit => (AnsiColor::Blue, "#2b62a8"),
        CommitDelay | CommitOrder => (AnsiColor::BrightBlue, "#6f9fd8"),
        SemiSync | Galera | GroupReplication | ReplicaWait => (AnsiColor::Cyan, "#2a8c9c"),
        LogSpace | FreePage | PurgeDelay | PageFault => (AnsiColor::BrightMagenta, "#a45fa8"),
        Read => (AnsiColor::Magenta, "#6a4c9c"),
        Write | Rollback | DiskFull => (AnsiColor::Magenta, "#8e75bd"),
        Network | Login => (AnsiColor::Cyan, "#5b7d87"),
        Stopped | Other => (AnsiColor::BrightBlack, "#4b5259"),
    };
    (ansi.on_default(), hex)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{KnownBy, TimeShare};

    use super::*;
    use spindoctor_page::text::Look;

    fn time(shares: &[(TimeClass, f64)]) -> SessionTime {
        let share = |&(class, share): &(TimeClass, f64)| TimeShare {
            class,
            share,
            known_by: KnownBy::Stack,
            seen: vec![],
        };
        SessionTime {
            session_seconds_per_second: 24.0,
            classes: shares.iter().map(share).collect(),
            ..SessionTime::default()
        }
    }

    #[test]
    fn the_bar_is_as_wide_as_the_page_and_small_classes_are_folded() {
        let time = time(&[
            (TimeClass::MetadataLock, 0.90),
            (TimeClass::Write, 0.075),
            (TimeClass::Cpu, 0.009),
            (TimeClass::Read, 0.008),
            (TimeClass::Other, 0.008),
        ]);
        assert_eq!(
            line(&time),
            "24.0 sessions at work: 90 % metadata lock, 7.5 % writing, 2.5 % other classes"
        );
        let bar = bar(&Page::new(Look::of_file()), &time);
        assert_eq!(bar.width(), 80);
        assert!(bar.starts_with(&"█".repeat(72)) && bar.ends_with("▓▓"), "{bar}");
    }

    #[test]
    fn a_server_without_work_has_no_bar() {
        let idle = SessionTime { sleeping: 3.0, ..SessionTime::default() };
        assert_eq!(line(&idle), "almost no session at work, 3.0 in SLEEP()");
        assert!(!section(&idle).into_string().contains("share-bar"));
    }
}

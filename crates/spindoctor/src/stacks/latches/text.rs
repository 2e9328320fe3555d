//! Waits for latches as text: what is set, each function, how long waits last, and what a spin costs by its length.

use spindoctor_page::number::{counted, percent, plain, quantity, tenths, whole};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};

use crate::common::latch_waits::{Choice, Latch, LatchReport, SpinRounds};

/// Columns of the labels, and of the names of functions.
const LABELS: usize = 20;
/// Columns of the longest bar.
const BAR: f64 = 30.0;

/// The report as text.
pub fn render(report: &LatchReport, look: Look) -> String {
    let mut page = Page::new(look);
    let server = report.version.as_deref().unwrap_or("A server without a session");
    let left = format!("{}, pid {}: waits for latches", safe(server), report.pid);
    page.line_with_right(&left, &tenths(report.seconds), STRONG, QUIET);
    page.field("a sleep costs", &sleep(report), LABELS);
    let wait = format!("a call of more than {}, or one that sleeps", us(report.at_once_us));
    page.field("a wait is", &wait, LABELS);
    match (report.spin_us, &report.settings, &report.settings_unknown) {
        (Some(spin_us), Some(settings), _) => {
            page.field("a full spin lasts", &format!("{} with {settings}", us(spin_us)), LABELS);
        }
        (_, _, Some(why)) => page.field("a full spin lasts", &format!("unknown: {}", safe(why)), LABELS),
        _ => {}
    }
    if !report.spin_rounds.is_empty() {
        page.field("SEMAPHORES", &rounds(&report.spin_rounds), LABELS);
    }
    page.blank();
    latches(&mut page, &report.latches);
    if let Some(together) = &report.together {
        page.blank();
        times(&mut page, &report.latches);
        page.blank();
        lengths(&mut page, together);
    }
    page.blank();
    verdict(&mut page, report);
    let cost = &report.cost;
    let mut text = format!(
        "cost: probes hit {}, {} of CPU",
        counted(cost.probe_hits, "time", "times"),
        quantity(cost.cpu_ms, "ms")
    );
    if cost.untracked > 0 {
        text = format!("{text}; {} not seen", counted(cost.untracked, "call was", "calls were"));
    }
    page.paragraph("", &text, QUIET);
    page.finish()
}

fn sleep(report: &LatchReport) -> String {
    let (cost, seen) = (us(report.sleep_us), report.sleeps_seen);
    match report.is_sleep_known {
        true => format!("{cost} of CPU, by {} of the server", counted(seen, "sleep", "sleeps")),
        false => format!(
            "{cost} of CPU at least, as between two threads of this host that do nothing else; of the server's {} seen",
            counted(seen, "was", "were")
        ),
    }
}

/// `mutex 660 rounds/s, 132 for each wait that slept; RW-shared 15 rounds/s, none slept`
fn rounds(counts: &[SpinRounds]) -> String {
    let text = |counts: &SpinRounds| {
        let each = counts.rounds_per_os_wait.map_or_else(
            || "none slept".to_owned(),
            |rounds| format!("{} for each wait that slept", plain(rounds)),
        );
        format!("{} {} rounds/s, {each}", counts.kind, whole(counts.rounds_per_s))
    };
    counts.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn us(us: f64) -> String {
    quantity(us, "us")
}

fn latches(page: &mut Page, latches: &[Latch]) {
    let columns = [("function", -34), ("waits/s", 9), ("slept", 7), ("median", 9), ("best spin", 11)];
    let row = |latch: &Latch| {
        let share = match latch.waits {
            0 => "-".to_owned(),
            waits => percent(latch.slept as f64 / waits as f64),
        };
        let of =
            |of: fn(&Choice) -> f64| latch.choice.as_ref().map_or("-".to_owned(), |choice| us(of(choice)));
        vec![
            latch.function.to_owned(),
            whole(latch.waits_per_s),
            share,
            of(|choice| choice.median_us),
            of(|choice| choice.best.spin_us),
        ]
    };
    page.table(&columns, latches.iter().map(row));
}

/// How long the waits of all functions last, a line for each octave.
fn times(page: &mut Page, latches: &[Latch]) {
    let mut octaves: Vec<(f64, f64)> = Vec::new();
    for latch in latches.iter().filter(|latch| latch.armed_s > 0.0) {
        for time in &latch.times {
            let up_to = 2_f64.powf(time.less_than_us.log2().ceil());
            let per_s = (time.met + time.slept) as f64 / latch.armed_s;
            match octaves.iter_mut().find(|(other, _)| *other == up_to) {
                Some((_, sum)) => *sum += per_s,
                None => octaves.push((up_to, per_s)),
            }
        }
    }
    octaves.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
    let all: f64 = octaves.iter().map(|(_, per_s)| per_s).sum();
    let most = octaves.iter().map(|(_, per_s)| *per_s).fold(0.0, f64::max);
    page.paragraph("", "waits last less than  share of all", QUIET);
    for (up_to, per_s) in octaves {
        let bar = "█".repeat((per_s / most * BAR).round() as usize);
        page.push(&format!("  {:>18}  {:>8}  {bar}", us(up_to), percent(per_s / all)));
    }
}

/// What a wait costs by the length of the spin: as it is, the best, and some beside them.
fn lengths(page: &mut Page, together: &Choice) {
    let mut shown = vec![together.best];
    shown.extend(together.now);
    let mut last = 0.0;
    for length in &together.curve {
        // One of each octave.
        if length.spin_us == 0.0 || length.spin_us >= 2.0 * last {
            last = length.spin_us.max(0.5);
            shown.push(*length);
        }
    }
    shown.sort_by(|one, other| one.spin_us.total_cmp(&other.spin_us));
    shown.dedup_by_key(|length| length.spin_us);
    let columns = [("a spin of at most", 19), ("meets", 8), ("CPU of a wait", 15), ("", -8)];
    let row = |length: spindoctor_predict::SpinBudget| {
        let is_now = together.now.is_some_and(|now| now.spin_us == length.spin_us);
        let remark = match (length.spin_us == together.best.spin_us, is_now) {
            (true, true) => "now, best",
            (true, false) => "best",
            (false, true) => "now",
            (false, false) => "",
        };
        vec![us(length.spin_us), percent(length.met), us(length.cost_us), remark.to_owned()]
    };
    page.table(&columns, shown.into_iter().map(row));
}

fn verdict(page: &mut Page, report: &LatchReport) {
    let Some(together) = &report.together else {
        let waits: u64 = report.latches.iter().map(|latch| latch.waits).sum();
        let text =
            format!("{}: too few to choose a spin by", counted(waits, "wait was seen", "waits were seen"));
        return page.paragraph("", &text, PLAIN);
    };
    let best = together.best;
    let Some(now) = together.now else {
        let text = format!("The least CPU a wait: a spin of {} at most.", us(best.spin_us));
        return page.paragraph("", &text, PLAIN);
    };
    if report.changes.is_empty() {
        let text = if now.cost_us <= best.cost_us {
            "The spin may stay as it is: no other costs less, by the waits that were seen.".to_owned()
        } else {
            let (now, best) = (us(now.cost_us), us(best.cost_us));
            format!("The spin may stay as it is: a wait costs {now} of CPU, and {best} at best.")
        };
        return page.paragraph("", &text, PLAIN);
    }
    let spin = us(best.spin_us);
    let found = match best.spin_us > report.at_once_us {
        true => format!("By the waits that were seen a spin of {spin} costs least"),
        false => format!(
            "The waits that were seen are not worth spinning for: the shortest spin that may be chosen, {spin}, costs least"
        ),
    };
    let text = format!(
        "{found}, {} of CPU a wait, and the {} that are set cost {}. Whether it serves more statements a trial shows. Try it:",
        us(best.cost_us),
        us(now.spin_us),
        us(now.cost_us)
    );
    page.paragraph("", &text, PLAIN);
    page.push(&format!("  {}", trial(report)));
    let values = report.changes.iter().map(|change| format!("{} is {}", change.variable, plain(change.from)));
    page.paragraph("", &format!("Now {}.", values.collect::<Vec<_>>().join(", ")), QUIET);
    let text = format!(
        "Not known: what a sleep costs the thread that ends it, and the one that comes back to caches that others used \
         meanwhile; and waits of less than {}, which probes cannot see: no shorter spin is chosen.",
        us(report.at_once_us)
    );
    page.paragraph("", &text, QUIET);
}

/// The command that tries the changes out, a variable a line.
fn trial(report: &LatchReport) -> String {
    let only = report.changes.iter().map(|change| format!("--only {}={}", change.variable, plain(change.to)));
    format!("spindoctor tune --apply {}", only.collect::<Vec<_>>().join(" \\\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::latch_waits::examples;

    fn page(report: &LatchReport) -> String {
        render(report, Look::of_file())
    }

    #[test]
    fn the_spin_the_waits_and_what_to_set_are_shown() {
        insta::assert_snapshot!(page(&examples::report("30")));
    }

    #[test]
    fn what_innodb_counts_itself_stands_beside_it() {
        let mut report = examples::report("30");
        assert!(!page(&report).contains("SEMAPHORES"));
        let counts = |kind, rounds_per_s, rounds_per_os_wait| SpinRounds {
            kind,
            rounds_per_s,
            os_waits_per_s: 5.0,
            rounds_per_os_wait,
        };
        report.spin_rounds = vec![counts("mutex", 660.0, Some(132.0)), counts("RW-sx", 15.0, None)];
        let text = page(&report).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains(
                "SEMAPHORES mutex 660 rounds/s, 132 for each wait that slept; RW-sx 15 rounds/s, none slept"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_worth_it_or_not_known_says_so() {
        let mut report = examples::report("30");
        report.at_once_us = report.together.as_ref().unwrap().best.spin_us;
        assert!(page(&report).contains("not worth spinning for"));
        report.changes = Vec::new();
        assert!(page(&report).contains("The spin may stay as it is: a wait costs"));
        // No rounds are shorter than what may be chosen.
        report.together.as_mut().unwrap().now.as_mut().unwrap().cost_us = 1.0;
        assert!(page(&report).contains("The spin may stay as it is: no other costs less"));
        (report.is_sleep_known, report.sleeps_seen) = (false, 1);
        assert!(page(&report).contains("at least, as between two threads"));
        report.together = None;
        assert!(page(&report).contains("2000 waits were seen: too few"));
        report.settings_unknown = Some("no \u{1b}[31m session".to_owned());
        (report.settings, report.spin_us) = (None, None);
        assert!(!page(&report).contains('\u{1b}'));
    }
}

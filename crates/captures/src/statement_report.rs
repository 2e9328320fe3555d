//! What pt-query-digest prints of a slow query log: the statements that took the time, in sentences.
//!
//! ```text
//! # Overall: 1.82k total, 3 unique, 3.03 QPS, 12.20x concurrency ___________
//! # Profile
//! # Rank Query ID                           Response time   Calls R/Call  V/M
//! #    1 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E 5300.1234 72.4%   220 24.0915  9.12 UPDATE stock
//! # Query 1: 0.37 QPS, 8.83x concurrency, ID 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E at byte 0
//! # Exec time     72   5300s      1s     50s     24s     48s      9s     23s
//! # Lock time     99   5200s   900ms     49s     23s     47s      9s     22s
//! ```

use spindoctor_model::number;

/// Statements that are named.
const NAMED: usize = 5;
/// Statements of which something is read.
const MOST: usize = 100;
/// Characters of a statement's name that are shown: it has no literals.
const SHOWN: usize = 120;
/// From this part of the time on, waits for locks are worth a word, as in a slow query log.
const LOCK_SHARE: f64 = 0.1;

/// True for a line that only such a report has, at its beginning or where a paste may begin.
pub(crate) fn is_head(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("# ") else { return false };
    rest.starts_with("Overall: ") && rest.contains(" unique")
        || rest.contains("s user time, ") && rest.contains("s system time, ")
        || rest.starts_with("Rank Query ID ")
        || rest.starts_with("Query ") && rest.contains(" QPS, ") && rest.contains(" ID 0x")
}

/// A statement of the profile.
#[derive(Debug, Clone, PartialEq, Default)]
struct Ranked {
    rank: u64,
    time_s: f64,
    percent: f64,
    calls: u64,
    name: String,
    /// Of its own section: seconds, and those of them that it waited for locks.
    exec_s: f64,
    locked_s: f64,
}

/// The sentences of a report; None where it names no statement.
pub(crate) fn read(text: &str) -> Option<Vec<String>> {
    let mut ranked: Vec<Ranked> = Vec::new();
    let mut overall = None;
    // The section that the lines belong to, by its place in the list.
    let mut section: Option<usize> = None;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix('#').map(str::trim_start) else { continue };
        if let Some(summary) = rest.strip_prefix("Overall: ") {
            overall = Some(summary.trim_end_matches(['_', ' ']).to_owned());
        } else if let Some((rank, _)) = rest.strip_prefix("Query ").and_then(|rest| rest.split_once(':')) {
            let rank: Option<u64> = rank.parse().ok();
            section = rank.and_then(|rank| ranked.iter().position(|one| one.rank == rank));
            if let (None, Some(rank)) = (section, rank)
                && ranked.len() < MOST
            {
                // A section that was pasted without the profile above it.
                ranked.push(Ranked { rank, name: format!("statement {rank}"), ..Ranked::default() });
                section = Some(ranked.len() - 1);
            }
        } else if let Some(one) = profiled(rest).filter(|_| ranked.len() < MOST) {
            ranked.push(one);
        } else if let Some(at) = section {
            let one = &mut ranked[at];
            match (
                rest.strip_prefix("Exec time "),
                rest.strip_prefix("Lock time "),
                rest.strip_prefix("Count "),
            ) {
                (Some(cells), ..) => one.exec_s = total(cells).unwrap_or(0.0),
                (_, Some(cells), _) => one.locked_s = total(cells).unwrap_or(0.0),
                (.., Some(cells)) if one.calls == 0 => {
                    one.calls =
                        cells.split_whitespace().nth(1).and_then(|calls| calls.parse().ok()).unwrap_or(0);
                }
                _ => {}
            }
        }
    }
    for one in &mut ranked {
        if one.time_s == 0.0 {
            one.time_s = one.exec_s;
        }
    }
    if ranked.is_empty() {
        return None;
    }
    let mut says: Vec<String> = overall.map(|overall| format!("statements: {overall}")).into_iter().collect();
    says.extend(ranked.iter().take(NAMED).map(sentence));
    Some(says)
}

/// `1 0x3A99CC42AEDCCFCD 5300.1234 72.4%   220 24.0915  9.12 UPDATE stock`; `MISC` stands before the last.
fn profiled(line: &str) -> Option<Ranked> {
    let mut words = line.split_whitespace();
    let rank = words.next()?.parse().ok()?;
    words.next().filter(|id| id.starts_with("0x"))?;
    let time_s = words.next()?.parse().ok().filter(|seconds: &f64| seconds.is_finite())?;
    let percent =
        words.next()?.strip_suffix('%')?.parse().ok().filter(|percent: &f64| percent.is_finite())?;
    let calls = words.next()?.parse().ok()?;
    // The mean, and how far the times are apart.
    words.nth(1)?;
    let name: Vec<&str> = words.collect();
    let name = name.join(" ").chars().take(SHOWN).collect();
    Some(Ranked { rank, time_s, percent, calls, name, ..Ranked::default() })
}

/// `99   5200s   900ms     49s ...`: a share, and the sum.
fn total(cells: &str) -> Option<f64> {
    seconds(cells.split_whitespace().nth(1)?)
}

/// `5200s`, `900ms`, `103us`; `0`
fn seconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    digits
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .map(|number: f64| number * scale)
}

/// `72 % of the time: UPDATE stock, 220 times, 24.1 s each; it waited for locks in 98 % of that`
fn sentence(one: &Ranked) -> String {
    let share = match one.percent > 0.0 {
        true => format!("{} of the time", number::percent(one.percent / 100.0)),
        false => number::duration(one.time_s),
    };
    let each = match one.calls {
        0 => String::new(),
        calls => format!(
            ", {}, {} each",
            number::counted(calls, "time", "times"),
            number::duration(one.time_s / calls as f64)
        ),
    };
    let locked = one.locked_s / one.exec_s.max(one.locked_s);
    let locks = match locked.is_finite() && locked >= LOCK_SHARE {
        true => format!("; it waited for locks in {} of that", number::percent(locked)),
        false => String::new(),
    };
    format!("{share}: {}{each}{locks}", one.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
# 210ms user time, 30ms system time, 26.91M rss, 228.41M vsz
# Overall: 1.82k total, 3 unique, 3.03 QPS, 12.20x concurrency ___________
# Attribute          total     min     max     avg     95%  stddev  median
# Exec time          7320s      1s     50s      4s     23s      7s      1s

# Profile
# Rank Query ID                           Response time   Calls R/Call  V/M
# ==== ================================== =============== ===== ======= =====
#    1 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E 5280.0000 72.4%   220 24.0000  9.12 UPDATE stock
#    2 0x8D589AFA4DFAEEED85FFF5AA78E5FF6A 1500.0000 20.6%   100 15.0000  1.01 SELECT orders lines
# MISC 0xMISC                              519.5445  7.1%  1500  0.3464   0.0 <1 ITEMS>

# Query 1: 0.37 QPS, 8.83x concurrency, ID 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E at byte 0
# Attribute    pct   total     min     max     avg     95%  stddev  median
# Count         12     220
# Exec time     72   5280s      1s     50s     24s     48s      9s     23s
# Lock time     99   5200s   900ms     49s     23s     47s      9s     22s
UPDATE stock SET n = n - 1 WHERE id = 7\\G
# Query 2: 0.37 QPS, 8.83x concurrency, ID 0x8D589AFA4DFAEEED85FFF5AA78E5FF6A at byte 0
# Exec time     20   1500s      1s     50s     24s     48s      9s     23s
# Lock time      0    13ms    10us    90us    40us    47us     9us    22us
";

    #[test]
    fn the_statements_of_the_profile_are_named_with_their_waits_for_locks() {
        assert_eq!(
            read(REPORT).unwrap(),
            [
                "statements: 1.82k total, 3 unique, 3.03 QPS, 12.20x concurrency",
                "72 % of the time: UPDATE stock, 220 times, 24 s each; it waited for locks in 98 % of that",
                "21 % of the time: SELECT orders lines, 100 times, 15 s each",
            ]
        );
        assert!(!format!("{:?}", read(REPORT)).contains("id = 7"), "no literal is shown");
    }

    #[test]
    fn a_section_alone_says_what_it_has() {
        let (_, section) = REPORT.split_once("# Query 1").unwrap();
        let says = read(&format!("# Query 1{section}")).unwrap();
        assert_eq!(
            says[0],
            "88 min 0 s: statement 1, 220 times, 24 s each; it waited for locks in 98 % of that"
        );
        assert_eq!(read("# Overall: nothing\n# Query: what?\n"), None);
    }
}

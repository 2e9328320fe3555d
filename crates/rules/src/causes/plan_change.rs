//! `plan-change`: a statement reads far more rows each time than it did.

use std::collections::HashMap;

use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};
use spindoctor_statements::Grown;

use super::{cpu_saturated, read_io_bound, rows_read_waste};
use crate::draft::Draft;
use crate::seen_most::SeenMost;
use crate::sessions::shortened;
use crate::{Cause, Costs, Outcome, Rule, Stacks, cpus};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "plan-change",
    title: "a statement reads far more rows each time than it did",
    what: "The optimizer chooses a plan whenever a statement is prepared or run, from the indexes that it may use and from \
           estimates of a few pages. When an index is dropped or made invisible, when statistics are recomputed from other pages, \
           when the table has grown past a point where another plan looks cheaper, or when other values are asked for, the same \
           statement reads a thousand rows where it read one. Nobody changed the application.",
    why_it_hurts: "What took a tenth of a millisecond takes a hundred of them, a thousand times a second: the CPUs or the disk are \
                   full within seconds, and all other statements wait with it.",
    evidence: "The server's own summary (events_statements_summary_by_digest): rows examined by each execution in the window \
               against those of all executions before it, since the summary was last emptied. A statement counts when a \
               hundred executions before are known, it now reads a thousand rows and more each time, ten times as many as \
               before, and either half of its executions scan a table or join without an index and less than a tenth did \
               before, or fifty executions in the window read so many: fewer may be rare values. MariaDB counts the executions of all \
               prepared statements together: of them only the first counts. The estimate is the share \
               of all statement time that it takes, times the part of the effective CPUs that it could keep busy. What \
               happened before the summary was emptied, or so long ago that a tenth of all executions came after, is not \
               seen: `spindoctor workload --diff` compares two times of a recording.",
    looks_alike: "A statement that always read too much is rows-read-waste. A report that runs once a day reads much each time. \
                  More calls of the same statement, each as cheap as before, are more load. A statement that takes longer for \
                  as many rows waits: for locks, for the disk, for a CPU.",
    remedies: "EXPLAIN the statement, and compare with the plan of a server where it is fast. Where an index became invisible or \
               was dropped, give it back. Where the statistics are to blame, ANALYZE TABLE. Until then, pin the plan: FORCE \
               INDEX or a hint; where the application cannot be changed, on MySQL the Rewriter plugin.",
    safety: "EXPLAIN reads statistics only. Making an index visible takes a metadata lock for an instant, creating one costs disk \
             and write time. ANALYZE TABLE may change other plans, too, and on MySQL before 8.0.24 waits behind long statements \
             on the table while new ones queue.",
    references: &[
        "Domas Mituzas, A case for FORCE INDEX",
        "MySQL Reference Manual: Statement Summary Tables; Invisible Indexes; Controlling the Query Optimizer",
        "MariaDB Knowledge Base: Ignored Indexes",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::Read],
    stacks: Stacks::Nothing,
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Rows of one execution now, for each of one before: an estimate of the optimizer is off by a factor, a plan by orders of magnitude.
const TIMES: f64 = 10.0;

/// Rows read by one execution below which it does not matter (as of `rows-read-waste`).
const ROWS: f64 = 1_000.0;

/// Executions before the window: their mean is known to a tenth even where they scatter by as much as they are.
const KNOWN: f64 = 100.0;

/// Executions in the window, where none of the counters says that the plan is another: of so many rare values are a part only.
const MANY: f64 = 50.0;

/// Executions that scan now, and those that did: the plan is another, without doubt.
const SCANS_NOW: f64 = 0.5;
const SCANS_BEFORE: f64 = 0.1;

/// A statement that takes less of all statements' time is nobody's trouble.
const TIME_RATIO: f64 = 0.05;

/// Where the numbers come from.
const SOURCE: &str = "events_statements_summary_by_digest";

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// A statement whose rows are others than they were.
struct Changed<'a> {
    grown: Grown<'a>,
    rows_before: f64,
    scans_before: f64,
}

impl<'a> Changed<'a> {
    /// Of a statement, with what it did in the window, and its row of the summary before.
    fn new(grown: Grown<'a>, before: &StatementDigest) -> Option<Self> {
        let executions = before.executions as f64;
        if executions < KNOWN {
            return None;
        }
        let rows_before = before.rows_examined as f64 / executions;
        let scans_before = (before.full_scans + before.full_joins) as f64 / executions;
        let one = Self { grown, rows_before, scans_before };
        let is_many = one.grown.by.executions >= MANY && !one.is_of_all_prepared();
        (one.rows() >= ROWS && one.rows() >= TIMES * rows_before.max(1.0) && (one.is_other_plan() || is_many))
            .then_some(one)
    }

    /// True where the counters say that the plan is another.
    fn is_other_plan(&self) -> bool {
        self.scans() >= SCANS_NOW && self.scans_before < SCANS_BEFORE
    }

    /// True for what the server counts of all prepared statements together: other statements than before may run, so that another
    /// number of rows says nothing. Where half of them scan and nearly none did, scans are new whichever statement it is.
    fn is_of_all_prepared(&self) -> bool {
        self.grown.digest.text == StatementDigest::WITHOUT_TEXT
    }

    /// Rows read by one execution.
    fn rows(&self) -> f64 {
        self.grown.by.rows_examined / self.grown.by.executions
    }

    /// The part of its executions that scan.
    fn scans(&self) -> f64 {
        self.grown.by.full_scans / self.grown.by.executions
    }

    /// Time that is not spent waiting for locks, seconds.
    fn time_s(&self) -> f64 {
        time_s(&self.grown)
    }
}

fn time_s(grown: &Grown<'_>) -> f64 {
    (grown.by.total_ns - grown.by.lock_ns).max(0.0) / 1e9
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let change = window.need_change(|s| &s.server.digests)?;
    let mut grown = spindoctor_statements::grown(change.first, change.last, change.seconds);
    grown.retain(|grown| !spindoctor_sql::is_about_the_server(&grown.digest.schema, &grown.digest.text));
    let all_s: f64 = grown.iter().map(time_s).sum();
    let key = |digest: &'_ StatementDigest| (digest.schema.clone(), digest.digest.clone());
    let before: HashMap<_, &StatementDigest> =
        change.first.iter().map(|digest| (key(digest), digest)).collect();
    let changed = grown.into_iter().filter_map(|grown| Changed::new(grown, before.get(&key(grown.digest))?));
    let Some(worst) = changed.max_by(|a, b| a.time_s().total_cmp(&b.time_s())) else {
        return Ok(None);
    };
    let ratio = worst.time_s() / all_s.max(f64::MIN_POSITIVE);
    if ratio < TIME_RATIO {
        return Ok(None);
    }
    let cpus = cpus::effective(window);
    let score = ratio * (worst.time_s() / change.seconds / cpus).min(1.0);
    let named = match worst.is_of_all_prepared() {
        true => SeenMost::from_window(window, SeenMost::NAMED_RATIO).map(|seen| seen.statement),
        false => Some(spindoctor_sql::server_digest(&worst.grown.digest.text).to_owned()),
    };
    Ok(Some(finding(&worst, named.as_deref(), ratio, score, change.seconds)))
}

/// The finding of a statement; of all prepared statements it is the one that was seen most, where there is one.
fn finding(worst: &Changed<'_>, statement: Option<&str>, ratio: f64, score: f64, seconds: f64) -> Finding {
    let (rows, before) = (worst.rows(), worst.rows_before);
    let is_scan = worst.is_other_plan();
    let (who, which) = match (worst.is_of_all_prepared(), statement) {
        (false, statement) => ("A statement reads", format!(": {}", shortened(statement.unwrap_or_default()))),
        (true, Some(statement)) => ("Prepared statements read", format!("; seen most: {}", shortened(statement))),
        (true, None) => ("Prepared statements read", String::new()),
    };
    let headline = format!(
        "{who} {} rows each time, {} until now, and {} {:.0} % of the statements' time{which}",
        whole(rows),
        whole(before),
        if worst.is_of_all_prepared() { "take" } else { "takes" },
        ratio * 100.0
    );
    let why = match (worst.is_of_all_prepared(), is_scan) {
        (true, _) => {
            "This server counts them together. Half of them and more scan a table, or join without an index, which next to none did \
             before: an index was dropped or made invisible, the optimizer does not take it any more, or other statements run than \
             before."
        }
        (false, true) => {
            "It scans a table, or joins without an index, which it did not before: an index was dropped or made invisible, or the \
                 optimizer does not take it any more."
        }
        (false, false) => {
            "It uses an index, but reads far more rows by it than before: the optimizer took another one, the table has \
                  grown, or other values are asked for."
        }
    };
    let draft = Draft::new(&CAUSE, score, headline)
        .why(why)
        .evidence(Evidence::new("statement", worst.grown.digest.text.clone(), "", SOURCE))
        .evidence(
            Evidence::new("rows examined each time", rows, "rows", SOURCE)
                .expected(format!("< {:.0}", TIMES * before.max(1.0))),
        )
        .evidence(Evidence::new("rows examined each time before the window", before, "rows", SOURCE))
        .evidence(Evidence::new("executions that scan", worst.scans(), "ratio", SOURCE))
        .evidence(Evidence::new(
            "executions that scanned before the window",
            worst.scans_before,
            "ratio",
            SOURCE,
        ))
        .evidence(Evidence::new("executions", worst.grown.by.executions / seconds, "1/s", SOURCE))
        .evidence(
            Evidence::new("share of statement time", ratio, "ratio", SOURCE)
                .expected(format!("< {TIME_RATIO}")),
        );
    let table = statement.and_then(spindoctor_sql::first_table);
    draft
        .remedy(Remedy {
            statement: match statement {
                Some(statement) => format!("EXPLAIN {}", shortened(statement)),
                None => "SHOW FULL PROCESSLIST; then EXPLAIN of the statement that stands in it again and again".into(),
            },
            why: "It shows which index the statement uses now, and which it could use.".into(),
            dynamic: true,
            risk: "None: EXPLAIN reads statistics only.".into(),
            undo: "Nothing to undo.".into(),
        })
        .remedy_if(table.as_deref().filter(|_| is_scan).map(hidden_indexes))
        .remedy(Remedy {
            statement: match &table {
                Some(table) => format!("ANALYZE TABLE {}", quoted_name(table)),
                None => "ANALYZE TABLE of its tables".into(),
            },
            why: "Where no index is missing, the statistics mislead the optimizer: it takes them again.".into(),
            dynamic: true,
            risk: "Other plans may change, too; before MySQL 8.0.24 new statements queue behind long ones on the table.".into(),
            undo: "None; FORCE INDEX pins a plan whatever the statistics say.".into(),
        })
        .explains(&[rows_read_waste::CAUSE.name, cpu_saturated::CAUSE.name, read_io_bound::CAUSE.name])
        .finding()
}

/// Where to look for an index that nobody may use.
fn hidden_indexes(table: &str) -> Remedy {
    Remedy {
        statement: format!("SHOW INDEX FROM {}", quoted_name(table)),
        why: "Its column Visible (MySQL 8.0) or Ignored (MariaDB 10.6) names an index that the optimizer may not use; one that is \
              not listed was dropped. Then ALTER TABLE .. ALTER INDEX .. VISIBLE (NOT IGNORED), or CREATE INDEX."
            .into(),
        dynamic: true,
        risk: "Looking costs nothing; making an index visible takes a metadata lock for an instant.".into(),
        undo: "ALTER TABLE .. ALTER INDEX .. INVISIBLE (IGNORED)".into(),
    }
}

/// A name between backticks.
fn quoted_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    const LOOKUP: &str = "SELECT `c` FROM `orders` WHERE `k` = ?";

    /// A statement that read some rows each time until the window began, and then others.
    #[derive(Clone, Copy)]
    struct Turn {
        executed_before: f64,
        rows_before: f64,
        per_s: f64,
        each_ms: f64,
        rows: f64,
        scans: bool,
    }

    const TURN: Turn = Turn {
        executed_before: 400_000.0,
        rows_before: 3.0,
        per_s: 40.0,
        each_ms: 25.0,
        rows: 90_000.0,
        scans: true,
    };

    fn window(turn: Turn) -> Window {
        turned(Build::busy("9.7.4"), LOOKUP, turn).window()
    }

    fn turned(build: Build, text: &'static str, turn: Turn) -> Build {
        build.each(move |at_s, server, _| {
            let spindoctor_model::Reading::Available { value: digests, .. } = &mut server.digests else {
                return;
            };
            let ran = turn.per_s * at_s;
            let sum = |before: f64, after: f64| (turn.executed_before * before + ran * after) as u64;
            digests.push(StatementDigest {
                schema: "shop".into(),
                digest: "lookup".into(),
                text: text.into(),
                executions: sum(1.0, 1.0),
                total_ns: sum(200_000.0, turn.each_ms * 1e6),
                rows_examined: sum(turn.rows_before, turn.rows),
                rows_sent: sum(3.0, 3.0),
                full_scans: sum(0.0, if turn.scans { 1.0 } else { 0.0 }),
                ..StatementDigest::default()
            });
        })
    }

    pub(crate) fn fires() -> Window {
        window(TURN)
    }

    /// A few executions for values that many rows have: by the index, as always.
    pub(crate) fn near_miss() -> Window {
        window(Turn { per_s: 2.0, rows: 20_000.0, scans: false, ..TURN })
    }

    /// A server without the summary.
    pub(crate) fn missing() -> Window {
        Build::busy("10.11.18-MariaDB")
            .each(|_, server, _| server.digests = spindoctor_model::Reading::NotAsked)
            .window()
    }

    fn found(window: &Window) -> Option<Finding> {
        match evaluate(window) {
            Outcome::Fired(finding) => Some(finding),
            _ => None,
        }
    }

    #[test]
    fn the_rows_before_and_after_are_named_with_where_to_look() {
        let finding = found(&fires()).unwrap();
        assert!(
            finding.headline.starts_with("A statement reads 90,000 rows each time, 3 until now"),
            "{}",
            finding.headline
        );
        assert!(finding.why.contains("dropped or made invisible"), "{}", finding.why);
        let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(
            statements,
            [
                "EXPLAIN SELECT `c` FROM `orders` WHERE `k` = ?",
                "SHOW INDEX FROM `orders`",
                "ANALYZE TABLE `orders`"
            ]
        );
        assert!(finding.score > 0.1, "{}", finding.score);
    }

    #[test]
    fn another_index_is_a_change_where_many_executions_show_it() {
        let finding = found(&window(Turn { scans: false, ..TURN })).unwrap();
        assert!(finding.why.contains("another one"), "{}", finding.why);
        assert_eq!(finding.remedies.len(), 2);
    }

    /// MariaDB counts them together, and its list has their texts.
    #[test]
    fn prepared_statements_that_scan_now_are_a_change_and_others_than_before_are_none() {
        let of = |turn: Turn| {
            let sessions = |_| vec![session(20, "Execute", "Sending data", "SELECT c FROM orders WHERE k = 7")];
            let build = turned(Build::busy("10.11.18-MariaDB"), StatementDigest::WITHOUT_TEXT, turn);
            found(&build.sessions(sessions).window())
        };
        let finding = of(TURN).unwrap();
        assert!(
            finding.headline.starts_with("Prepared statements read 90,000 rows each time, 3 until now, and take")
                && finding.headline.ends_with("; seen most: SELECT c FROM orders WHERE k = ?"),
            "{}",
            finding.headline
        );
        assert!(finding.why.contains("or other statements run than before"), "{}", finding.why);
        assert_eq!(finding.remedies[1].statement, "SHOW INDEX FROM `orders`");
        // A report by an index that runs in the night.
        assert_eq!(of(Turn { scans: false, ..TURN }), None);
    }

    #[test]
    fn a_statement_that_always_read_so_much_or_has_no_past_is_no_change() {
        assert!(found(&window(Turn { rows_before: 60_000.0, ..TURN })).is_none());
        assert!(found(&window(Turn { executed_before: 60.0, ..TURN })).is_none());
        assert!(found(&window(Turn { rows: 900.0, ..TURN })).is_none());
    }
}

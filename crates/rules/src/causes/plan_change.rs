//! `plan-change`: a statement reads far more rows each time than it did.

mod meaning;
mod remedies;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::number::whole;
use spindoctor_model::plan_now::TableName;
use spindoctor_model::{Evidence, Finding, Reading, Suspect, TimeClass, Unavailable, Window};
use spindoctor_statements::Grown;

use super::{cpu_saturated, read_io_bound, rows_read_waste};
use crate::draft::Draft;
use crate::seen_most::SeenMost;
use crate::sessions::shortened;
use crate::{Cause, Costs, Outcome, Rule, Stacks, cpus};

use meaning::Meaning;

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
    evidence: "What is read: the server's own summary (events_statements_summary_by_digest): rows examined by each execution in the \
               window against those of all executions before it, since the summary was last emptied.\n\n\
               A statement counts when a hundred executions before are known, it now reads a thousand rows and more each time, ten \
               times as many as before, and either half of its executions scan a table or join without an index and less than a \
               tenth did before, or fifty executions in the window read so many: fewer may be rare values. MariaDB counts the \
               executions of all prepared statements together: of them only the first counts.\n\n\
               About the one that takes most time `doctor` then asks the server, and `record` for an event: EXPLAIN, where it is a \
               plain SELECT, the indexes of its table, and when the statistics of the table were computed (innodb_table_stats and \
               innodb_index_stats of the database mysql). An index that the optimizer may not use, one that is not there, and \
               statistics that are no older than the change are named as the reason; where nothing of it is so, other values are \
               asked for.\n\n\
               The estimate is the share of all statement time that it takes, times the part of the effective CPUs that it could \
               keep busy. What happened before the summary was emptied, or so long ago that a tenth of all executions came after, is \
               not seen: `spindoctor workload --diff` compares two times of a recording.",
    looks_alike: "A statement that always read too much is rows-read-waste. A report that runs once a day reads much each time. \
                  More calls of the same statement, each as cheap as before, are more load. A statement that takes longer for \
                  as many rows waits: for locks, for the disk, for a CPU.",
    remedies: "EXPLAIN the statement, and compare with the plan of a server where it is fast. Where an index became invisible or \
               was dropped, give it back. Where the statistics are to blame, ANALYZE TABLE. Until then, pin the plan: FORCE \
               INDEX or a hint; where the application cannot be changed, on MySQL the Rewriter plugin. Where it is asked for \
               values that many rows have, ask for fewer rows, or make an index that has all columns of the statement.",
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
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
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

/// Before the window the statement may have run half as often as in it: when the plan changed is known to that, by the rows that all
/// executions before read.
const SLOWER: f64 = 2.0;

/// Where the numbers come from.
const SOURCE: &str = "events_statements_summary_by_digest";

fn evaluate(window: &Window) -> Outcome {
    find(window).map(|found| found.map(|found| finding(window, &found))).into()
}

/// The statement that the rule names in this window, for the question about its plan as it is now; none where it names none.
pub fn suspect(window: &Window) -> Option<Suspect> {
    let found = find(window).ok()??;
    if found.worst.is_of_all_prepared() {
        return None;
    }
    let digest = found.worst.grown.digest;
    let text = spindoctor_sql::server_digest(&digest.text);
    let table = spindoctor_sql::qualified_table(text)
        .map(|(schema, name)| TableName { schema: schema.unwrap_or_else(|| digest.schema.clone()), name });
    let (schema, digest) = (digest.schema.clone(), digest.digest.clone());
    Some(Suspect { schema, digest, text: text.to_owned(), table })
}

/// What was asked about the plan in vain; none where all was answered, or where nobody asked.
pub(crate) fn not_read(window: &Window) -> Option<Unavailable> {
    let failures: Vec<(&str, &Unavailable)> = match &window.plan_now {
        Reading::NotAsked => Vec::new(),
        Reading::Unavailable(why) => vec![("the plan as it is now", why)],
        Reading::Available { value, .. } => value.failures().collect(),
    };
    let because: Vec<String> =
        failures.iter().map(|(part, why)| format!("{part}: {}", why.because)).collect();
    let mut unlock: Vec<&str> = failures.iter().filter_map(|(_, why)| why.unlock.as_deref()).collect();
    unlock.dedup();
    let unlock = (!unlock.is_empty()).then(|| unlock.join("; "));
    (!failures.is_empty()).then(|| Unavailable { because: because.join("; "), unlock })
}

/// A statement whose rows are others than they were.
struct Changed<'a> {
    grown: Grown<'a>,
    rows_before: f64,
    scans_before: f64,
    /// Rows that all its executions before the window read.
    rows_so_far: f64,
}

impl<'a> Changed<'a> {
    /// Of a statement, with what it did in the window, and its row of the summary before.
    fn new(grown: Grown<'a>, before: &StatementDigest) -> Option<Self> {
        let executions = before.executions as f64;
        if executions < KNOWN {
            return None;
        }
        let rows_so_far = before.rows_examined as f64;
        let rows_before = rows_so_far / executions;
        let scans_before = (before.full_scans + before.full_joins) as f64 / executions;
        let one = Self { grown, rows_before, scans_before, rows_so_far };
        let is_many = one.grown.by.executions >= MANY && !one.is_of_all_prepared();
        (one.rows() >= ROWS && one.rows() >= TIMES * rows_before.max(1.0) && (one.is_scan() || is_many))
            .then_some(one)
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

    /// True where it scans now, and did not before.
    fn is_scan(&self) -> bool {
        self.scans() >= SCANS_NOW && self.scans_before < SCANS_BEFORE
    }

    /// When the plan changed at the earliest, in seconds from the start of a window of so many seconds: in a longer time, executions by
    /// the new plan read more rows than all executions before the window did.
    fn earliest_s(&self, seconds: f64) -> f64 {
        -SLOWER * self.rows_so_far * seconds / self.grown.by.rows_examined
    }

    /// Time that is not spent waiting for locks, seconds.
    fn time_s(&self) -> f64 {
        time_s(&self.grown)
    }
}

fn time_s(grown: &Grown<'_>) -> f64 {
    (grown.by.total_ns - grown.by.lock_ns).max(0.0) / 1e9
}

/// The statement that changed, and what it costs.
struct Found<'a> {
    worst: Changed<'a>,
    /// Its share of the time of all statements.
    ratio: f64,
    score: f64,
    /// Between the two readings of the summary.
    seconds: f64,
}

fn find(window: &Window) -> Result<Option<Found<'_>>, Unavailable> {
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
    Ok(Some(Found { worst, ratio, score, seconds: change.seconds }))
}

const WHY_OF_PREPARED: &str = "This server counts them together. Half of them and more scan a table, or join without an index, which next to \
                               none did before: an index was dropped or made invisible, the optimizer does not take it any more, or \
                               other statements run than before.";

fn finding(window: &Window, found: &Found<'_>) -> Finding {
    let Found { worst, ratio, score, seconds } = found;
    let is_of_all_prepared = worst.is_of_all_prepared();
    let seen = is_of_all_prepared.then(|| SeenMost::from_window(window, SeenMost::NAMED_RATIO)).flatten();
    let statement = match is_of_all_prepared {
        true => seen.as_ref().map_or("", |seen| seen.statement.as_str()),
        false => spindoctor_sql::server_digest(&worst.grown.digest.text),
    };
    let (rows, before) = (worst.rows(), worst.rows_before);
    let meaning = Meaning::new(window, found, statement);
    let (subject, which) = match (is_of_all_prepared, statement) {
        (false, _) => (format!("{} reads", meaning.subject()), format!(": {}", shortened(statement))),
        (true, "") => ("Prepared statements read".to_owned(), String::new()),
        (true, _) => {
            ("Prepared statements read".to_owned(), format!("; seen most: {}", shortened(statement)))
        }
    };
    let headline = format!(
        "{subject} {} rows each time, {} until now, and {} {:.0} % of the statements' time{which}",
        whole(rows),
        whole(before),
        if is_of_all_prepared { "take" } else { "takes" },
        ratio * 100.0,
    );
    Draft::new(&CAUSE, *score, headline)
        .why(if is_of_all_prepared { WHY_OF_PREPARED.to_owned() } else { meaning.why() })
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
            Evidence::new("share of statement time", *ratio, "ratio", SOURCE)
                .expected(format!("< {TIME_RATIO}")),
        )
        .evidence_all(meaning.evidence().into_iter())
        .remedies(remedies::remedies(&meaning, statement))
        .explains(&[rows_read_waste::CAUSE.name, cpu_saturated::CAUSE.name, read_io_bound::CAUSE.name])
        .finding()
}

//! What `EXPLAIN ANALYZE` of MySQL prints: the steps of one statement, each with what the optimizer expected and what it took.
//!
//! ```text
//! -> Nested loop inner join  (cost=108 rows=20) (actual time=0.25..12.3 rows=1450 loops=1)
//!     -> Table scan on o  (cost=50.2 rows=200) (actual time=0.1..3.5 rows=2000 loops=1)
//!     -> Single-row index lookup on c using PRIMARY (id=o.customer_id)  (cost=0.25 rows=1) (actual time=0.005..0.005 rows=1 loops=2000)
//! ```
//!
//! Times are of one loop, and of all that stands below a step. `-> Hash` and `-> Select #2 (subquery in condition; dependent)` have none: what
//! stands below them is part of the step above. A subquery in the list of what is selected (`in projection`) stands beside the step above, in
//! whose time it is not. A step that reads what the steps below it have stored has the time of its own reads alone
//! (`Table scan on <temporary>`, `Fill information schema table` below another scan): with them it took no less than they.
//! A step's condition is not repeated: it has values of the statement.

use spindoctor_model::number;

use crate::amounts::amount;

/// Steps of one plan.
pub(crate) const MOST: usize = 2_000;
/// Steps that are named.
const NAMED: usize = 3;
/// Steps with less of the time are named only where they are the first. By judgement.
pub(crate) const LEAST_SHARE: f64 = 0.1;
/// Characters of a step that are shown.
const SHOWN: usize = 120;
/// Names of indexes that are listed.
const MOST_NAMES: usize = 8;
/// Characters of a name of a table, an index or a column, at the most (both manuals, "Identifier Length Limits").
pub(crate) const LONGEST_NAME: usize = 64;
/// How many times as many rows as expected, or as few, make a wrong estimate, and the fewest rows that are worth a word. By judgement:
/// plans differ little below.
const WRONG_BY: f64 = 100.0;
pub(crate) const FEWEST_ROWS: f64 = 1_000.0;

/// A step of a plan that was measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    /// What it does, without its condition.
    pub(crate) label: String,
    /// Rows of one loop, as the optimizer expected them.
    pub(crate) expected_rows: Option<f64>,
    /// Milliseconds of all its loops, without what stands below it.
    pub(crate) own_ms: f64,
    /// Rows of one loop.
    pub(crate) rows: f64,
    pub(crate) loops: f64,
}

/// A line of a plan in text.
#[derive(Debug)]
struct Line {
    /// Where its arrow stands.
    column: usize,
    /// Milliseconds of all its loops, with what stands below it.
    total_ms: f64,
    /// None where it has no time of its own: `-> Hash`.
    step: Option<Step>,
}

/// In whose time the time of a line is.
#[derive(Debug, Clone, Copy)]
enum Within {
    /// Of the step at this place.
    Step(usize),
    Statement,
    /// Of a plan that stands below the first one.
    AnotherPlan,
}

/// What a plan says that was not measured: the optimizer's estimates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Estimates {
    /// Tables and indexes that are to be read whole.
    pub(crate) scans: Vec<Scan>,
    /// Rows are sorted.
    pub(crate) sorts: bool,
    /// A temporary table is made.
    pub(crate) has_temporary_table: bool,
}

/// A table or an index that is to be read whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scan {
    /// What it is: `Table scan on o`.
    pub(crate) label: String,
    /// Rows that the optimizer expects of it each time.
    pub(crate) rows: f64,
    /// The indexes that fit its conditions, with commas between them; empty where none does, None where the plan does not say.
    pub(crate) possible: Option<String>,
}

/// What is said of a plan that was not measured.
const ESTIMATED: &str = "the statement was not run for it: what it says are the optimizer's estimates (EXPLAIN ANALYZE, on MariaDB ANALYZE \
                         FORMAT=JSON, runs the statement and measures them)";

impl Estimates {
    /// Adds what is to be read whole; not what the server makes itself, `<temporary>` or `<derived2>`, to which nobody adds an index.
    pub(crate) fn add_scan(&mut self, scan: Scan) {
        if self.scans.len() < MOST && !scan.label.contains(" on <") {
            self.scans.push(scan);
        }
    }

    /// What they say, in sentences.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut scans: Vec<&Scan> = self.scans.iter().filter(|scan| scan.rows >= FEWEST_ROWS).collect();
        scans.sort_by(|one, other| other.rows.total_cmp(&one.rows));
        let mut says = vec![ESTIMATED.to_owned()];
        if scans.is_empty() {
            says.push(format!(
                "no step of it reads a table or an index of {} rows or more whole",
                number::whole(FEWEST_ROWS)
            ));
        }
        says.extend(scans.iter().take(NAMED).map(|scan| {
            let possible = match scan.possible.as_deref() {
                None => String::new(),
                Some("") => "; no index fits its conditions".to_owned(),
                Some(names) => {
                    format!("; by none of the indexes that fit its conditions are rows looked up ({names})")
                }
            };
            format!("{}: {} rows expected each time{possible}", scan.label, number::whole(scan.rows.round()))
        }));
        says.extend(self.sorts.then(|| "it sorts rows: no index gives them in that order".to_owned()));
        says.extend(self.has_temporary_table.then(|| "it makes a temporary table".to_owned()));
        says
    }
}

/// A line without a frame's bar and the name of the column.
fn bare(line: &str) -> &str {
    let line = line.strip_prefix('|').unwrap_or(line);
    let trimmed = line.trim_start();
    trimmed.strip_prefix("EXPLAIN: ").unwrap_or(line)
}

/// True for a step that was measured.
pub(crate) fn is_step(line: &str) -> bool {
    goes_on(line) && (line.contains("(actual time=") || line.contains("(never executed)"))
}

/// True for a line of a plan below its first step. PostgreSQL says of each how wide its rows are.
pub(crate) fn goes_on(line: &str) -> bool {
    bare(line).trim_start().starts_with("-> ") && !line.contains(" width=")
}

/// `108`, `58.1e+6`: the number behind a name.
fn number_behind(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(name)?;
    let digits = rest.split([' ', ')']).next()?;
    // Of `time=0.25..12.3` the last: when the step had its last row.
    let digits = digits.rsplit("..").next().unwrap_or(digits);
    amount(digits)
}

/// What a step does: a condition stands in brackets, or behind a colon.
pub(crate) fn label(text: &str) -> String {
    let label = text.split([':', '(']).next().unwrap_or(text).trim().trim_end_matches(" over");
    label.chars().take(SHOWN).collect()
}

fn line(text: &str) -> Option<Line> {
    let line = bare(text);
    let column = line.find("-> ").filter(|_| goes_on(text))?;
    if !is_step(text) {
        return Some(Line { column, total_ms: 0.0, step: None });
    }
    let text = &line[column + "-> ".len()..];
    let (estimate, actual) = text.split_once("(actual ").unwrap_or((text, ""));
    let loops = number_behind(actual, "loops=").unwrap_or(0.0);
    let step = Step {
        label: label(estimate.split("  (").next().unwrap_or(estimate)),
        expected_rows: estimate.split_once("(cost=").and_then(|(_, rest)| number_behind(rest, "rows=")),
        own_ms: 0.0,
        rows: number_behind(actual, "rows=").unwrap_or(0.0),
        loops,
    };
    let total_ms = number_behind(actual, "time=").unwrap_or(0.0) * loops;
    Some(Line { column, total_ms, step: Some(step) })
}

/// What a plan says, in sentences; none of a text without steps.
pub(crate) fn read(text: &str) -> Vec<String> {
    let lines: Vec<Line> = text.lines().filter_map(line).take(MOST).collect();
    let mut within = Vec::with_capacity(lines.len());
    // The columns of the lines above the one that is looked at, each with the step in whose time it is what stands below.
    let mut open: Vec<(usize, Option<usize>)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        open.retain(|(column, _)| *column < line.column);
        let is_first_or_beside = at == 0 || !open.is_empty();
        let above = open.last().and_then(|(_, step)| *step);
        within.push(match above {
            Some(above) => Within::Step(above),
            None if is_first_or_beside => Within::Statement,
            None => Within::AnotherPlan,
        });
        open.push((line.column, if line.step.is_some() { Some(at) } else { above }));
    }
    let mut whole_ms = 0.0_f64;
    // Of the lines right below each one.
    let mut below_ms = vec![0.0_f64; lines.len()];
    // The last line first: it is known then what stands below each.
    for (at, line) in lines.iter().enumerate().rev() {
        let total_ms = line.total_ms.max(below_ms[at]);
        match within[at] {
            Within::Step(above) => below_ms[above] += total_ms,
            Within::Statement => whole_ms += total_ms,
            Within::AnotherPlan => {}
        }
    }
    let steps = lines.into_iter().zip(below_ms).filter_map(|(line, below_ms)| {
        Some(Step { own_ms: (line.total_ms - below_ms).max(0.0), ..line.step? })
    });
    let steps: Vec<Step> = steps.collect();
    sentences((!steps.is_empty()).then_some(whole_ms), &steps)
}

/// True for the way to read a table or an index whole.
pub(crate) fn is_scan(access: &str) -> bool {
    matches!(access, "ALL" | "index")
}

/// The names of indexes, with commas between them: of a hostile text no more and no longer ones than a server has.
pub(crate) fn index_names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let shown = names.take(MOST_NAMES).map(|name| name.trim().chars().take(LONGEST_NAME).collect::<String>());
    shown.collect::<Vec<String>>().join(", ")
}

/// What is done with a table, in the words of `EXPLAIN ANALYZE`.
pub(crate) fn table_label(table: &str, access: &str, key: &str) -> String {
    let what = match access {
        "ALL" => "Table scan on",
        "index" => "Index scan on",
        "range" => "Index range scan on",
        "ref" | "ref_or_null" | "eq_ref" => "Index lookup on",
        "const" | "system" => "Constant row of",
        "fulltext" => "Full-text index search on",
        "index_merge" => "Index merge on",
        _ => "Reading of",
    };
    let using = if key.is_empty() { String::new() } else { format!(" using {key}") };
    format!("{what} {table}{using}").chars().take(SHOWN).collect()
}

/// What steps say that were measured. The time of the whole statement, milliseconds, where the plan has it: else it is that of its steps.
pub(crate) fn sentences(whole_ms: Option<f64>, steps: &[Step]) -> Vec<String> {
    let all_ms = whole_ms.unwrap_or_else(|| steps.iter().map(|step| step.own_ms).sum());
    let mut by_time: Vec<&Step> = steps.iter().filter(|step| step.own_ms > 0.0).collect();
    by_time.sort_by(|one, other| other.own_ms.total_cmp(&one.own_ms));
    let share = |step: &Step| step.own_ms / all_ms.max(step.own_ms);
    let named = by_time.iter().take(NAMED).enumerate();
    let named = named.filter(|(at, step)| *at == 0 || share(step) >= LEAST_SHARE);
    let mut says: Vec<String> =
        whole_ms.map(|ms| format!("the statement took {}", number::duration(ms / 1e3))).into_iter().collect();
    says.extend(named.map(|(_, step)| {
        format!(
            "{} of the time: {}, {}, {} each time",
            number::percent(share(step)),
            step.label,
            number::counted(step.loops as u64, "time", "times"),
            number::counted(step.rows.round() as u64, "row", "rows")
        )
    }));
    says.extend(wrong_estimate(steps));
    says
}

/// True for a step that reads a table or an index from one end to the other, unless nobody wants more rows of it.
fn reads_all(label: &str) -> bool {
    ["Table scan on ", "Index scan on ", "Covering index scan on "].iter().any(|scan| label.starts_with(scan))
}

/// The estimate that was wrong by the most: a join's order rests on it. That fewer rows came than expected says nothing below a limit, nor of a
/// table or an index that is read whole: its number of rows is known well, and LIMIT has ended it. Of tables that the server fills for the
/// statement, as those of information_schema, it expects none.
fn wrong_estimate(steps: &[Step]) -> Option<String> {
    let has_limit = steps.iter().any(|step| step.label.starts_with("Limit"));
    let wrong = |step: &Step| {
        let expected = step.expected_rows.filter(|rows| *rows > 0.0)?.max(1.0);
        let rows = step.rows.max(1.0);
        if rows < expected && (has_limit || reads_all(&step.label)) {
            return None;
        }
        let by = (rows / expected).max(expected / rows);
        (step.loops > 0.0 && by >= WRONG_BY && rows.max(expected) >= FEWEST_ROWS).then_some(by)
    };
    let (_, step) = steps
        .iter()
        .filter_map(|step| Some((wrong(step)?, step)))
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!(
        "the optimizer expected {} rows of {}, and there were {}: ANALYZE TABLE, a histogram or another index gives it better numbers",
        number::whole(step.expected_rows.unwrap_or(0.0).round()),
        step.label,
        number::whole(step.rows.round())
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::part::Kind;
    use crate::recognise;

    const PLAN: &str = "-> Nested loop inner join  (cost=108 rows=20) (actual time=0.25..4000 rows=1450 loops=1)\n    \
                        -> Filter: (o.state = 'secret')  (cost=50.2 rows=20) (actual time=0.1..1000 rows=2000 loops=1)\n        \
                        -> Table scan on o  (cost=50.2 rows=200) (actual time=0.1..880 rows=9.8e+6 loops=1)\n    \
                        -> Single-row index lookup on c using PRIMARY (id=42)  (cost=0.25 rows=1) (actual time=1.2..1.4 rows=1 loops=2000)\n";

    #[test]
    fn the_steps_that_take_the_time_are_said_in_every_form_and_no_value_is() {
        let framed = format!(
            "+---------+\n| EXPLAIN |\n+---------+\n| {PLAN} |\n+---------+\n1 row in set (4.00 sec)\n"
        );
        let star = "*".repeat(27);
        let vertical = format!("{star} 1. row {star}\nEXPLAIN: {PLAN}\n1 row in set (4.00 sec)\n");
        let escaped = format!("EXPLAIN\n{}\n", PLAN.trim_end().replace('\n', "\\n"));
        for text in [
            PLAN.to_owned(),
            framed,
            vertical,
            escaped,
            format!("Slow since the update:\n\n```\n{PLAN}```\n"),
        ] {
            let parts = recognise("x", &text);
            assert_eq!(
                parts.iter().map(|part| part.kind).collect::<Vec<_>>(),
                [Kind::Plan],
                "{text}: {parts:?}"
            );
            assert_eq!(
                parts[0].says,
                [
                    "the statement took 4 s",
                    "70 % of the time: Single-row index lookup on c using PRIMARY, 2000 times, 1 row each time",
                    "22 % of the time: Table scan on o, 1 time, 9,800,000 rows each time",
                    "the optimizer expected 200 rows of Table scan on o, and there were 9,800,000: ANALYZE TABLE, a histogram or another \
                     index gives it better numbers",
                ],
                "{text}"
            );
        }
    }

    #[test]
    fn a_step_that_a_limit_ended_has_no_wrong_estimate() {
        let wrong = |text: &str| {
            recognise("x", text).into_iter().flat_map(|part| part.says).find(|says| says.contains("expected"))
        };
        let limited = "-> Limit: 7 row(s)  (cost=9 rows=7) (actual time=0.1..2 rows=7 loops=1)\n    \
                       -> Index lookup on o using c (c=7)  (cost=9 rows=90000) (actual time=0.1..2 rows=7 loops=1)\n";
        assert_eq!(wrong(limited), None);
        assert!(wrong(&limited.replace("Limit: 7 row(s)", "Stream results")).is_some());
        let counted = "id\tselect_type\ttable\ttype\tpossible_keys\tkey\tkey_len\tref\trows\tr_rows\tfiltered\tr_filtered\tExtra\n\
                       1\tSIMPLE\to\tindex\tNULL\tby_day\t4\tNULL\t90000\t7.00\t100.00\t100.00\t\n";
        assert_eq!(wrong(counted), None);
        assert!(wrong(&counted.replace("index\tNULL", "range\tby_day")).is_some());
        let filled = "-> Table scan on i  (cost=0.00 rows=0) (actual time=0.1..2 rows=2464 loops=1)\n";
        assert_eq!(wrong(filled), None);
    }

    #[test]
    fn a_line_without_a_time_is_part_of_the_plan_that_it_stands_in() {
        let join = "-> Inner hash join (o.c = c.id)  (cost=9 rows=9) (actual time=1..900 rows=9 loops=1)\n    \
                    -> Table scan on o  (cost=9 rows=9) (actual time=0.1..100 rows=9 loops=1)\n    \
                    -> Hash\n        \
                    -> Table scan on c  (cost=9 rows=9) (actual time=0.1..700 rows=9 loops=1)\n";
        let framed = format!("+---+\n| EXPLAIN |\n+---+\n| {join} |\n+---+\n1 row in set (0.90 sec)\n");
        for text in [join.to_owned(), framed] {
            let parts = recognise("x", &text);
            assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::Plan], "{parts:?}");
            assert_eq!(
                parts[0].says,
                [
                    "the statement took 900 ms",
                    "78 % of the time: Table scan on c, 1 time, 9 rows each time",
                    "11 % of the time: Inner hash join, 1 time, 9 rows each time",
                    "11 % of the time: Table scan on o, 1 time, 9 rows each time",
                ],
                "{text}"
            );
        }
    }

    #[test]
    fn a_step_that_reads_what_was_stored_took_no_less_than_those_that_stored_it() {
        let text = "-> Table scan on <temporary>  (actual time=0.002..0.017 rows=9 loops=1)\n    \
                    -> Aggregate using temporary table  (actual time=300..300 rows=9 loops=1)\n        \
                    -> Table scan on t  (cost=9 rows=9) (actual time=0.1..240 rows=9 loops=1)\n";
        let parts = recognise("x", text);
        assert_eq!(
            parts[0].says,
            [
                "the statement took 300 ms",
                "80 % of the time: Table scan on t, 1 time, 9 rows each time",
                "20 % of the time: Aggregate using temporary table, 1 time, 9 rows each time",
            ],
            "{parts:?}"
        );
    }

    #[test]
    fn a_subquery_in_the_list_of_what_is_selected_runs_beside_the_first_step() {
        let text = "-> Covering index scan on t using a  (cost=9 rows=1000) (actual time=0.1..100 rows=1000 loops=1)\n\
                    -> Select #2 (subquery in projection; dependent)\n    \
                    -> Aggregate: avg(s.b)  (cost=9 rows=1) (actual time=0.9..0.9 rows=1 loops=1000)\n        \
                    -> Covering index lookup on s using a (a=t.a)  (cost=9 rows=9) (actual time=0.1..0.8 rows=9 loops=1000)\n";
        let star = "*".repeat(27);
        for text in [text.to_owned(), format!("{star} 1. row {star}\nEXPLAIN: {text}\n")] {
            let parts = recognise("x", &text);
            assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::Plan], "{parts:?}");
            assert_eq!(
                parts[0].says,
                [
                    "the statement took 1 s",
                    "80 % of the time: Covering index lookup on s using a, 1000 times, 9 rows each time",
                    "10 % of the time: Covering index scan on t using a, 1 time, 1000 rows each time",
                    "10 % of the time: Aggregate, 1000 times, 1 row each time",
                ],
                "{text}"
            );
        }
    }

    #[test]
    fn a_plan_of_postgresql_and_one_that_was_not_measured_are_none() {
        for text in [
            "->  Seq Scan on t  (cost=0.00..8.44 rows=1 width=37) (actual time=0.1..0.2 rows=1 loops=1)\n",
            "-> Table scan on o  (cost=50.2 rows=200)\n",
            "a -> b\n",
        ] {
            assert!(recognise("x", text).iter().all(|part| part.kind == Kind::Unknown), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(text in "(-> |  |\\| |EXPLAIN: |\\(cost=|rows=|\\(actual time=|loops=|\\.\\.|[0-9.e+]{1,6}|\\)|:|é|\n){0,60}") {
            let _read = recognise("x", &text);
        }
    }
}

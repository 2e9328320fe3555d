//! What `EXPLAIN ANALYZE` of MySQL prints: the steps of one statement, each with what the optimizer expected and what it took.
//!
//! ```text
//! -> Nested loop inner join  (cost=108 rows=20) (actual time=0.25..12.3 rows=1450 loops=1)
//!     -> Table scan on o  (cost=50.2 rows=200) (actual time=0.1..3.5 rows=2000 loops=1)
//!     -> Single-row index lookup on c using PRIMARY (id=o.customer_id)  (cost=0.25 rows=1) (actual time=0.005..0.005 rows=1 loops=2000)
//! ```
//!
//! Times are of one loop, and of all that stands below a step. A step's condition is not repeated: it has values of the statement.

use spindoctor_model::number;

/// Steps of one plan.
const MOST: usize = 2_000;
/// Steps that are named.
const NAMED: usize = 3;
/// Steps with less of the time are named only where they are the first. By judgement.
const LEAST_SHARE: f64 = 0.1;
/// Characters of a step that are shown.
const SHOWN: usize = 120;
/// How many times as many rows as expected, or as few, make a wrong estimate, and the fewest rows that are worth a word. By judgement:
/// plans differ little below.
const WRONG_BY: f64 = 100.0;
const FEWEST_ROWS: f64 = 1_000.0;

/// A step.
#[derive(Debug, Clone, Default)]
struct Step {
    /// Where its arrow stands.
    column: usize,
    label: String,
    expected_rows: Option<f64>,
    /// Milliseconds of all its loops, with what stands below it.
    total_ms: f64,
    /// Those of the steps right below it.
    below_ms: f64,
    rows: f64,
    loops: f64,
}

impl Step {
    fn own_ms(&self) -> f64 {
        (self.total_ms - self.below_ms).max(0.0)
    }
}

/// A line without a frame's bar and the name of the column.
fn bare(line: &str) -> &str {
    let line = line.strip_prefix('|').unwrap_or(line);
    let trimmed = line.trim_start();
    trimmed.strip_prefix("EXPLAIN: ").unwrap_or(line)
}

/// True for a step that was measured. PostgreSQL says of each how wide its rows are.
pub(crate) fn is_step(line: &str) -> bool {
    let line = bare(line).trim_start();
    line.starts_with("-> ")
        && (line.contains("(actual time=") || line.contains("(never executed)"))
        && !line.contains(" width=")
}

/// `108`, `58.1e+6`: the number behind a name.
fn number_behind(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(name)?;
    let digits = rest.split([' ', ')']).next()?;
    // Of `time=0.25..12.3` the last: when the step had its last row.
    let digits = digits.rsplit("..").next().unwrap_or(digits);
    digits.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

fn step(line: &str) -> Option<Step> {
    let line = bare(line);
    let column = line.find("-> ").filter(|_| is_step(line))?;
    let text = &line[column + "-> ".len()..];
    let (estimate, actual) = text.split_once("(actual ").unwrap_or((text, ""));
    let label = estimate.split("  (").next().unwrap_or(estimate);
    // A condition stands in brackets, or behind a colon.
    let label = label.split([':', '(']).next().unwrap_or(label).trim().trim_end_matches(" over");
    let loops = number_behind(actual, "loops=").unwrap_or(0.0);
    Some(Step {
        column,
        label: label.chars().take(SHOWN).collect(),
        expected_rows: estimate.split_once("(cost=").and_then(|(_, rest)| number_behind(rest, "rows=")),
        total_ms: number_behind(actual, "time=").unwrap_or(0.0) * loops,
        below_ms: 0.0,
        rows: number_behind(actual, "rows=").unwrap_or(0.0),
        loops,
    })
}

/// What a plan says, in sentences; none of a text without steps.
pub(crate) fn read(text: &str) -> Vec<String> {
    let mut steps: Vec<Step> = text.lines().filter_map(step).take(MOST).collect();
    // The steps above the one that is looked at.
    let mut open: Vec<usize> = Vec::new();
    for at in 0..steps.len() {
        open.retain(|above| steps[*above].column < steps[at].column);
        if let Some(above) = open.last() {
            steps[*above].below_ms += steps[at].total_ms;
        }
        open.push(at);
    }
    let whole_ms: f64 = steps.first().map_or(0.0, |first| first.total_ms);
    let mut by_time: Vec<&Step> = steps.iter().filter(|step| step.own_ms() > 0.0).collect();
    by_time.sort_by(|one, other| other.own_ms().total_cmp(&one.own_ms()));
    let share = |step: &Step| step.own_ms() / whole_ms.max(step.own_ms());
    let named = by_time.iter().take(NAMED).enumerate();
    let named = named.filter(|(at, step)| *at == 0 || share(step) >= LEAST_SHARE);
    let mut says: Vec<String> = steps
        .first()
        .map(|_| format!("the statement took {}", number::duration(whole_ms / 1e3)))
        .into_iter()
        .collect();
    says.extend(named.map(|(_, step)| {
        format!(
            "{} of the time: {}, {}, {} each time",
            number::percent(share(step)),
            step.label,
            number::counted(step.loops as u64, "time", "times"),
            number::counted(step.rows.round() as u64, "row", "rows")
        )
    }));
    says.extend(wrong_estimate(&steps));
    says
}

/// The estimate that was wrong by the most: a join's order rests on it.
fn wrong_estimate(steps: &[Step]) -> Option<String> {
    let wrong = |step: &Step| {
        let expected = step.expected_rows?.max(1.0);
        let rows = step.rows.max(1.0);
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

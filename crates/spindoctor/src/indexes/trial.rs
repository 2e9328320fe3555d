//! The result of a trial's runs: time and pages of the candidate against those of the unchanged statement.
//!
//! In: blocks of runs in quads, whose order a coin decides, and the part of InnoDB's counts that other sessions may
//! have made. Out: ratios with intervals that hold at every look (`spindoctor_tune::statistics::interval`), and a
//! verdict. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Serialize;
use spindoctor_collect::mysql::Rows;
use spindoctor_model::{Effect, Verdict};
use spindoctor_tune::statistics::interval::{ALPHA, Comparison};

/// The least difference of time worth having: below it what a client measures of one statement, wake-ups of two threads
/// included, is no better than that. Chosen, not derived.
const LEAST: f64 = 0.03;
/// Fewer quads have an interval that is hardly one: up to five it is infinite.
const LEAST_QUADS: usize = 8;
/// Pages are shown where others read no more than this part of them meanwhile.
const OTHERS_AT_MOST: f64 = 0.10;
/// A block of runs takes about this long, seconds: timers and wake-ups are then small beside it.
const BLOCK_S: f64 = 0.010;
/// Runs of a block, at most.
const MOST_RUNS: u32 = 50;

/// One block of runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Block {
    /// Time of a run, seconds.
    pub run_s: f64,
    /// Pages that a run asked for; none where they cannot be counted.
    pub pages: Option<f64>,
    /// Pages that a run read from disk; none where they cannot be counted.
    pub from_disk: Option<f64>,
}

/// Four blocks: two of the statement as it is, two of the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quad {
    pub old: [Block; 2],
    pub new: [Block; 2],
}

/// A quantity with and without the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    pub before: f64,
    pub after: f64,
    /// After as a ratio to before; none where one of them was nothing.
    pub effect: Option<Effect>,
}

/// What a trial found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    pub quads: u64,
    /// Runs of the statement in all, of both kinds.
    pub runs: u64,
    /// True where all runs had the same rows.
    pub same_rows: bool,
    pub rows: u64,
    /// Ranges that were looked up for a run of the candidate, by the optimizer's trace; none where the trace does not
    /// say.
    pub dives: Option<u64>,
    /// True where the trace says that dives were skipped for the forced index.
    pub skipped: bool,
    pub time_ms: Compared,
    pub pages: Option<Compared>,
    /// Pages that a run brought into the buffer pool from disk.
    pub pages_from_disk: Option<Compared>,
    /// Pages that a run of the statement as it is asks for while it reads rows, where the server counts them.
    pub pages_for_rows: Option<f64>,
    pub verdict: Verdict,
    /// Why pages are not counted, where they are not.
    #[serde(rename = "pages_not_told")]
    pub pages_not_counted: Option<String>,
}

/// Runs of a block, by what one took.
pub fn runs_of_block(run_s: f64) -> u32 {
    ((BLOCK_S / run_s.max(1e-6)).ceil() as u32).clamp(1, MOST_RUNS)
}

/// What a run asked for of what was counted around a block; none where others may have asked for more than a tenth of it,
/// and for more than one page beside each run.
pub fn of_a_run(counted: f64, runs: u32, took_s: f64, others_per_s: f64) -> Option<f64> {
    let (others, runs) = (others_per_s * took_s, f64::from(runs.max(1)));
    let is_quiet = others <= (OTHERS_AT_MOST * counted).max(runs);
    (counted >= 0.0 && is_quiet).then(|| ((counted - others) / runs).max(0.0))
}

/// Whether what a run of so many milliseconds asks for stands out of what others ask for meanwhile.
pub fn is_quiet(pages: f64, run_ms: f64, others_per_s: f64) -> bool {
    others_per_s * run_ms / 1e3 <= (OTHERS_AT_MOST * pages).max(1.0)
}

/// Whether more quads would give more evidence.
pub fn is_decided(quads: &[Quad]) -> bool {
    quads.len() >= LEAST_QUADS && verdict(quads) != Verdict::Inconclusive
}

/// The verdict over time alone: the candidate changes nothing else that anybody waits for.
pub fn verdict(quads: &[Quad]) -> Verdict {
    let Some(time) = Comparison::at_every_look(&differences(quads, |block| Some(block.run_s)), ALPHA) else {
        return Verdict::Inconclusive;
    };
    match () {
        () if time.high.is_some_and(|high| high < -LEAST) => Verdict::Helps,
        () if time.low.is_some_and(|low| low > LEAST) => Verdict::Hurts,
        () if time.is_within(LEAST) => Verdict::NoSignificantEffect,
        () => Verdict::Inconclusive,
    }
}

/// A quantity of all blocks, before and after; none where a block lacks it.
pub fn compared(quads: &[Quad], of: impl Fn(&Block) -> Option<f64>) -> Option<Compared> {
    let mean = |blocks: fn(&Quad) -> &[Block; 2]| {
        let values: Option<Vec<f64>> = quads.iter().flat_map(blocks).map(&of).collect();
        values
            .filter(|values| !values.is_empty())
            .map(|values| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (before, after) = (mean(|quad| &quad.old)?, mean(|quad| &quad.new)?);
    let differences = differences(quads, &of);
    let is_whole = differences.len() == quads.len();
    let effect = Comparison::at_every_look(&differences, ALPHA).filter(|_| is_whole).map(Effect::from);
    Some(Compared { before, after, effect })
}

/// One difference of logarithms for each quad: within a quad, a drift of the load cancels.
fn differences(quads: &[Quad], of: impl Fn(&Block) -> Option<f64>) -> Vec<f64> {
    let ln = |blocks: &[Block; 2]| -> Option<f64> {
        let logarithms: Option<Vec<f64>> =
            blocks.iter().map(|block| of(block).filter(|value| *value > 0.0).map(f64::ln)).collect();
        logarithms.map(|both| both.iter().sum::<f64>() / 2.0)
    };
    quads.iter().filter_map(|quad| Some(ln(&quad.new)? - ln(&quad.old)?)).collect()
}

/// What identifies equal answers: the number of rows, and a sum over them that does not depend on their order.
pub fn fingerprint(rows: &Rows) -> (u64, u64) {
    let mut sum = 0u64;
    for row in rows.iter() {
        let mut hasher = DefaultHasher::new();
        for at in 0..rows.columns() {
            row.at(at).hash(&mut hasher);
        }
        sum = sum.wrapping_add(hasher.finish());
    }
    (rows.len() as u64, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quads(count: usize, ratio: f64, noise: f64) -> Vec<Quad> {
        let mut random = fastrand::Rng::with_seed(11);
        let mut block = |ms: f64| Block {
            run_s: ms / 1e3 * (1.0 + noise * (random.f64() - 0.5)),
            pages: Some(ms * 100.0),
            from_disk: Some(0.0),
        };
        (0..count)
            .map(|_| Quad { old: [block(2.0), block(2.0)], new: [block(2.0 * ratio), block(2.0 * ratio)] })
            .collect()
    }

    #[test]
    fn what_helps_hurts_and_does_nothing_is_distinguished() {
        assert_eq!(verdict(&quads(12, 0.2, 0.05)), Verdict::Helps);
        assert_eq!(verdict(&quads(12, 1.5, 0.05)), Verdict::Hurts);
        assert_eq!(verdict(&quads(20, 1.0, 0.01)), Verdict::NoSignificantEffect);
        assert_eq!(verdict(&quads(10, 1.0, 0.9)), Verdict::Inconclusive);
        assert_eq!(verdict(&quads(4, 0.2, 0.0)), Verdict::Inconclusive, "four quads have no interval");
        assert_eq!(verdict(&[]), Verdict::Inconclusive);
        assert!(is_decided(&quads(8, 0.2, 0.01)) && !is_decided(&quads(7, 0.2, 0.01)));
    }

    #[test]
    fn a_quantity_is_shown_with_its_ratio_and_interval() {
        let all = quads(12, 0.25, 0.02);
        let time = compared(&all, |block| Some(block.run_s * 1e3)).unwrap();
        let effect = time.effect.unwrap();
        assert!((effect.ratio - 0.25).abs() < 0.01, "{effect:?}");
        assert!(effect.low.unwrap() < 0.25 && effect.high.unwrap() > 0.25, "{effect:?}");
        assert!((time.before - 2.0).abs() < 0.05 && (time.after - 0.5).abs() < 0.02);
        let pages = compared(&all, |block| block.pages).unwrap();
        assert!((pages.effect.unwrap().ratio - 0.25).abs() < 1e-9);
        let from_disk = compared(&all, |block| block.from_disk).unwrap();
        assert_eq!((from_disk.before, from_disk.after, from_disk.effect), (0.0, 0.0, None));
        let mut lacking = all;
        lacking[3].new[1].pages = None;
        assert_eq!(compared(&lacking, |block| block.pages), None);
    }

    #[test]
    fn pages_are_shown_where_the_server_is_quiet_enough() {
        assert_eq!(of_a_run(1_000.0, 10, 0.01, 0.0), Some(100.0));
        assert_eq!(of_a_run(1_000.0, 10, 0.01, 5_000.0), Some(95.0));
        assert_eq!(of_a_run(1_000.0, 10, 0.01, 50_000.0), None);
        assert_eq!(of_a_run(0.0, 10, 0.01, 0.0), Some(0.0));
        assert_eq!(of_a_run(5.0, 10, 0.01, 900.0), Some(0.0), "less than a page a run");
        assert!(is_quiet(100.0, 1.0, 10_000.0) && !is_quiet(100.0, 1.0, 10_001.0));
        assert_eq!(of_a_run(-5.0, 10, 0.01, 0.0), None, "the counter was reset");
    }

    #[test]
    fn a_block_has_as_many_runs_as_fill_ten_milliseconds() {
        assert_eq!([10e-6, 1e-3, 9e-3, 0.5, 0.0].map(runs_of_block), [50, 10, 2, 1, 50]);
    }

    #[test]
    fn answers_are_equal_whatever_the_order_of_their_rows() {
        let rows = |cells: &[[&str; 2]]| {
            let text = |cell: &&str| (*cell != "NULL").then(|| (*cell).to_owned());
            let cells = cells.iter().map(|row| row.iter().map(text).collect()).collect();
            fingerprint(&Rows::new(vec!["a".into(), "b".into()], cells))
        };
        assert_eq!(rows(&[["1", "x"], ["2", "y"]]), rows(&[["2", "y"], ["1", "x"]]));
        assert_ne!(rows(&[["1", "x"]]), rows(&[["1", "x"], ["1", "x"]]));
        assert_ne!(rows(&[["1", "x"]]), rows(&[["x", "1"]]));
        assert_ne!(rows(&[["1", "NULL"]]), rows(&[["1", ""]]));
    }
}

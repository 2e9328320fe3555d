//! The verdict over throughput, p95 and CPU per query together, with its reason in a sentence.
//!
//! In: the blocks so far, and whether more can follow. Out: a [`Judgement`]. It may be asked after every quad, for each
//! interval holds at all looks together. How often a setting without effect helps or hurts in one of the three
//! is counted in [`simulated`](super::simulated): about 3 % of the trials, 5 % are allowed. (Intervals that hold for
//! all three together, each at a third of the level, gave 1 %, and took a fifth more quads to find what is there.)
//!
//! Of each quantity: it helps where its whole interval is better than the least effect worth having, it is the same
//! where the whole interval lies within that, it hurts where the whole interval is worse than none. Together, so that
//! nothing is kept that pays for one with another (Pareto): *hurts* where one of them hurts; else *helps* where
//! throughput helps, or where CPU per query or p95 helps and throughput is shown not to lose more than the least
//! effect; *no significant effect* where all are the same; and *inconclusive* where the time is up before.

use std::fmt::Write as _;

use spindoctor_model::{Block, Effect, Effects, Verdict};

use super::harm::Harm;
use super::interval::{ALPHA, Comparison};
use super::quads::{self, QUANTITIES, Quantity, differences};

/// Whether more quads can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Yes: a trial that is not decided goes on.
    More,
    /// No: time or quads are used up.
    Last,
}

/// What the blocks say.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The verdict; none where the trial is to go on.
    pub verdict: Option<Verdict>,
    /// Why, with its numbers, in a sentence or two.
    pub why: String,
    /// Ratios with their intervals.
    pub effects: Effects,
    /// Quads that count.
    pub quads: u32,
}

/// The least ratio worth having. 1 % of throughput and of CPU per query (below that no setting is worth a change).
/// 5 % of p95: the server's histogram has buckets of 10^(1/50), 4.7 % wide
/// (`performance_schema.events_statements_histogram_global`).
fn least(of: Quantity) -> f64 {
    match of {
        Quantity::Throughput | Quantity::CpuPerQuery => 1.01_f64.ln(),
        Quantity::P95 => 1.05_f64.ln(),
    }
}

/// What is known of one quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Helps,
    Hurts,
    Same,
    /// Not yet narrow enough.
    Open,
}

/// One quantity that was measured.
struct Judged {
    of: Quantity,
    comparison: Comparison,
    known: Known,
}

impl Judged {
    fn new(of: Quantity, comparison: Comparison) -> Self {
        let benefit = comparison.times(of.sign());
        let known = match () {
            () if benefit.low.is_some_and(|low| low > least(of)) => Known::Helps,
            () if benefit.is_within(least(of)) => Known::Same,
            () if benefit.high.is_some_and(|high| high < 0.0) => Known::Hurts,
            () => Known::Open,
        };
        Self { of, comparison, known }
    }

    /// True where it is shown not to lose more than the least effect.
    fn is_no_worse(&self) -> bool {
        self.comparison.times(self.of.sign()).low.is_some_and(|low| low >= -least(self.of))
    }

    /// `throughput +68.2 % (+61.0 to +75.3)`.
    fn words(&self) -> String {
        let mut words = format!("{} {}", self.of.words(), percent(self.comparison.mean));
        if let (Some(low), Some(high)) = (self.comparison.low, self.comparison.high) {
            let _infallible = write!(words, " % ({} to {})", percent(low), percent(high));
        } else {
            words.push_str(" % (no interval yet)");
        }
        words
    }
}

/// A difference of logarithms in signed percent, without the sign.
fn percent(difference: f64) -> String {
    let percent = 100.0 * (Effect::from(Comparison { mean: difference, low: None, high: None }).ratio - 1.0);
    // No minus before a zero.
    format!("{:+.1}", if percent.abs() < 0.05 { 0.0 } else { percent })
}

/// Judges a trial by its blocks.
pub fn judge(blocks: &[Block], look: Look) -> Judgement {
    let measured: Vec<(Quantity, Vec<f64>)> = QUANTITIES
        .map(|of| (of, differences(blocks, of)))
        .into_iter()
        .filter(|(_, differences)| !differences.is_empty())
        .collect();
    let judged: Vec<Judged> = measured
        .iter()
        .filter_map(|(of, differences)| Some(Judged::new(*of, Comparison::of(differences, ALPHA)?)))
        .collect();
    let effect = |wanted: Quantity| {
        judged.iter().find(|judged| judged.of == wanted).map(|judged| Effect::from(judged.comparison))
    };
    let effects = Effects {
        throughput: effect(Quantity::Throughput),
        p95: effect(Quantity::P95),
        cpu_per_query: effect(Quantity::CpuPerQuery),
    };
    let quads = quads::count(blocks);
    let (verdict, because) = match Harm::of(blocks) {
        Some(harm) => (Some(Verdict::Hurts), stopped(harm)),
        None => decide(&judged, look),
    };
    Judgement { verdict, why: sentence(because, &judged, quads), effects, quads }
}

fn stopped(harm: Harm) -> String {
    let lost = 100.0 * (1.0 - harm.ratio);
    format!(
        "it was stopped early: throughput is {lost:.1} % lower in the mean of {} pairs of blocks",
        harm.pairs
    )
}

fn decide(judged: &[Judged], look: Look) -> (Option<Verdict>, String) {
    let that = |known: Known| judged.iter().filter(move |judged| judged.known == known);
    let names = |known: Known| join(that(known).map(|judged| judged.of.words()));
    let Some(throughput) = judged.iter().find(|judged| judged.of == Quantity::Throughput) else {
        let why = "no quad counts yet".to_owned();
        return ((look == Look::Last).then_some(Verdict::Inconclusive), why);
    };
    let (helps, hurts) = (names(Known::Helps), names(Known::Hurts));
    if that(Known::Hurts).next().is_some() {
        let why = match helps.as_str() {
            "" => format!("{hurts} got worse"),
            _ => format!("{helps} got better, but {hurts} got worse"),
        };
        return (Some(Verdict::Hurts), why);
    }
    if throughput.known == Known::Helps || (!helps.is_empty() && throughput.is_no_worse()) {
        return (Some(Verdict::Helps), format!("{helps} got better, and nothing is shown to have got worse"));
    }
    // p95 is the most restless of the three: where it alone stays open, time does not settle it.
    let steady = |judged: &Judged| judged.known == Known::Same || judged.of == Quantity::P95;
    if judged.iter().all(|judged| judged.known == Known::Same)
        || (look == Look::Last && judged.iter().all(steady) && that(Known::Helps).next().is_none())
    {
        let within = "changed by less than is worth having";
        return (Some(Verdict::NoSignificantEffect), format!("{} {within}", names(Known::Same)));
    }
    let open = match names(Known::Open).as_str() {
        "" => "throughput may have got worse".to_owned(),
        open => format!("{open} could not be told yet"),
    };
    ((look == Look::Last).then_some(Verdict::Inconclusive), open)
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn sentence(because: String, judged: &[Judged], quads: u32) -> String {
    let mut why = because;
    if let Some(first) = why.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let numbers: Vec<String> = judged.iter().map(Judged::words).collect();
    let _infallible = match numbers.as_slice() {
        [] => write!(why, "."),
        numbers => write!(why, ": {} in {quads} quads.", numbers.join(", ")),
    };
    why
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::quads::Order;
    use super::super::simulated::Random;
    use super::*;

    /// A trial with those ratios of throughput, p95 and CPU per query, and a noise of half a percent.
    fn trial(quads: u32, [throughput, p95, cpu]: [f64; 3]) -> Vec<Block> {
        let mut random = Random::seeded(7);
        (0..quads)
            .flat_map(|quad| {
                Order::toss(|| random.coin()).is_new().map(|is_new| {
                    let mut noisy = |ratio: f64, base: f64| {
                        base * if is_new { ratio } else { 1.0 } * (0.005 * random.normal()).exp()
                    };
                    Block {
                        quad,
                        is_new,
                        throughput_per_s: noisy(throughput, 6_000.0),
                        p95_ms: Some(noisy(p95, 20.0)),
                        cpu_us_per_query: Some(noisy(cpu, 150.0)),
                        ..Block::default()
                    }
                })
            })
            .collect()
    }

    fn verdict(effects: [f64; 3]) -> Option<Verdict> {
        judge(&trial(24, effects), Look::More).verdict
    }

    #[test]
    fn it_helps_where_one_gains_and_none_loses() {
        assert_eq!(verdict([1.05, 1.0, 1.0]), Some(Verdict::Helps));
        assert_eq!(verdict([1.05, 0.8, 0.9]), Some(Verdict::Helps));
        assert_eq!(verdict([1.0, 1.0, 0.9]), Some(Verdict::Helps));
        assert_eq!(verdict([1.0, 0.8, 1.0]), Some(Verdict::Helps));
    }

    #[test]
    fn it_hurts_where_one_loses_whatever_the_others_gain() {
        assert_eq!(verdict([0.95, 1.0, 1.0]), Some(Verdict::Hurts));
        assert_eq!(verdict([1.05, 1.2, 1.0]), Some(Verdict::Hurts));
        assert_eq!(verdict([0.95, 1.0, 0.8]), Some(Verdict::Hurts));
        let trade = judge(&trial(24, [1.05, 1.0, 1.2]), Look::More);
        assert_eq!(trade.verdict, Some(Verdict::Hurts));
        assert!(trade.why.contains("Throughput got better, but CPU per query got worse"), "{}", trade.why);
    }

    #[test]
    fn nothing_changes_where_all_stay_within_the_least_effect() {
        assert_eq!(verdict([1.0, 1.0, 1.0]), Some(Verdict::NoSignificantEffect));
        // Five per thousand of throughput are real, and not worth having.
        assert_eq!(
            judge(&trial(60, [1.005, 1.0, 1.0]), Look::More).verdict,
            Some(Verdict::NoSignificantEffect)
        );
    }

    #[test]
    fn a_few_quads_go_on_and_are_inconclusive_when_they_must_end() {
        let few = trial(3, [1.05, 1.0, 1.0]);
        let going_on = judge(&few, Look::More);
        assert_eq!((going_on.verdict, going_on.quads), (None, 3));
        assert_eq!(going_on.effects.throughput.unwrap().low, None);
        let ended = judge(&few, Look::Last);
        assert_eq!(ended.verdict, Some(Verdict::Inconclusive));
        assert!(ended.why.contains("could not be told yet: throughput +4."), "{}", ended.why);
        assert_eq!(judge(&[], Look::Last).why, "No quad counts yet.");
    }

    #[test]
    fn the_reason_names_each_quantity_with_its_interval() {
        let judged = judge(&trial(12, [1.68, 0.6, 0.61]), Look::More);
        assert!(judged.why.starts_with("Throughput, p95 and CPU per query got better"), "{}", judged.why);
        assert!(
            judged.why.contains("throughput +6") && judged.why.ends_with("in 12 quads."),
            "{}",
            judged.why
        );
    }

    #[test]
    fn a_restless_p95_alone_does_not_keep_a_trial_from_its_end() {
        let mut blocks = trial(24, [1.0, 1.0, 1.0]);
        let mut random = Random::seeded(3);
        for block in &mut blocks {
            block.p95_ms = Some(20.0 * (0.3 * random.normal()).exp());
        }
        assert_eq!(judge(&blocks, Look::More).verdict, None);
        let ended = judge(&blocks, Look::Last);
        assert_eq!(ended.verdict, Some(Verdict::NoSignificantEffect), "{}", ended.why);
    }

    #[test]
    fn what_could_not_be_measured_is_left_out() {
        let mut blocks = trial(6, [1.5, 1.0, 1.0]);
        blocks.iter_mut().for_each(|block| (block.p95_ms, block.cpu_us_per_query) = (None, None));
        let judged = judge(&blocks, Look::More);
        assert_eq!((judged.verdict, judged.effects.p95), (Some(Verdict::Helps), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn hostile_numbers_never_panic_and_always_end(
            blocks in prop::collection::vec(
                (0_u32..9, any::<bool>(), any::<f64>(), any::<Option<f64>>(), any::<Option<f64>>(), 1.0..1e4),
                0..60,
            ),
        ) {
            let blocks: Vec<Block> = blocks
                .into_iter()
                .map(|(quad, is_new, throughput_per_s, p95_ms, cpu_us_per_query, sane)| Block {
                    quad,
                    is_new,
                    throughput_per_s: if throughput_per_s > 0.0 { throughput_per_s } else { sane },
                    p95_ms,
                    cpu_us_per_query,
                    ..Block::default()
                })
                .collect();
            let judged = judge(&blocks, Look::Last);
            prop_assert!(judged.verdict.is_some() && judged.why.ends_with('.'));
        }
    }
}

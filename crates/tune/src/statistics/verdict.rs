//! The verdict over throughput, p95 and CPU per query together, with its reason in a sentence.
//!
//! In: the blocks so far, whether more can follow, and the [`Terms`]. Out: a [`Judgement`]. It may be asked after every
//! quad.
//!
//! **Of each quantity** ([`QuantityVerdict`]): *better* where its whole interval is better than the least effect worth having;
//! *worse* where the whole interval is worse than its margin; *same* where the whole interval lies within the margin;
//! *no worse* where no part of it is worse than the margin; else there is *not enough evidence*.
//!
//! **Together**, so that nothing is kept that pays for one quantity with another (Pareto): *hurts* where one is worse,
//! also where another is better (a trade-off, which nothing here may decide); *helps* where one is better and each of
//! the others is shown to be better, the same or no worse; *no significant effect* where all are the same;
//! *inconclusive* where the time is up before, with what there is not enough evidence about. An unknown quantity never
//! counts as no worse. A quantity that this server does not have is left out, and the reason says so.
//!
//! **What may be wrong, and how often.** The 5 % of an interval are spent in two parts: 2 % on all the looks after each
//! quad ([`Comparison::at_every_look`]), 3 % on one planned look ([`Comparison::at_one_look`]). That comes when all quantities are known
//! precisely enough (a rule that looks at the spread alone, never at the mean: Chow and Robbins, "On the asymptotic theory
//! of fixed-width sequential confidence intervals", 1965), or else when the time is up. Both hold, so what they leave
//! together is shown. *No worse* and *same* are claims of all of several, each at that level (two one-sided tests:
//! Schuirmann 1987; intersection-union: Berger 1982). *Better* and *worse* are claims of one of three, so each is made at
//! a third of the level (Bonferroni), and where several candidates are compared on the same blocks, at that part of it.
//! How often all this is wrong, and how often it finds what is there, is counted in [`simulated`](super::simulated).

use std::fmt::Write as _;

use spindoctor_model::trial::{Judged as JudgedQuantity, QuantityVerdict};
use spindoctor_model::{Block, Effect, Effects, Verdict};

use super::harm::Harm;
use super::interval::{ALPHA, Comparison};
use super::judged::Judged;
use super::margins::{Margins, percent};
use super::quads::{self, QUANTITIES, Quantity};
use super::words::{capital, join, join_owned, join_semicolon};

/// What a trial is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// How much worse each quantity may get.
    pub margins: Margins,
    /// Candidates that are compared on the same blocks: each gets that part of the error that is allowed.
    pub candidates: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { margins: Margins::default(), candidates: 1 }
    }
}

/// Whether more quads can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Yes: a trial that is not decided goes on.
    More,
    /// No: the time or the quads that were planned are used up.
    Last,
    /// No: something ended it before its time. What is planned for the last look is not spent.
    Cut,
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
    /// Each quantity by itself.
    pub judged: Vec<JudgedQuantity>,
    /// Quantities of which there is not enough evidence.
    pub missing: Vec<Quantity>,
    /// True where one got better and another worse.
    pub is_trade_off: bool,
}

/// The probability that one of all the looks after each quad leaves out the truth.
pub const ALPHA_LOOKS: f64 = 0.02;
/// The same of the one planned look.
pub const ALPHA_PLANNED: f64 = ALPHA - ALPHA_LOOKS;
/// The planned look comes when no interval of it reaches farther than this part of its margin: then the estimate of what
/// has no effect lies within the other part in 19 of 20 cases.
pub const PRECISE: f64 = 0.5;
/// Quads before the planned look at least: of fewer the spread itself is hardly known.
pub const LEAST_PLANNED: usize = 8;
/// A quantity that is missing in more than this part of the quads is not known: it may be missing because it was bad.
const MOST_LACKING: f64 = 0.25;

/// Judges a trial by its blocks.
pub fn judge(blocks: &[Block], look: Look, terms: &Terms) -> Judgement {
    let measured: Vec<(Quantity, Vec<f64>)> = QUANTITIES
        .map(|of| (of, quads::compared(blocks, of)))
        .into_iter()
        .filter(|(_, differences)| !differences.is_empty())
        .collect();
    let planned = planned_look(&measured, look, terms);
    let quads = quads::count(blocks);
    let judged: Vec<Judged> = measured
        .iter()
        .filter_map(|(of, differences)| {
            let share = 1.0 / f64::from(terms.candidates.max(1));
            let whole = interval(differences, planned, share)?;
            let strict = interval(differences, planned, share / QUANTITIES.len() as f64)?;
            let is_lacking = (differences.len() as f64) < (1.0 - MOST_LACKING) * f64::from(quads);
            Some(Judged::new(*of, (whole, strict), differences.len(), is_lacking, terms))
        })
        .collect();
    let find = |wanted: Quantity| judged.iter().find(|judged| judged.of == wanted);
    let effect = |wanted: Quantity| find(wanted).map(|judged| Effect::from(judged.comparison));
    let effects = Effects {
        throughput: effect(Quantity::Throughput),
        p95: effect(Quantity::P95),
        cpu_per_query: effect(Quantity::CpuPerQuery),
    };
    let decided = match Harm::from_blocks(blocks, terms.margins.ln(Quantity::Throughput)) {
        Some(harm) => Decided::plain(Some(Verdict::Hurts), stopped(harm)),
        None => decide(&judged, look, quads),
    };
    Judgement {
        verdict: decided.verdict,
        why: sentence(&decided.because, &judged, quads, &decided.after),
        effects,
        quads,
        judged: QUANTITIES
            .map(|of| JudgedQuantity {
                quantity: of.field().to_owned(),
                shown: find(of).map_or(QuantityVerdict::NotMeasured, |judged| judged.shown),
                effect: effect(of),
                margin: terms.margins.part(of),
                quads: find(of).map_or(0, |judged| u32::try_from(judged.quads).unwrap_or(u32::MAX)),
            })
            .into(),
        missing: decided.missing,
        is_trade_off: decided.is_trade_off,
    }
}

/// After how many differences the planned look comes; none where it has not come yet, or never will.
fn planned_look(measured: &[(Quantity, Vec<f64>)], look: Look, terms: &Terms) -> Option<usize> {
    let count = measured.iter().map(|(_, differences)| differences.len()).max()?;
    // A quantity that lacks in some quads has another number of them: they are counted as if none lacked.
    let reaches = |of: Quantity, differences: &[f64]| {
        Comparison::at_one_look(differences, ALPHA_PLANNED)
            .and_then(|once| once.reach())
            .is_some_and(|reach| reach <= PRECISE * terms.margins.ln(of))
    };
    let is_precise = |n: &usize| {
        measured.iter().all(|(of, differences)| differences.len() >= *n && reaches(*of, &differences[..*n]))
    };
    (LEAST_PLANNED..=count).find(is_precise).or((look == Look::Last).then_some(count))
}

/// What all the looks and the planned one leave together, with this share of the error that is allowed.
fn interval(differences: &[f64], planned: Option<usize>, share: f64) -> Option<Comparison> {
    let looks = Comparison::at_every_look(differences, ALPHA_LOOKS * share)?;
    let until = planned.map(|n| &differences[..n.min(differences.len())]);
    match until.and_then(|until| Comparison::at_one_look(until, ALPHA_PLANNED * share)) {
        Some(once) => Some(looks.and(Comparison { mean: looks.mean, ..once })),
        None => Some(looks),
    }
}

fn stopped(harm: Harm) -> String {
    let lost = 100.0 * (1.0 - harm.ratio);
    format!(
        "it was stopped early: throughput is {lost:.1} % lower in the mean of {} pairs of blocks",
        harm.pairs
    )
}

/// The verdict with its reason.
struct Decided {
    verdict: Option<Verdict>,
    /// Begins the sentence that the numbers end.
    because: String,
    /// Stands behind it.
    after: String,
    missing: Vec<Quantity>,
    is_trade_off: bool,
}

impl Decided {
    fn plain(verdict: Option<Verdict>, because: String) -> Self {
        Self { verdict, because, after: String::new(), missing: Vec::new(), is_trade_off: false }
    }
}

fn decide(judged: &[Judged], look: Look, quads: u32) -> Decided {
    let that = |shown: QuantityVerdict| judged.iter().filter(move |judged| judged.shown == shown);
    let names = |shown: QuantityVerdict| join(that(shown).map(|judged| judged.of.words()));
    let is_over = look != Look::More;
    if quads == 0 || !judged.iter().any(|judged| judged.of == Quantity::Throughput) {
        let mut decided = Decided::plain(
            is_over.then_some(Verdict::Inconclusive),
            "there is no evidence: no quad counts yet".to_owned(),
        );
        decided.missing = QUANTITIES.into();
        return decided;
    }
    let (better, worse) = (names(QuantityVerdict::Better), names(QuantityVerdict::Worse));
    if !worse.is_empty() {
        let beyond = join_owned(
            that(QuantityVerdict::Worse)
                .map(|judged| format!("{} of {}", judged.of.words(), percent(judged.margin))),
        );
        let mut decided = match better.as_str() {
            "" => Decided::plain(Some(Verdict::Hurts), format!("{worse} got worse by more than the margin")),
            _ => Decided::plain(
                Some(Verdict::Hurts),
                format!(
                    "a trade-off, and not kept by itself: {better} got better, but {worse} got worse by more than the margin"
                ),
            ),
        };
        decided.is_trade_off = !better.is_empty();
        decided.after = match decided.is_trade_off {
            true => format!(
                "The margin for {beyond}; a wider one ({}) accepts it.",
                join(that(QuantityVerdict::Worse).map(|judged| judged.of.flag()))
            ),
            false => format!("The margin for {beyond}."),
        };
        return decided;
    }
    // What may still be worse, or is not known to be better or the same.
    let open: Vec<&Judged> = that(QuantityVerdict::Open).collect();
    if !better.is_empty() && open.is_empty() {
        let others =
            join(judged.iter().filter(|one| one.shown != QuantityVerdict::Better).map(|one| one.of.words()));
        let because = match others.as_str() {
            "" => format!("{better} got better"),
            others => format!("{better} got better, and {others} did not get worse by more than the margin"),
        };
        return Decided { after: not_measured(judged), ..Decided::plain(Some(Verdict::Helps), because) };
    }
    if that(QuantityVerdict::Same).count() == judged.len() {
        let within = join_owned(
            judged
                .iter()
                .map(|judged| format!("{} by less than {}", judged.of.words(), percent(judged.margin))),
        );
        let because = format!("no change that matters: {within}");
        return Decided {
            after: not_measured(judged),
            ..Decided::plain(Some(Verdict::NoSignificantEffect), because)
        };
    }
    // Of what is not worse it may be open whether it is better.
    let missing: Vec<&Judged> = match open.is_empty() {
        false => open,
        true => that(QuantityVerdict::NoWorse).collect(),
    };
    let about = join(missing.iter().map(|judged| judged.of.words()));
    let because = match better.as_str() {
        "" => format!("not enough evidence about {about}"),
        better => format!("{better} got better, but there is not enough evidence about {about}"),
    };
    let why = missing.iter().map(|judged| match judged.shown {
        QuantityVerdict::Open => judged.open_words(),
        _ => format!("{} is no worse than its margin, and may be better", judged.of.words()),
    });
    let mut after = capital(&format!("{}.", join_semicolon(why)));
    let less: Vec<String> = judged.iter().filter_map(Judged::less_than).collect();
    if better.is_empty() && !less.is_empty() && is_over {
        let _infallible = write!(after, " What is shown: it changed {}.", join_owned(less.into_iter()));
    }
    if let Some(lost) = judged.iter().find(|judged| judged.is_below_none) {
        let _infallible = write!(
            after,
            " {} got worse, by less than its margin or by more: that is open.",
            capital(lost.of.words())
        );
    }
    Decided {
        verdict: is_over.then_some(Verdict::Inconclusive),
        because,
        after,
        missing: missing.iter().map(|judged| judged.of).collect(),
        is_trade_off: false,
    }
}

/// What this server does not give, in a sentence; empty where it gives all.
fn not_measured(judged: &[Judged]) -> String {
    let lacking = QUANTITIES.into_iter().filter(|of| judged.iter().all(|judged| judged.of != *of));
    match join(lacking.map(Quantity::words)).as_str() {
        "" => String::new(),
        lacking => format!("Nothing is known of {lacking}: not measured here."),
    }
}

fn sentence(because: &str, judged: &[Judged], quads: u32, after: &str) -> String {
    let mut why = capital(because);
    let numbers: Vec<String> = judged.iter().map(Judged::words).collect();
    let quads = if quads == 1 { "1 quad".to_owned() } else { format!("{quads} quads") };
    let _infallible = match numbers.as_slice() {
        [] => write!(why, "."),
        numbers => write!(why, ": {} in {quads}.", numbers.join(", ")),
    };
    if !after.is_empty() {
        why.push(' ');
        why.push_str(after);
    }
    why
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::quads::Order;
    use super::super::simulated::Random;
    use super::super::words::up;
    use super::*;

    /// A trial with those ratios of throughput, p95 and CPU per query, and those noises.
    fn noisy_trial(quads: u32, [throughput, p95, cpu]: [f64; 3], noises: [f64; 3]) -> Vec<Block> {
        let mut random = Random::seeded(7);
        (0..quads)
            .flat_map(|quad| {
                Order::toss(|| random.coin()).is_new().map(|is_new| {
                    let mut noisy = |ratio: f64, base: f64, noise: f64| {
                        base * if is_new { ratio } else { 1.0 } * (noise * random.normal()).exp()
                    };
                    Block {
                        quad,
                        is_new,
                        throughput_per_s: noisy(throughput, 6_000.0, noises[0]),
                        p95_ms: Some(noisy(p95, 20.0, noises[1])),
                        cpu_us_per_query: Some(noisy(cpu, 150.0, noises[2])),
                        ..Block::default()
                    }
                })
            })
            .collect()
    }

    fn trial(quads: u32, effects: [f64; 3]) -> Vec<Block> {
        noisy_trial(quads, effects, [0.005; 3])
    }

    fn judged(blocks: &[Block], look: Look) -> Judgement {
        judge(blocks, look, &Terms::default())
    }

    fn verdict(effects: [f64; 3]) -> Option<Verdict> {
        judged(&trial(24, effects), Look::More).verdict
    }

    #[test]
    fn it_helps_where_one_gains_and_each_other_is_shown_not_to_lose() {
        assert_eq!(verdict([1.05, 1.0, 1.0]), Some(Verdict::Helps));
        assert_eq!(verdict([1.05, 0.8, 0.9]), Some(Verdict::Helps));
        assert_eq!(verdict([1.0, 1.0, 0.9]), Some(Verdict::Helps));
        assert_eq!(verdict([1.0, 0.8, 1.0]), Some(Verdict::Helps));
        // 5 % of p95 are within its margin of 10 %.
        let judged = judged(&trial(24, [1.05, 1.05, 1.0]), Look::More);
        assert_eq!(judged.verdict, Some(Verdict::Helps), "{}", judged.why);
        assert_eq!(judged.judged[1].shown, QuantityVerdict::Same);
    }

    /// The gain is clear, the loss hidden in noise: that p95 is unknown is no proof that it is no worse.
    #[test]
    fn a_clear_gain_with_a_noisy_loss_is_not_enough_evidence() {
        let blocks = noisy_trial(24, [1.05, 1.2, 1.0], [0.005, 0.4, 0.005]);
        assert_eq!(judged(&blocks, Look::More).verdict, None);
        let ended = judged(&blocks, Look::Last);
        assert_eq!(ended.verdict, Some(Verdict::Inconclusive), "{}", ended.why);
        assert_eq!(ended.missing, [Quantity::P95]);
        assert!(
            ended.why.starts_with("Throughput got better, but there is not enough evidence about p95: ")
                && ended.why.contains("p95 may be up to")
                && ended.why.ends_with("% worse, and its margin is 10 %."),
            "{}",
            ended.why
        );
        assert_eq!(
            ended.judged.iter().map(|judged| judged.shown).collect::<Vec<_>>(),
            [QuantityVerdict::Better, QuantityVerdict::Open, QuantityVerdict::Same]
        );
        // The same of CPU per query, and of throughput where something else gains.
        let blocks = noisy_trial(24, [1.05, 1.0, 1.05], [0.005, 0.005, 0.1]);
        assert_eq!(judged(&blocks, Look::Last).missing, [Quantity::CpuPerQuery]);
        let blocks = noisy_trial(24, [0.97, 0.7, 1.0], [0.1, 0.005, 0.005]);
        assert_eq!(judged(&blocks, Look::Last).missing, [Quantity::Throughput]);
    }

    #[test]
    fn it_hurts_where_one_loses_more_than_its_margin_whatever_the_others_gain() {
        assert_eq!(verdict([0.95, 1.0, 1.0]), Some(Verdict::Hurts));
        assert_eq!(verdict([1.05, 1.2, 1.0]), Some(Verdict::Hurts));
        assert_eq!(verdict([0.95, 1.0, 0.8]), Some(Verdict::Hurts));
    }

    #[test]
    fn a_trade_off_is_said_to_be_one_and_which_margin_would_accept_it() {
        let blocks = trial(24, [1.68, 1.15, 1.0]);
        let trade = judged(&blocks, Look::More);
        assert_eq!((trade.verdict, trade.is_trade_off), (Some(Verdict::Hurts), true));
        assert!(
            trade
                .why
                .starts_with("A trade-off, and not kept by itself: throughput got better, but p95 got worse")
                && trade.why.ends_with("The margin for p95 of 10 %; a wider one (--margin-p95) accepts it."),
            "{}",
            trade.why
        );
        let wider = Terms { margins: Margins { p95: 0.2, ..Margins::default() }, ..Terms::default() };
        let accepted = judge(&blocks, Look::More, &wider);
        assert_eq!(
            (accepted.verdict, accepted.is_trade_off),
            (Some(Verdict::Helps), false),
            "{}",
            accepted.why
        );
        // A loss that pays for nothing is none.
        assert!(!judged(&trial(24, [0.95, 1.0, 1.0]), Look::More).is_trade_off);
    }

    #[test]
    fn nothing_changes_where_all_stay_within_their_margins() {
        assert_eq!(verdict([1.0, 1.0, 1.0]), Some(Verdict::NoSignificantEffect));
        // Five per thousand of throughput are real, and not worth having.
        assert_eq!(verdict([1.005, 1.0, 1.0]), Some(Verdict::NoSignificantEffect));
        let narrow =
            Terms { margins: Margins { throughput: 0.001, ..Margins::default() }, ..Terms::default() };
        assert_eq!(judge(&trial(24, [1.0; 3]), Look::More, &narrow).verdict, None);
    }

    #[test]
    fn what_time_did_not_suffice_for_is_bounded_by_what_was_reached() {
        let blocks = noisy_trial(10, [1.0; 3], [0.05, 0.005, 0.005]);
        let ended = judged(&blocks, Look::Last);
        assert_eq!(ended.verdict, Some(Verdict::Inconclusive));
        let throughput = ended.effects.throughput.unwrap();
        let farthest = throughput.high.unwrap().max(1.0 / throughput.low.unwrap()) - 1.0;
        let said = format!("throughput by less than {}", up(farthest));
        assert!(ended.why.contains(&said), "{said}: {}", ended.why);
    }

    #[test]
    fn a_few_quads_go_on_and_are_inconclusive_when_they_must_end() {
        let few = trial(3, [1.05, 1.0, 1.0]);
        let going_on = judged(&few, Look::More);
        assert_eq!((going_on.verdict, going_on.quads), (None, 3));
        assert_eq!(going_on.effects.throughput.unwrap().low, None);
        let ended = judged(&few, Look::Last);
        assert_eq!(ended.verdict, Some(Verdict::Inconclusive));
        assert!(ended.why.starts_with("Not enough evidence about throughput, p95 and CPU"), "{}", ended.why);
        assert_eq!(judged(&[], Look::Last).why, "There is no evidence: no quad counts yet.");
        assert_eq!(judged(&[], Look::Last).missing, QUANTITIES);
    }

    /// A trial that something ended has no planned look: its intervals are those that hold at every look.
    #[test]
    fn a_trial_that_was_cut_short_has_wider_intervals_than_one_that_ended_as_planned() {
        let blocks = trial(7, [1.0; 3]);
        let reach = |look| judged(&blocks, look).effects.throughput.unwrap().high.unwrap();
        assert!(reach(Look::Cut) > reach(Look::Last));
        assert_eq!(judged(&blocks, Look::Cut).verdict, Some(Verdict::Inconclusive));
    }

    #[test]
    fn several_candidates_on_the_same_blocks_share_the_error_that_is_allowed() {
        let blocks = noisy_trial(14, [1.0; 3], [0.02; 3]);
        let reach = |candidates| {
            let terms = Terms { candidates, ..Terms::default() };
            judge(&blocks, Look::Last, &terms).effects.throughput.unwrap().high.unwrap()
        };
        assert!(reach(2) > reach(1) && reach(10) > reach(2));
    }

    #[test]
    fn the_reason_names_each_quantity_with_its_interval() {
        let judged = judged(&trial(12, [1.68, 0.6, 0.61]), Look::More);
        assert!(judged.why.starts_with("Throughput, p95 and CPU per query got better"), "{}", judged.why);
        assert!(
            judged.why.contains("throughput +6") && judged.why.ends_with("in 12 quads."),
            "{}",
            judged.why
        );
    }

    #[test]
    fn a_restless_p95_is_not_said_to_be_the_same() {
        let blocks = noisy_trial(24, [1.0; 3], [0.005, 0.3, 0.005]);
        let ended = judged(&blocks, Look::Last);
        assert_eq!(ended.verdict, Some(Verdict::Inconclusive), "{}", ended.why);
        assert_eq!(ended.missing, [Quantity::P95]);
        assert!(ended.why.starts_with("Not enough evidence about p95"), "{}", ended.why);
    }

    #[test]
    fn what_this_server_does_not_give_is_said_to_be_unknown() {
        let mut blocks = trial(14, [1.5, 1.0, 1.0]);
        blocks.iter_mut().for_each(|block| (block.p95_ms, block.cpu_us_per_query) = (None, None));
        let found = judged(&blocks, Look::More);
        assert_eq!((found.verdict, found.effects.p95), (Some(Verdict::Helps), None));
        assert!(
            found.why.ends_with("Nothing is known of p95 and CPU per query: not measured here."),
            "{}",
            found.why
        );
        assert_eq!(found.judged[1].shown, QuantityVerdict::NotMeasured);
        // What it gives in some blocks must be known from those.
        let mut some = trial(14, [1.5, 1.0, 1.0]);
        some.iter_mut().skip(16).for_each(|block| block.p95_ms = None);
        let found = judged(&some, Look::Last);
        assert_eq!((found.verdict, found.missing), (Some(Verdict::Inconclusive), vec![Quantity::P95]));
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
                    loop_ns: cpu_us_per_query,
                    ..Block::default()
                })
                .collect();
            let judged = judged(&blocks, Look::Last);
            prop_assert!(judged.verdict.is_some() && judged.why.ends_with('.'));
        }
    }
}

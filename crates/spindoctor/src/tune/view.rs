//! The formats of `spindoctor tune`. Each is a function from a finished [`Tuning`] to text.

use spindoctor_model::trial::{Judged, QuantityVerdict};
use spindoctor_model::{Block, Change, Effect, Effects, Trial, Tuning, Verdict};

use spindoctor_page::{json, number};

/// The tuning as indented JSON: the schema `spindoctor.trial/1`, which is the model's [`Tuning`] as it is.
pub fn to_json(tuning: &Tuning) -> serde_json::Result<String> {
    json::to_text(tuning)
}

/// One of the three quantities that are compared, as a report shows it.
pub struct Quantity {
    /// `throughput`.
    pub name: &'static str,
    /// Its name in JSON.
    field: &'static str,
    /// What it is, in words.
    pub meaning: &'static str,
    /// True where less of it is better.
    less_is_better: bool,
    /// The unit of [`number::quantity`].
    unit: &'static str,
    pub of_effects: fn(&Effects) -> Option<Effect>,
    pub of_block: fn(&Block) -> Option<f64>,
}

/// In the order in which they are shown.
pub const QUANTITIES: [Quantity; 3] = [
    Quantity {
        name: "throughput",
        field: "throughput",
        meaning: "statements a second",
        less_is_better: false,
        unit: "1/s",
        of_effects: |effects| effects.throughput,
        of_block: |block| Some(block.throughput_per_s),
    },
    Quantity {
        name: "p95",
        field: "p95",
        meaning: "95th percentile of a statement's time",
        less_is_better: true,
        unit: "ms",
        of_effects: |effects| effects.p95,
        of_block: |block| block.p95_ms,
    },
    Quantity {
        name: "CPU/query",
        field: "cpu_per_query",
        meaning: "CPU time of the server's process for each statement",
        less_is_better: true,
        unit: "us",
        of_effects: |effects| effects.cpu_per_query,
        of_block: |block| block.cpu_us_per_query,
    },
];

impl Quantity {
    /// Its mean with the old and with the new setting, over the blocks that count: the geometric one, whose ratio is the
    /// effect's.
    pub fn means(&self, trial: &Trial) -> Option<(f64, f64)> {
        let mean = |is_new: bool| {
            let blocks =
                trial.blocks.iter().filter(|block| block.is_new == is_new && block.left_out.is_none());
            let logarithms: Vec<f64> =
                blocks.filter_map(self.of_block).filter(|value| *value > 0.0).map(f64::ln).collect();
            let count = logarithms.len() as f64;
            (count > 0.0).then(|| (logarithms.iter().sum::<f64>() / count).exp())
        };
        Some((mean(false)?, mean(true)?))
    }

    /// What decided over it; none in a trial that was logged before there were margins.
    pub fn judged<'t>(&self, trial: &'t Trial) -> Option<&'t Judged> {
        trial.judged.iter().find(|judged| judged.quantity == self.field)
    }

    /// A value of it, with its unit.
    pub fn shown(&self, value: f64) -> String {
        match self.unit {
            "1/s" => number::quantity(value.round(), "1/s"),
            unit => number::quantity(value, unit),
        }
    }

    /// Whether a ratio of it is better, worse or neither: an interval on one side of 1 decides.
    pub fn leaning(&self, effect: &Effect) -> Leaning {
        let is_more = effect.low.is_some_and(|low| low > 1.0);
        let is_less = effect.high.is_some_and(|high| high < 1.0);
        match (is_more, is_less) {
            (false, false) => Leaning::Neither,
            (is_more, _) if is_more != self.less_is_better => Leaning::Better,
            _ => Leaning::Worse,
        }
    }
}

/// Which way an interval leans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaning {
    Better,
    Worse,
    Neither,
}

/// A ratio as a change: `+68.3 %`, `-12 %`, `2.7 times`.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent.abs() {
        _ if ratio >= 3.0 => format!("{} times", number::plain((ratio * 10.0).round() / 10.0)),
        size if size < 0.05 => "0.0 %".to_owned(),
        _ => format!("{percent:+.1} %"),
    }
}

/// `+61.0 % to +75.2 %`; `no interval yet` while it is infinite.
pub fn interval(effect: &Effect) -> String {
    match (effect.low, effect.high) {
        (Some(low), Some(high)) => format!("{} to {}", change(low), change(high)),
        _ => "no interval yet".to_owned(),
    }
}

/// `throughput +664.4 %, p95 -92.0 %`, each with its interval once there is one: how a trial stands.
pub fn standing(effects: &Effects) -> String {
    let text: Vec<String> = QUANTITIES
        .iter()
        .filter_map(|quantity| {
            let effect = (quantity.of_effects)(effects)?;
            let within = effect.low.map_or_else(String::new, |_| format!(" ({})", interval(&effect)));
            Some(format!("{} {}{within}", quantity.name, change(effect.ratio)))
        })
        .collect();
    text.join(", ")
}

/// What is shown of a quantity, in a word or two.
pub fn shown_word(shown: QuantityVerdict) -> &'static str {
    match shown {
        QuantityVerdict::Better => "better",
        QuantityVerdict::Same => "same",
        QuantityVerdict::NoWorse => "no worse",
        QuantityVerdict::Worse => "worse",
        QuantityVerdict::Open => "not enough evidence",
        QuantityVerdict::NotMeasured => "not measured",
    }
}

/// A margin: `±10 %`.
pub fn margin(judged: &Judged) -> String {
    format!("±{} %", number::plain((judged.margin * 1_000.0).round() / 10.0))
}

/// The verdict, and what it lacks: `inconclusive: not enough evidence about p95`, `hurts: a trade-off`.
pub fn verdict_text(trial: &Trial) -> String {
    let word = verdict_word(trial.verdict);
    let missing: Vec<&str> = QUANTITIES
        .iter()
        .filter(|quantity| trial.missing.iter().any(|missing| missing == quantity.field))
        .map(|quantity| quantity.name)
        .collect();
    match (trial.verdict, missing.as_slice()) {
        (Verdict::Inconclusive, [_, ..]) => {
            format!("{word}: not enough evidence about {}", missing.join(", "))
        }
        (Verdict::Hurts, _) if trial.trade_off => format!("{word}: a trade-off"),
        _ => word.to_owned(),
    }
}

/// The verdict as a word.
fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Helps => "helps",
        Verdict::Hurts => "hurts",
        Verdict::NoSignificantEffect => "no significant effect",
        Verdict::Inconclusive => "inconclusive",
    }
}

/// `innodb_spin_wait_delay 100 → 6`, several joined by commas.
pub fn changes_text(changes: &[Change]) -> String {
    match changes {
        [] => "the same settings".to_owned(),
        changes => {
            let text: Vec<String> = changes
                .iter()
                .map(|Change { variable, from, to }| format!("{variable} {from} → {to}"))
                .collect();
            text.join(", ")
        }
    }
}

/// The place of a ratio on a scale between two others, by its logarithm, 0 to 1.
pub fn place(ratio: f64, least: f64, most: f64) -> f64 {
    ((ratio.clamp(least, most).ln() - least.ln()) / (most.ln() - least.ln())).clamp(0.0, 1.0)
}

/// Beyond a change by this factor a scale shows nothing more.
const WIDEST: f64 = 1e4;

/// Why a trial that is inconclusive is so, for who would run it again; none where the noise was not known.
pub fn needs_text(trial: &Trial) -> Option<String> {
    let budget = trial.budget.as_ref().filter(|_| trial.verdict == Verdict::Inconclusive)?;
    let more = u64::from(budget.quads).saturating_sub(u64::from(trial.quads));
    (more > 0).then(|| {
        let quads = if more == 1 { "quad" } else { "quads" };
        let time = number::roughly(budget.seconds);
        format!("Inconclusive so far; needs about {more} more {quads}, about {time} in all.")
    })
}

/// The scale on which all intervals of a trial are drawn: from the least to the greatest of their ends, with none (1) in it
/// and a tenth more on both sides; 10 % on each side at least.
pub fn scale(effects: &Effects) -> (f64, f64) {
    let (mut least, mut most) = (1.0_f64, 1.0_f64);
    for effect in QUANTITIES.iter().filter_map(|quantity| (quantity.of_effects)(effects)) {
        for end in [Some(effect.ratio), effect.low, effect.high].into_iter().flatten() {
            if end.is_finite() && end > 0.0 {
                (least, most) = (least.min(end), most.max(end));
            }
        }
    }
    (least, most) = (least.max(1.0 / WIDEST), most.min(WIDEST));
    let room = (most / least).powf(0.1);
    ((least / room).min(0.9), (most * room).max(1.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tune::{examples, html};

    #[test]
    fn ratios_are_shown_as_changes() {
        assert_eq!(change(1.683), "+68.3 %");
        assert_eq!(change(0.88), "-12.0 %");
        assert_eq!(change(1.0001), "0.0 %");
        assert_eq!(change(7.44), "7.4 times");
        let open = Effect { ratio: 1.2, low: None, high: None };
        assert_eq!(interval(&open), "no interval yet");
    }

    #[test]
    fn what_there_is_not_enough_evidence_about_stands_in_text_and_json() {
        let tuning = examples::not_enough_evidence();
        assert_eq!(verdict_text(&tuning.decided), "inconclusive: not enough evidence about p95");
        let json: serde_json::Value = serde_json::from_str(&to_json(&tuning).unwrap()).unwrap();
        assert_eq!((&json["verdict"], &json["missing"][0]), (&"inconclusive".into(), &"p95".into()));
        assert_eq!(json["judged"][1]["shown"], "not enough evidence");
        let needs = needs_text(&tuning.decided).unwrap();
        assert_eq!(needs, "Inconclusive so far; needs about 97 more quads, about 70 min in all.");
        let mut traded = tuning.decided;
        (traded.verdict, traded.trade_off) = (Verdict::Hurts, true);
        assert_eq!(verdict_text(&traded), "hurts: a trade-off");
        assert_eq!(needs_text(&traded), None);
    }

    /// A line of the log that was written before there were margins.
    #[test]
    fn a_trial_without_margins_is_still_read() {
        let mut json: serde_json::Value =
            serde_json::from_str(&to_json(&examples::helps()).unwrap()).unwrap();
        for field in ["judged", "missing", "trade_off", "budget"] {
            json.as_object_mut().unwrap().remove(field);
        }
        let tuning: Tuning = serde_json::from_value(json).unwrap();
        assert!(tuning.decided.judged.is_empty() && html::render(&tuning).contains("+70.0 %"));
    }

    #[test]
    fn less_cpu_is_better_and_an_interval_around_none_leans_nowhere() {
        let effect = |low, high| Effect { ratio: 1.0, low: Some(low), high: Some(high) };
        let [throughput, _, cpu] = &QUANTITIES;
        assert_eq!(throughput.leaning(&effect(1.1, 1.2)), Leaning::Better);
        assert_eq!(throughput.leaning(&effect(0.8, 0.9)), Leaning::Worse);
        assert_eq!(cpu.leaning(&effect(0.8, 0.9)), Leaning::Better);
        assert_eq!(cpu.leaning(&effect(1.1, 1.2)), Leaning::Worse);
        assert_eq!(cpu.leaning(&effect(0.9, 1.2)), Leaning::Neither);
    }

    #[test]
    fn the_json_has_every_field_of_the_public_schema_and_comes_back() {
        let tuning = examples::helps();
        let text = to_json(&tuning).unwrap();
        assert_eq!(serde_json::from_str::<Tuning>(&text).unwrap(), tuning);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["schema"], "spindoctor.trial/1");
        for field in ["variable", "from", "to", "verdict", "effect", "quads", "kept"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["judged", "missing", "trade_off", "budget"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for (at, quantity) in ["throughput", "p95", "cpu_per_query"].into_iter().enumerate() {
            assert_eq!(json["judged"][at]["quantity"], quantity);
            assert_eq!(json["judged"][at]["shown"], "better");
            assert!(
                json["judged"][at]["margin"].is_number() && json["judged"][at]["effect"]["low"].is_number()
            );
            for field in ["ratio", "low", "high"] {
                assert!(json["effect"][quantity][field].is_number(), "{quantity}.{field}");
            }
        }
    }
}

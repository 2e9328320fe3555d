//! `table-scan-storm`: many statements scan whole tables at once.

use spindoctor_model::{Evidence, Finding, Remedy, Unavailable, Window};

use crate::draft::Draft;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "table-scan-storm",
    title: "many statements scan whole tables at once",
    what: "TO WRITE: the mechanism, step by step: what waits for what, and which part of the server does it and why. \
           No advice yet.",
    why_it_hurts: "TO WRITE: what a user of the server notices, and how large it becomes under load. Name what grows and \
                   what stops.",
    evidence: "TO WRITE: each reading by its name in MySQL and in MariaDB, the threshold of each with its unit, and what \
               the estimate counts.",
    looks_alike: "TO WRITE: what has the same symptoms and is another cause, by its name where the catalogue has it, and \
                  how it is distinguished.",
    remedies: "TO WRITE: the best remedy first, each as a statement or as a change of the application, and what it \
               gains on this kind of server.",
    safety: "TO WRITE: what each remedy may break, whether it works while the server runs, what it locks, and the \
             statement that undoes it.",
    references: &["TO WRITE: MySQL Reference Manual, the section"],
    // Which functions show it on a stack, where any do: Standing (waits in), Running (CPU goes into), Spinning.
    costs: Costs::Waits(&[]),
    explains_time: &[],
    stacks: Stacks::Nothing,
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// TO WRITE: what the threshold means, and where the number comes from (a manual, a source file, a measurement).
const SCANS_PER_S: f64 = 100.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// The rule, pure: `?` leaves with the reading that is missing, `Ok(None)` says that the cause is not there.
fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let per_s = window.need_growth("Select_scan")? / window.need_change(|s| &s.server.status)?.seconds;
    if per_s < SCANS_PER_S {
        return Ok(None);
    }
    Ok(Some(
        // The estimate, 0 to 1, of what `Cause::costs` says. From a score of 0.05 on it is a warning (rank.rs).
        Draft::new(&CAUSE, per_s / 1000.0, format!("{per_s:.0} tables are scanned per second"))
            .why("TO WRITE: the mechanism with this server's numbers, in a sentence or two.")
            .evidence(
                Evidence::new("scans", per_s, "1/s", "SHOW GLOBAL STATUS Select_scan")
                    .expected(format!("< {SCANS_PER_S:.0}"))
                    .series(window.status_rate_series("Select_scan")),
            )
            .remedy(Remedy {
                statement: "TO WRITE: the exact statement".into(),
                why: "TO WRITE: what becomes better.".into(),
                dynamic: true,
                risk: "TO WRITE: what may go wrong.".into(),
                undo: "TO WRITE: the exact statement".into(),
            })
            // Causes that are only symptoms of this one stand below it: .explains(&[other_cause::CAUSE.name])
            .finding(),
    ))
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::Build;

    /// A healthy busy server (`Build::busy`) that is spoilt by this cause alone, badly.
    pub(crate) fn fires() -> Window {
        Build::busy("9.7.4").counter("Select_scan", 400.0).window()
    }

    /// Just below the threshold, or the same reading for a harmless reason.
    pub(crate) fn near_miss() -> Window {
        Build::busy("9.7.4").counter("Select_scan", 90.0).window()
    }

    /// A reading that the rule needs is not there.
    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    #[test]
    fn the_finding_says_how_much() {
        let Outcome::Fired(finding) = evaluate(&fires()) else { panic!("it should fire") };
        assert_eq!(finding.headline, "400 tables are scanned per second");
    }
}

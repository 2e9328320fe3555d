//! Which runs a score has: every scenario on every server on which it can be made, as strong as it comes, mild, and with a
//! second cause; and the servers that suffer from nothing. In an order of chance, round after round, so that whatever part of
//! it has been run says something of all.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use spindoctor_model::Flavor;

use crate::draw::{Draw, Strength};
use crate::install::Known;
use crate::load::background::Beside;
use crate::scenario::{NEAR_MISSES, SCENARIOS, Scenario};

/// One run to be made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// The scenario's name.
    pub scenario: String,
    /// The server's flavor.
    pub flavor: Flavor,
    /// The server's name in the lab where it is not the newest of its flavor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How strong it is.
    pub strength: Strength,
    /// A second scenario that is made on the same server, where there is one.
    pub second: Option<String>,
    /// The seed of its draw.
    pub seed: u64,
}

impl Case {
    /// The draw of this run.
    pub(super) fn draw(&self) -> Draw {
        Draw::by(self.seed, self.strength)
    }

    /// A mild run has busy clients beside it, so that who suffers is about a tenth. Of the others half have a light load, but
    /// where the scenario is about a load itself.
    pub(super) fn beside(&self, scenario: &Scenario) -> Option<Beside> {
        let draw = self.draw();
        match self.strength {
            Strength::Mild => Some(Beside { clients: 7, pause: Duration::from_micros(200) }),
            Strength::Severe if WITH_OTHERS.contains(&scenario.name) && draw.happens("background", 50) => {
                Some(Beside {
                    clients: draw.count("background clients", 2, 1..=6),
                    pause: Duration::from_millis(u64::from(draw.count("background pause", 20, 5..=100))),
                })
            }
            Strength::Severe => None,
        }
    }
}

/// Scenarios of sessions that wait, whose number is drawn: they can be mild, and other work beside them makes their label no
/// less true.
const WITH_OTHERS: &[&str] = &[
    "row-lock-pileup",
    "prepared-xa-left",
    "metadata-lock-pileup",
    "table-lock-pileup",
    "user-lock-pileup",
    "global-lock-pileup",
    "semi-sync-wait",
    "unnamed-wait",
];

/// Scenarios that can be made on a server that another one is made on, and which these are: none of them takes from the other
/// what it waits for.
const SECONDS: &[(&str, &[&str])] = &[
    (
        "user-lock-pileup",
        &[
            "row-lock-pileup",
            "prepared-xa-left",
            "metadata-lock-pileup",
            "table-lock-pileup",
            "global-lock-pileup",
            "semi-sync-wait",
            "unnamed-wait",
            "commit-sync-bound",
            "cpu-throttled",
            "deadlock-storm",
        ],
    ),
    ("row-lock-pileup", &["user-lock-pileup", "table-lock-pileup", "unnamed-wait", "cpu-throttled"]),
];

/// True where all that its repeating clients do is to wait for what the label names: their time is the loss.
pub(super) fn loses_what_it_repeats(name: &str) -> bool {
    WITH_OTHERS.contains(&name)
}

/// Every case of a round, in an order of chance; of one server of the lab only, where it is named.
pub(super) fn round(seed: u64, number: u64, names: &[&str], server: Option<&Known>) -> Vec<Case> {
    let mut rng = Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut cases = Vec::new();
    let all = || SCENARIOS.iter().chain(NEAR_MISSES);
    for scenario in all().filter(|scenario| names.is_empty() || names.contains(&scenario.name)) {
        for flavor in [Flavor::Mysql, Flavor::Mariadb] {
            if !scenario.flavors.contains(&flavor) || server.is_some_and(|server| server.flavor != flavor) {
                continue;
            }
            let mut add = |strength, second: Option<&str>, rng: &mut Rng| {
                cases.push(Case {
                    scenario: scenario.name.to_owned(),
                    flavor,
                    server: server.map(|server| server.name.to_owned()),
                    strength,
                    second: second.map(str::to_owned),
                    seed: rng.u64(..),
                });
            };
            let beside = SECONDS.iter().filter(|(_, firsts)| firsts.contains(&scenario.name));
            let seconds: Vec<&str> = beside.map(|(second, _)| *second).collect();
            // One in three severe runs has a second cause.
            let second = if rng.u32(0..3) == 0 { rng.choice(&seconds).copied() } else { None };
            add(Strength::Severe, second, &mut rng);
            if WITH_OTHERS.contains(&scenario.name) {
                add(Strength::Mild, None, &mut rng);
            }
        }
    }
    rng.shuffle(&mut cases);
    cases
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_lists_name_scenarios() {
        let seconds = SECONDS.iter().flat_map(|(second, firsts)| firsts.iter().chain([second]));
        for name in WITH_OTHERS.iter().chain(seconds) {
            assert!(SCENARIOS.iter().any(|scenario| scenario.name == *name), "{name}");
        }
    }

    #[test]
    fn a_round_has_every_scenario_on_every_server_that_can_suffer_so() {
        let cases = round(1, 0, &[], None);
        let made: BTreeSet<(String, String)> =
            cases.iter().map(|case| (case.scenario.clone(), case.flavor.to_string())).collect();
        for scenario in SCENARIOS.iter().chain(NEAR_MISSES) {
            for flavor in [Flavor::Mysql, Flavor::Mariadb] {
                let is_made = made.contains(&(scenario.name.to_owned(), flavor.to_string()));
                assert_eq!(is_made, scenario.flavors.contains(&flavor), "{} {flavor}", scenario.name);
            }
        }
        assert!(cases.iter().any(|case| case.strength == Strength::Mild));
        assert_eq!(cases, round(1, 0, &[], None));
        assert_ne!(cases, round(1, 1, &[], None));
    }

    #[test]
    fn a_second_cause_is_another_one_and_nothing_stands_beside_a_healthy_server() {
        let cases: Vec<Case> = (0..20).flat_map(|number| round(1, number, &[], None)).collect();
        let label = |name: &str| SCENARIOS.iter().find(|one| one.name == name).and_then(|one| one.label);
        let doubles: Vec<&Case> = cases.iter().filter(|case| case.second.is_some()).collect();
        assert!(doubles.len() > 20, "{}", doubles.len());
        for case in doubles {
            assert_ne!(label(&case.scenario), label(case.second.as_deref().unwrap()), "{case:?}");
            assert!(label(&case.scenario).is_some(), "{case:?}");
        }
    }
}

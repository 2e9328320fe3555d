//! `redo-capacity`: room in the redo log for the rate at which the server writes.

use spindoctor_model::{Proposal, Unavailable};

use super::Family;
use spindoctor_model::number::bytes;

use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::checkpoint_stall::{self, Filling};

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "redo-capacity",
    title: "how much redo fits before pages must follow",
    cures: &[checkpoint_stall::CAUSE.name],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const VARIABLES: [&str; 2] = ["innodb_redo_log_capacity", "innodb_log_file_size"];

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    if let Some(finding) = examined.finding_cured_by(&FAMILY) {
        let free = window.latest(|s| &s.host.data_directory).map(|directory| directory.free_bytes as f64);
        let room = free.map_or(String::new(), |free| format!(", of {} free", bytes(free)));
        if let Some(proposal) = examined.remedies_of(finding, &VARIABLES) {
            let more = proposal
                .changes
                .iter()
                .filter_map(|change| Some(change.to.parse::<f64>().ok()? - change.from.parse::<f64>().ok()?));
            let cost = format!("{} of disk{room}", bytes(more.sum()));
            return Ok(Advice::Propose(vec![proposal.costs(cost)]));
        }
        return match finding.remedies.first().filter(|remedy| !remedy.dynamic) {
            Some(remedy) => {
                let not_tried = Some("it needs a restart".to_owned());
                Ok(Advice::Propose(vec![
                    Proposal { remedy: remedy.clone(), not_tried, ..Proposal::default() }.after(finding),
                ]))
            }
            None => {
                leave(format!("the redo log is too small, and the disk has no room for a larger one{room}"))
            }
        };
    }
    let Filling { filled_in_s, mean_ratio, .. } = checkpoint_stall::filling(window)?;
    let once = match filled_in_s {
        short if short < 120.0 => format!("{short:.0} s"),
        long if long < 36_000.0 => format!("{:.0} minutes", long / 60.0),
        _ => "many hours".to_owned(),
    };
    leave(format!("the log is filled once in {once}, and {:.0} % of it is in use", mean_ratio * 100.0))
}

#[cfg(test)]
pub(super) mod examples {
    use super::*;
    pub(in crate::proposals) use crate::causes::checkpoint_stall::tests::{fires, missing, near_miss};
    use crate::testing::Build;

    #[test]
    fn the_disk_space_that_it_takes_is_stated() {
        let plan = super::super::plan(&fires());
        assert_eq!(plan.proposals[0].cost, "26.9 GiB of disk");
    }

    #[test]
    fn a_server_that_needs_a_restart_for_it_is_not_tried() {
        let window = Build::busy("10.6.12-MariaDB")
            .gauge("Innodb_checkpoint_age", 79e6)
            .counter("Innodb_os_log_written", 8e6)
            .window();
        let plan = super::super::plan(&window);
        let proposal = plan.proposals.iter().find(|proposal| proposal.family == FAMILY.name).unwrap();
        assert!(!proposal.remedy.dynamic && proposal.changes.is_empty() && proposal.not_tried.is_some());
    }
}

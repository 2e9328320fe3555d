//! `redo-capacity`: room in the redo log for the rate at which the server writes.

use spindoctor_model::{Proposal, Unavailable};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, bytes, leave};
use crate::causes::checkpoint_stall::{self, Filling};

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "redo-capacity",
    title: "how much redo the server may write before pages must follow",
    propose,
};

const VARIABLES: [&str; 2] = ["innodb_redo_log_capacity", "innodb_log_file_size"];

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    if let Some(finding) = examined.finding(checkpoint_stall::CAUSE.name) {
        let cost = finding.remedies.first().map_or("", |remedy| remedy.risk.as_str());
        let room = window
            .latest(|s| &s.host.data_directory)
            .map_or(String::new(), |directory| format!(" {} are free.", bytes(directory.free_bytes as f64)));
        let proposal = examined.remedies_of(finding, &VARIABLES).or_else(|| {
            let remedy = finding.remedies.first()?.clone();
            let not_tried = Some("it needs a restart".to_owned());
            Some(Proposal { remedy, not_tried, ..Proposal::default() }.of(finding))
        });
        return Ok(Advice::Propose(
            proposal.map(|proposal| proposal.costs(format!("{cost}{room}"))).into_iter().collect(),
        ));
    }
    let Filling { filled_in_s, mean_ratio, .. } = checkpoint_stall::filling(window)?;
    let minutes = filled_in_s / 60.0;
    leave(format!(
        "the log is filled once in {}, and {:.0} % of it is in use",
        if minutes < 600.0 { format!("{minutes:.0} minutes") } else { "many hours".to_owned() },
        mean_ratio * 100.0
    ))
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    pub(in crate::proposals) use crate::causes::checkpoint_stall::cases::{fires, missing, near_miss};
    use crate::testing::Build;

    #[test]
    fn a_server_that_needs_a_restart_for_it_is_not_tried() {
        let window = Build::busy("10.6.12-MariaDB")
            .gauge("Innodb_checkpoint_age", 79e6)
            .counter("Innodb_os_log_written", 8e6)
            .window();
        let plan = super::super::plan(&window);
        let proposal = plan.proposals.iter().find(|proposal| proposal.family == FAMILY.name).unwrap();
        assert!(!proposal.remedy.dynamic && proposal.changes.is_empty() && proposal.not_tried.is_some());
        assert!(proposal.cost.starts_with("Takes "), "{}", proposal.cost);
    }
}

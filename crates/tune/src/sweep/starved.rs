//! Throughput that is bought with clients that starve: a setting that leads, whose least served client gets far less than
//! its share, where another setting serves all of them.

use super::axes::WORKLOAD;
use super::{Line, Sweep};

/// A leader's least served client does less than this part of what that of another setting does, each by its own mean.
/// Chosen, not derived.
pub(crate) const STARVED: f64 = 0.5;
/// Below so many transactions of a client, chance alone makes clients differ as much: of 30 that come at random the standard
/// deviation is 18 %.
pub(crate) const ENOUGH_TRANSACTIONS: f64 = 30.0;

/// A setting that leads with clients that starve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Starved {
    /// How many clients.
    pub threads: u32,
    /// The line that leads: a place in [`Sweep::lines`].
    pub leader: usize,
    /// Transactions of its least served client, divided by the mean.
    pub least: f64,
    /// The line that serves its clients most evenly.
    pub fairest: usize,
    /// The same of the line that serves them most evenly.
    pub fair: f64,
}

impl Sweep {
    /// Where the setting that leads serves its clients unevenly, and another one does not: by number of clients, in the
    /// grid's order.
    pub fn starved(&self) -> Vec<Starved> {
        let of_threads = |threads: &u32, workload: Option<&str>| {
            let lead = self.lead_at(*threads, workload)?;
            let least = |line: &Line| line.at(*threads)?.least_client_ratio.map(|spread| spread.median);
            let leader = &self.lines[lead.first];
            let enough = leader.at(*threads)?.client_transactions?.median >= ENOUGH_TRANSACTIONS;
            let is_other =
                |at: usize, line: &Line| at != lead.first && line.setting.value(WORKLOAD) == workload;
            let others = self.lines.iter().enumerate().filter(|(at, line)| is_other(*at, line));
            let fairer = others.filter_map(|(at, line)| Some((at, least(line)?)));
            let (fairest, fair) = fairer.max_by(|a, b| a.1.total_cmp(&b.1))?;
            let least = least(leader)?;
            (enough && least < STARVED * fair).then_some(Starved {
                threads: *threads,
                leader: lead.first,
                least,
                fairest,
                fair,
            })
        };
        let workloads = self.workloads();
        let of_all = |threads| workloads.iter().filter_map(move |workload| of_threads(threads, *workload));
        self.grid.threads.iter().flat_map(of_all).collect()
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Fairness;

    use super::*;
    use crate::sweep::{Axis, Conditions, Grid, Measured};

    #[test]
    fn a_leader_whose_clients_starve_is_named_where_another_setting_is_fair() {
        let axis = |variable: &str, values: &[&str]| Axis {
            variable: variable.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let axes = vec![
            axis("innodb_sync_spin_loops", &["30", "200"]),
            axis("innodb_spin_wait_delay", &["6", "24"]),
        ];
        let grid = Grid { axes, threads: vec![8, 64], runs: 3 };
        let made = |mean: f64, least: u64| {
            let cells = grid.left(&[], &mut |_| 0).into_iter().map(|cell| {
                let leads = cell.setting.0[0].value == "200" && cell.setting.0[1].value == "6";
                let starves = leads && cell.threads == 64;
                let fairness = Fairness {
                    mean,
                    sd: 1.0,
                    least: Some(if starves { least } else { 90 }),
                    most: Some(110),
                };
                let transactions_per_s = if leads { 150.0 } else { 100.0 };
                Measured { cell, transactions_per_s, fairness: Some(fairness), ..Measured::default() }
            });
            Sweep::from_measured(Conditions::default(), grid.clone(), cells.collect(), Vec::new()).starved()
        };
        let found = made(100.0, 20);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].threads, found[0].leader, found[0].least, found[0].fair), (64, 2, 0.2, 0.9));
        assert_eq!(made(100.0, 60), []);
        assert_eq!(made(20.0, 2), [], "of few chance is enough");
    }
}

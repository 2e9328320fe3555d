//! What a sweep measures: the settings at each number of clients, some times each, and the order in which that is done.
//!
//! In: a [`Grid`], and the measurements so far. Out: the [`Cell`]s that are left. Pure: random numbers come from the caller.

use serde::{Deserialize, Serialize};

use super::Measured;

/// What is swept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grid {
    /// The variables, and what else is varied ([`axes`](super::axes)), each with the values that it takes. None: the server as it is.
    pub axes: Vec<Axis>,
    /// Numbers of clients.
    pub threads: Vec<u32>,
    /// How often each cell is measured.
    pub runs: u32,
}

/// One variable of a grid, or one of [`axes`](super::axes).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Axis {
    /// Its name, as `SHOW GLOBAL VARIABLES` has it.
    pub variable: String,
    /// The values that it takes, as the server prints them.
    pub values: Vec<String>,
}

/// One line of the charts: the variables and the value of each. Empty for the server as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting(pub Vec<Assigned>);

/// A variable and its value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Assigned {
    /// Its name, as `SHOW GLOBAL VARIABLES` has it.
    pub variable: String,
    /// Its value, as the server prints it.
    pub value: String,
}

/// One measurement that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// The settings.
    pub setting: Setting,
    /// How many clients.
    pub threads: u32,
    /// Which of the runs, from 0.
    pub run: u32,
}

impl Grid {
    /// Every setting: each value of the first variable with each of the second, and so on.
    pub fn settings(&self) -> Vec<Setting> {
        self.axes.iter().fold(vec![Setting::default()], |settings, axis| {
            let with = |setting: &Setting| {
                let setting = setting.clone();
                axis.values.iter().map(move |value| {
                    let assigned = Assigned { variable: axis.variable.clone(), value: value.clone() };
                    Setting(setting.0.iter().cloned().chain([assigned]).collect())
                })
            };
            settings.iter().flat_map(with).collect()
        })
    }

    /// How many measurements it takes in all.
    pub fn size(&self) -> usize {
        let settings: usize = self.axes.iter().map(|axis| axis.values.len()).product();
        settings * self.threads.len() * self.runs as usize
    }

    /// What is still to be measured, in the order in which it should be.
    ///
    /// Run after run, so that an interrupted sweep has each cell about as often. Within a run the numbers of clients
    /// come in random order, and for each of them the settings in random order one after the other: what is to be
    /// compared stands close together in time, and no setting always comes first. `below` gives a random number below
    /// its argument.
    pub fn left(&self, done: &[Measured], below: &mut dyn FnMut(usize) -> usize) -> Vec<Cell> {
        let settings = self.settings();
        let mut cells = Vec::new();
        for run in 0..self.runs {
            for threads in shuffled(self.threads.clone(), below) {
                for setting in shuffled(settings.clone(), below) {
                    cells.push(Cell { setting, threads, run });
                }
            }
        }
        cells.retain(|cell| !done.iter().any(|measured| measured.cell == *cell));
        cells
    }
}

impl Setting {
    /// `innodb_sync_spin_loops = 30, innodb_spin_wait_delay = 6`; nothing for the server as it is.
    pub fn text(&self) -> String {
        let pairs = self.0.iter().map(|assigned| format!("{} = {}", assigned.variable, assigned.value));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

/// Fisher-Yates.
fn shuffled<T>(mut items: Vec<T>, below: &mut dyn FnMut(usize) -> usize) -> Vec<T> {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1).min(last));
    }
    items
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two variables with two values each, three numbers of clients, three runs.
    pub(in crate::sweep) fn grid() -> Grid {
        let axis = |variable: &str, values: &[&str]| Axis {
            variable: variable.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        Grid {
            axes: vec![
                axis("innodb_sync_spin_loops", &["30", "200"]),
                axis("innodb_spin_wait_delay", &["6", "24"]),
            ],
            threads: vec![1, 8, 64],
            runs: 3,
        }
    }

    #[test]
    fn every_setting_at_every_number_of_clients_is_asked_for_once_a_run() {
        let grid = grid();
        let mut state = 7_usize;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let cells = grid.left(&[], &mut below);
        assert_eq!(cells.len(), 2 * 2 * 3 * 3);
        assert_eq!(grid.size(), cells.len());
        for (at, cell) in cells.iter().enumerate() {
            assert!(!cells[..at].contains(cell), "{cell:?}");
        }
        assert!(cells.is_sorted_by_key(|cell| cell.run));
        // What is compared with each other stands together.
        assert!(
            cells.chunks(4).all(|settings| settings.iter().all(|cell| cell.threads == settings[0].threads))
        );
        assert_eq!(
            cells[0].setting.0.iter().map(|assigned| assigned.variable.as_str()).collect::<Vec<_>>(),
            ["innodb_sync_spin_loops", "innodb_spin_wait_delay"]
        );
    }
}

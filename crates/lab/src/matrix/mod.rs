//! The matrix: each command on each server, against a trouble that is known, with what its answer must say.
//!
//! [`CELLS`] declares every cell once; the tests, `lab matrix` and the table of the documentation follow from it. A row is one
//! server: it is started once, one trouble after the other is made on it, and the program is run as a user runs it.

mod cells;
mod holds;
mod made;
mod places;
mod ran;
mod scene;
mod troubles;

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::command::Progress;
use crate::error::Result;
use crate::home::Home;
use crate::installation::Which;
use holds::all_hold;
use ran::{Ran, run_program};
use scene::Scene;
use troubles::Trouble;

pub use cells::{CELLS, Cell};
pub use places::{PLACES, Place, place};

/// So many of a trouble's commands run at once: most of their time they wait.
const AT_ONCE: usize = 3;

/// What an answer was, where it is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// All of it.
    Run,
    /// The program said that it cannot be had on this server, and why; what it says was compared with the server.
    Unavailable(String),
    /// The server cannot suffer so, and why: nothing was asked.
    CannotSuffer(String),
}

impl Seen {
    /// Why it is not all of the answer, where it is not.
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Self::Run => None,
            Self::Unavailable(because) | Self::CannotSuffer(because) => Some(because),
        }
    }
}

/// A cell on a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The command.
    pub command: String,
    /// What its answer is held against.
    pub shows: String,
    /// What was seen; an error says what is wrong, and what the program printed.
    pub seen: std::result::Result<Seen, String>,
    /// How often it was looked at: once, again where the first answer was not right, never where the server cannot suffer so.
    pub looks: u32,
}

/// All cells of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name in the lab: `mysql-5.7`.
    pub server: String,
    /// Which server it is: `MySQL 5.7.22`.
    pub version: String,
    /// The name of the [`Place`] where it is not as its package makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// In the order of [`CELLS`].
    pub cells: Vec<Outcome>,
    /// How long all of it took, seconds.
    pub took_s: f64,
}

impl Row {
    /// The cells whose answer is wrong.
    pub fn wrong(&self) -> impl Iterator<Item = &Outcome> {
        self.cells.iter().filter(|cell| cell.seen.is_err())
    }
}

/// What of the matrix is wanted.
#[derive(Debug, Clone, Copy)]
pub struct MatrixOptions<'a> {
    /// The program whose commands are run.
    pub program: &'a Path,
    /// Only the cells that are [`Cell::is_short`].
    pub is_short: bool,
    /// Only the cells of these commands; none means all.
    pub commands: &'a [String],
    /// How the server differs from that of its package.
    pub place: Option<&'static Place>,
}

impl MatrixOptions<'_> {
    /// The cells that are wanted.
    pub fn cells(&self) -> impl Iterator<Item = &'static Cell> {
        let is_wanted = |cell: &&Cell| {
            (cell.is_short || !self.is_short)
                && (self.commands.is_empty() || self.commands.iter().any(|command| command == cell.command))
        };
        CELLS.iter().filter(is_wanted)
    }

    /// What the server cannot suffer from.
    fn cannot(&self) -> &'static [(Trouble, &'static str)] {
        self.place.map_or(&[][..], |place| place.cannot)
    }
}

/// One row: starts the server, makes one trouble after the other, and runs their cells.
///
/// # Errors
/// The server cannot be started, or a trouble cannot be made on it. An answer that is wrong is none: it stands in the row.
pub async fn row(
    home: &Home,
    which: &Which,
    name: &str,
    options: &MatrixOptions<'_>,
    progress: Progress<'_>,
) -> Result<Row> {
    let begun = Instant::now();
    let mut scene = Scene::start(home, which, options.place, progress).await?;
    let mut outcomes = Vec::new();
    for trouble in Trouble::ALL {
        let cells: Vec<&'static Cell> = options.cells().filter(|cell| cell.trouble == trouble).collect();
        if cells.is_empty() {
            continue;
        }
        if let Some((_, because)) = options.cannot().iter().find(|(cannot, _)| *cannot == trouble) {
            let seen = || Ok(Seen::CannotSuffer((*because).to_owned()));
            outcomes.extend(cells.iter().map(|cell| cell.outcome(seen(), 0)));
            continue;
        }
        progress(&format!("{name}: {}", trouble.says()));
        scene.begin(trouble, options.program).await?;
        let mut seen = look(&scene, &cells, options.program).await;
        scene.look_again().await?;
        for (cell, ran) in cells.iter().zip(&mut seen) {
            let mut answer = cell.judge(&scene, ran);
            let mut looks = 1;
            if answer.is_err() && cell.is_asked() {
                *ran = run_program(options.program, &scene.words(cell.line), scene.folder()).await;
                scene.look_again().await?;
                answer = cell.judge(&scene, ran);
                looks = 2;
            }
            let seen = answer.map_err(|wrong| format!("{wrong}\n{}", ran.shown()));
            outcomes.push(cell.outcome(seen, looks));
        }
        scene.end().await?;
    }
    let version = scene.server().version().to_string();
    scene.stop()?;
    Ok(Row {
        server: name.to_owned(),
        version,
        place: options.place.map(|place| place.name.to_owned()),
        cells: outcomes,
        took_s: begun.elapsed().as_secs_f64(),
    })
}

impl Cell {
    /// True where it is a command of its own; the recorder began with its trouble.
    fn is_asked(&self) -> bool {
        !self.line.is_empty()
    }

    fn outcome(&self, seen: std::result::Result<Seen, String>, looks: u32) -> Outcome {
        Outcome { command: self.command.into(), shows: self.shows.into(), seen, looks }
    }

    /// Holds an answer against what is known of the server; an error says what is wrong with it.
    fn judge(&self, scene: &Scene, ran: &Ran) -> std::result::Result<Seen, String> {
        let mut wrong = match all_hold(self.expects, scene, ran) {
            Ok(()) => return Ok(Seen::Run),
            Err(wrong) => wrong,
        };
        for without in self.without.iter().filter(|without| (without.is_lacking)(scene)) {
            match all_hold(without.expects, scene, ran) {
                Ok(()) => return Ok(Seen::Unavailable(without.because.into())),
                Err(instead) => wrong = format!("{wrong}\n{instead}"),
            }
        }
        Err(wrong)
    }
}

/// What the program prints for each cell, some of them at once, in the order of the cells.
async fn look(scene: &Scene, cells: &[&Cell], program: &Path) -> Vec<Ran> {
    let mut answers: Vec<Option<Ran>> = cells.iter().map(|_| None).collect();
    let mut running = JoinSet::new();
    let keep = |answers: &mut Vec<Option<Ran>>, (at, ran): (usize, Ran)| answers[at] = Some(ran);
    for (at, cell) in cells.iter().enumerate() {
        if !cell.is_asked() {
            answers[at] = scene.recorded().cloned();
            continue;
        }
        if running.len() >= AT_ONCE
            && let Some(Ok(ended)) = running.join_next().await
        {
            keep(&mut answers, ended);
        }
        let (program, words, folder) =
            (program.to_owned(), scene.words(cell.line), scene.folder().to_owned());
        running.spawn(async move { (at, run_program(&program, &words, &folder).await) });
    }
    while let Some(Ok(ended)) = running.join_next().await {
        keep(&mut answers, ended);
    }
    answers.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_cells_are_the_same_and_each_trouble_has_one() {
        let names: BTreeSet<(&str, &str)> = CELLS.iter().map(|cell| (cell.command, cell.shows)).collect();
        assert_eq!(names.len(), CELLS.len());
        for trouble in Trouble::ALL {
            assert!(CELLS.iter().any(|cell| cell.trouble == trouble), "{trouble:?}");
        }
    }

    #[test]
    fn every_command_about_a_server_is_in_it_and_pile_ups_of_all_kinds() {
        for command in [
            "doctor",
            "doctor (text)",
            "host",
            "locks",
            "stacks",
            "workload",
            "connections",
            "cache",
            "indexes",
            "tune",
            "tune --apply",
            "top",
            "record",
            "report",
            "top --replay",
            "workload --recording",
            "fleet query",
            "fleet doctor",
        ] {
            assert!(CELLS.iter().any(|cell| cell.command == command), "{command}");
        }
        for pileup in [Trouble::Row, Trouble::Metadata, Trouble::Global] {
            let has = |command| CELLS.iter().any(|cell| cell.trouble == pileup && cell.command == command);
            assert!(has("locks") && has("fleet doctor"), "{pileup:?}");
        }
        let is_prepared = |cell: &&Cell| cell.trouble == Trouble::Prepared;
        assert!(CELLS.iter().filter(is_prepared).count() > 1);
    }

    #[test]
    fn the_cells_stand_in_the_order_of_the_troubles() {
        let at = |cell: &Cell| Trouble::ALL.iter().position(|trouble| *trouble == cell.trouble);
        assert!(CELLS.iter().map(at).is_sorted());
    }
}

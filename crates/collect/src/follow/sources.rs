//! The server's sources in endless sampling: which of them are due in a second, and which are asked. Pure.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::Unavailable;

use super::pace::Paced;
use crate::mysql;

/// A source of the server.
pub(super) struct ServerSource {
    pub(super) paced: Paced,
    pub(super) given_up: Option<GivenUp>,
}

impl ServerSource {
    /// The place of the source that it goes with.
    pub(super) fn goes_with(&self) -> Option<usize> {
        place(self.paced.goes_with()?)
    }

    /// The place of the source that it stands in for.
    pub(super) fn instead_of(&self) -> Option<usize> {
        place(self.paced.instead_of()?)
    }

    /// Why it is not asked in this second, where it is not.
    pub(super) fn given_up(&self, second: u64) -> Option<&GivenUp> {
        self.given_up.as_ref().filter(|given_up| second < given_up.until)
    }

    pub(super) fn is_given_up(&self, second: u64) -> bool {
        self.given_up(second).is_some()
    }

    /// There is a new session, and everything is due over it from this second on. What cost sessions with the same server
    /// goes on to rest.
    pub(super) fn enter(&mut self, second: u64, is_same: bool) {
        if !is_same {
            self.paced.answered();
        }
        if !self.paced.rests() {
            self.given_up = None;
        }
        self.paced.begin(second);
    }
}

/// A source's place in the list of them.
pub(super) fn place(name: &str) -> Option<usize> {
    mysql::SOURCES.iter().position(|source| source.name == name)
}

/// The sources whose turn it is, asked or not. One that stands in for another has that one's turns: where the other was not
/// due it has nothing to stand in for.
pub(super) fn due_sources(sources: &[ServerSource], second: u64, is_hurry: bool) -> Vec<bool> {
    let mut due: Vec<bool> = sources.iter().map(|source| source.paced.is_due(second, is_hurry)).collect();
    for (place, source) in sources.iter().enumerate() {
        let first = source.instead_of().filter(|&first| !sources[first].is_given_up(second));
        if let Some(other) = source.goes_with().or(first) {
            due[place] = due[other];
        }
    }
    due
}

/// Which of the sources that are due are asked; of those that go with another one, those whose other one is.
pub(super) fn turns(sources: &[ServerSource], second: u64, due: &[bool]) -> Vec<bool> {
    let mut turns: Vec<bool> = Vec::with_capacity(sources.len());
    for (source, is_due) in sources.iter().zip(due) {
        // What goes with another source stands behind it in the list.
        let wanted = source.goes_with().map_or(*is_due, |other| turns[other]);
        turns.push(wanted && !source.is_given_up(second));
    }
    turns
}

/// Why a source rests over which sessions are lost.
pub(super) fn rests(waited: Duration, times: u32, again: Timestamp) -> Unavailable {
    let (waited_s, again) = (waited.as_secs_f64(), again.strftime("%H:%M:%S"));
    Unavailable::because(format!(
        "no answer within {waited_s:.1} s, {times} times in a row; it is asked again at {again} UTC"
    ))
}

/// A source that is not asked.
pub(super) struct GivenUp {
    /// None where another source has the same.
    pub(super) why: Option<Unavailable>,
    /// When it is asked again, seconds of the grid.
    pub(super) until: u64,
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::follow::paces;
    use crate::round::Taken;

    #[test]
    fn who_stands_in_for_another_has_its_turns_and_its_own_where_that_one_is_given_up() {
        let of =
            |(place, (name, pace))| ServerSource { paced: Paced::new(name, pace, place), given_up: None };
        let mut sources: Vec<ServerSource> = paces().enumerate().map(of).take(mysql::SOURCES.len()).collect();
        let threads = place("performance_schema.threads").unwrap();
        let list = place("information_schema.PROCESSLIST").unwrap();
        let is_due = |sources: &[ServerSource], second| {
            let due = due_sources(sources, second, false);
            (due[threads], due[list])
        };
        // The list of threads has its turns, and a hundred thousand rows; its stand-in is not asked.
        let expensive = Taken { took: Duration::from_millis(1), rows: 100_000, in_time: true };
        let mut turns = Vec::new();
        for second in 0..9 {
            let (threads_due, list_due) = is_due(&sources, second);
            assert_eq!(threads_due, list_due, "second {second}");
            if threads_due {
                sources[threads].paced.had_turn(second);
                sources[threads].paced.took(expensive, 0, false);
            }
            turns.push(threads_due);
        }
        assert!(turns.contains(&true) && turns.contains(&false), "{turns:?}");
        let second = turns.iter().position(|turn| !turn).unwrap() as u64;
        sources[threads].given_up = Some(GivenUp { why: None, until: u64::MAX });
        assert!(is_due(&sources, second).1);
    }

    #[test]
    fn what_goes_with_another_source_is_asked_with_it_and_a_given_up_source_has_no_turn() {
        let of =
            |(place, (name, pace))| ServerSource { paced: Paced::new(name, pace, place), given_up: None };
        let mut sources: Vec<ServerSource> = paces().enumerate().map(of).take(mysql::SOURCES.len()).collect();
        let (place, other) = (0..sources.len())
            .find_map(|place| Some((place, sources[place].goes_with()?)))
            .expect("a source that goes with another one");
        let due = vec![true; sources.len()];
        assert_eq!(turns(&sources, 0, &due), due);
        sources[other].given_up = Some(GivenUp { why: None, until: 5 });
        let asked = turns(&sources, 4, &due);
        assert!(!asked[other] && !asked[place] && asked[0], "{asked:?}");
        assert_eq!(turns(&sources, 5, &due), due, "the rest is over");
    }

    #[test]
    fn a_source_over_which_sessions_are_lost_rests_over_new_ones_until_another_server_answers() {
        let place = place("SHOW REPLICA STATUS").unwrap();
        let given_up = || Some(GivenUp { why: Some(Unavailable::because("no answer")), until: 40 });
        let mysql::Source { name, pace, .. } = mysql::SOURCES[place];
        let mut source = ServerSource { paced: Paced::new(name, pace, place), given_up: None };
        // Once may be the server's fault.
        assert_eq!(source.paced.had_no_answer(), None);
        source.enter(6, true);
        assert!(source.paced.is_due(6, false) && !source.is_given_up(6));
        assert_eq!(source.paced.had_no_answer(), Some(30));
        source.given_up = given_up();
        source.enter(10, true);
        assert!(source.is_given_up(10) && source.is_given_up(39) && !source.is_given_up(40));
        assert_eq!(source.paced.had_no_answer(), Some(60), "it hangs still");
        source.given_up = given_up();
        source.enter(11, false);
        assert!(source.paced.is_due(11, false) && !source.is_given_up(11));
        assert_eq!(source.paced.had_no_answer(), None, "the other server is another");
        // What the server refused is asked over each new session.
        source.paced.answered();
        source.given_up = given_up();
        source.enter(12, true);
        assert!(!source.is_given_up(12));
    }

    #[test]
    fn a_source_that_rests_says_for_how_long_it_was_waited_for_and_when_it_is_asked_again() {
        let again = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(50_000);
        let why = rests(Duration::from_millis(2003), 2, again).because;
        assert_eq!(why, "no answer within 2.0 s, 2 times in a row; it is asked again at 13:53:20 UTC");
    }
}

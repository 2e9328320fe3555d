//! The statement to copy: what frees those that wait, or ends the session that is marked.

use spindoctor_rules::ending_for;
use spindoctor_rules::replica::is_applier;

use super::{Content, Target, locks};
use crate::top::moment::Moment;
use crate::top::state::State;

/// Of a replica's applier: a KILL would stop it with an error.
const APPLIER: &str =
    "a replica's applier: STOP REPLICA SQL_THREAD ends it (STOP SLAVE before MySQL 8.0.22 and on MariaDB)";

/// `KILL 12`, for the clipboard; of Amazon's servers the call that they have in its place.
///
/// # Errors
/// Why there is none, for the last line of the screen.
pub fn kill(state: &State, moment: &Moment, shown: &Content) -> Result<String, &'static str> {
    if !moment.is_live {
        return Err("a recording is of the past: no session of it is there to be ended");
    }
    let marked = match (&state.detail, shown) {
        (Some(target), _) => Some(target),
        (None, Content::List(list)) => list.rows.get(list.selected).and_then(|row| row.target.as_ref()),
        (None, _) => None,
    };
    match marked {
        Some(Target::Thread(connection)) => {
            let threads = moment.window.as_ref().and_then(|window| window.latest(|s| &s.server.threads));
            let mut listed = threads.into_iter().flatten();
            if listed.any(|thread| thread.connection_id == Some(*connection) && is_applier(thread)) {
                return Err(APPLIER);
            }
            let kill = format!("KILL {connection}");
            return Ok(match &moment.window {
                Some(window) => ending_for(window, &kill),
                None => kill,
            });
        }
        Some(_) => return Err("no connection is marked; the screens of threads and of locks have them"),
        None => {}
    }
    let window = moment.window.as_ref().filter(|_| matches!(shown, Content::Locks(_) | Content::Overview(_)));
    let locks = window.and_then(|window| locks::shown(moment, window).locks);
    let frees = locks.and_then(|locks| locks.roots.iter().find_map(|root| root.free_with.clone()));
    frees.ok_or("no session blocks others here, so there is nothing to copy")
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::*;

    use crate::top::examples;
    use crate::top::screen::Screen;

    fn copied_on(screen: Screen, moment: &Moment) -> Result<String, &'static str> {
        let state = State::new(screen);
        kill(&state, moment, &Content::new(&state, moment))
    }

    #[test]
    fn what_frees_those_that_wait_is_copied_and_nothing_of_the_past() {
        let mut moment = examples::stalled();
        assert!(copied_on(Screen::Locks, &moment).unwrap_err().contains("of the past"));
        moment.is_live = true;
        assert_eq!(copied_on(Screen::Locks, &moment), Ok("KILL 12".to_owned()));
        assert_eq!(copied_on(Screen::Overview, &moment), Ok("KILL 12".to_owned()));
        assert!(copied_on(Screen::Host, &moment).is_err());
        assert!(copied_on(Screen::Locks, &examples::busy()).unwrap_err().contains("nothing to copy"));
    }

    #[test]
    fn of_a_list_it_is_the_connection_that_is_marked() {
        let moment = examples::busy();
        let state = State::new(Screen::Threads);
        let Content::List(list) = Content::new(&state, &moment) else { panic!("a list") };
        let Some(Target::Thread(first)) = list.rows[0].target.clone() else { panic!("a connection") };
        assert_eq!(copied_on(Screen::Threads, &moment), Ok(format!("KILL {first}")));
        let mut applying = examples::busy();
        let samples = applying.window.iter_mut().flat_map(|window| &mut window.samples);
        for sample in samples {
            let Reading::Available { value: threads, .. } = &mut sample.server.threads else { continue };
            for thread in threads.iter_mut().filter(|thread| thread.connection_id.is_some()) {
                thread.name = "thread/sql/replica_worker".into();
            }
        }
        assert!(copied_on(Screen::Threads, &applying).unwrap_err().contains("STOP REPLICA"));
        assert!(copied_on(Screen::Queries, &moment).unwrap_err().contains("no connection is marked"));
    }
}

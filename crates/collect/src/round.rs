//! One round of questions over a session: the server's part of one sample, for a window and for endless sampling alike.
//!
//! In: who has a turn, one for each of [`mysql::SOURCES`]. Out: the sample, and a [`Came`] for each source that had its turn.
//! When a source has its turn, and what follows from what came of it, is the caller's: `watch` has the cadences of a window,
//! `follow` the paces of sampling without an end.

use std::collections::VecDeque;
use std::time::Duration;

use spindoctor_model::{ServerSample, Unavailable};

use crate::asking::{Asker, Known, Outcome, RefusalKind, walk};
use crate::mysql::{self, Rows, Source};

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Taken {
    pub(crate) took: Duration,
    pub(crate) rows: usize,
    /// False where the server ended the question at its time limit.
    pub(crate) in_time: bool,
}

/// What came of one source's turn, for its next.
#[derive(Debug, PartialEq)]
pub(crate) enum Came {
    /// It was asked, and the server said something; what that took.
    Taken(Taken),
    /// It was asked, and there was no answer for so long: the session is lost over it.
    NoAnswer(Duration),
    /// It was asked, and the server failed for once; how long that took.
    Failed(Duration),
    /// It was not asked: what was answered before says enough, or the session is gone.
    NotAsked,
    /// There is no use in asking it over this session: why, or none where another source has the same.
    GivenUp(Option<Unavailable>),
}

impl Came {
    /// None where its reading is there already, from a better source.
    fn from_outcome(outcome: Outcome<Rows>) -> Option<Self> {
        Some(match outcome {
            Outcome::HasAnswer => return None,
            Outcome::Elsewhere => Self::GivenUp(None),
            Outcome::Cannot(why) => Self::GivenUp(Some(why)),
            Outcome::Answered { is_asked: false, .. } | Outcome::NotNow(_) => Self::NotAsked,
            Outcome::Answered { rows, answer, .. } => {
                let took = Duration::from_secs_f64(answer.took_ms / 1e3);
                Self::Taken(Taken { took, rows: rows.len(), in_time: true })
            }
            Outcome::Refused { refusal, took } => match (refusal.kind, refusal.breaks_session()) {
                (RefusalKind::ForGood, _) => Self::GivenUp(Some(refusal.why)),
                (RefusalKind::TooSlow, false) => Self::Taken(Taken { took, rows: 0, in_time: false }),
                (RefusalKind::TooSlow, true) => Self::NoAnswer(took),
                (RefusalKind::Other, false) => Self::Failed(took),
                (RefusalKind::Other, true) => Self::NotAsked,
            },
        })
    }
}

/// Asks those that have a turn, in the order of the list. Where the session breaks, the others' readings say so. Where another
/// server answers behind them than before, the sample has nothing of either.
///
/// `came` gets a source's place in the list, and what came of its turn: at once, so that what came before a round was cut
/// short is known.
pub(crate) async fn round(
    asker: &mut Asker,
    has_turn: &[bool],
    known: Known<'_>,
    sample: &mut ServerSample,
    mut came: impl FnMut(usize, Came),
) {
    let mut places: VecDeque<usize> = (0..mysql::SOURCES.len()).filter(|place| has_turn[*place]).collect();
    let sources: Vec<&Source> = places.iter().map(|place| &mysql::SOURCES[*place]).collect();
    let Ok(()) = walk(asker, sources, known, sample, |_, outcome| {
        if let (Some(place), Some(what)) = (places.pop_front(), Came::from_outcome(outcome)) {
            came(place, what);
        }
    })
    .await;
    if has_turn.contains(&true) && !asker.is_same_server().await {
        *sample = ServerSample::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking::Refusal;
    use crate::mysql::{QueryError, global_status};
    use spindoctor_model::ServerVersion;

    fn refused(error: QueryError) -> Option<Came> {
        let refusal = Refusal::new(&global_status::SOURCE, ServerVersion::default(), error, "");
        Came::from_outcome(Outcome::Refused { refusal, took: Duration::from_secs(2) })
    }

    #[test]
    fn a_question_that_the_server_ended_is_an_answer_and_one_that_cost_the_session_is_none() {
        let took = Duration::from_secs(2);
        let ended = refused(QueryError::TooLong { after: took });
        assert_eq!(ended, Some(Came::Taken(Taken { took, rows: 0, in_time: false })));
        assert_eq!(refused(QueryError::NoAnswer { after: took }), Some(Came::NoAnswer(took)));
        assert_eq!(refused(QueryError::Broken), Some(Came::NotAsked));
        assert_eq!(Came::from_outcome(Outcome::HasAnswer), None);
        assert_eq!(Came::from_outcome(Outcome::Elsewhere), Some(Came::GivenUp(None)));
    }
}

//! Sessions in some classes of session time, as a finding shows them.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Evidence, KnownBy, SessionTime, TimeClass, TimeShare, Window};

use super::score::{FEW, severity};
use super::stacks::wait_class;
use crate::Cause;
use crate::draft::Draft;
use crate::rank::WARNING_FROM;
use crate::wait_graph::Verdict;

/// Sessions on average below which a wait is no trouble: a session that waits now and then.
const SESSIONS: f64 = 0.5;

/// Share of the session time that waits for a lock must have, however many sessions they are. Chosen: less is lost in the account.
const NOTED: f64 = 0.01;

/// True where a share of the session time is more than the error of an account of ten seconds.
pub(crate) fn is_worth_a_finding(time: &SessionTime, share: f64) -> bool {
    share >= WARNING_FROM && share * time.session_seconds_per_second >= SESSIONS && share > time.error / 2.0
}

/// Share of the session time in waits without a name, from which on a counter gives them one. Chosen, not derived: the clocks
/// and the list are asked at different times, so that a tenth of the time can be left over where nothing waits.
const NAMELESS: f64 = 0.2;

/// The time of sessions in some classes.
#[derive(Debug)]
pub(crate) struct InClasses<'t> {
    time: &'t SessionTime,
    /// The classes that there are, the largest first.
    parts: Vec<&'t TimeShare>,
    /// The share of the session time from which on they are a finding.
    least: f64,
    /// Their share of the session time, 0 to 1.
    pub(crate) share: f64,
    /// Sessions in them, on average.
    pub(crate) sessions: f64,
}

impl<'t> InClasses<'t> {
    /// None where it is not worth a finding.
    pub(crate) fn from_time(time: &'t SessionTime, classes: &[TimeClass]) -> Option<Self> {
        Self::from_share(time, classes, WARNING_FROM)
    }

    /// The same, from that share of the session time on.
    pub(crate) fn from_share(time: &'t SessionTime, classes: &[TimeClass], least: f64) -> Option<Self> {
        let all = Self::new(time, classes, least);
        (all.share >= least && is_worth_a_finding(time, all.share)).then_some(all)
    }

    /// The same of waits for a lock that a session keeps until it lets it go: [`FEW`] sessions are blocked whatever the others do. Below
    /// what [`Self::from_time`] asks for they are a note.
    pub(crate) fn behind_a_lock(time: &'t SessionTime, classes: &[TimeClass]) -> Option<Self> {
        Self::from_time(time, classes).or_else(|| {
            let all = Self::new(time, classes, NOTED);
            let are_blocked = all.share >= NOTED && all.sessions >= FEW && all.share > time.error / 2.0;
            are_blocked.then_some(all)
        })
    }

    fn new(time: &'t SessionTime, classes: &[TimeClass], least: f64) -> Self {
        let parts: Vec<&TimeShare> = time.classes.iter().filter(|one| classes.contains(&one.class)).collect();
        let share: f64 = parts.iter().map(|one| one.share).sum();
        Self { least, time, parts, share, sessions: share * time.session_seconds_per_second }
    }

    /// The waits for which neither the process list has a word nor the stacks have a name, from [`NAMELESS`] on: what a
    /// counter says of such a wait may be what they are.
    pub(crate) fn without_a_name(time: &'t SessionTime) -> Option<Self> {
        Self::from_share(time, &[TimeClass::Other], NAMELESS)
            .filter(|waits| waits.parts.iter().all(|one| one.known_by == KnownBy::Inferred))
    }

    /// True where the process list says that sessions run, from [`NAMELESS`] on, and no clock says whether they do.
    pub(crate) fn are_vague(time: &SessionTime) -> bool {
        time.classes.iter().any(|one| one.class == TimeClass::Running && one.share >= NAMELESS)
    }

    /// A part of it, 0 to 1; None where that is not worth a finding.
    pub(crate) fn part(self, part: f64) -> Option<Self> {
        let share = self.share * part;
        is_worth_a_finding(self.time, share).then_some(Self { share, sessions: self.sessions * part, ..self })
    }

    /// A finding with the account as its evidence.
    pub(crate) fn draft(&self, cause: &Cause, headline: impl Into<String>) -> Draft {
        let draft = Draft::new(cause, self.share, headline)
            .severity(severity(self.time, &cause.costs, self.share))
            .evidence(
                Evidence::new("sessions that wait so", self.sessions, "", self.source())
                    .expected(format!("< {SESSIONS}")),
            )
            .evidence(
                Evidence::new("share of the session time", self.share, "ratio", self.source())
                    .expected(format!("< {}", self.least)),
            );
        match self.parts.first().and_then(|largest| largest.seen.first()) {
            Some((seen, _)) if !seen.is_empty() => {
                draft.evidence(Evidence::new("seen there", seen.clone(), "", self.source()))
            }
            _ => draft,
        }
    }

    /// The connection that holds what they wait for, where one does for long.
    pub(crate) fn blocker<'w>(&self, window: &'w Window) -> Option<Verdict<'w>> {
        self.parts.first().and_then(|largest| blocker(window, largest.class, self.sessions))
    }

    /// Where it is known from: `stack`.
    pub(crate) fn source(&self) -> &'static str {
        self.parts.first().map_or("", |largest| largest.known_by.name())
    }
}

/// Of the sessions in a class, the part that must wait behind one connection before that is named.
const BEHIND_ONE: f64 = 0.5;

/// And so long the longest of them must have waited, seconds, where that is known: who holds a lock for less has let it go
/// before anybody reads its name.
const HELD_S: f64 = 1.0;

/// The connection behind which the sessions of a class wait at the window's end, where one holds what they want for long. None
/// for what goes from hand to hand, as a latch or a place in the commit's queue does: ending its holder would free nobody.
pub(crate) fn blocker(window: &Window, class: TimeClass, sessions: f64) -> Option<Verdict<'_>> {
    let kinds: &[LockKind] = match class {
        TimeClass::RowLock | TimeClass::AutoIncrementLock => &[LockKind::Row],
        TimeClass::MetadataLock | TimeClass::TableLock => &[LockKind::Metadata],
        TimeClass::GlobalLock => &[LockKind::Global, LockKind::Backup, LockKind::Metadata],
        TimeClass::UserLock => &[LockKind::User],
        _ => return None,
    };
    let is_behind_one =
        |blocker: &Verdict<'_>| f64::from(blocker.root.waiting_in_all) >= BEHIND_ONE * sessions;
    let at_the_end = Verdict::from_window(window, window.samples.last()?, kinds).filter(|blocker| {
        is_behind_one(blocker) && blocker.root.longest_wait_s.is_none_or(|waited_s| waited_s >= HELD_S)
    });
    let waits = |thread: &ServerThread| wait_class(&thread.state, &[]) == Some(class);
    at_the_end.or_else(|| {
        // A statement that has the table for less than a second, and is run again at once.
        let of_tables = (class == TimeClass::TableLock).then_some(kinds)?;
        Verdict::again_and_again(window, of_tables, waits).filter(is_behind_one)
    })
}

//! Who blocks the others, as far as the lists show it.

use spindoctor_model::Window;
use spindoctor_model::mysql::{ServerSample, ServerThread};
use spindoctor_model::wait_graph::LockKind;

use super::ground::Ground;
use super::queue::{first_in_queue, is_strong, locks, named_table, waits, waits_before, wanted_object};
use crate::sessions;
use crate::wait_graph::{Ring, Verdict, owner_by_number};

/// The sessions that wait, and behind whom.
pub(super) struct Pileup<'w> {
    pub(super) window: &'w Window,
    /// The server in the sample that shows it.
    pub(super) server: &'w ServerSample,
    /// How many wait.
    pub(super) waiters: u64,
    /// Each wait is short, and the lists rarely show one.
    pub(super) is_passing: bool,
    /// Who blocks them.
    pub(super) culprit: Option<Verdict<'w>>,
    /// What speaks for that; of a chain, for the one between, that has the table.
    pub(super) ground: Option<Ground>,
    /// The number that performance_schema.threads has of who blocks them, where no list has its connection.
    pub(super) by_number: Option<u64>,
    /// Where nobody does: the sessions that wait for each other.
    pub(super) ring: Option<Ring>,
    /// The DDL that is the first of those that wait.
    pub(super) ddl: Option<&'w ServerThread>,
    /// A statement that began before the first DDL, and waits, waits for something else: the table was locked already.
    pub(super) was_locked: bool,
    /// What they want.
    pub(super) table: Option<String>,
    /// What their statements name, where no list of locks was read.
    pub(super) named: Option<String>,
}

impl<'w> Pileup<'w> {
    pub(super) fn from_window(window: &'w Window, waiters: u64, is_passing: bool) -> Self {
        let (sample, culprit) = Verdict::from_most_samples(window, &[LockKind::Metadata], waits);
        let server = &sample.server;
        let ddl = first_in_queue(server);
        let has_ddl = has_ddl_that_waits(server, ddl);
        let ground = culprit.as_ref().and_then(|culprit| Ground::of_holder(server, culprit, has_ddl));
        let by_number = owner_by_number(window, sample, &[LockKind::Metadata]).filter(|_| culprit.is_none());
        let table = wanted_object(server).or_else(|| {
            let is_certain = ground.is_some_and(Ground::is_certain);
            let wanted = culprit.as_ref().filter(|_| is_certain).map(Verdict::wanted);
            wanted.filter(|lock| lock.kind == LockKind::Metadata).map(|lock| lock.object.clone())
        });
        let ring = match &culprit {
            Some(_) => None,
            None => Ring::from_window(window, sample, LockKind::Metadata),
        };
        let was_locked =
            culprit.is_none() && window.is_given() && ddl.is_some_and(|ddl| waits_before(server, ddl));
        let at_work = culprit.as_ref().filter(|_| ground == Some(Ground::DdlAtWork)).and_then(|culprit| {
            let holder = culprit.chain.as_ref().map_or(Some(culprit.connection_id), |chain| chain.holder_id);
            sessions::session(server, holder?)
        });
        let named = if table.is_none() { named_table(server, ddl.or(at_work)) } else { None };
        Self {
            window,
            server,
            waiters,
            is_passing,
            culprit,
            ground,
            by_number,
            ring,
            ddl,
            was_locked,
            table,
            named,
        }
    }

    /// Nothing shows who blocks them.
    pub(super) fn is_unnamed(&self) -> bool {
        self.culprit.is_none() && self.ring.is_none()
    }

    /// A DDL waits.
    pub(super) fn has_ddl_that_waits(&self) -> bool {
        has_ddl_that_waits(self.server, self.ddl)
    }

    /// A list says what is wanted: one without statements does not.
    pub(super) fn knows_wishes(&self) -> bool {
        let mut threads = self.server.threads.value().into_iter().flatten();
        locks(self.server).next().is_some()
            || threads.any(|thread| waits(thread) && thread.statement.is_some())
    }

    /// A DDL is at work.
    pub(super) fn has_ddl_at_work(&self) -> bool {
        self.server.threads.value().into_iter().flatten().any(|thread| {
            thread.is_at_work()
                && !waits(thread)
                && thread.statement.as_deref().is_some_and(spindoctor_sql::wants_a_table)
        })
    }
}

/// A DDL waits. A list of locks may show that one does, and not whose connection it is.
fn has_ddl_that_waits(server: &ServerSample, ddl: Option<&ServerThread>) -> bool {
    ddl.is_some() || locks(server).any(|lock| !lock.granted && is_strong(&lock.lock_type))
}

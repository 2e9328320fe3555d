//! Which classes of session time the findings of a diagnosis explain, and what is left over.

use std::collections::BTreeSet;

use spindoctor_model::{Finding, KnownBy, SessionTime, Severity, TimeClass, TimeShare};

use crate::causes::{purge_lag, server_stopped, table_cache_contention, temporary_table_spill};
use crate::rank::{NOTE, WARNING_FROM};
use crate::{Costs, costs_of};

/// What the session time of a server at its best goes into.
const WORK: &[TimeClass] = &[TimeClass::Cpu, TimeClass::Kernel];

/// Classes that a server at its best has too; whether they take too long a rule of their own says. Running is one of them: it is
/// what the process list says where no clock of the kernel does, and part of it may be waits.
pub(crate) const ORDINARY: &[TimeClass] = &[
    TimeClass::Running,
    TimeClass::CpuQueue,
    TimeClass::CpuQuota,
    TimeClass::CpuTaken,
    TimeClass::Spin,
    TimeClass::Commit,
    TimeClass::CommitOrder,
    TimeClass::GroupReplication,
    TimeClass::Read,
    TimeClass::Write,
    TimeClass::Network,
    TimeClass::Login,
    TimeClass::TableCache,
];

/// Waits for which the process list has no word: it says what the session did before.
pub(super) const WITHOUT_A_STATE: &[TimeClass] = {
    use TimeClass::*;
    &[
        RowLock,
        Latch,
        Mutex,
        LogSpace,
        FreePage,
        PurgeDelay,
        ConcurrencyTicket,
        AutoIncrementLock,
        Read,
        PageFault,
        Write,
        Spin,
    ]
};

/// Part of the time in waits that a finding has to be worth to be what they are, where it does not say itself that it costs them.
/// Chosen: estimates of rules are off by a factor of two where they rest on counters.
const WORTH: f64 = 0.5;

/// True of who has the CPUs that sessions are ready for: others wait behind a thread that is put off with a latch, and only there.
fn takes_cpus(finding: &Finding) -> bool {
    const READY: [TimeClass; 3] = [TimeClass::CpuQueue, TimeClass::CpuQuota, TimeClass::CpuTaken];
    costs_of(finding).is_some_and(|(costs, _)| {
        matches!(costs, Costs::Waits(surely) if surely.iter().all(|class| READY.contains(class)))
    })
}

/// True of a finding that explains waits of this class up to what it is worth, and no more. Latches of pages are kept while old
/// versions are built, and for many other reasons; so are mutexes while rows go into temporary tables, or tables are opened. A server that
/// was held at times ran in the others.
fn is_bounded(finding: &Finding, class: TimeClass) -> bool {
    let beside_mutexes = [temporary_table_spill::CAUSE.name, table_cache_contention::CAUSE.name];
    takes_cpus(finding)
        || finding.cause == purge_lag::CAUSE.name && class == TimeClass::Latch
        || beside_mutexes.contains(&finding.cause.as_str()) && class == TimeClass::Mutex
        || class != TimeClass::Stopped && server_stopped::is_held_at_times(finding)
}

/// The classes that findings explain. A note says that its cause costs little, so it explains nothing, but for waits of its own class,
/// of which its rule says that they are by design; nor does who takes the CPUs explain waits that are far more than it costs. A wait
/// for which the list has no word and the stack no name is one of a kind without a state, where a finding of such a wait is large
/// enough for it: who burns a tenth of the CPU holds up nobody for half of the time.
pub(crate) fn explained(time: &SessionTime, findings: &[Finding]) -> BTreeSet<TimeClass> {
    let of = |finding: &Finding| costs_of(finding).map_or(&[][..], |(_, explains)| explains);
    let costs = |finding: &Finding, class| {
        costs_of(finding)
            .is_some_and(|(costs, _)| matches!(costs, Costs::Waits(surely) if surely.contains(&class)))
    };
    let share = |class| share_of(time, class);
    let weighty = || findings.iter().filter(|finding| finding.severity > Severity::Note);
    let mut explained: BTreeSet<TimeClass> = weighty().flat_map(of).copied().collect();
    explained.retain(|class| {
        let of_class = || weighty().filter(|finding| of(finding).contains(class));
        of_class().any(|finding| !is_bounded(finding, *class) || costs(finding, *class))
            || of_class().fold(0.0, |sum, finding| sum + finding.score) >= WORTH * share(*class)
    });
    // `set_scores` has lowered them to what a note scores.
    let lowered = |finding: &&Finding| finding.severity == Severity::Note && finding.score <= NOTE;
    let by_design = findings.iter().filter(lowered).flat_map(|finding| {
        of(finding).iter().filter(move |class| costs(finding, **class) && share(**class) >= WARNING_FROM)
    });
    explained.extend(by_design);
    let other = time.classes.iter().find(|one| one.class == TimeClass::Other);
    let is_such_a_wait = |finding: &&Finding| {
        costs_of(finding).is_some_and(|(costs, explains)| {
            !matches!(costs, Costs::Cpu) && WITHOUT_A_STATE.iter().any(|class| explains.contains(class))
        })
    };
    let worth = weighty().filter(is_such_a_wait).fold(0.0, |sum, finding| sum + finding.score);
    if other.is_some_and(|one| one.known_by == KnownBy::Inferred && worth >= WORTH * one.share) {
        explained.insert(TimeClass::Other);
    }
    explained
}

/// Share of the session time, 0 to 1, in a class.
pub(crate) fn share_of(time: &SessionTime, class: TimeClass) -> f64 {
    time.classes.iter().filter(|one| one.class == class).fold(0.0, |sum, one| sum + one.share)
}

/// Share of the session time, 0 to 1, in classes of waits that none of these findings explains and that are not ordinary.
pub(crate) fn unnamed(time: &SessionTime, findings: &[Finding]) -> f64 {
    waits(time, findings).iter().fold(0.0, |sum, one| sum + one.share)
}

/// The classes of [`unnamed`], the largest first.
pub(crate) fn waits<'a>(time: &'a SessionTime, findings: &[Finding]) -> Vec<&'a TimeShare> {
    let explained = explained(time, findings);
    // Who writes does what a database does; who waits for a page that another writes does not.
    let waits_for_writer =
        |one: &TimeShare| one.class == TimeClass::Write && one.known_by == KnownBy::Inferred;
    let is_wait = |one: &TimeShare| {
        !WORK.contains(&one.class) && (!ORDINARY.contains(&one.class) || waits_for_writer(one))
    };
    time.classes.iter().filter(|one| is_wait(one) && !explained.contains(&one.class)).collect()
}

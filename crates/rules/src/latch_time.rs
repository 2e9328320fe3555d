//! How much of the time goes into a latch: sessions that sleep for it, CPUs that spin for it, and the waits that performance_schema
//! counts.
//!
//! In: a window, and latches that one cause is about ([`Latches`]). Out: [`LatchTime`], or a [`Contention`] where it is much. What was
//! not looked at is none and never nothing: an instrument that is off counts nothing.

use spindoctor_model::innodb_status::{SemaphoreWait, SpinCounts};
use spindoctor_model::latches::{Latch, LatchWait};
use spindoctor_model::stack::{Observation, Profile, Spin, StackSource, ThreadState};
use spindoctor_model::{Evidence, InnodbStatus, ServerVersion, Unavailable, Window};

use crate::captured::is_cut;
use crate::causes::{
    adaptive_hash_contention, buffer_pool_latch_contention, latch_pileup, rollback_segment_contention,
    spin_burn, transaction_system_contention,
};
use crate::draft::Draft;
use crate::latch_spin::LatchSpin;
use crate::rank::WARNING_FROM;
use crate::sessions::{Waiting, mean};
use crate::spin_samples::{self, SpinSamples};
use crate::stall::{self, HELD_UP};
use crate::wait_graph::is_free;
use crate::{Cause, time_model};

/// Share of the CPU samples that spin for one latch, from which on it is what the CPU is burnt for: half of the tenth from which on
/// spin-burn fires. Of the windows that the lab recorded of other causes none has so much for the latches of these causes.
const SPINS: f64 = 0.05;

/// Threads that wait for it in one status, from which on they are a queue. By judgement.
const QUEUE: f64 = 3.0;

/// Where the waits of InnoDB's latches are printed.
const SEMAPHORES: &str = "SHOW ENGINE INNODB STATUS, SEMAPHORES";

/// The causes that are a queue for one latch: a spin that is too long or too short makes each of them longer.
pub(crate) const CONTENTIONS: [&str; 4] = [
    adaptive_hash_contention::CAUSE.name,
    rollback_segment_contention::CAUSE.name,
    transaction_system_contention::CAUSE.name,
    buffer_pool_latch_contention::CAUSE.name,
];

/// Latches that one cause is about.
#[derive(Clone, Copy)]
pub(crate) struct Latches {
    /// How a sentence names them: `rollback segments`.
    pub(crate) named: &'static str,
    /// What they are in every version.
    pub(crate) latches: &'static [&'static Latch],
    /// Waits that are for them in MySQL 5.5 and before alone.
    pub(crate) before_5_6: fn(&LatchWait<'_>) -> bool,
}

/// No wait is for them in old versions alone.
pub(crate) fn no_more(_: &LatchWait<'_>) -> bool {
    false
}

impl Latches {
    fn have(&self, wait: &LatchWait<'_>, version: Option<ServerVersion>) -> bool {
        let is_old = version.is_some_and(|version| (version.major, version.minor) < (5, 6));
        self.latches.iter().any(|latch| wait.is_for(latch)) || is_old && (self.before_5_6)(wait)
    }

    /// True where they are taken in functions that the stacks of a profile name: a stripped server exports its own, and none of InnoDB's.
    fn are_named(&self, profile: &Profile) -> bool {
        let are_of_the_server =
            self.latches.iter().all(|latch| latch.event.is_some_and(|event| event.contains("/sql/")));
        are_of_the_server || spin_samples::names_innodb(profile)
    }
}

/// Sessions that wait, and their share of the sessions at work.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    /// On average.
    sessions: f64,
    /// 0 to 1.
    ratio: f64,
}

impl Part {
    fn matters(self) -> bool {
        self.sessions >= HELD_UP && self.ratio >= WARNING_FROM
    }
}

/// Time in the latches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LatchTime {
    /// Sessions that sleep for them; none where no stacks show it.
    asleep: Option<Part>,
    /// Share of the CPU samples that spin for them, 0 to 1; none where too few samples were taken.
    spinning: Option<f64>,
    /// Waits that performance_schema counted; none where it counted none, as where the instrument is off.
    counted: Option<Part>,
}

impl LatchTime {
    /// Of a window. None where the server is nearly idle.
    pub(crate) fn from_window(window: &Window, latches: &Latches) -> Result<Option<Self>, Unavailable> {
        let (asleep, spinning) = (asleep(window, latches), spinning(window, latches));
        let counted = counted(window, latches);
        let time = Self {
            asleep: asleep.as_ref().ok().copied(),
            spinning: spinning.as_ref().ok().copied().flatten(),
            counted,
        };
        match (asleep, spinning) {
            _ if time.matters() => Ok(Some(time)),
            (_, Ok(None)) => Ok(None),
            (Err(missing), _) if counted.is_none() => Err(unknown(&missing)),
            _ => Ok(Some(time)),
        }
    }

    /// True where so much goes there that it is a finding.
    pub(crate) fn matters(&self) -> bool {
        let mut parts = self.asleep.into_iter().chain(self.counted);
        parts.any(Part::matters) || self.spinning.is_some_and(|spinning| spinning >= SPINS)
    }

    /// The largest share that was seen, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.largest().0
    }

    /// `25.0 % of the sessions' time goes into waits for rollback segments (stacks)`
    pub(crate) fn reading(&self, latches: &Latches) -> String {
        let (share, goes, by) = self.largest();
        format!("{:.1} % {goes} {} ({by})", share * 100.0, latches.named)
    }

    /// The largest share, what it is a share of, and what shows it.
    fn largest(&self) -> (f64, &'static str, &'static str) {
        const TIME: &str = "of the sessions' time goes into waits for";
        let shares = [
            self.counted.map(|part| (part.ratio, TIME, "performance_schema")),
            self.asleep.map(|part| (part.ratio, TIME, "stacks")),
            self.spinning.map(|share| (share, "of the server's CPU spins for", "CPU samples")),
        ];
        let largest = shares.into_iter().flatten().max_by(|one, other| one.0.total_cmp(&other.0));
        largest.unwrap_or((0.0, TIME, "stacks"))
    }

    /// `25 % of the sessions' time goes into waits for rollback segments`
    pub(crate) fn headline(&self, latches: &Latches) -> String {
        let (share, goes, _) = self.largest();
        format!("{:.0} % {goes} {}", share * 100.0, latches.named)
    }

    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let sessions = |reading: &str, part: Part, source: &str| {
            [
                Evidence::new(reading, part.sessions, "", source).expected(format!("< {HELD_UP:.0}")),
                Evidence::new("of the sessions at work", part.ratio, "ratio", source)
                    .expected(format!("< {WARNING_FROM}")),
            ]
        };
        let asleep = self.asleep.filter(|part| part.sessions > 0.0);
        let counted = self.counted.map(|part| sessions("sessions in waits", part, "performance_schema"));
        let spinning = self.spinning.filter(|spinning| *spinning > 0.0).map(|spinning| {
            Evidence::new("CPU samples that spin for it", spinning, "ratio", "CPU samples")
                .expected(format!("< {SPINS}"))
        });
        let asleep = asleep.map(|part| sessions("sessions asleep for it", part, "stacks"));
        asleep.into_iter().flatten().chain(spinning).chain(counted.into_iter().flatten()).collect()
    }
}

/// A queue for a latch.
pub(crate) struct Contention {
    /// The share of the sessions' time or of the CPU that goes there, 0 to 1.
    share: f64,
    headline: String,
    evidence: Vec<Evidence>,
}

impl Contention {
    /// The finding, but for its reason and what to do. It explains that the CPU is burnt spinning, unless each spin is too long whatever
    /// it is for; and waits of seconds, unless one is so long that its latch is kept and does not go from hand to hand.
    pub(crate) fn draft(self, cause: &Cause, window: &Window) -> Draft {
        let is_too_long = LatchSpin::from_window(window).is_ok_and(|spin| spin.is_too_long());
        let symptoms =
            [(spin_burn::CAUSE.name, is_too_long), (latch_pileup::CAUSE.name, latch_pileup::is_long(window))];
        let explained: Vec<&str> =
            symptoms.into_iter().filter(|(_, is_other)| !is_other).map(|(name, _)| name).collect();
        Draft::new(cause, self.share, self.headline)
            .evidence_all(self.evidence.into_iter())
            .explains(&explained)
    }
}

/// Whether sessions queue for these latches.
pub(crate) fn contention(window: &Window, latches: &Latches) -> Result<Option<Contention>, Unavailable> {
    let time = LatchTime::from_window(window, latches)?.filter(LatchTime::matters);
    let rounds = || {
        rounds_per_os_wait(window).map(|rounds| {
            Evidence::new("spin rounds for each wait that slept, all latches", rounds, "", SEMAPHORES)
        })
    };
    Ok(time.map(|time| Contention {
        share: time.share(),
        headline: time.headline(latches),
        evidence: time.evidence().into_iter().chain(rounds()).collect(),
    }))
}

/// The same of the section SEMAPHORES: of a status that somebody captured, or of a server of which neither stacks nor counters are there.
/// Who has waited for long waits behind one thread, and in no queue: that is [`latch_pileup`].
pub(crate) fn printed(window: &Window, latches: &Latches) -> Option<Contention> {
    if !window.is_given() && LatchTime::from_window(window, latches).is_ok() {
        return None;
    }
    let statuses = window.all(|s| &s.server.innodb_status);
    let queues: Vec<(f64, f64)> = statuses.iter().map(|&(_, status)| queue(status, latches)).collect();
    let sessions = mean(queues.iter().map(|(for_it, _)| *for_it));
    let waiting = mean(queues.iter().map(|(_, waiting)| *waiting));
    let at_work = Waiting::count(window, |_| false).map_or(0.0, |all| all.at_work_mean);
    let share = sessions / at_work.max(waiting).max(1.0);
    (sessions >= QUEUE && share >= WARNING_FROM).then(|| Contention {
        share,
        headline: format!("{sessions:.0} threads wait for {}", latches.named),
        evidence: vec![
            Evidence::new("threads that wait for it", sessions, "", SEMAPHORES)
                .expected(format!("< {QUEUE:.0}")),
        ],
    })
}

/// Threads that wait for these latches in a status, and for any.
fn queue(status: &InnodbStatus, latches: &Latches) -> (f64, f64) {
    let waits = status.semaphores.waiters.iter().filter(|wait| !wait.ended && !is_free(wait));
    let waiting: Vec<&SemaphoreWait> = waits.collect();
    let is_for_it = |wait: &SemaphoreWait| latches.latches.iter().any(|latch| latch.is_printed(wait));
    let for_it = waiting.iter().filter(|wait| wait.waited_s < latch_pileup::LONG_S && is_for_it(wait));
    (for_it.count() as f64, waiting.len() as f64)
}

/// Sessions asleep, from stacks.
fn asleep(window: &Window, latches: &Latches) -> Result<Part, Unavailable> {
    let profile = stall::profile(window)?;
    if !latches.are_named(profile) {
        return Err(spin_samples::without_names(""));
    }
    if profile.source == StackSource::Cpu {
        return Err(Unavailable::because("samples of what ran do not show who slept"));
    }
    // What somebody pasted is one snapshot as a rule, and does not say whether a thread ran.
    let is_text = profile.is_of_a_text();
    if !is_text {
        stall::with_enough_snapshots(window)?;
    }
    let of_stack = |stack| Standing::from_stack(profile, stack, latches, window.server.version);
    let stacks: Vec<Standing> = (0..profile.stacks.len() as u32).map(of_stack).collect();
    let of_text = if is_text { time_model::at_work(profile) } else { Vec::new() };
    let (mut at_work, mut waiting) = (0.0, 0.0);
    for seen in &profile.observations {
        let Some(standing) = stacks.get(seen.stack as usize) else { continue };
        let (works, waits) = if is_text {
            let serves = of_text.get(seen.stack as usize).copied().unwrap_or_default()
                || standing.waits && is_cut(profile, seen.stack);
            (serves, serves && standing.waits)
        } else {
            let serves = standing.is_statement && seen.state != ThreadState::NetworkIdle;
            let waits = standing.waits && standing.is_statement && seen.state.waits_for_another();
            // A thread that runs has no stack as a rule.
            (serves || waits || seen.state == ThreadState::Running, waits)
        };
        at_work += f64::from(u8::from(works));
        waiting += f64::from(u8::from(waits));
    }
    let sessions = waiting / profile.snapshots.len().max(1) as f64;
    Ok(Part { sessions, ratio: waiting / f64::max(at_work, 1.0) })
}

/// What a stack says.
struct Standing {
    is_statement: bool,
    waits: bool,
}

impl Standing {
    fn from_stack(profile: &Profile, stack: u32, latches: &Latches, version: Option<ServerVersion>) -> Self {
        let names = names(profile, &Observation { stack, ..Observation::default() });
        let wait = LatchWait::from_stack(&names, false);
        Self {
            is_statement: names.contains(&"dispatch_command"),
            waits: wait.is_some_and(|wait| latches.have(&wait, version)),
        }
    }
}

fn names<'a>(profile: &'a Profile, seen: &Observation) -> Vec<&'a str> {
    spin_samples::names(profile, seen).collect()
}

/// Share of the CPU samples that spin, 0 to 1; none where the server is nearly idle.
fn spinning(window: &Window, latches: &Latches) -> Result<Option<f64>, Unavailable> {
    let Some(samples) = SpinSamples::unless_idle(window)? else { return Ok(None) };
    let profile = samples.profile();
    if !latches.are_named(profile) {
        return Err(spin_samples::without_names(""));
    }
    let spins = |seen: &Observation| {
        let wait = || LatchWait::from_stack(&names(profile, seen), true);
        seen.spin == Some(Spin::User) && wait().is_some_and(|wait| latches.have(&wait, window.server.version))
    };
    Ok(Some(samples.share_of(spins)))
}

/// Seconds waited per second, by performance_schema. It counts each time that a latch is taken, with the time that it took.
fn counted(window: &Window, latches: &Latches) -> Option<Part> {
    let waits = window.change(|s| &s.server.waits)?;
    let first_ns =
        |event: &str| waits.first.iter().find(|wait| wait.event == event).map_or(0, |wait| wait.total_ns);
    let of_latches =
        waits.last.iter().filter(|wait| latches.latches.iter().any(|latch| latch.is_counted_by(&wait.event)));
    // Where somebody emptied the table in between, nothing is known.
    let grown_ns: Option<Vec<u64>> =
        of_latches.map(|wait| wait.total_ns.checked_sub(first_ns(&wait.event))).collect();
    let waited_s = grown_ns?.into_iter().map(|ns| ns as f64 / 1e9).sum::<f64>();
    let at_work = Waiting::count(window, |_| false).ok()?.at_work_mean;
    let sessions = waited_s / waits.seconds;
    (sessions > 0.0).then(|| Part { sessions, ratio: (sessions / at_work.max(1.0)).min(1.0) })
}

/// Rounds of spinning for each wait that went on to sleep, over the window: of mutexes and rw-locks together, where the version counts
/// them.
fn rounds_per_os_wait(window: &Window) -> Option<f64> {
    let statuses = window.change(|s| &s.server.innodb_status)?;
    let counts = |status: &InnodbStatus| {
        let of = &status.semaphores;
        [of.mutex, of.rw_shared, of.rw_excl, of.rw_sx]
    };
    let grown = |first: SpinCounts, last: SpinCounts| {
        Some((last.rounds?.checked_sub(first.rounds?)?, last.os_waits?.checked_sub(first.os_waits?)?))
    };
    let both = counts(statuses.first).into_iter().zip(counts(statuses.last));
    let (rounds, os_waits) = both
        .filter_map(|(first, last)| grown(first, last))
        .fold((0, 0), |sum, grown| (sum.0 + grown.0, sum.1 + grown.1));
    (os_waits > 0).then(|| rounds as f64 / os_waits as f64)
}

/// Why it is not known how much goes there: one reason for all causes of this kind, so that a report has it once.
fn unknown(missing: &Unavailable) -> Unavailable {
    let stacks = missing.unlock.as_deref().unwrap_or("run spindoctor as root on the server's host");
    Unavailable::because(format!(
        "{}; of waits for the latch none was counted, as where its instrument is off",
        missing.because
    ))
    .unlock(format!(
        "{stacks}; or the latch's instruments in performance_schema.setup_instruments (spindoctor explain names them)"
    ))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::innodb_status::{SemaphoreKind, Semaphores};
    use spindoctor_model::stack::ThreadState::{Lock, Running};

    use super::*;
    use crate::testing::{Build, answer};
    use crate::{Outcome, diagnose};

    /// A cause, and a function that takes its latch.
    const TAKERS: [(&str, &str); 4] = [
        (adaptive_hash_contention::CAUSE.name, "btr_search_guess_on_hash"),
        (rollback_segment_contention::CAUSE.name, "trx_undo_assign_undo"),
        (transaction_system_contention::CAUSE.name, "trx_start_low"),
        (buffer_pool_latch_contention::CAUSE.name, "buf_LRU_add_block"),
    ];

    /// Sessions that sleep and CPUs that spin for the latch that this function takes.
    fn contended(taker: &str, spin_wait_delay: &str) -> Build {
        let spins = ["ut_delay", "TTASEventMutex::spin_and_try_lock", taker, "row_upd_step"];
        let sleeps =
            ["sync_array_wait_event", "TTASEventMutex::wait", taker, "row_upd_step", "dispatch_command"];
        Build::busy("8.0.36")
            .variable("innodb_adaptive_hash_index", "ON")
            .variable("innodb_spin_wait_delay", spin_wait_delay)
            .cpu_samples(1000, 0.4, &spins)
            .snapshots(&[(20, Lock, &sleeps), (20, Running, &["row_upd_step", "dispatch_command"])])
    }

    #[test]
    fn the_latch_stands_before_the_spinning_unless_each_spin_is_too_long() {
        let names = |window: &Window| -> Vec<String> {
            diagnose(window).findings.into_iter().map(|finding| finding.cause).collect()
        };
        for (cause, taker) in TAKERS {
            let found = names(&contended(taker, "6").window());
            assert_eq!(found[..2], [cause, "spin-burn"], "{found:?}");
            let found = names(&contended(taker, "100").window());
            assert_eq!(found[..2], ["spin-burn", cause], "{found:?}");
        }
    }

    #[test]
    fn a_latch_that_one_thread_keeps_is_not_explained_by_a_queue() {
        let explains = |waited_s: f64| {
            let build = contended("trx_start_low", "6").each(move |at_s, server, _| {
                let wait = SemaphoreWait {
                    pthread_id: 7,
                    kind: SemaphoreKind::Mutex,
                    name: "TRX_SYS".into(),
                    waited_s,
                    ..SemaphoreWait::default()
                };
                let semaphores = Semaphores { waiters: vec![wait], ..Semaphores::default() };
                server.innodb_status = answer(at_s, InnodbStatus { semaphores, ..InnodbStatus::default() });
            });
            let Outcome::Fired(finding) =
                transaction_system_contention::CAUSE.evaluate(&build.window(), None)
            else {
                panic!("it fires")
            };
            finding.explains.contains(&latch_pileup::CAUSE.name.to_owned())
        };
        assert!(explains(2.0) && !explains(60.0));
    }

    #[test]
    fn an_idle_server_is_clear_and_samples_alone_clear_nobody() {
        let page = ["ut_delay", "rw_lock_s_lock_spin", "buf_page_get_gen", "row_search_mvcc"];
        let mut window = Build::busy("8.0.36").cpu_samples(1000, 0.3, &page).window();
        for (cause, _) in &TAKERS[1..] {
            let outcome = crate::find(cause).expect("a cause").evaluate(&window, None);
            assert!(matches!(outcome, Outcome::NotEnoughEvidence(_)), "{cause}: {outcome:?}");
        }
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!("a profile") };
        profile.process_cpu_us = 100_000;
        for (cause, _) in TAKERS {
            let outcome = crate::find(cause).expect("a cause").evaluate(&window, None);
            assert_eq!(outcome, Outcome::Clear, "{cause}");
        }
    }

    #[test]
    fn a_purge_thread_that_waits_is_no_session() {
        let purges =
            ["sync_array_wait_event", "TTASEventMutex::wait", "trx_undo_assign_undo", "srv_worker_thread"];
        let build = || {
            Build::busy("8.0.36")
                .only_snapshots(&[(20, Lock, &purges), (20, Running, &["row_upd_step", "dispatch_command"])])
        };
        for window in [build().window(), build().captured().window()] {
            let time = LatchTime::from_window(&window, &rollback_segment_contention::MUTEXES);
            assert!(time.unwrap().is_some_and(|time| !time.matters() && time.share() == 0.0));
        }
    }
}

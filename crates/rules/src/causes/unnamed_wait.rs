//! `unnamed-wait`: session time that no cause of the catalogue explains, shown as it is.
//!
//! A rule looks for what it knows. What is left over is looked at here, so that a diagnosis may be unable to name a wait and
//! is never silent about it.

mod captured;
mod group;
mod login;

use spindoctor_model::{
    Evidence, Finding, KnownBy, Remedy, SessionTime, Severity, TimeClass, TimeShare, Window, number,
};

use self::captured::{commonest, explain, nobody_has_lasted};
use self::group::GroupWait;
use self::login::LoginWait;
use crate::commits::commits_per_s;
use crate::draft::Draft;
use crate::own_answers::OwnAnswers;
use crate::rank::{CRITICAL_FROM, NOTE, WARNING_FROM};
use crate::run_queue::host_busy;
use crate::time_model::{ORDINARY, blocker, explained, is_worth_a_finding, severity, waits};
use crate::wait_graph::Verdict;
use crate::{CAUSES, Cause, Costs, Outcome, Rule, Stacks, costs_of};

/// The catalogue's last entry.
pub const CAUSE: Cause = Cause {
    name: "unnamed-wait",
    title: "sessions wait for something that no other cause explains",
    what: "A part of the time of the sessions at work goes into a wait that no cause of this catalogue explains. It is shown \
           as it is: its class, the state of the process list, the functions that wait, and the thread behind which the \
           others wait, where there is one.",
    why_it_hurts: "A second that a session waits is a second that its client waits. That the reason has no name here makes it \
                   no shorter.",
    evidence: "The time model: snapshots of all threads' stacks ten times a second, or the process list once a second where \
               stacks cannot be taken. It is a finding where classes of waits that no other finding explains take 5 % of the \
               session time or more, and half a session or more on average; where few are at work and nothing is said of it, one class is a note \
               from a fifth of their time on. And what spindoctor's own questions took: where nothing \
               else is found and one of them took a second or more it is a note, where two or more did, for a twentieth of the time, \
               a warning.",
    looks_alike: "Sessions that sleep on purpose and idle connections are not at work and are not counted. A share of \
                  commits, reads or network in a server that does well is no trouble: these classes are a note at most, \
                  from half of the session time on; only sixteen sessions and more in logins, or before the mutex of the open tables, \
                   for half of the time are a queue, and commits of which none ends, or that wait long for the agreement of a \
                  replication group. So are latches and mutexes up to 15 %: every server under load waits for some.",
    remedies: "Look at the functions and the state in the evidence. `spindoctor locks` shows who blocks whom, and \
               `spindoctor stacks --duration 10s` what all threads do.",
    safety: "Looking is safe. KILL of the connection that blocks the others rolls its transaction back.",
    references: &[
        "https://dev.mysql.com/doc/refman/9.4/en/general-thread-states.html",
        "https://mariadb.com/docs/server/ha-and-performance/optimization-and-tuning/buffers-caches-and-threads/thread-states/general-thread-states",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[],
    stacks: Stacks::Nothing,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
    rule: Rule::Time(|window, time| {
        let others = CAUSES.iter().filter(|cause| cause.name != CAUSE.name);
        let findings: Vec<Finding> = others
            .filter_map(|cause| match cause.evaluate(window, Some(time)) {
                Outcome::Fired(finding) => Some(finding),
                Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
            })
            .collect();
        evaluate(window, time, &findings)
    }),
};

/// From this share on an ordinary class, one that a server at its best has too, gets a note.
const ORDINARY_FROM: f64 = 0.5;

/// And from so many sessions at work: one client that commits all the time waits for commits.
const ORDINARY_SESSIONS: f64 = 4.0;

/// And of what somebody captured, who does so because something is wrong: two that do the same.
const GIVEN_SESSIONS: f64 = 2.0;

/// Sessions in a class of work, from which on they are a queue. By judgement.
const QUEUE: f64 = 16.0;

/// Waits of microseconds that every server under load has some of.
const COMMON: &[TimeClass] = &[TimeClass::Latch, TimeClass::Mutex];

/// Up to this share of the session time they are a note.
const COMMON_UP_TO: f64 = 0.15;

/// What is left when the other rules have had their say.
pub(crate) fn evaluate(window: &Window, time: &SessionTime, findings: &[Finding]) -> Outcome {
    // A note costs little, but it is no silence about a wait that is as little.
    let is_noted = |one: &&TimeShare| one.share < COMMON_UP_TO && is_named(findings, one.class);
    let waits: Vec<&TimeShare> = waits(time, findings).into_iter().filter(|one| !is_noted(one)).collect();
    let unnamed: f64 = waits.iter().map(|one| one.share).sum();
    if let (Some(largest), true) = (waits.first(), is_worth_a_finding(time, unnamed)) {
        return Outcome::Fired(finding(window, time, unnamed, largest, &waits));
    }
    if findings.iter().any(|finding| finding.severity > Severity::Note) {
        return Outcome::Clear;
    }
    if let Some(queue) = queue(window, time) {
        return Outcome::Fired(finding(window, time, queue.share, queue, &[queue]));
    }
    let own = OwnAnswers::from_window(window);
    if own.late > 0 {
        return Outcome::Fired(late(window, own));
    }
    if let Some(few) = of_few(time, findings) {
        return Outcome::Fired(Finding {
            severity: Severity::Note,
            ..finding(window, time, few.share, few, &[few])
        });
    }
    let explained = explained(time, findings);
    let least = if window.is_given() { GIVEN_SESSIONS } else { ORDINARY_SESSIONS };
    if window.is_given() && nobody_has_lasted(window) {
        return Outcome::Clear;
    }
    let is_open = |one: &&TimeShare| !explained.contains(&one.class) && !is_named(findings, one.class);
    let ordinary = || time.classes.iter().filter(|one| ORDINARY.contains(&one.class)).filter(is_open);
    // Which program has the CPUs changes nothing: who is ready and has none waits for one and the same thing.
    let ready: Vec<&TimeShare> = ordinary().filter(|one| READY.contains(&one.class)).collect();
    let alone = ordinary().next().map(|largest| vec![largest]);
    for parts in [Some(ready), alone].into_iter().flatten() {
        let share: f64 = parts.iter().map(|one| one.share).sum();
        if let (Some(largest), true) =
            (parts.first(), share >= ORDINARY_FROM && time.session_seconds_per_second >= least)
        {
            return Outcome::Fired(finding(window, time, NOTE, largest, &parts));
        }
    }
    Outcome::Clear
}

/// Classes of who is ready to run and has no CPU.
const READY: &[TimeClass] = &[TimeClass::CpuQueue, TimeClass::CpuQuota, TimeClass::CpuTaken];

/// True where a finding, a note included, is of such waits.
fn is_named(findings: &[Finding], class: TimeClass) -> bool {
    findings.iter().any(|finding| costs_of(finding).is_some_and(|(_, explains)| explains.contains(&class)))
}

/// A wait of less than half a session on average that takes a large part of the time of the few that are at work, and of which no
/// finding says anything: their clients wait for it as they would on a busy server.
fn of_few<'a>(time: &'a SessionTime, findings: &[Finding]) -> Option<&'a TimeShare> {
    let largest = waits(time, findings).into_iter().find(|one| !is_named(findings, one.class))?;
    // Where the sessions at work are less than one on average, the share is of that one.
    let at_work = time.session_seconds_per_second;
    let is_large = largest.share * at_work >= CRITICAL_FROM * at_work.max(1.0);
    (is_large && largest.share > time.error).then_some(largest)
}

/// An ordinary class in which so many stand for most of the time that it is no work that goes on: tables that are opened are work, a
/// queue before the mutex under which they are opened is none; a login is over in milliseconds, unless the client says nothing or
/// the server waits for a name or for who checks the password; commits are work while they end.
fn queue<'a>(window: &Window, time: &'a SessionTime) -> Option<&'a TimeShare> {
    let largest = time.classes.iter().find(|one| ORDINARY.contains(&one.class))?;
    let sessions = largest.share * time.session_seconds_per_second;
    let least = match largest.class {
        TimeClass::TableCache if largest.known_by == KnownBy::Stack => QUEUE,
        TimeClass::Login => QUEUE,
        TimeClass::Commit if no_change_ended(window, sessions) => ORDINARY_SESSIONS,
        _ if GroupWait::from_share(window, largest).is_some() && GroupWait::is_slow(window, sessions) => {
            ORDINARY_SESSIONS
        }
        _ => return None,
    };
    (largest.share >= ORDINARY_FROM && sessions >= least).then_some(largest)
}

/// Seconds in which a commit ends on any storage that works: one that spins and is busy takes a tenth. Chosen.
const COMMIT_S: f64 = 3.0;

/// True where no more changes began than sessions stand at their commit, for longer than a commit takes: a change is counted when it
/// begins.
fn no_change_ended(window: &Window, sessions: f64) -> bool {
    let seconds = window.change(|sample| &sample.server.status).map_or(0.0, |change| change.seconds);
    seconds >= COMMIT_S && commits_per_s(window).is_ok_and(|per_s| per_s * seconds <= sessions)
}

fn finding(
    window: &Window,
    time: &SessionTime,
    score: f64,
    largest: &TimeShare,
    waits: &[&TimeShare],
) -> Finding {
    let sessions = largest.share * time.session_seconds_per_second;
    let blocker = blocker(window, largest.class, sessions);
    let is_common = score < COMMON_UP_TO && waits.iter().all(|one| COMMON.contains(&one.class));
    let login = (largest.class == TimeClass::Login).then(|| LoginWait::from_share(largest));
    let group = GroupWait::from_share(window, largest);
    let doing = group.map_or_else(|| doing(largest), |group| group.headline().to_owned());
    let headline =
        headline(largest, sessions, &doing, blocker.as_ref()) + login.map_or("", LoginWait::headline);
    let mut draft = Draft::new(&CAUSE, score, headline).why(match group {
        Some(group) => group.why(window),
        None => why(largest, unexamined(window, largest.class)),
    });
    for wait in waits {
        draft = draft.evidence(Evidence::new(
            &format!("session time in {}", wait.class.label()),
            wait.share,
            "ratio",
            wait.known_by.name(),
        ));
        for (seen, share) in &wait.seen {
            draft = draft.evidence(Evidence::new(
                "seen there",
                format!(
                    "{} {}",
                    number::whole_percent(*share),
                    if seen.is_empty() { "(no word for it)" } else { seen }
                ),
                "",
                wait.known_by.name(),
            ));
        }
    }
    draft
        .evidence_all(group.into_iter().flat_map(|group| group.evidence(window)))
        .evidence_if(commonest(window).filter(|_| largest.class == TimeClass::Running))
        .remedy_if(blocker.as_ref().and_then(|blocker| blocker.remedy(WHY_END_IT)))
        .remedy_if(explain(window).filter(|_| largest.class == TimeClass::Running))
        .remedy(group.map_or_else(|| look(window, largest), GroupWait::remedy))
        .root(blocker.map(|blocker| blocker.described()))
        .severity(if is_common || is_killed(largest) {
            Severity::Note
        } else {
            severity(time, &CAUSE.costs, score).min(login.map_or(Severity::Critical, LoginWait::most))
        })
        .finding()
}

/// Share of the host's CPUs that is busy, from which on spindoctor itself may have waited for one. Chosen.
const CPUS_BUSY: f64 = 0.9;

/// spindoctor's own questions waited, and nothing that was seen says why: clients of this server may wait as long.
fn late(window: &Window, own: OwnAnswers) -> Finding {
    let busy = host_busy(window);
    // Once may be chance; and on a host without a CPU to spare it may be spindoctor that waited for one.
    let is_sure = own.late > 1 && own.late_share >= WARNING_FROM && busy.is_none_or(|busy| busy < CPUS_BUSY);
    Draft::new(
        &CAUSE,
        if is_sure { own.late_share } else { NOTE },
        format!(
            "The server answers late: {} of spindoctor's own {} questions took a second or more, the longest {:.1} s",
            own.late, own.asked, own.longest_s
        ),
    )
    .severity(if is_sure { Severity::Warning } else { Severity::Note })
    .why(
        "No session was seen to wait for anything that explains it. Whatever held these questions up holds up those of clients, too: \
         a pool of threads or a proxy that lets a statement through late, a lock for an instant that no sample met, the network \
         between, or a CPU for which spindoctor itself waited.",
    )
    .evidence(Evidence::new("own questions that took a second or more", own.late as f64, "", "answers").expected("0"))
    .evidence(Evidence::new("the longest", own.longest_s, "s", "answers").expected("< 1"))
    .evidence(Evidence::new("time in which one of them waited", own.late_share, "ratio", "answers"))
    .evidence_if(busy.map(|busy| Evidence::new("host CPUs busy", busy, "ratio", "/proc/stat")))
    .remedy(Remedy {
        statement: "On the server's host, over its unix socket: SELECT 1, some times in a row; and spindoctor doctor --duration 30s".into(),
        why: "It shows whether the server is late or the way to it, and more samples meet what comes and goes.".into(),
        dynamic: true,
        risk: "Both only read.".into(),
        undo: String::new(),
    })
    .finding()
}

/// A cause of these waits that could not be looked for.
fn unexamined(window: &Window, class: TimeClass) -> Option<&'static Cause> {
    let costs = |cause: &Cause| matches!(cause.costs, Costs::Waits(classes) if classes.contains(&class));
    CAUSES.iter().filter(|cause| cause.name != CAUSE.name && costs(cause)).find(|cause| {
        // Those that rest on the account of time looked at it already.
        matches!(cause.evaluate(window, None), Outcome::NotEnoughEvidence(_))
            && matches!(cause.rule, Rule::Readings(_) | Rule::ReadingsOrCapture(..))
    })
}

/// What shows more: of a server that answers, and of one of which there is only what somebody captured.
fn look(window: &Window, largest: &TimeShare) -> Remedy {
    if largest.class == TimeClass::Login {
        return LoginWait::from_share(largest).remedy();
    }
    let is_given = window.is_given();
    let (statement, why, risk) = match largest.class {
        TimeClass::Other if is_asleep(largest) => (
            "SHOW TRIGGERS; SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_DEFINITION LIKE '%sleep%'",
            "One of the triggers of the tables that they change, or a function that these call, has the SLEEP.",
            "They only read.",
        ),
        TimeClass::Network => (
            "On the clients' hosts: ss -tmn dport = :3306; on the server's: ss -tmn sport = :3306",
            "Bytes that stay in Send-Q on the server's side, with Recv-Q full on the client's, are rows that the client does not \
             take: it works on each row before it asks for the next, or has no CPU. Ask for fewer rows and columns, let the client \
             fetch all first, and work then; a transaction that is open meanwhile keeps its locks and old row versions. Where \
             Send-Q is full and Recv-Q is empty it is the network between them.",
            "They only read.",
        ),
        TimeClass::Running if is_given && largest.known_by == KnownBy::Stack => (
            "SHOW FULL PROCESSLIST\\G; perf record -F 99 -g -p PID -- sleep 10; perf script",
            "While it lasts, given together with the stacks: the list has their statements, and the samples say in which functions the \
             time goes.",
            "Both only read; perf takes a little of a CPU meanwhile.",
        ),
        _ if !is_given => (
            "spindoctor locks; spindoctor stacks --duration 10s",
            "The first shows who blocks whom, the second what each thread does, by function.",
            "Both only read; no thread of the server is stopped.",
        ),
        TimeClass::RowLock => (
            "SHOW ENGINE INNODB STATUS\\G; SELECT * FROM sys.innodb_lock_waits\\G",
            "While it lasts, and with SHOW FULL PROCESSLIST of the same moment: they name the transaction that has the lock.",
            "They only read.",
        ),
        _ => (
            "SHOW FULL PROCESSLIST\\G; SHOW ENGINE INNODB STATUS\\G; gdb -p PID -batch -ex 'thread apply all bt'",
            "While it lasts, all of one moment, given together: they show who blocks whom.",
            "The statements only read; the server is stopped while gdb reads, for seconds.",
        ),
    };
    Remedy {
        statement: statement.into(),
        why: why.into(),
        dynamic: true,
        risk: risk.into(),
        undo: String::new(),
    }
}

/// `40.0 sessions are in user lock, 99 % of the session time: connection 10 blocks them`
fn headline(largest: &TimeShare, sessions: f64, doing: &str, blocker: Option<&Verdict<'_>>) -> String {
    let culprit = blocker
        .map_or_else(String::new, |blocker| format!(": connection {} blocks them", blocker.connection_id));
    format!("{sessions:.1} sessions {doing}, {:.0} % of the session time{culprit}", largest.share * 100.0)
}

/// What follows the number of the sessions.
fn doing(largest: &TimeShare) -> String {
    match largest.class {
        TimeClass::Other if is_asleep(largest) => {
            "sleep in a trigger or function of their statement".to_owned()
        }
        TimeClass::Other if is_killed(largest) => "were killed and are not gone".to_owned(),
        TimeClass::Other => "wait for something that has no name here".to_owned(),
        TimeClass::Network => "wait for their client to take or to send something".to_owned(),
        class => format!("are in `{}`", class.label()),
    }
}

/// True for sessions that are at work and sleep: a trigger does, or a stored function.
fn is_asleep(share: &TimeShare) -> bool {
    share.seen.first().is_some_and(|(seen, _)| {
        seen.eq_ignore_ascii_case("user sleep") || seen.contains("Item_func_sleep::val_int")
    })
}

/// True for sessions that somebody ended and that are listed all the same.
fn is_killed(share: &TimeShare) -> bool {
    share.seen.first().is_some_and(|(seen, _)| seen.eq_ignore_ascii_case("killed"))
}

fn why(largest: &TimeShare, unexamined: Option<&Cause>) -> String {
    if let Some(cause) = unexamined {
        return format!(
            "It is what {} looks like; who blocks the others is not known, because what shows it could not be read.",
            cause.name
        );
    }
    // Stacks say where they stand, and that is all that is known.
    if largest.class == TimeClass::Running && largest.known_by != KnownBy::Stack {
        return "The process list calls everything running for which it has no other word, reads and waits inside InnoDB among \
                it. Whether these sessions work or wait, the server's host would say: its threads' clocks and stacks."
            .to_owned();
    }
    if largest.class == TimeClass::Network {
        return "The server has begun to answer, or to ask for the client's data, and the client takes or sends it more slowly \
                than the server works. The time is the client's or the network's; no setting of the server shortens it."
            .to_owned();
    }
    if is_asleep(largest) {
        return "Their statements change rows and call for no SLEEP themselves. For as long as it lasts their clients wait, and so \
                does who wants the rows."
            .to_owned();
    }
    if is_killed(largest) {
        return "They run nothing: what the transaction of each changed is undone first, and it holds its locks until then; or the \
                server has not looked yet whether it was killed. A second KILL does nothing, and a restart undoes the same."
            .to_owned();
    }
    match largest.seen.first().filter(|(seen, _)| !seen.is_empty()) {
        // They stand in many places, and this is only the commonest.
        Some((seen, share)) if *share < largest.share / 2.0 => format!(
            "No cause of the catalogue explains it, and these sessions were seen in many places. The commonest, {:.0} % of the \
             session time: {seen}.",
            share * 100.0
        ),
        Some((seen, share)) => format!(
            "No cause of the catalogue explains it. Most of these sessions, {:.0} % of the session time, were seen in: {seen}.",
            share * 100.0
        ),
        None => "No cause of the catalogue explains it, and neither a state nor a function says what these sessions wait for. \
                 Stacks of the server's threads would: they need root on its host, or its debug symbols."
            .to_owned(),
    }
}

const WHY_END_IT: &str = "It blocks the others: what it holds is free when it ends.";

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;

    use super::*;
    use crate::testing::{Build, session};

    fn listed(count: u64, state: &'static str) -> Build {
        let sessions = move |_| (0..count).map(|at| session(20 + at, "Query", state, "SELECT 1")).collect();
        Build::busy("8.0.36").sessions(sessions).remote().without_profile()
    }

    /// Forty sessions wait for a transaction of the source to be applied.
    pub(crate) fn fires() -> Window {
        listed(40, "Waiting for GTID to be committed").window()
    }

    /// They sleep on purpose.
    pub(crate) fn near_miss() -> Window {
        listed(40, "User sleep").window()
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        listed(40, "Waiting for GTID to be committed")
            .each(|_, server, _| server.threads = Reading::NotAsked)
            .window()
    }

    #[test]
    fn killed_sessions_that_are_not_gone_are_a_note_and_not_called_running() {
        let sessions = |_| (0..40).map(|at| session(20 + at, "Killed", "killed", "")).collect();
        let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
        let findings = crate::diagnose(&window).findings;
        let finding = findings.iter().find(|finding| finding.cause == CAUSE.name).unwrap();
        assert!(finding.headline.contains("sessions were killed and are not gone"), "{}", finding.headline);
        assert_eq!(finding.severity, Severity::Note);
        assert!(finding.why.contains("undone first"), "{}", finding.why);
    }

    #[test]
    fn a_server_that_answers_late_is_never_met_with_silence() {
        use crate::testing::Build;
        let found = |late, ms, build: Build| crate::diagnose(&build.late(late, ms).window()).findings;
        let at_rest =
            || Build::busy("8.0.36").sessions(|_| vec![session(20, "Sleep", "", "")]).without_profile();
        assert_eq!(found(3, 600.0, at_rest()), [], "beside builds");
        for (late, severity) in [(1, Severity::Note), (3, Severity::Warning)] {
            for build in [at_rest(), at_rest().remote(), Build::busy("10.11.19-MariaDB")] {
                let findings = found(late, 1_900.0, build);
                assert_eq!((findings[0].cause.as_str(), findings[0].severity), (CAUSE.name, severity));
            }
        }
        let findings = found(3, 1_900.0, at_rest().host_cpu(4.0, 0.0));
        assert_eq!(findings[0].severity, Severity::Note, "{findings:#?}");
    }

    #[test]
    fn logins_that_do_not_end_are_a_queue_and_no_work() {
        let found = |count: u64| {
            let sessions = move |_| (0..count).map(|at| session(20 + at, "Connect", "login", "")).collect();
            let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().late(1, 1_400.0);
            crate::diagnose(&window.window()).findings
        };
        let findings = found(80);
        assert_eq!((findings[0].cause.as_str(), findings[0].severity), (CAUSE.name, Severity::Critical));
        assert!(findings[0].headline.contains("80 sessions are in `login`"), "{}", findings[0].headline);
        assert!(findings[0].remedies[0].why.contains("connect_timeout"));
        assert!(found(8).iter().all(|finding| finding.severity == Severity::Note));
    }

    #[test]
    fn commits_of_which_none_ends_are_a_queue_and_commits_that_end_are_work() {
        let found = |changes_per_s: f64| {
            let sessions = |_| {
                (20..32)
                    .map(|id| session(id, "Query", "waiting for handler commit", "UPDATE t SET a = 1"))
                    .collect()
            };
            let quiet = ["Com_commit", "Com_insert", "Com_delete", "Com_replace"];
            let build = quiet.iter().fold(Build::busy("8.0.36"), |build, name| build.counter(name, 0.0));
            let window =
                build.counter("Com_update", changes_per_s).sessions(sessions).remote().without_profile();
            crate::diagnose(&window.window()).findings
        };
        let findings = found(0.0);
        assert_eq!((findings[0].cause.as_str(), findings[0].severity), (CAUSE.name, Severity::Critical));
        assert!(found(40.0).iter().all(|finding| finding.severity == Severity::Note), "{:#?}", found(40.0));
    }

    #[test]
    fn a_third_of_the_time_of_few_sessions_is_a_note_and_a_tenth_of_it_is_none() {
        let found = |every: usize| {
            let sessions = move |at: usize| {
                let state =
                    if at.is_multiple_of(every) { "Waiting for GTID to be committed" } else { "executing" };
                vec![session(20, "Query", state, "SELECT 1")]
            };
            let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
            crate::diagnose(&window).findings
        };
        let findings = found(3);
        assert_eq!(
            findings.iter().map(|found| (found.cause.as_str(), found.severity)).collect::<Vec<_>>(),
            [(CAUSE.name, Severity::Note)]
        );
        assert!(findings[0].headline.contains("% of the session time"), "{}", findings[0].headline);
        assert_eq!(found(10), []);
    }

    #[test]
    fn a_tenth_of_the_time_in_latches_is_a_note_and_a_quarter_is_none() {
        use spindoctor_model::stack::ThreadState;
        let severity = |waiting| {
            let frames: &[&str] = &["sync_array_wait_event", "row_upd", "dispatch_command", "do_command"];
            let runs: &[&str] = &["row_upd", "dispatch_command", "do_command"];
            let window = Build::busy("8.0.36").remote().only_snapshots(&[
                (waiting, ThreadState::Lock, frames),
                (40 - waiting, ThreadState::Running, runs),
            ]);
            let findings = crate::diagnose(&window.window()).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name).map(|finding| finding.severity)
        };
        assert_eq!(severity(4), Some(Severity::Note));
        assert_eq!(severity(10), Some(Severity::Critical));
    }

    #[test]
    fn who_is_ready_and_has_no_cpu_waits_for_one_thing() {
        let of = |queue: f64, taken: f64| {
            let share =
                |class, share| TimeShare { class, share, known_by: KnownBy::Counter, seen: Vec::new() };
            let time = SessionTime {
                session_seconds_per_second: 6.0,
                classes: vec![
                    share(TimeClass::CpuQueue, queue),
                    share(TimeClass::CpuTaken, taken),
                    share(TimeClass::Cpu, 1.0 - queue - taken),
                ],
                ..SessionTime::default()
            };
            let window = Build::busy("8.0.36").window();
            match evaluate(&window, &time, &[]) {
                Outcome::Fired(finding) => Some(finding.severity),
                Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
            }
        };
        assert_eq!(of(0.4, 0.28), Some(Severity::Note));
        assert_eq!(of(0.3, 0.1), None);
    }

    #[test]
    fn of_equal_reads_in_a_list_alone_the_plan_is_the_first_thing_to_look_at() {
        let of = |version: &str, statement: &'static str, is_given: bool| {
            let sessions =
                move |_| (0..6).map(|at| session(20 + at, "Query", "Sending data", statement)).collect();
            let mut window = Build::busy(version).sessions(sessions).remote().without_profile().window();
            if is_given {
                window.server.no_pid =
                    Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
            }
            let time = crate::session_time(&window).unwrap();
            let Outcome::Fired(finding) = evaluate(&window, &time, &[]) else { panic!("{time:?}") };
            finding.remedies[0].statement.clone()
        };
        let read = "SELECT note FROM parcels WHERE weight > 7";
        for (version, wanted) in [
            ("8.0.36", "EXPLAIN FOR CONNECTION 2"),
            ("11.4.2-MariaDB", "EXPLAIN FOR CONNECTION 2"),
            ("10.6.11-MariaDB", "SHOW EXPLAIN FOR 2"),
            ("5.6.51", "EXPLAIN, and the statement with its values: SELECT note FROM parcels WHERE"),
        ] {
            let first = of(version, read, true);
            assert!(first.starts_with(wanted), "{version}: {first}");
            assert!(!of(version, read, false).starts_with("EXPLAIN"), "{version}");
        }
        assert!(!of("8.0.36", "UPDATE parcels SET weight = 1", true).contains("EXPLAIN"));
    }

    #[test]
    fn of_sessions_that_run_by_their_stacks_it_is_said_where_they_stand_and_no_stacks_are_asked_for() {
        let of = |known_by| {
            let seen = vec![("pack_parcels < send_parcels".to_owned(), 0.8)];
            let share = TimeShare { class: TimeClass::Running, share: 0.9, known_by, seen };
            let mut window = Build::busy("8.0.36").window();
            window.server.no_pid =
                Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
            (why(&share, None), look(&window, &share).statement)
        };
        let (why, statement) = of(KnownBy::Stack);
        assert!(why.contains("pack_parcels < send_parcels") && !why.contains("process list"), "{why}");
        assert!(!statement.contains("gdb"), "{statement}");
        let (why, statement) = of(KnownBy::List);
        assert!(why.contains("clocks and stacks") && statement.contains("gdb"), "{why} {statement}");
    }

    #[test]
    fn a_place_that_few_were_seen_in_has_no_share_of_nothing() {
        let seen = vec![("os_aio_wait".to_owned(), 0.597), ("fts_sync".to_owned(), 0.003)];
        let share = TimeShare { class: TimeClass::Other, share: 0.6, known_by: KnownBy::Stack, seen };
        let time =
            SessionTime { session_seconds_per_second: 40.0, classes: vec![share], ..SessionTime::default() };
        let Outcome::Fired(finding) = evaluate(&Build::busy("8.0.36").window(), &time, &[]) else { panic!() };
        let shown: Vec<String> = finding
            .evidence
            .iter()
            .filter(|one| one.reading == "seen there")
            .map(|one| format!("{:?}", one.value))
            .collect();
        assert!(
            shown[0].contains("60 % os_aio_wait") && shown[1].contains("less than 1 % fts_sync"),
            "{shown:?}"
        );
    }

    #[test]
    fn a_list_without_connections_names_none() {
        let of = |has_ids: bool| {
            let mut window = listed(40, "Waiting for GTID to be committed").window();
            window.server.no_pid =
                Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
            for sample in &mut window.samples {
                let Reading::Available { value: threads, .. } = &mut sample.server.threads else { panic!() };
                threads.iter_mut().filter(|_| !has_ids).for_each(|thread| thread.connection_id = None);
            }
            match commonest(&window).unwrap().value {
                spindoctor_model::Value::Text(text) => text,
                spindoctor_model::Value::Number(number) => panic!("{number}"),
            }
        };
        assert!(of(true).ends_with(" and more)"), "{}", of(true));
        assert!(!of(false).contains('('), "{}", of(false));
    }

    #[test]
    fn a_client_that_takes_its_rows_slowly_is_said_to_be_the_reason() {
        use spindoctor_model::stack::ThreadState;
        let sends: &[&str] =
            &["__poll", "vio_socket_io_wait", "net_write_packet", "dispatch_command", "do_command"];
        let window = Build::busy("8.0.36").remote().only_snapshots(&[(6, ThreadState::NetworkIdle, sends)]);
        let findings = crate::diagnose(&window.window()).findings;
        assert!(findings[0].headline.contains("wait for their client"), "{findings:#?}");
        assert!(findings[0].remedies[0].statement.contains("ss -tmn"), "{findings:#?}");
    }
}

//! `unnamed-wait`: session time that no cause of the catalogue explains, shown as it is.
//!
//! A rule looks for what it knows. What is left over is looked at here, so that a diagnosis may be unable to name a wait and
//! is never silent about it.

mod captured;
mod group;
mod queues;
#[cfg(test)]
mod tests;

use spindoctor_model::{
    Evidence, Finding, KnownBy, Remedy, SessionTime, Severity, TimeClass, TimeShare, Window, number,
};

use self::captured::{commonest, explain, nobody_has_lasted, of_one};
use self::group::GroupWait;
use self::queues::Queues;
use crate::causes::server_stopped;
use crate::commits::commits_per_s;
use crate::draft::Draft;
use crate::login_wait::{KEPT_OUT, LoginWait};
use crate::own_answers::OwnAnswers;
use crate::peers::Peer;
use crate::rank::{CRITICAL_FROM, NOTE, WARNING_FROM};
use crate::replica;
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
               a warning. In a list that was captured one session that is at work alone, for a minute or more, is a note.\n\n\
               Beside other findings, where none of these explains the class: four sessions and more whose login waits for a name server or \
               for a plugin, each for a second or more, are what they are alone, and explain that the connections are used up; a queue, as of \
               commits of which none ends, is a warning at most; another ordinary wait of half of the session time is a note, and sessions \
               that wait for their clients are one from a fifth of it and four sessions on.\n\n\
               The queues of the clients' TCP connections at both ends of the window, on the server's host: a note where three or more \
               sessions that are not at work have an answer that their client did not take meanwhile, with tries of the kernel's (one, \
               where others wait for a row of the only session of that host, which is idle), or a request that waits both times where no \
               finding says that the CPUs, or the threads of a pool, are short.",
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
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
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

/// What is left when the other rules have had their say, and what no session time is spent in: bytes that stay in queues.
pub(crate) fn evaluate(window: &Window, time: &SessionTime, findings: &[Finding]) -> Outcome {
    match (of_time(window, time, findings), Queues::from_window(window, time, findings)) {
        (Outcome::Fired(finding), Some(queues)) => Outcome::Fired(queues.beside(finding)),
        (Outcome::Clear, Some(queues)) => Outcome::Fired(queues.finding()),
        (outcome, _) => outcome,
    }
}

/// The part of the session time that no finding explains.
fn of_time(window: &Window, time: &SessionTime, findings: &[Finding]) -> Outcome {
    // A note costs little, but it is no silence about a wait that is as little.
    let is_noted = |one: &&TimeShare| one.share < COMMON_UP_TO && is_named(findings, one.class);
    let waits: Vec<&TimeShare> = waits(time, findings).into_iter().filter(|one| !is_noted(one)).collect();
    let unnamed: f64 = waits.iter().map(|one| one.share).sum();
    if let Some(logins) = hung_logins(window, time, findings).filter(|logins| logins.share >= unnamed) {
        let parts = [&[logins][..], &waits[..]].concat();
        return Outcome::Fired(finding(window, time, logins.share, logins, &parts));
    }
    if let (Some(largest), true) = (waits.first(), is_worth_a_finding(time, unnamed)) {
        return Outcome::Fired(finding(window, time, unnamed, largest, &waits));
    }
    if findings.iter().any(|finding| finding.severity > Severity::Note) {
        return beside(window, time, findings).map_or(Outcome::Clear, Outcome::Fired);
    }
    if let Some(queue) = queue(window, time) {
        return Outcome::Fired(finding(window, time, queue.share, queue, &[queue]));
    }
    let own = OwnAnswers::from_window(window);
    if own.late > 0 {
        return Outcome::Fired(match ordinary(window, time, findings) {
            Some(parts) => with_late(finding(window, time, NOTE, parts[0], &parts), window, own),
            None => late(window, own),
        });
    }
    if let Some(few) = of_few(time, findings) {
        return Outcome::Fired(Finding {
            severity: Severity::Note,
            ..finding(window, time, few.share, few, &[few])
        });
    }
    if window.is_given() && nobody_has_lasted(window) {
        return Outcome::Clear;
    }
    // Who sleeps on purpose is in no class.
    let is_open = |one: &TimeShare| !is_named(findings, one.class);
    if let Some(alone) = of_one(window).filter(|_| time.classes.first().is_some_and(is_open)) {
        return Outcome::Fired(alone);
    }
    match ordinary(window, time, findings) {
        Some(parts) => Outcome::Fired(finding(window, time, NOTE, parts[0], &parts)),
        None => Outcome::Clear,
    }
}

/// Ordinary classes in which enough sessions stand for most of the time, the largest first, and of which no finding says anything.
fn ordinary<'t>(window: &Window, time: &'t SessionTime, findings: &[Finding]) -> Option<Vec<&'t TimeShare>> {
    let least = if window.is_given() { GIVEN_SESSIONS } else { ORDINARY_SESSIONS };
    let is_open = is_open(time, findings);
    let is_open = |one: &&TimeShare| is_open(one.class);
    let ordinary = || time.classes.iter().filter(|one| ORDINARY.contains(&one.class)).filter(is_open);
    // Which program has the CPUs changes nothing: who is ready and has none waits for one and the same thing.
    let ready: Vec<&TimeShare> = ordinary().filter(|one| READY.contains(&one.class)).collect();
    let alone: Vec<&TimeShare> = ordinary().take(1).collect();
    let is_most = |parts: &Vec<&TimeShare>| {
        let share: f64 = parts.iter().map(|one| one.share).sum();
        !parts.is_empty() && share >= ORDINARY_FROM && time.session_seconds_per_second >= least
    };
    [ready, alone].into_iter().find(is_most)
}

/// Waits for what another session has: they have a culprit, however few wait.
const LOCKS: &[TimeClass] = &[
    TimeClass::RowLock,
    TimeClass::MetadataLock,
    TimeClass::TableLock,
    TimeClass::UserLock,
    TimeClass::GlobalLock,
    TimeClass::AutoIncrementLock,
];

/// Sessions at work, of which a share in such a wait is no chance: a quarter for ten seconds is a wait of half a second. Chosen.
const FEW_LOCKED: f64 = 0.25;

/// Classes of who is ready to run and has no CPU.
const READY: &[TimeClass] = &[TimeClass::CpuQueue, TimeClass::CpuQuota, TimeClass::CpuTaken];

/// True where a finding, a note included, is of such waits.
fn is_named(findings: &[Finding], class: TimeClass) -> bool {
    findings.iter().any(|finding| {
        costs_of(finding).is_some_and(|(_, explains)| explains.contains(&class))
            || class == TimeClass::Login && server_stopped::is_of_logins(finding)
    })
}

/// True of a class that no finding explains, and that none, not even a note, is of.
fn is_open(time: &SessionTime, findings: &[Finding]) -> impl Fn(TimeClass) -> bool {
    let explained = explained(time, findings);
    move |class| !explained.contains(&class) && !is_named(findings, class)
}

/// Ordinary classes that are no wait: they say what the sessions do, and beside a finding nothing more.
const AT_WORK: &[TimeClass] = &[TimeClass::Running, TimeClass::Spin];

/// What is said beside findings that are worth more than a note, where none of these explains it. It stands behind what is critical
/// among them.
fn beside(window: &Window, time: &SessionTime, findings: &[Finding]) -> Option<Finding> {
    let is_open = is_open(time, findings);
    // The time of sessions that wait for their clients is the clients'.
    let stuck = queue(window, time).filter(|one| one.class != TimeClass::Network && is_open(one.class));
    if let Some(stuck) = stuck {
        let found = finding(window, time, stuck.share, stuck, &[stuck]);
        return Some(Finding { severity: found.severity.min(Severity::Warning), ..found });
    }
    let are_many = time.session_seconds_per_second >= ORDINARY_SESSIONS;
    let waits =
        ordinary(window, time, findings).filter(|parts| are_many && !AT_WORK.contains(&parts[0].class));
    let parts = waits.or_else(|| Some(vec![slow_clients(time)?]))?;
    Some(finding(window, time, NOTE, parts[0], &parts))
}

/// A login that takes so long waits for who does not answer, seconds: a name server that is there answers in milliseconds, and the
/// resolver gives it five seconds (resolv.conf(5)). Chosen.
const LOGIN_S: f64 = 1.0;

/// Logins that the server keeps waiting on its own account, whatever else it does: as many as have begun in the time that each may take,
/// or more, or most of the session time.
fn hung_logins<'t>(window: &Window, time: &'t SessionTime, findings: &[Finding]) -> Option<&'t TimeShare> {
    let logins = time.classes.iter().find(|one| one.class == TimeClass::Login)?;
    let sessions = logins.share * time.session_seconds_per_second;
    let begun_per_s = window.status_per_s("Connections");
    // A live server of which it is not known lets nobody in; of a capture of one moment it never is.
    let hang = begun_per_s.map_or(!window.is_given(), |begun_per_s| begun_per_s * LOGIN_S <= sessions);
    let are_most = || logins.share >= ORDINARY_FROM && is_open(time, findings)(TimeClass::Login);
    let is_such = LoginWait::from_share(logins).is_below() && sessions >= ORDINARY_SESSIONS;
    let is_said = findings.iter().any(server_stopped::is_of_logins);
    (is_such && !is_said && (hang || are_most())).then_some(logins)
}

/// Sessions that wait for their clients, of which nothing is said beside a finding that is worth more: no lock explains them, and each
/// keeps what it has open meanwhile. Fewer are the one that dumps or exports.
fn slow_clients(time: &SessionTime) -> Option<&TimeShare> {
    let network = time.classes.iter().find(|one| one.class == TimeClass::Network)?;
    let sessions = network.share * time.session_seconds_per_second;
    (network.share >= CRITICAL_FROM && sessions >= ORDINARY_SESSIONS).then_some(network)
}

/// A wait of less than half a session on average that takes a large part of the time of the few that are at work, and of which no
/// finding says anything: their clients wait for it as they would on a busy server.
fn of_few<'a>(time: &'a SessionTime, findings: &[Finding]) -> Option<&'a TimeShare> {
    let largest = waits(time, findings).into_iter().find(|one| !is_named(findings, one.class))?;
    // Where the sessions at work are less than one on average, the share is of that one; but where it is a lock, that somebody else has.
    let at_work = time.session_seconds_per_second;
    let least = if LOCKS.contains(&largest.class) { FEW_LOCKED } else { 1.0 };
    let is_large = largest.share * at_work >= CRITICAL_FROM * at_work.max(least);
    (is_large && largest.share > time.error).then_some(largest)
}

/// An ordinary class in which so many stand for most of the time that it is no work that goes on: tables that are opened are work, a
/// queue before the mutex under which they are opened is none; a login is over in milliseconds, unless the client says nothing or
/// the server waits for a name or for who checks the password; results are taken as fast as they come; commits are work while they end.
fn queue<'a>(window: &Window, time: &'a SessionTime) -> Option<&'a TimeShare> {
    let largest = time.classes.iter().find(|one| ORDINARY.contains(&one.class))?;
    let sessions = largest.share * time.session_seconds_per_second;
    let least = match largest.class {
        TimeClass::TableCache if largest.known_by == KnownBy::Stack => QUEUE,
        TimeClass::Login if LoginWait::from_share(largest).is_below() => ORDINARY_SESSIONS,
        TimeClass::Login => QUEUE,
        TimeClass::Network if largest.known_by == KnownBy::Stack => ORDINARY_SESSIONS,
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
    let kept_out: &[&str] = if login.is_some_and(LoginWait::is_below) { &KEPT_OUT } else { &[] };
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
        .evidence_if(
            commonest(window).filter(|_| matches!(largest.class, TimeClass::Running | TimeClass::Network)),
        )
        .remedy_if(blocker.as_ref().and_then(|blocker| blocker.remedy(WHY_END_IT)))
        .remedy_if(explain(window).filter(|_| largest.class == TimeClass::Running))
        .remedy(group.map_or_else(|| look(window, largest), GroupWait::remedy))
        .root(blocker.map(|blocker| blocker.described()))
        .explains(kept_out)
        .severity(if is_common || is_killed(largest) {
            Severity::Note
        } else {
            severity(time, &CAUSE.costs, score).min(match (login, largest.class) {
                (Some(login), _) => login.most(),
                // The server does not lose that time, its clients do.
                (None, TimeClass::Network) => Severity::Warning,
                (None, _) => Severity::Critical,
            })
        })
        .finding()
}

/// Share of the host's CPUs that is busy, from which on spindoctor itself may have waited for one. Chosen.
const CPUS_BUSY: f64 = 0.9;

/// The same, of a server that lets spindoctor's own questions wait, too: what was seen is no work that goes on.
fn with_late(finding: Finding, window: &Window, own: OwnAnswers) -> Finding {
    let busy = host_busy(window);
    let is_sure = own.late > 1 && own.late_share >= WARNING_FROM && busy.is_none_or(|busy| busy < CPUS_BUSY);
    Finding {
        severity: if is_sure { finding.severity.max(Severity::Warning) } else { finding.severity },
        why: format!(
            "{} Of spindoctor's own {} questions {} took a second or more, the longest {:.1} s.",
            finding.why, own.asked, own.late, own.longest_s
        ),
        ..finding
    }
}

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
    if let Some(peer) = peer(largest) {
        return peer.look();
    }
    let is_given = window.is_given();
    let port = window.variable("port").unwrap_or("3306");
    let network =
        format!("On the clients' hosts: ss -tmn dport = :{port}; on the server's: ss -tmn sport = :{port}");
    let executed = match window.server.version.is_some_and(spindoctor_model::ServerVersion::is_mariadb) {
        true => "@@GLOBAL.gtid_slave_pos",
        false => "@@GLOBAL.gtid_executed",
    };
    let of_replica = format!("{}; SELECT {executed}", replica::asked(window.server.version));
    let (statement, why, risk) = match largest.class {
        TimeClass::ReplicaWait => (
            of_replica.as_str(),
            "The first shows whether this server replicates and from where, the second what it has. The set or position that the \
             sessions wait for stands in their statements. A timeout as the last argument ends such a wait.",
            "They only read.",
        ),
        TimeClass::Other if is_asleep(largest) => (
            "SHOW TRIGGERS; SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_DEFINITION LIKE '%sleep%'",
            "One of the triggers of the tables that they change, or a function that these call, has the SLEEP.",
            "They only read.",
        ),
        TimeClass::Network => (
            network.as_str(),
            "Bytes that stay in Send-Q on the server's side, with Recv-Q full on the client's, are rows that the client does not \
             take: it works on each row before it asks for the next, or has no CPU. Ask for fewer rows and columns, let the client \
             fetch all first, and work then; a transaction that is open meanwhile keeps its locks and old row versions. Where \
             Send-Q is full and Recv-Q is empty it is the network between them.",
            "They only read.",
        ),
        TimeClass::Commit if is_in_myrocks(largest) => (
            "SHOW GLOBAL STATUS LIKE 'rocksdb_stall%'; SHOW ENGINE ROCKSDB STATUS\\G",
            "Counters that grow say that MyRocks brakes writes, and by their names why: too many files in the first level, too many memtables, \
             compactions that are behind. Where none grows it is the sync of its write-ahead log.",
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
        TimeClass::Other => {
            peer(largest).map_or("wait for something that has no name here", Peer::headline).to_owned()
        }
        TimeClass::Network => "wait for their client to take or to send something".to_owned(),
        TimeClass::ReplicaWait => {
            "wait for a transaction of their source that this server has not got".to_owned()
        }
        class => format!("are in `{}`", class.label()),
    }
}

/// True for sessions that are at work and sleep: a trigger does, or a stored function.
fn is_asleep(share: &TimeShare) -> bool {
    share.seen.first().is_some_and(|(seen, _)| {
        seen.eq_ignore_ascii_case("user sleep") || seen.contains("Item_func_sleep::val_int")
    })
}

/// Whom most of them wait for in a socket or pipe, where it is not their client.
fn peer(share: &TimeShare) -> Option<Peer> {
    let (seen, _) = share.seen.first().filter(|_| share.class == TimeClass::Other)?;
    Peer::from_frames(seen.split(" < "))
}

/// True for sessions that commit in MyRocks (rocksdb/db/write_thread.cc).
fn is_in_myrocks(share: &TimeShare) -> bool {
    share.class == TimeClass::Commit && share.seen.first().is_some_and(|(seen, _)| seen.contains("rocksdb::"))
}

/// True for sessions that somebody ended and that are listed all the same.
fn is_killed(share: &TimeShare) -> bool {
    share.seen.first().is_some_and(|(seen, _)| seen.eq_ignore_ascii_case("killed"))
}

fn why(largest: &TimeShare, unexamined: Option<&Cause>) -> String {
    let login = (largest.class == TimeClass::Login).then(|| LoginWait::from_share(largest));
    if let Some(why) = login.and_then(LoginWait::why) {
        return why.to_owned();
    }
    if is_in_myrocks(largest) {
        return "They wait in MyRocks: one session at a time writes its write-ahead log for a group of them, and the others stand behind it. \
                Where compactions or flushes of memtables are behind, MyRocks brakes that one, and with it all writes (write stalls)."
            .to_owned();
    }
    if let Some(peer) = peer(largest) {
        return peer.why().to_owned();
    }
    if READY.contains(&largest.class) {
        return "They are ready to run and have no CPU: other programs, a quota, or the server's own threads have those that it may use."
            .to_owned();
    }
    if largest.class == TimeClass::ReplicaWait {
        return "Their clients, or a proxy for them, ask with WAIT_FOR_EXECUTED_GTID_SET, SOURCE_POS_WAIT (MASTER_POS_WAIT) or \
                MASTER_GTID_WAIT that what they wrote at the source is here before they read. No lag explains the wait: this server may \
                replicate nothing, or from another source, or that transaction was never committed."
            .to_owned();
    }
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

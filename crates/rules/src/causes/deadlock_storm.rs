//! `deadlock-storm`: many transactions are rolled back because they wait for each other in a ring.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use spindoctor_model::clock;
use spindoctor_model::innodb_status::InnodbStatus;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, TroubleKind, Unavailable, Window, number};

use crate::deadlock::{Deadlock, Way};
use crate::draft::Draft;
use crate::logged;
use crate::rank::NOTE;
use crate::sessions::shortened;
use crate::since_start::SinceStart;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "deadlock-storm",
    title: "many transactions end in a deadlock and are rolled back",
    what: "Two transactions each hold a lock that the other wants. InnoDB sees the ring and rolls one of them back with error \
           1213; its client begins again. Where many clients lock the same rows in different orders this happens all the time.",
    why_it_hurts: "The work of the transaction that is rolled back was for nothing and is done again, its client waits, and a \
                   client without a retry loses it. The search for rings takes time under InnoDB's lock mutex, the longer \
                   the more transactions wait.",
    evidence: "The counter lock_deadlocks of INNODB_METRICS, or Innodb_deadlocks of MariaDB's status: one a second or more, \
               and 2 % or more of the transactions that end. The estimate is that share. MySQL before 8.0.18 and MariaDB before \
               10.6 leave most of them out of their counters: there it is half of the rollbacks that no client asked for (Handler_rollback), where \
               each look at the InnoDB status shows a deadlock of the second before. Of a captured status alone: its latest deadlock, a note, with \
               the way that it went by the locks that are printed.",
    looks_alike: "Waits that end by innodb_lock_wait_timeout (error 1205) are no deadlocks: row-lock-pileup. A deadlock now and \
                  then is normal; every client must be able to repeat a transaction.",
    remedies: "SHOW ENGINE INNODB STATUS shows the two statements of the latest deadlock and the index. Let all transactions \
               lock rows in the same order (by primary key), make them shorter, give the UPDATE an index so that it locks \
               fewer rows. Retry with a random pause. READ COMMITTED helps only where the locks that are printed are of gaps: \
               'locks gap before rec', 'insert intention', or lock_mode X without 'locks rec but not gap'.",
    safety: "The order of locks is a change of the application. READ COMMITTED changes what a transaction sees when it reads \
             twice; it can be set for a session alone.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-deadlocks-handling.html",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-deadlock-detection.html",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[TimeClass::RowLock, TimeClass::Rollback],
    stacks: Stacks::Running(&["DeadlockChecker::search", "Deadlock::check_and_resolve", "Deadlock::report"]),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// A deadlock a second: what is rarer is normal.
const PER_S: f64 = 1.0;

/// Of the transactions that end, the part that ends in a deadlock, below which nobody notices.
const RATIO: f64 = 0.02;

/// What a capture of one moment says: an error log's end, or a status since the start.
fn of_capture(window: &Window) -> Option<Finding> {
    of_log(window).or_else(|| of_status(window)).or_else(|| of_printed(window))
}

/// What one status says, of MariaDB and Percona Server, which count them there.
fn of_status(window: &Window) -> Option<Finding> {
    const COUNTER: &str = "Innodb_deadlocks";
    let since = SinceStart::from_window(window)?;
    let per_s = since.per_s(COUNTER).filter(|&per_s| per_s >= PER_S)?;
    let what = format!("{per_s:.1} transactions a second ended as victims of a deadlock");
    let remedy = same_order(
        "SHOW ENGINE INNODB STATUS has the two statements of the latest, their tables and indexes",
    );
    Some(since.finding(&CAUSE, &what, &[COUNTER], remedy))
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// What an error log ends with (innodb_print_all_deadlocks). How many transactions ended well meanwhile it does not say: a note.
fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::Deadlock)?;
    let latest = latest(window);
    let on = latest.wanted().first().map_or_else(String::new, |wanted| format!("; the latest on {wanted}"));
    let rolled_back = number::counted(times, "transaction was", "transactions were");
    Some(
        Draft::new(&CAUSE, NOTE, format!("{rolled_back} rolled back as the victim of a deadlock{on}"))
            .why("Transactions lock the same rows in different orders; InnoDB rolls one of each ring back, and its work is lost. The \
                  log does not say how many others ended well: one now and then is normal.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .evidence_all(evidence(&latest, "error log").into_iter())
            .remedy(same_order(latest.way().map_or(
                match trouble.source.is_empty() {
                    true => "The log has the two statements, their tables and indexes",
                    false => "SHOW ENGINE INNODB STATUS has the two statements of the latest, their tables and indexes",
                },
                Way::cure,
            )))
            .remedy(besides(&latest))
            .finding(),
    )
}

/// The latest deadlock that the server's status or its log prints.
fn latest(window: &Window) -> Deadlock {
    window
        .latest(|sample| &sample.server.innodb_status)
        .and_then(|status| status.latest_deadlock.as_ref())
        .map(Deadlock::from_printed)
        .unwrap_or_default()
}

/// A deadlock that is older than this when the status is printed is no news, seconds. By judgement: who copies a status for a deadlock
/// does it within the hour.
const NEWS_S: f64 = 3_600.0;

/// The latest deadlock of a status that somebody gave: how it went, and what changes it. One alone is normal: a note.
fn of_printed(window: &Window) -> Option<Finding> {
    let latest = Some(latest(window)).filter(|latest| window.is_given() && !latest.parties.is_empty())?;
    let taken =
        (window.start != Timestamp::UNIX_EPOCH).then(|| window.start.to_zoned(TimeZone::UTC).datetime());
    let age_s = latest.at.zip(taken).map(|(at, taken)| clock::seconds(at, taken));
    if age_s.is_some_and(|age_s| age_s > NEWS_S) {
        return None;
    }
    let wanted = latest.wanted().join(" and for ");
    let rows = if wanted.is_empty() { String::new() } else { format!(" for {wanted}") };
    let half = if latest.is_cut() { " The second transaction is not in what was given." } else { "" };
    let way = latest.way();
    let why = way.map_or("The text does not say which locks they wanted.", Way::sentence);
    Some(
        Draft::new(
            &CAUSE,
            NOTE,
            format!("Two transactions waited for each other{rows}; one was rolled back"),
        )
        .why(format!("{why}{half} One now and then is normal, and the client repeats its transaction."))
        .evidence_all(evidence(&latest, "SHOW ENGINE INNODB STATUS").into_iter())
        .remedy_if(way.map(|way| same_order(way.cure())))
        .remedy_if(way.is_none().then(|| same_order(IN_STATUS)))
        .remedy(besides(&latest))
        .finding(),
    )
}

/// Where the statements are.
const IN_STATUS: &str =
    "SHOW ENGINE INNODB STATUS: LATEST DETECTED DEADLOCK has the two statements, their tables and indexes";

fn same_order(statement: &str) -> Remedy {
    Remedy {
        statement: statement.into(),
        why: "The ring then cannot close.".into(),
        dynamic: true,
        risk: "A change of the application or its tables; looking is safe.".into(),
        undo: String::new(),
    }
}

/// What helps besides: fewer locks of gaps, where a gap takes part; rows are locked by READ COMMITTED too.
fn besides(latest: &Deadlock) -> Remedy {
    if latest.has_gap() { read_committed() } else { repeat() }
}

fn repeat() -> Remedy {
    Remedy {
        statement: "After error 1213 let the client repeat the whole transaction, after a short random pause"
            .into(),
        why:
            "InnoDB rolled all of it back; a pause of its own for each client keeps them from meeting again."
                .into(),
        dynamic: true,
        risk: "A change of the application. Deadlocks go on; none of the work is lost for good.".into(),
        undo: String::new(),
    }
}

fn read_committed() -> Remedy {
    Remedy {
        statement:
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED in the clients that deadlock on gaps"
                .into(),
        why: "Fewer gaps are locked; an UPDATE keeps the locks of the rows that it changes alone.".into(),
        dynamic: true,
        risk: "A transaction that reads twice may see other rows the second time; needs binlog_format = ROW."
            .into(),
        undo: "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ".into(),
    }
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let (per_s, source) = rate(window)?;
    let committed_per_s = committed_per_s(window);
    let ratio = per_s / (committed_per_s.unwrap_or(0.0) + per_s).max(f64::MIN_POSITIVE);
    if per_s < PER_S || ratio < RATIO {
        return Ok(None);
    }
    let latest = latest(window);
    let on = latest.wanted().first().map_or_else(String::new, |wanted| format!("; the latest on {wanted}"));
    Ok(Some(
        Draft::new(
            &CAUSE,
            ratio,
            format!("{per_s:.0} transactions a second end in a deadlock, {:.0} % of all{on}", ratio * 100.0),
        )
        .why("Transactions lock the same rows in different orders; InnoDB rolls one of each ring back, and its work is lost.")
        .evidence(Evidence::new("deadlocks", per_s, "1/s", source).expected(format!("< {PER_S:.0}")))
        .evidence(Evidence::new("share of the transactions", ratio, "ratio", source).expected(format!("< {RATIO}")))
        .evidence_if(committed_per_s.map(|per_s| {
            Evidence::new("transactions that change something", per_s, "1/s", "SHOW GLOBAL STATUS")
        }))
        .evidence_all(evidence(&latest, "SHOW ENGINE INNODB STATUS").into_iter())
        .evidence_if(latest.way().map(|way| Evidence::new("how it went", way.sentence(), "", "SHOW ENGINE INNODB STATUS")))
        .remedy(latest.way().map_or_else(|| same_order(IN_STATUS), |way| same_order(way.cure())))
        .remedy(besides(&latest))
        .explains(&[super::row_lock_pileup::CAUSE.name])
        .finding(),
    ))
}

/// The counter of deadlocks in INNODB_METRICS.
const METRIC: &str = "lock_deadlocks";

/// Deadlocks a second, and where they were counted.
fn rate(window: &Window) -> Result<(f64, &'static str), Unavailable> {
    let (counted, source) = counted(window)?;
    let per_s = if counts_few(window) { unasked_rollbacks_per_s(window)? } else { 0.0 };
    Ok(match per_s > counted {
        true => (per_s, "half of SHOW GLOBAL STATUS Handler_rollback"),
        false => (counted, source),
    })
}

/// Deadlocks a second as the server counts them.
fn counted(window: &Window) -> Result<(f64, &'static str), Unavailable> {
    if let Some(per_s) = window.status_per_s("Innodb_deadlocks") {
        return Ok((per_s, "SHOW GLOBAL STATUS Innodb_deadlocks"));
    }
    let metrics = window.need_change(|sample| &sample.server.innodb_metrics)?;
    let count = |metrics: &std::collections::BTreeMap<String, spindoctor_model::mysql::InnodbMetric>| {
        metrics.get(METRIC).filter(|metric| metric.enabled).map(|metric| metric.count)
    };
    let Some((first, last)) = count(metrics.first).zip(count(metrics.last)) else {
        return Err(Unavailable::because("the counter lock_deadlocks is off")
            .unlock("SET GLOBAL innodb_monitor_enable = lock_deadlocks"));
    };
    Ok(((last - first).max(0.0) / metrics.seconds, "INNODB_METRICS lock_deadlocks"))
}

/// True before MySQL 8.0.18 and MariaDB 10.6, whose counters leave out the rings in which the transaction is rolled back that
/// closed them, as it mostly is (lock0lock.cc, DeadlockChecker::check_and_resolve).
fn counts_few(window: &Window) -> bool {
    window
        .server
        .version
        .is_some_and(|version| !version.mysql_at_least(8, 0, 18) && !version.mariadb_at_least(10, 6, 0))
}

/// Rollbacks a second that no client asked for and deadlocks may be the reason of; 0 where the prints of the latest deadlock
/// are not as far apart as the looks at them: deadlocks are then rarer than one a second.
///
/// Each is counted twice, of the statement and of the transaction (sql/handler.cc, ha_rollback_trans). Errors of other kinds are
/// among them; no deadlock happens without a wait for a row, which bounds their number.
fn unasked_rollbacks_per_s(window: &Window) -> Result<f64, Unavailable> {
    /// Both prints are of a second each, and each deadlock is of the second before its print.
    const PRINTS_S: f64 = 2.0;
    let prints = window.need_change(|sample| &sample.server.innodb_status)?;
    let status = window.need_change(|sample| &sample.server.status)?;
    let at_s = |status: &InnodbStatus| second_of_day(&status.latest_deadlock.as_ref()?.time);
    let apart_s = |(first, last): (f64, f64)| (last - first).rem_euclid(86_400.0);
    let are_frequent = at_s(prints.first)
        .zip(at_s(prints.last))
        .is_some_and(|seconds| (apart_s(seconds) - prints.seconds).abs() <= PRINTS_S);
    if !are_frequent {
        return Ok(0.0);
    }
    let per_s = |name: &str| {
        let growth = status.last.number(name)? - status.first.number(name)?;
        Some(growth.max(0.0) / status.seconds)
    };
    let counted = per_s("Handler_rollback").zip(per_s("Com_rollback")).zip(per_s("Innodb_row_lock_waits"));
    Ok(counted.map_or(0.0, |((all, asked), waits)| ((all - asked) / 2.0).min(waits).max(0.0)))
}

/// Of `2013-06-19 13:47:33`, in whatever zone.
fn second_of_day(time: &str) -> Option<f64> {
    let mut parts = time.split_whitespace().next_back()?.split(':').map(|part| part.parse::<u32>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    (hours < 24 && minutes < 60 && seconds <= 60).then(|| f64::from(hours * 3600 + minutes * 60 + seconds))
}

/// What a deadlock's text says, as evidence.
fn evidence(latest: &Deadlock, source: &str) -> Vec<Evidence> {
    let statements = latest.statements().into_iter().map(shortened);
    let statements = statements.map(|text| ("statement of the latest deadlock", text));
    let wanted = latest.wanted().into_iter().map(|wanted| ("it waited for", wanted));
    statements.chain(wanted).map(|(reading, text)| Evidence::new(reading, text, "", source)).collect()
}

/// Transactions that changed something and committed, a second: explicit commits, or the statements that change rows where
/// clients use autocommit.
fn committed_per_s(window: &Window) -> Option<f64> {
    let commits = window.status_per_s("Com_commit")?;
    let changes: f64 =
        ["Com_update", "Com_insert", "Com_delete"].iter().filter_map(|name| window.status_per_s(name)).sum();
    Some(if commits > 0.0 { commits } else { changes })
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::innodb_status::PrintedEvent;

    use super::*;
    use crate::testing::{Build, answer};

    pub(crate) fn fires() -> Window {
        Build::busy("8.0.36").metric("lock_deadlocks", 10_000.0, 50.0).counter("Com_commit", 100.0).window()
    }

    /// One in five seconds.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36").metric("lock_deadlocks", 10_000.0, 0.2).counter("Com_commit", 100.0).window()
    }

    /// The counter is off, or was not read.
    pub(crate) fn missing() -> Window {
        fires_without_metrics(Build::busy("8.0.36"))
    }

    fn fires_without_metrics(build: Build) -> Window {
        build.each(|_, server, _| server.innodb_metrics = Reading::NotAsked).window()
    }

    #[test]
    fn mariadb_counts_them_in_its_status() {
        let build =
            Build::busy("10.11.8-MariaDB").counter("Innodb_deadlocks", 40.0).counter("Com_commit", 60.0);
        let Outcome::Fired(finding) = evaluate(&fires_without_metrics(build)) else { panic!() };
        assert!((finding.score - 0.4).abs() < 1e-6, "{}", finding.score);
    }

    /// A MySQL whose counter stays where it is, with the latest deadlock that two looks, ten seconds apart, show.
    fn uncounted(version: &str, latest: [&'static str; 2]) -> Build {
        Build::busy(version)
            .metric(METRIC, 3.0, 0.0)
            .counter("Handler_rollback", 164.0)
            .counter("Com_rollback", 4.0)
            .counter("Innodb_row_lock_waits", 100.0)
            .counter("Com_commit", 20.0)
            .each(move |at_s, server, _| {
                if let Reading::Available { value: status, .. } = &mut server.innodb_status {
                    let time = latest[usize::from(at_s > 0.0)].to_owned();
                    status.latest_deadlock = Some(PrintedEvent { time, ..PrintedEvent::default() });
                }
            })
    }

    #[test]
    fn rings_that_an_old_counter_leaves_out_are_seen_by_the_rollbacks() {
        let together = ["2026-11-25 23:59:55", "2026-11-26  0:00:05"];
        let Outcome::Fired(finding) = evaluate(&uncounted("5.7.22", together).window()) else { panic!() };
        assert!((finding.score - 0.8).abs() < 1e-6, "80 of 100: {}", finding.score);
        let mariadb = uncounted("10.5.23-MariaDB", together).counter("Innodb_deadlocks", 0.0).window();
        assert!(matches!(evaluate(&mariadb), Outcome::Fired(_)));
        // No more of them than waits.
        let few_waits = uncounted("5.7.22", together).counter("Innodb_row_lock_waits", 5.0).window();
        let Outcome::Fired(finding) = evaluate(&few_waits) else { panic!() };
        assert!((finding.score - 0.2).abs() < 1e-6, "5 of 25: {}", finding.score);
        // Of rollbacks that nobody counts nothing follows.
        let few_counters = uncounted("5.7.22", together).words("Com_rollback", "").window();
        assert_eq!(evaluate(&few_counters), Outcome::Clear);
        // The latest deadlock is old, or the counter has all of them.
        for (version, latest) in [
            ("5.7.22", ["2026-11-25 23:59:55"; 2]),
            ("8.0.18", together),
            ("10.6.0-MariaDB", together),
            ("5.7.22", ["never"; 2]),
        ] {
            assert_eq!(
                evaluate(&uncounted(version, latest).window()),
                Outcome::Clear,
                "{version} {latest:?}"
            );
        }
        let unread = uncounted("5.7.22", together)
            .each(|_, server, _| server.innodb_status = Reading::NotAsked)
            .window();
        assert!(matches!(evaluate(&unread), Outcome::NotEnoughEvidence(_)));
    }

    /// The remedies beside a deadlock whose two transactions hold and want locks of this mode.
    fn remedies(mode: &str) -> Vec<String> {
        let party = |id: u32| {
            let lock = format!(
                "RECORD LOCKS space id 2 page no 4 n bits 72 index by_n of table `d`.`t` trx id {id} {mode}"
            );
            format!(
                "*** ({id}) TRANSACTION:\nMySQL thread id {id}, OS thread handle 1, query id 9 localhost a updating\nUPDATE t SET a = 1\n\
                 *** ({id}) HOLDS THE LOCK(S):\n{lock}\n*** ({id}) WAITING FOR THIS LOCK TO BE GRANTED:\n{lock} waiting\n"
            )
        };
        let text = format!("{}{}*** WE ROLL BACK TRANSACTION (2)\n", party(1), party(2));
        let window = Build::busy("8.0.36")
            .metric(METRIC, 10_000.0, 50.0)
            .counter("Com_commit", 100.0)
            .each(move |_, server, _| {
                if let Reading::Available { value: status, .. } = &mut server.innodb_status {
                    let text = text.clone();
                    status.latest_deadlock = Some(PrintedEvent { text, ..PrintedEvent::default() });
                }
            })
            .window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        finding.remedies.into_iter().map(|remedy| remedy.statement).collect()
    }

    #[test]
    fn read_committed_is_proposed_where_a_gap_takes_part_and_nowhere_else() {
        let has = |remedies: &[String], words: &str| remedies.iter().any(|remedy| remedy.contains(words));
        for mode in ["lock_mode X", "lock_mode X locks gap before rec insert intention"] {
            let remedies = remedies(mode);
            assert!(has(&remedies, "ISOLATION LEVEL READ COMMITTED"), "{mode}: {remedies:?}");
        }
        let rows = remedies("lock_mode X locks rec but not gap");
        assert!(!has(&rows, "READ COMMITTED"), "{rows:?}");
        assert!(has(&rows, "in the same order") && has(&rows, "repeat the whole transaction"), "{rows:?}");
        // No text says that a gap took part.
        let Outcome::Fired(finding) = evaluate(&fires()) else { panic!() };
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.contains("READ COMMITTED")));
    }

    #[test]
    fn a_deadlock_that_was_captured_is_taken_apart_where_it_is_of_now() {
        let text = "*** (1) TRANSACTION:\nMySQL thread id 12, OS thread handle 1, query id 17 localhost root update\n\
                    INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE n = 2\n*** (1) WAITING FOR THIS LOCK TO BE GRANTED:\n\
                    RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `d`.`t` trx id 1575 lock_mode X insert intention \
                    waiting\n";
        let found = |time: &str, is_given: bool| {
            let mut window = Build::busy("8.0.36")
                .each(|at_s, server, _| {
                    if let Reading::Available { value: status, .. } = &mut server.innodb_status {
                        let (time, text) = (time.to_owned(), text.to_owned());
                        status.latest_deadlock = Some(PrintedEvent { time, text, cut: false });
                    }
                    server.innodb_metrics = answer(at_s, std::collections::BTreeMap::new());
                })
                .remote()
                .window();
            window.start = "2026-11-26T00:00:00Z".parse().unwrap();
            if is_given {
                window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
            }
            match CAUSE.evaluate(&window, None) {
                Outcome::Fired(finding) => Some(finding),
                _ => None,
            }
        };
        let of_now = found("2026-11-25 23:59:55", true).unwrap();
        assert_eq!(of_now.severity, spindoctor_model::Severity::Note);
        assert!(of_now.why.starts_with("Each locked a gap"), "{}", of_now.why);
        assert!(of_now.remedies[0].statement.starts_with("Insert first"), "{:?}", of_now.remedies);
        assert!(found("", true).is_some(), "a section that was copied alone");
        assert_eq!(found("2026-11-24 23:59:55", true), None, "it is a day old");
        assert_eq!(found("2026-11-25 23:59:55", false), None, "a live server has had one at some time");
    }
}

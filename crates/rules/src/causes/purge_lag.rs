//! `purge-lag`: old row versions pile up, and statements that write are delayed for it or read through them.

mod deleted;
#[cfg(test)]
mod tests;
mod views;
mod walks;

use spindoctor_model::number::whole;
use spindoctor_model::window::Series;
use spindoctor_model::{
    Evidence, Finding, InnodbStatus, Remedy, ServerVersion, TimeClass, Unavailable, Window,
};

use self::deleted::Deleted;
use self::views::Oldest;
pub(crate) use self::views::oldest;
use super::cpu_saturated;
use crate::below::is_below;
use crate::draft::{Draft, set_back};
use crate::history::history;
use crate::sessions::{self, Waiting};
use crate::since_start::{self, SinceStart};
use crate::time_model::{self, tables};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "purge-lag",
    title: "the history list grows: a long transaction, or purge cannot keep up",
    what: "Each change leaves the row's old version in the undo log, for transactions that may still see it; purge removes \
           the versions that nobody can see. The history list counts the transactions whose versions are left. It grows \
           while an old transaction keeps its view open, or while purge removes less than is made. Where \
           innodb_max_purge_lag is set and passed, each change of a row sleeps, by design.",
    why_it_hurts: "Delayed changes: the server sleeps in every insert, update and delete, up to innodb_max_purge_lag_delay. \
                   Without the delay, reads walk through chains of old versions, indexes keep entries of deleted rows, and \
                   the undo tablespaces grow.",
    evidence: "What is read: the history list's length over the window (Innodb_history_list_length, the metric trx_rseg_history_len, \
               or SHOW ENGINE INNODB STATUS), innodb_max_purge_lag and innodb_max_purge_lag_delay, and the open transaction with the oldest \
               read view, as InnoDB's status prints it; where it prints none, the oldest transaction, where at READ COMMITTED the \
               age is that of the statement.\n\n\
               It fires where the list is, or was, longer than innodb_max_purge_lag and changes are delayed: the estimate is the \
               delay, the mean of all samples, times the rows changed a second (Handler_write, _update, _delete), of the time of the \
               sessions at work.\n\n\
               It fires too, as a warning, where the list has a million entries and grows (of a single status: and a transaction is \
               open for a minute), and on MariaDB, which delays nobody while nothing can be purged, where it is too long and \"Purge \
               done for\" stands: the delay comes when purge goes on.\n\n\
               And it fires where a transaction is open for five seconds or more and a tenth or more of the CPU samples of \
               statements stand in the functions that build old versions: the estimate is that part of the sessions' time. Of \
               captured CPU samples a tenth there is enough, and of captured stacks a fifth of the sessions at work.\n\n\
               It fires as well where such a transaction is open, a fifth or more of the server's CPU samples stand in the search for \
               the next row (row_search_mvcc, before MySQL 5.7 row_search_for_mysql), and that CPU, divided by the rows read \
               (Innodb_rows_read, or the sum of Handler_read_*, whichever is more), is 50 us or more for each: statements walk over \
               rows that are marked as deleted, which no counter has. An ordinary row takes about 1 us; the bound is by judgement: \
               six sessions that polled a queue of 400,000 deleted rows took 560 us. Not where a tenth or more of these samples \
               evaluates conditions on the index or locks rows, and without samples that copy columns, read pages, or are the old \
               transaction's own. The estimate is that part of the sessions' time.",
    looks_alike: "A long list that gets shorter: purge catches up after a bulk change. Updates that wait for rows are \
                  row-lock-pileup; the transaction that holds them may be the old one.",
    remedies: "End the old transaction, and find out why it stays open: a client that forgot to commit, a backup with a \
               consistent snapshot, a report that runs for hours. Where none is old: a larger innodb_purge_batch_size, more \
               innodb_purge_threads (restart), a disk that keeps up. Set innodb_max_purge_lag to 0 where the delay hurts \
               more than the list does.",
    safety: "Killing a transaction rolls its changes back; one that only reads loses nothing but its answer. \
             innodb_max_purge_lag is dynamic and undone with the old value; without it the list grows until its cause is \
             gone.",
    references: &[
        "MySQL Reference Manual: Purge Configuration; innodb_max_purge_lag, innodb_max_purge_lag_delay",
        "MySQL 8.0 source, trx0purge.cc (trx_purge_dml_delay)",
        "MariaDB 10.11 source, trx0purge.cc (trx_purge)",
        "Domas Mituzas, on performance stalls: Purge stalls the server",
    ],
    costs: Costs::Elsewhere,
    // Who builds a row's old version keeps the latch of its page for as long: others wait behind it.
    explains_time: &[TimeClass::PurgeDelay, TimeClass::Latch],
    stacks: Stacks::Running(OLD_VERSIONS),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// From here on the list is long: the manual's own example of a limit on it (innodb_max_purge_lag).
pub(crate) const LONG_HISTORY: f64 = 1e6;

/// No counter shows what a long list costs the sessions that read through it: a warning, and no more. No counter shows
/// for how long changes will be delayed when purge goes on.
const LONG_HISTORY_SCORE: f64 = 0.1;

/// A transaction that is open for longer than this may be what purge waits for.
pub(crate) const OLD_TRANSACTION_S: f64 = 60.0;

/// Where the list has passed its limit already, a younger one that is older than any statement at work is named.
const OLDER_THAN_WORK_S: f64 = 5.0;

/// Functions that build the version of a row that an older transaction sees (row0vers.cc, trx0rec.cc).
const OLD_VERSIONS: &[&str] = &[
    "row_vers_build_for_consistent_read",
    "row_vers_build_for_semi_consistent_read",
    "row_vers_impl_x_locked",
    "trx_undo_prev_version_build",
];

/// From this part of the CPU samples of statements on, 0 to 1, reads go through old versions: what every server does for a row that
/// was changed a moment ago is less than a hundredth.
const BUILDING: f64 = 0.10;

/// Of fewer samples a tenth is a matter of chance (0.1 +- 0.08 of 50).
const ENOUGH_SAMPLES: usize = 50;

/// What is spent on building old versions: CPU, the wait for one, and the wait for the latch of the page that is kept meanwhile.
const SPENT: &[TimeClass] = &[
    TimeClass::Cpu,
    TimeClass::Kernel,
    TimeClass::Spin,
    TimeClass::CpuQueue,
    TimeClass::CpuQuota,
    TimeClass::CpuTaken,
    TimeClass::Running,
    TimeClass::Latch,
];

/// What a capture of one moment says: a status, else stacks or CPU samples.
fn of_capture(window: &Window) -> Option<Finding> {
    of_status(window).or_else(|| walks::found(window))
}

/// How to find who keeps the old versions.
fn who_is_old() -> Remedy {
    since_start::look(
        "SELECT trx_mysql_thread_id, trx_started FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 5",
        "A transaction that stays open keeps all of it: the oldest one is to be ended or committed.",
    )
}

/// What one status says, of MariaDB and Percona Server, which have the length in it.
fn of_status(window: &Window) -> Option<Finding> {
    let since = SinceStart::from_window(window)?;
    let length = since.count("Innodb_history_list_length").filter(|&length| length >= LONG_HISTORY)?;
    Some(
        Draft::new(&CAUSE, LONG_HISTORY_SCORE, format!("The history list is {} long: old versions are not purged", whole(length)))
            .why("Whether it grows is not said: read it twice. Reads go through old versions of rows, and files grow.")
            .evidence(Evidence::new("history list length", length, "", "SHOW GLOBAL STATUS").expected(format!("< {LONG_HISTORY:.0}")))
            .remedy(who_is_old())
            .finding(),
    )
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// The history list over a window, and what it does to those who change rows.
struct Lag {
    /// Its length over time.
    lengths: Series,
    /// Where that was read.
    source: &'static str,
    longest: f64,
    last: f64,
    per_s: f64,
    /// innodb_max_purge_lag, where it is set.
    limit: Option<f64>,
    /// How long a change of a row sleeps at each length, microseconds.
    delays_us: Vec<f64>,
    /// The limit is passed and nobody is delayed, because nothing is purged.
    is_held_back: bool,
    /// Part of the CPU samples of statements, 0 to 1, that build old versions, where that is worth a finding.
    building: Option<f64>,
    /// Statements walk over deleted rows that purge may not take away, where that is worth a finding.
    deleted: Option<Deleted>,
    /// There is one reading, and it is long: a transaction is old, so that it grows as long as that is open, or somebody gave the
    /// text, and there is no second reading to come.
    is_long_once: bool,
}

impl Lag {
    fn from_window(window: &Window) -> Result<Option<Self>, Unavailable> {
        let (lengths, source) = history(window)?;
        let (Some(&(first_s, first)), Some(&(last_s, last))) = (lengths.first(), lengths.last()) else {
            return Ok(None);
        };
        let building = building(window);
        // An empty list: what was deleted is purged.
        let deleted = (first.max(last) >= 1.0).then(|| Deleted::from_window(window)).flatten();
        let is_long_once = lengths.len() == 1
            && last >= LONG_HISTORY
            && (window.is_given() || oldest(window, OLD_TRANSACTION_S).is_some());
        if !is_long_once {
            // Without them nobody knows whether changes are delayed.
            window.need(|s| &s.server.variables)?;
        }
        let limit = window.variable_number("innodb_max_purge_lag").filter(|&limit| limit > 0.0);
        let longest = lengths.iter().map(|&(_, length)| length).fold(0.0, f64::max);
        let is_passed = limit.is_some_and(|limit| longest > limit);
        let is_held_back = is_passed && delays_no_one(window, &lengths);
        let delays_us = match limit {
            Some(limit) if !is_held_back => delays_us(window, &lengths, limit),
            _ => Vec::new(),
        };
        let per_s = (last - first) / (last_s - first_s).max(f64::MIN_POSITIVE);
        Ok(Some(Self {
            lengths,
            source,
            longest,
            last,
            per_s,
            limit,
            delays_us,
            is_held_back,
            building,
            deleted,
            is_long_once,
        }))
    }

    fn longest_delay_us(&self) -> f64 {
        self.delays_us.iter().copied().fold(0.0, f64::max)
    }

    fn mean_delay_us(&self) -> f64 {
        self.delays_us.iter().sum::<f64>() / (self.delays_us.len() as f64).max(1.0)
    }

    fn delays(&self) -> bool {
        self.longest_delay_us() > 0.0
    }

    /// Changes were delayed, and are no more: a list that swings about its limit is not over.
    fn is_over(&self) -> bool {
        self.delays() && self.delays_us.last() == Some(&0.0) && self.last < self.longest / 2.0
    }

    fn grows_long(&self) -> bool {
        self.last >= LONG_HISTORY && self.per_s > 0.0 || self.is_long_once
    }

    fn is_a_finding(&self) -> bool {
        self.delays()
            || self.is_held_back
            || self.building.is_some()
            || self.deleted.is_some()
            || self.grows_long()
    }

    fn headline(&self, oldest: Option<&Oldest<'_>>) -> String {
        let (longest, ms) = (whole(self.longest), self.longest_delay_us() / 1e3);
        if self.is_over() {
            format!("Each change of a row slept up to {ms:.0} ms: {longest} transactions waited to be purged")
        } else if self.delays() {
            format!("Each change of a row sleeps up to {ms:.0} ms: {longest} transactions wait to be purged")
        } else if self.is_held_back {
            format!("{longest} transactions wait to be purged; changes are delayed as soon as purge goes on")
        } else if let Some(building) = self.building {
            format!("Reads build old versions of rows, {:.0} % of the CPU of statements", building * 100.0)
        } else if let (Some(deleted), Some(oldest)) = (&self.deleted, oldest) {
            deleted.headline(oldest)
        } else if self.is_long_once {
            format!("{:.1} million transactions wait to be purged", self.last / 1e6)
        } else {
            let (millions, per_s) = (self.last / 1e6, whole(self.per_s));
            format!("{millions:.1} million transactions wait to be purged, {per_s} more each second")
        }
    }

    fn why(&self, oldest: Option<&Oldest<'_>>) -> String {
        let holds = match oldest {
            Some(oldest) => oldest.holds(),
            None if self.is_held_back => "Nothing is purged, and no old transaction is seen.".to_owned(),
            None if self.is_over() => {
                "Purge has caught up: what held it back, an old transaction as a rule, is gone.".to_owned()
            }
            None if self.is_long_once => {
                "Whether it grows is not said: read it twice. No old transaction is listed.".to_owned()
            }
            None => "No old transaction holds purge back: it removes less than is made.".to_owned(),
        };
        let limit = self.limit.filter(|&limit| self.longest > limit).map_or(String::new(), |limit| {
            let whom = if self.is_held_back {
                "MariaDB delays changes while it purges a longer list"
            } else {
                "the server delays sessions that add to the list"
            };
            format!(" innodb_max_purge_lag allows {}, and {whom}.", whole(limit))
        });
        let passed_over = if self.deleted.is_some() {
            " Rows that were deleted since are only marked as deleted: each statement that comes by passes over them again, and no \
             counter of rows read or examined has them."
        } else {
            ""
        };
        holds + passed_over + &limit
    }
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Some(lag) = Lag::from_window(window)?.filter(Lag::is_a_finding) else {
        return Ok(None);
    };
    let changes_per_s: f64 = ["Handler_write", "Handler_update", "Handler_delete"]
        .iter()
        .filter_map(|name| window.status_per_s(name))
        .sum();
    let at_work = match Waiting::count(window, |_| true) {
        Ok(all) => all.mean,
        // A status alone, which says how long the list is.
        Err(_) if lag.is_long_once => 0.0,
        Err(missing) => return Err(missing),
    };
    let delayed = lag.mean_delay_us() / 1e6 * changes_per_s / at_work.max(1.0);
    let may_harm = lag.is_held_back || lag.grows_long();
    let least = if may_harm { LONG_HISTORY_SCORE } else { 0.0 };
    let reading =
        lag.building.unwrap_or(0.0) + lag.deleted.as_ref().map_or(0.0, |deleted| deleted.of_statements);
    let score = delayed.min(1.0).max(spent(window, reading.min(1.0))).max(least);
    let is_limited = lag.delays() || lag.is_held_back;
    let reads_through = lag.building.is_some() || lag.deleted.is_some();
    let oldest_from_s = if is_limited || reads_through { OLDER_THAN_WORK_S } else { OLD_TRANSACTION_S };
    let oldest = oldest(window, oldest_from_s);
    let walks = walks::captured(window);
    let walk = walks.as_ref().map_or_else(String::new, |walks| {
        format!(" Statements walk through the old versions: {}.", walks.said())
    });
    let mut draft = Draft::new(&CAUSE, score, lag.headline(oldest.as_ref()))
        .why(lag.why(oldest.as_ref()) + &walk)
        .evidence(
            Evidence::new("length of the history list", lag.longest, "", lag.source)
                .expected(format!("< {:.0}", lag.limit.unwrap_or(LONG_HISTORY)))
                .series(lag.lengths.clone()),
        )
        .evidence_if(
            (!lag.is_long_once)
                .then(|| Evidence::new("it grows by", lag.per_s, "1/s", "computed").expected("<= 0")),
        );
    if let Some(building) = lag.building {
        draft = draft.evidence(
            Evidence::new("CPU of statements that builds old versions", building, "ratio", "CPU samples")
                .expected(format!("< {:.0} %", BUILDING * 100.0)),
        );
    }
    if let Some(deleted) = &lag.deleted {
        draft = draft.evidence_all(deleted.evidence().into_iter());
    }
    if reads_through {
        draft = draft.explains(&[cpu_saturated::CAUSE.name]);
    }
    if lag.delays() {
        let delay = |reading, us| Evidence::new(reading, us, "us", "computed from innodb_max_purge_lag");
        draft = draft
            .evidence(delay("delay of each change, at most", lag.longest_delay_us()).expected("0"))
            .evidence(delay("its mean over the window", lag.mean_delay_us()).expected("0"))
            .evidence(Evidence::new("rows changed", changes_per_s, "1/s", "SHOW GLOBAL STATUS"));
    }
    let kill = oldest.as_ref().and_then(|oldest| oldest.kill(window));
    let lift = is_limited.then(|| Remedy {
        statement: "SET GLOBAL innodb_max_purge_lag = 0".into(),
        why: "Changes are then not delayed.".into(),
        dynamic: true,
        risk: crate::proposals::risks::DELAYS_NOTHING.into(),
        undo: format!("SET GLOBAL innodb_max_purge_lag = {:.0}", lag.limit.unwrap_or_default()),
    });
    // Who ends what holds purge back wants no delay to begin.
    let (first, second) = if lag.is_held_back { (lift, kill) } else { (kill, lift) };
    Ok(Some(
        draft
            .evidence_if(oldest.as_ref().map(|oldest| {
                Evidence::new(
                    "oldest open transaction",
                    oldest.open.age_s,
                    "s",
                    sessions::transactions_source(window),
                )
                .expected(format!("< {oldest_from_s:.0}"))
            }))
            .evidence_all(walks.iter().flat_map(|walks| {
                walks.evidence("in functions that build old versions", walks::least(walks))
            }))
            .remedy_if(first)
            .remedy_if(second)
            .remedy_if((oldest.is_none() && lag.is_long_once).then(who_is_old))
            .remedy_if((oldest.is_none() && !lag.is_over()).then(|| larger_batch(window)))
            .finding(),
    ))
}

/// Part of the CPU samples of statements, 0 to 1, that build old versions of rows, where there are so many of them and a transaction is
/// old enough to want them.
fn building(window: &Window) -> Option<f64> {
    oldest(window, OLDER_THAN_WORK_S)?;
    let profile = window.profile.value()?;
    let statements =
        || profile.samples().iter().filter(|sample| is_below(profile, sample, tables::STATEMENT));
    let all = statements().count();
    let building = statements().filter(|sample| is_below(profile, sample, OLD_VERSIONS)).count();
    let part = building as f64 / all.max(1) as f64;
    (all >= ENOUGH_SAMPLES && part >= BUILDING).then_some(part)
}

/// Share of the session time, 0 to 1, that goes into it.
fn spent(window: &Window, building: f64) -> f64 {
    let time = time_model::session_time(window);
    building * time.map_or(0.0, |time| SPENT.iter().map(|&class| time_model::share_of(&time, class)).sum())
}

/// MariaDB delays changes only while it purges (trx0purge.cc, trx_purge): not where all that is left may still be seen.
fn delays_no_one(window: &Window, lengths: &[(f64, f64)]) -> bool {
    let is_mariadb = window.server.version.is_some_and(ServerVersion::is_mariadb);
    let purged = |status: &InnodbStatus| status.transactions.purge_done;
    let stands = window
        .change(|s| &s.server.innodb_status)
        .is_some_and(|change| purged(change.first).is_some() && purged(change.first) == purged(change.last));
    is_mariadb && stands && lengths.windows(2).all(|pair| pair[0].1 <= pair[1].1)
}

/// How long a change of a row sleeps, microseconds, sample for sample: the metric where it is enabled, else as the server
/// computes it (trx_purge_dml_delay: at least 5 ms, 10 ms for each time that the list is as long as its limit, up to
/// innodb_max_purge_lag_delay). MariaDB finds that the list is too long when purge goes on, and then it may be short within
/// a second.
fn delays_us(window: &Window, lengths: &[(f64, f64)], limit: f64) -> Vec<f64> {
    let metric_us = window.samples.iter().filter_map(|sample| {
        let metric = sample.server.innodb_metrics.value()?.get("purge_dml_delay_usec")?;
        metric.enabled.then_some(metric.count)
    });
    let metric_us: Vec<f64> = metric_us.collect();
    if !metric_us.is_empty() {
        return metric_us;
    }
    let most_us = window.variable_number("innodb_max_purge_lag_delay").unwrap_or(0.0);
    let computed = |ratio: f64| if ratio <= 1.0 { 0.0 } else { ((ratio - 0.5) * 10_000.0).min(most_us) };
    lengths.iter().map(|&(_, length)| computed(length / limit)).collect()
}

fn larger_batch(window: &Window) -> Remedy {
    const LARGEST_BATCH: f64 = 5_000.0;
    // MariaDB's default is 1000 from 10.6.19, 10.11.9 and 11.4.3 on (MDEV-32050).
    let is_mariadb = window.server.version.is_some_and(ServerVersion::is_mariadb);
    let usual = if is_mariadb { 1_000.0 } else { 300.0 };
    let now = window.variable_number("innodb_purge_batch_size").unwrap_or(usual);
    Remedy {
        statement: format!("SET GLOBAL innodb_purge_batch_size = {:.0}", (4.0 * now).min(LARGEST_BATCH)),
        why: "More is removed at a time.".into(),
        dynamic: true,
        risk: crate::proposals::risks::PURGES_MORE.into(),
        undo: set_back(window, "innodb_purge_batch_size"),
    }
}

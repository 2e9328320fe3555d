//! Storage that hangs in turns: for a second or more nothing ends, and between that it is quick.

use spindoctor_model::host::DiskStat;
use spindoctor_model::stack::Profile;
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Finding, Remedy, Sample, Window, number};

use super::super::{
    checkpoint_stall, commit_sync_bound, file_extension_stall, free_page_wait, index_lock, read_io_bound,
    write_io_bound,
};
use super::measured::{Measured, OF_INNODB, Standing};
use super::one_io::{Stretch, is_io, is_of_another_file, stretches, unmoved};
use super::{ANSWERS_PER_S, CAUSE, HANGS_S, HELD_UP, ONE_IO_S, let_a_replica_take_over, pressure, unfreeze};
use crate::below::Below;
use crate::disk_users::{FILES_OF_SERVER, data_folder, evidence_of_known_disks, known_disks};
use crate::draft::Draft;
use crate::sessions::mean;

/// Between two readings so far apart a disk that works ends an I/O that is under way, however slow it is: as for the length of one
/// I/O. Readings come once a second, a little early or late.
const QUIET_S: f64 = 0.7;

/// Below this share of the time a disk is not what an I/O waits for that stands in it all the time. Chosen.
const AT_REST: f64 = 0.5;

/// From this part of an I/O on in which a file is made larger, it waits behind that. Chosen.
const BEHIND_EXTENSION: f64 = 0.5;

/// What a window shows of it.
pub(super) struct InTurns {
    /// The disk that ended nothing then, or was at rest.
    disk: Disk,
    /// From when to when an I/O stood for a second or more, seconds from the first snapshot.
    hangs: Vec<(f64, f64)>,
    /// Sessions at work that were blocked then, on average.
    held_up: f64,
    /// Their share of all session time.
    lost: f64,
}

/// What one disk did from one reading to the next.
struct Disk {
    name: String,
    /// It was at rest while the server's I/O stood: what follows are the server's own I/Os.
    is_at_rest: bool,
    /// Seconds in which I/Os were under way and none ended.
    quiet_s: f64,
    /// Seconds of the rest.
    other_s: f64,
    /// I/Os that ended in the rest.
    ended: f64,
    /// I/Os that ended a second.
    series: Series,
}

impl Disk {
    fn new(name: &str, is_at_rest: bool) -> Self {
        let series = Vec::new();
        Self { name: name.to_owned(), is_at_rest, quiet_s: 0.0, other_s: 0.0, ended: 0.0, series }
    }

    /// I/Os a second that it ended when it ended any.
    fn per_s(&self) -> f64 {
        self.ended / self.other_s.max(QUIET_S)
    }
}

/// None where it did not, or where no disk of this host shows it.
pub(super) fn in_turns(window: &Window, standing: &Standing) -> Option<InTurns> {
    let (begun_s, profile) = window.profile.timed()?;
    let hung = |hangs: &[(f64, f64)], from_s: f64, to_s: f64| {
        hangs.iter().any(|&(since_s, until_s)| begun_s + since_s < to_s && begun_s + until_s > from_s)
    };
    let long = merged(&long_ios(profile));
    let of_disk = disk(window, |from_s, to_s| hung(&long, from_s, to_s)).map(|disk| (disk, long));
    let (disk, hangs) = of_disk.or_else(|| {
        let held = merged(&held_ios(profile));
        Some((disk_at_rest(window, |from_s, to_s| hung(&held, from_s, to_s))?, held))
    })?;
    let at_s = profile.snapshots.iter().map(|cost| cost.at_us as f64 / 1e6);
    let is_hung = |at_s: f64| hangs.iter().any(|&(since_s, until_s)| (since_s..=until_s).contains(&at_s));
    let held_up_then: Vec<f64> = at_s
        .zip(&standing.held_up_at)
        .filter(|(at_s, _)| is_hung(*at_s))
        .map(|(_, &held_up)| held_up)
        .collect();
    let held_up = mean(held_up_then.iter().copied());
    let at_work = standing.at_work * profile.snapshots.len() as f64;
    let lost = held_up_then.iter().sum::<f64>() / at_work.max(1.0);
    (held_up >= HELD_UP).then_some(InTurns { disk, hangs, held_up, lost })
}

/// I/Os in which a thread stood for so long, by its stacks, that no slow disk explains it.
fn long_ios(profile: &Profile) -> Vec<Stretch> {
    let all = stretches(profile, is_io);
    all.into_iter().filter(|one| one.seconds() >= ONE_IO_S).collect()
}

/// Those of them that may be held above a disk that is at rest. Nothing but the stacks shows it there, so that more of them is asked:
/// a part of the I/O in which its thread has not moved, and a file whose disk is looked at. A file that is made larger is written four
/// megabytes at once, as few I/Os for the server and many for a limit: below [`HANGS_S`] that, and what waits behind it, is
/// file-extension-stall's.
fn held_ios(profile: &Profile) -> Vec<Stretch> {
    let elsewhere = Below::such(profile, is_of_another_file);
    let extends = Below::such(profile, file_extension_stall::extends);
    let one_each: Vec<Stretch> =
        unmoved(profile, is_io).into_iter().filter(|one| one.seconds() >= QUIET_S).collect();
    let has_one = |long: &Stretch| {
        let within = |one: &Stretch| one.since_s >= long.since_s && one.until_s <= long.until_s;
        one_each.iter().any(|one| one.thread == long.thread && one.stack == long.stack && within(one))
    };
    let extensions = stretches(profile, |one| is_io(one) && extends.has(one));
    let extended_s = |long: &Stretch| -> f64 {
        let in_both = |one: &Stretch| one.until_s.min(long.until_s) - one.since_s.max(long.since_s);
        extensions.iter().map(|one| in_both(one).max(0.0)).sum()
    };
    let is_held = |long: &Stretch| {
        let seconds = long.seconds();
        seconds >= ONE_IO_S
            && has_one(long)
            && (seconds >= HANGS_S || extended_s(long) < BEHIND_EXTENSION * seconds)
    };
    stretches(profile, |one| is_io(one) && !elsewhere.has(one)).into_iter().filter(is_held).collect()
}

/// From when to when they stood: those that overlap are one.
fn merged(ios: &[Stretch]) -> Vec<(f64, f64)> {
    let mut times: Vec<(f64, f64)> = ios.iter().map(|one| (one.since_s, one.until_s)).collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (since_s, until_s) in times {
        match merged.last_mut() {
            Some(last) if since_s <= last.1 => last.1 = last.1.max(until_s),
            _ => merged.push((since_s, until_s)),
        }
    }
    merged
}

/// The disk that ended nothing while an I/O of the server hung, and worked otherwise: the one that did so longest. Disks that lie upon
/// one another show the same.
fn disk(window: &Window, hung: impl Fn(f64, f64) -> bool) -> Option<Disk> {
    let readings = window.all(|sample| &sample.host.disks);
    let (_, newest) = readings.last()?;
    let known = known_disks(window, FILES_OF_SERVER);
    let is_theirs = |name: &str| known.as_ref().is_none_or(|known| known.iter().any(|(one, _)| *one == name));
    let of_name = |name: &str| {
        let mut disk = Disk::new(name, false);
        let mut hung_quietly = false;
        for pair in readings.windows(2) {
            let &[(from_s, before), (to_s, after)] = pair else { continue };
            let find = |disks: &[DiskStat]| disks.iter().find(|disk| disk.name == name).map(counters);
            let (Some((began, _)), Some((ended, in_flight))) = (find(before), find(after)) else { continue };
            let Some(ended) = ended.checked_sub(began) else { continue };
            let seconds = to_s - from_s;
            if ended == 0 && in_flight > 0 && seconds >= QUIET_S {
                disk.quiet_s += seconds;
                hung_quietly |= hung(from_s, to_s);
            } else {
                disk.other_s += seconds;
                disk.ended += ended as f64;
            }
            disk.series.push((to_s, ended as f64 / seconds.max(f64::MIN_POSITIVE)));
        }
        (hung_quietly && disk.per_s() >= ANSWERS_PER_S).then_some(disk)
    };
    let such = newest.iter().filter(|disk| is_theirs(&disk.name)).filter_map(|disk| of_name(&disk.name));
    such.reduce(|a, b| if b.quiet_s > a.quiet_s { b } else { a })
}

/// The server's disk that was at rest while an I/O of the server stood, where the server's own I/Os went on between that: a frozen file
/// system and the limit of a control group hold I/Os back before they reach the disk. None where a disk of the server's is unknown.
fn disk_at_rest(window: &Window, hung: impl Fn(f64, f64) -> bool) -> Option<Disk> {
    let known = known_disks(window, FILES_OF_SERVER)?;
    let (name, _) = known.first()?;
    let mut disk = Disk::new(name, true);
    let readings: Vec<(f64, f64, f64)> = window
        .samples
        .iter()
        .filter_map(|sample| {
            let (at_s, ended) = ended_by_server(sample)?;
            let disks = sample.host.disks.value()?;
            let of_server = disks.iter().filter(|disk| known.iter().any(|(name, _)| *name == disk.name));
            Some((at_s, ended, of_server.map(|disk| disk.busy_us as f64 / 1e6).sum::<f64>()))
        })
        .collect();
    for pair in readings.windows(2) {
        let &[(from_s, began, busy_before_s), (to_s, ended, busy_after_s)] = pair else { continue };
        let (seconds, ended, busy_s) = (to_s - from_s, ended - began, busy_after_s - busy_before_s);
        if ended < 0.0 || seconds <= 0.0 {
            continue;
        }
        let is_quiet = ended < ANSWERS_PER_S * seconds && busy_s < AT_REST * seconds;
        if is_quiet && seconds >= QUIET_S && hung(from_s, to_s) {
            disk.quiet_s += seconds;
        } else {
            disk.other_s += seconds;
            disk.ended += ended;
        }
        disk.series.push((to_s, ended / seconds));
    }
    (disk.quiet_s > 0.0 && disk.per_s() >= ANSWERS_PER_S).then_some(disk)
}

/// When the server's status was read, and the I/Os that it had completed by then.
fn ended_by_server(sample: &Sample) -> Option<(f64, f64)> {
    let (at_s, status) = sample.server.status.timed()?;
    Some((at_s, OF_INNODB.iter().filter_map(|name| status.number(name)).sum()))
}

/// I/Os that it has ended so far, and those under way.
fn counters(disk: &DiskStat) -> (u64, u64) {
    let ended = disk.reads.saturating_add(disk.writes).saturating_add(disk.flushes.unwrap_or(0));
    (ended, disk.in_flight)
}

/// What to look at: it comes and goes.
fn look_while_it_hangs(disk: &str) -> Remedy {
    Remedy {
        statement: format!(
            "On the server's host: iostat -x 1 {disk} shows it as it comes and goes; then dmesg, multipath -ll, smartctl, the volume's \
             own health and credit, what takes snapshots of it or freezes its file system, and io.max of the control group"
        ),
        why: "Between the hangs it is quick: it is neither too slow nor too busy, and something stops it again and again.".into(),
        dynamic: true,
        ..Remedy::default()
    }
}

/// The finding.
pub(super) fn finding(window: &Window, measured: &Measured) -> Option<Finding> {
    let Measured { standing, seconds, .. } = measured;
    let InTurns { disk, hangs, held_up, lost } = in_turns(window, standing)?;
    let lengths = || hangs.iter().map(|&(since_s, until_s)| until_s - since_s);
    let longest_s = lengths().fold(0.0, f64::max);
    let all_s: f64 = lengths().sum();
    let blocked = format!("and {held_up:.1} sessions on average were blocked meanwhile");
    let headline = match hangs.len() {
        1 => format!("Storage hangs: once in {seconds:.0} s an I/O stood for {longest_s:.1} s, {blocked}"),
        times => format!(
            "Storage hangs in turns: {times} times in {seconds:.0} s an I/O stood for a second or more, {longest_s:.1} s at the longest \
             and {all_s:.1} s in all, {blocked}"
        ),
    };
    let known = known_disks(window, FILES_OF_SERVER);
    let folder = known.as_ref().and_then(|known| known.iter().find(|(name, _)| *name == disk.name));
    let below = folder
        .map(|(_, folder)| *folder)
        .or_else(|| data_folder(window))
        .map_or_else(String::new, |folder| format!(", below {folder}"));
    let likely = if known.is_some() { "" } else { "most likely " };
    let (name, per_s, quiet_s) = (&disk.name, number::whole(disk.per_s()), disk.quiet_s);
    let why = match disk.is_at_rest {
        true => format!(
            "{name}, {likely}the disk of the server's files{below}, was at rest for {quiet_s:.0} s in which hardly an I/O of the server's \
             ended; between that {per_s} a second ended. What holds them stands between the server and the disk: a file system that is \
             frozen for a snapshot, or a limit of the control group."
        ),
        false => format!(
            "{name}, {likely}the disk of the server's files{below}, had I/Os under way for {quiet_s:.0} s and ended none of them; \
             between that it ended {per_s} a second. A disk that is merely slow ends some in each second: this one stops and goes on, and \
             what stops it is below the server."
        ),
    };
    let (quiet, source) = match disk.is_at_rest {
        true => (
            format!("seconds in which {name} was at rest and hardly an I/O of the server's ended"),
            "SHOW GLOBAL STATUS",
        ),
        false => (format!("seconds in which {name} ended nothing that was under way"), "/proc/diskstats"),
    };
    let draft = Draft::new(&CAUSE, lost.min(1.0), headline).why(why);
    Some(
        draft
            .evidence(
                Evidence::new("I/Os that stood for a second or more", hangs.len() as f64, "", "stacks")
                    .expected("0"),
            )
            .evidence_all(super::OneIo::longest_of_all(window).evidence().into_iter())
            .evidence(Evidence::new(&quiet, quiet_s, "s", source).expected("0"))
            .evidence(
                Evidence::new("I/Os that ended in the others", disk.per_s(), "1/s", source)
                    .series(disk.series),
            )
            .evidence_all(evidence_of_known_disks(window).into_iter())
            .evidence(
                Evidence::new("sessions at work that were blocked meanwhile", held_up, "", "stacks")
                    .expected("< 2"),
            )
            .evidence_if(pressure(window))
            .remedy(look_while_it_hangs(&disk.name))
            .remedy(unfreeze())
            .remedy(let_a_replica_take_over())
            .explains(&[
                commit_sync_bound::CAUSE.name,
                read_io_bound::CAUSE.name,
                write_io_bound::CAUSE.name,
                checkpoint_stall::CAUSE.name,
                file_extension_stall::CAUSE.name,
                free_page_wait::CAUSE.name,
                index_lock::CAUSE.name,
            ])
            .finding(),
    )
}

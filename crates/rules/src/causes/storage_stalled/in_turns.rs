//! Storage that hangs in turns: for a second or more nothing ends, and between that it is quick.

use spindoctor_model::host::DiskStat;
use spindoctor_model::stack::Profile;
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Finding, Remedy, Window, number};

use super::super::{
    checkpoint_stall, commit_sync_bound, file_extension_stall, free_page_wait, index_lock, read_io_bound,
    write_io_bound,
};
use super::measured::{Measured, Standing};
use super::one_io::{is_io, stretches};
use super::{ANSWERS_PER_S, CAUSE, HELD_UP, ONE_IO_S, let_a_replica_take_over, pressure, unfreeze};
use crate::disk_users::data_folder;
use crate::draft::Draft;
use crate::sessions::mean;

/// Between two readings so far apart a disk that works ends an I/O that is under way, however slow it is: as for the length of one
/// I/O. Readings come once a second, a little early or late.
const QUIET_S: f64 = 0.7;

/// What a window shows of it.
pub(super) struct InTurns {
    /// The disk that ended nothing then.
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
    /// I/Os a second that it ended when it ended any.
    fn per_s(&self) -> f64 {
        self.ended / self.other_s.max(QUIET_S)
    }
}

/// None where it did not, or where no disk of this host shows it.
pub(super) fn in_turns(window: &Window, standing: &Standing) -> Option<InTurns> {
    let (begun_s, profile) = window.profile.timed()?;
    let hangs = hangs(profile);
    let hung = |from_s: f64, to_s: f64| {
        hangs.iter().any(|&(since_s, until_s)| begun_s + since_s < to_s && begun_s + until_s > from_s)
    };
    let disk = disk(window, hung)?;
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

/// When an I/O stood for so long that no slow disk explains it: those that overlap are one.
fn hangs(profile: &Profile) -> Vec<(f64, f64)> {
    let mut long: Vec<(f64, f64)> = stretches(profile, is_io)
        .iter()
        .filter(|one| one.seconds() >= ONE_IO_S)
        .map(|one| (one.since_s, one.until_s))
        .collect();
    long.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (since_s, until_s) in long {
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
    let of_name = |name: &str| {
        let mut disk =
            Disk { name: name.to_owned(), quiet_s: 0.0, other_s: 0.0, ended: 0.0, series: Vec::new() };
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
    let such = newest.iter().filter_map(|disk| of_name(&disk.name));
    such.reduce(|a, b| if b.quiet_s > a.quiet_s { b } else { a })
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
    let below = data_folder(window).map_or_else(String::new, |folder| format!(", below {folder}"));
    let per_s = number::whole(disk.per_s());
    let draft = Draft::new(&CAUSE, lost.min(1.0), headline).why(format!(
        "{name}, most likely the disk of the server's files{below}, had I/Os under way for {quiet_s:.0} s and ended none of them; \
         between that it ended {per_s} a second. A disk that is merely slow ends some in each second: this one stops and goes on, and what \
         stops it is below the server.",
        name = disk.name,
        quiet_s = disk.quiet_s,
    ));
    Some(
        draft
            .evidence(
                Evidence::new("I/Os that stood for a second or more", hangs.len() as f64, "", "stacks")
                    .expected("0"),
            )
            .evidence_all(super::OneIo::longest_of_all(window).evidence().into_iter())
            .evidence(
                Evidence::new(
                    &format!("seconds in which {} ended nothing that was under way", disk.name),
                    disk.quiet_s,
                    "s",
                    "/proc/diskstats",
                )
                .expected("0"),
            )
            .evidence(
                Evidence::new("I/Os that it ended in the others", disk.per_s(), "1/s", "/proc/diskstats")
                    .series(disk.series),
            )
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

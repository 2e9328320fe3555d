//! What the stacks and the counters come to: who stands in I/O, and how long one I/O takes by Little's law.

use std::collections::HashMap;

use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::window::Series;
use spindoctor_model::{Unavailable, Window};

use super::ONE_IO_S;
use super::one_io::{OneIo, Stretch, is_io, is_of_another_file, one_each};
use crate::below::Below;
use crate::sessions::mean;
use crate::stall::with_enough_snapshots;
use crate::time_model::tables;

/// I/Os completed, as InnoDB counts them.
pub(super) const OF_INNODB: [&str; 3] = ["Innodb_data_reads", "Innodb_data_writes", "Innodb_data_fsyncs"];

/// Statements that change rows, each an I/O, or a part of one that a group shares, where another log is synced, or where
/// the writes of the redo log are not counted, as on MariaDB. Handler_commit is no measure of them:
/// it counts what the server commits in its own dictionary, too.
pub(super) const CHANGES: [&str; 5] = ["Com_commit", "Com_insert", "Com_update", "Com_delete", "Com_replace"];

/// What the I/Os of a window come to.
pub(super) struct Measured {
    pub(super) standing: Standing,
    pub(super) seconds: f64,
    /// I/Os that ended.
    pub(super) completed: f64,
    /// Syncs that ended.
    pub(super) synced: f64,
    pub(super) one_io_s: f64,
    /// How long one I/O of a commit has stood, where no change ended meanwhile; else 0. What InnoDB counts says nothing of a binary log
    /// on storage of its own.
    pub(super) one_commit_s: f64,
}

/// Measures them; an error where no stacks or no counters were read.
pub(super) fn measure(window: &Window) -> Result<Measured, Unavailable> {
    let profile = with_enough_snapshots(window)?;
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let synced = window.need_growth("Innodb_data_fsyncs")?;
    let growth = |names: &[&str]| names.iter().filter_map(|name| window.status_growth(name)).sum::<f64>();
    let standing = Standing::count(profile);
    // A statement is counted when it begins: as many as are at work have not ended.
    let changes = (growth(&CHANGES) - standing.at_work).max(0.0);
    // One sync of another log serves each session at work once, and one I/O all that stand behind it.
    let synced = synced.max(changes / standing.at_work.max(1.0));
    let behind_one_io = (standing.at_work / standing.in_io.max(1.0)).max(1.0);
    let completed = growth(&OF_INNODB) + changes / behind_one_io;
    // Less than one I/O in the window: it lasts longer than that.
    let one_s = |standing: f64, completed: f64| standing * seconds / completed.max(standing.max(1.0));
    let one_io_s = one_s(standing.in_io, completed).max(one_s(standing.in_sync, synced));
    let is_at_rest = changes < standing.in_commit.max(1.0);
    let one_commit_s = if is_at_rest { standing.one_commit.seconds } else { 0.0 };
    Ok(Measured { standing, seconds, completed, synced, one_io_s, one_commit_s })
}

/// Threads over the snapshots of a profile, means.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// In read, write or fsync of a file of which the counters have the I/Os that end; of another file in one I/O of a second and more.
    pub(super) in_io: f64,
    /// Of these, in fsync.
    pub(super) in_sync: f64,
    /// Sessions that run a statement.
    pub(super) at_work: f64,
    /// Of these, those that neither run nor wait for a CPU.
    pub(super) held_up: f64,
    /// The same in each snapshot.
    pub(super) held_up_at: Vec<f64>,
    /// Of these, those at their commit.
    pub(super) in_commit: f64,
    /// The longest write or sync of a commit.
    pub(super) one_commit: OneIo,
    /// The first over time.
    pub(super) series: Series,
}

impl Standing {
    fn count(profile: &Profile) -> Self {
        let (statements, commits) =
            (Below::new(profile, tables::STATEMENT), Below::new(profile, tables::COMMIT));
        let at_s = |at: u32| profile.snapshots[at as usize].at_us as f64 / 1e6;
        let elsewhere = Below::such(profile, is_of_another_file);
        let long_elsewhere = Long::from_profile(profile, &elsewhere);
        let mut in_io = vec![0.0; profile.snapshots.len()];
        let mut held_up_at = in_io.clone();
        let (mut in_sync, mut at_work, mut in_commit) = (0.0, 0.0, 0.0);
        for one in &profile.observations {
            let Some(count) = in_io.get_mut(one.snapshot as usize) else { continue };
            if is_io(one) && (!elsewhere.has(one) || long_elsewhere.has(one, at_s(one.snapshot))) {
                *count += 1.0;
                in_sync += f64::from(u8::from(one.state == ThreadState::Sync));
            }
            if statements.has(one) {
                at_work += 1.0;
                let goes_on = matches!(one.state, ThreadState::Running | ThreadState::Runnable);
                held_up_at[one.snapshot as usize] += f64::from(u8::from(!goes_on));
                in_commit += f64::from(u8::from(!goes_on && commits.has(one)));
            }
        }
        let snapshots = profile.snapshots.len() as f64;
        let one_commit = OneIo::longest(profile, |one| {
            matches!(one.state, ThreadState::DiskWrite | ThreadState::Sync) && commits.has(one)
        });
        Self {
            in_io: mean(in_io.iter().copied()),
            in_sync: in_sync / snapshots,
            at_work: at_work / snapshots,
            held_up: mean(held_up_at.iter().copied()),
            held_up_at,
            in_commit: in_commit / snapshots,
            one_commit,
            series: in_io.iter().enumerate().map(|(at, &count)| (at_s(at as u32), count)).collect(),
        }
    }
}

/// I/Os of files of which nothing counts the I/Os that end, each of which takes so long that no slow disk explains it. Many short ones
/// one after the other are the work of a scan or of a sort.
struct Long(HashMap<u32, Vec<Stretch>>);

impl Long {
    fn from_profile(profile: &Profile, elsewhere: &Below) -> Self {
        let mut of_threads: HashMap<u32, Vec<Stretch>> = HashMap::new();
        let all = one_each(profile, |one| is_io(one) && elsewhere.has(one));
        for one in all.into_iter().filter(|one| one.seconds() >= ONE_IO_S) {
            of_threads.entry(one.thread).or_default().push(one);
        }
        Self(of_threads)
    }

    /// True where that thread was in one of them then.
    fn has(&self, one: &Observation, at_s: f64) -> bool {
        let is_it = |long: &Stretch| long.stack == one.stack && (long.since_s..=long.until_s).contains(&at_s);
        self.0.get(&one.thread).is_some_and(|all| all.iter().any(is_it))
    }
}

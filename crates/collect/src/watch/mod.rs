//! The collector: asks every source when it is due and puts the answers into a window.
//!
//! In: a target and [`WatchOptions`]. Out: a [`Window`]. Two loops run side by side on one thread: the
//! host's, which is always on time, and the server's, which may have to wait for an answer. So a
//! server that hangs loses its own readings and no others. What a source means is left to it; what
//! a reading means, to the rules.

mod asking;
mod profiling;
mod schedule;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use spindoctor_model::host::FolderDisk;
use spindoctor_model::page_cache::FileKind;
use spindoctor_model::{Reading, Sample, ServerIdentity, ServerSample, Unavailable, Window};
use thiserror::Error;
use tokio::time::Instant;

use crate::host::{self, HostChoice};
use crate::mysql::{self, ConnectError, Session, Target};
use crate::priority::Ahead;
use crate::server_host::ServerHost;
use asking::Asking;
pub use profiling::{Profiling, StateFrames};
use schedule::Schedule;

/// How long to watch, how often to ask, and whose host to read. Deadlines are the target's own.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// From the first sample to the last.
    pub duration: Duration,
    /// From one sample to the next at most: where a window has several, they are a little nearer to each other, so that they are not in
    /// step with what the server does each second.
    pub every: Duration,
    /// Whose process is the server.
    pub host: HostChoice,
    /// Stands for `/proc`.
    pub proc: PathBuf,
    /// Stands for `/sys`.
    pub sys: PathBuf,
    /// True where the host alone will do: without a session the server's process is looked at all the
    /// same, whatever the reason.
    pub host_alone: bool,
    /// Stacks and CPU samples of the server's process beside the samples; none where they are not wanted.
    pub profiling: Option<Profiling>,
    /// After so long, what was read until then is handed over once ([`Progress::Early`]); none where nobody wants it.
    pub early: Option<Duration>,
    /// Ends the window early with a last sample, once it says true.
    pub stop: Option<tokio::sync::watch::Receiver<bool>>,
}

impl WatchOptions {
    /// A window of this length on the live host, a sample each second or a little earlier.
    pub fn lasting(duration: Duration) -> Self {
        Self {
            duration,
            every: Duration::from_secs(1),
            host: HostChoice::Find,
            proc: "/proc".into(),
            sys: "/sys".into(),
            host_alone: false,
            profiling: None,
            early: None,
            stop: None,
        }
    }

    /// Waits until an instant, or until the window is to end: then it is true.
    async fn wait_until(&self, instant: Instant) -> bool {
        let stopped = async {
            let asked = match self.stop.clone() {
                Some(mut stop) => stop.wait_for(|stop| *stop).await.is_ok(),
                None => false,
            };
            if !asked {
                // Nobody can end it early, or the one who could is gone.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = stopped => true,
            () = tokio::time::sleep_until(instant) => false,
        }
    }
}

/// What happens while the window runs, for a line on the terminal.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// The server answered and said who it is.
    Connected {
        /// Who it is.
        server: ServerIdentity,
    },
    /// There is no session and there will be none: only the host is read.
    NoSession {
        /// What happened.
        because: String,
    },
    /// Something did not go as it should, and the window goes on.
    Note(String),
    /// The host's part of a sample was taken; the server's comes in its own time.
    Sampled {
        /// Which one, from 1.
        number: usize,
        /// Of how many.
        of: usize,
    },
    /// What was read until [`WatchOptions::early`]: a window by itself, without stacks, with threads by the server's own ids. Where the server has not answered yet,
    /// only the host's readings are in it.
    Early(Box<Window>),
    /// The server stopped answering.
    ServerLost {
        /// What happened.
        because: String,
    },
    /// The server answers again.
    ServerBack,
}

/// Why there is no window.
#[derive(Debug, Error)]
pub enum WatchError {
    /// There is no session, and that is no reading of the server either.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no session, and no process whose host could be read instead.
    #[error("{connect}; its process was not found either ({host}): name it with --pid to read the host")]
    NothingToRead {
        /// Why there is no session.
        connect: ConnectError,
        /// Why there is no process.
        host: String,
    },
    /// The process that was named does not exist.
    #[error("there is no process {0}; check --pid, or leave it out to have the server's process found")]
    NoProcess(u32),
    /// The other end says no version that any known server has.
    #[error("the server says that its version is {0:?}; spindoctor knows MySQL, MariaDB and Percona Server")]
    UnknownServer(String),
}

/// Watches a server and its host for a while.
///
/// Ends about when `options.duration` is over or `options.stop` says so; where the server answers slowly, within three query
/// deadlines more. Dropping the future closes the connection.
pub async fn watch(
    target: &Target,
    options: &WatchOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Window, WatchError> {
    let _ahead = Ahead::of_others();
    let own_cpu_before = own_cpu();
    let progress = RefCell::new(progress);
    let report = |what: Progress| (progress.borrow_mut())(what);

    let mut server = ServerIdentity { address: target.address(), ..ServerIdentity::default() };
    let session = match Session::connect(target, &target.limits).await {
        Ok(session) => Ok(session),
        Err(error) => match error.as_no_session() {
            None if !options.host_alone => return Err(error.into()),
            no_session => Err((no_session, error)),
        },
    };
    let version = match &session {
        Ok(session) => {
            server.version = session.version();
            server.version_text = session.version_text().to_owned();
            server.hostname = session.hostname().to_owned();
            server.own_connection_id = Some(session.connection_id());
            Some(session.version().ok_or_else(|| WatchError::UnknownServer(server.version_text.clone()))?)
        }
        Err(_) => None,
    };
    if let Some(pid) = options.host.named_and_gone(&options.proc) {
        return Err(WatchError::NoProcess(pid));
    }
    let mut server_host = ServerHost::find(&options.host, target, &options.proc, &options.sys);
    match server_host.pid() {
        Ok(pid) => server.pid = Some(pid),
        Err(why) => server.no_pid = Some(why),
    }
    match &session {
        Ok(session) => {
            report(Progress::Connected { server: server.clone() });
            session.notes().iter().for_each(|note| report(Progress::Note(note.clone())));
        }
        Err((no_session, error)) => {
            if matches!(options.host, HostChoice::None { .. }) {
                return Err(error.clone().into());
            }
            if let Some(why) = &server.no_pid {
                return Err(WatchError::NothingToRead { connect: error.clone(), host: why.because.clone() });
            }
            report(Progress::NoSession { because: error.to_string() });
            server.no_session = no_session.clone();
        }
    }

    let schedule = Schedule::new(options.duration, options.every);
    let start = Instant::now();
    let mut window = Window {
        server,
        start: jiff::Timestamp::now(),
        asked_s: Some(options.duration.as_secs_f64()),
        ..Window::default()
    };
    let no_session = session.as_ref().err().map(|(_, error)| error);
    // Filled by both halves as they read; the early window is what stands there at its time.
    let samples = RefCell::new(empty_samples(schedule, &server_host, no_session));
    let profiler = options.profiling.zip(window.server.pid).map(|(profiling, pid)| profiling.start(pid));
    let watch_host = watch_host(&server_host, options, schedule, start, &samples, &report);
    let hand_over_early = async {
        let Some(after) = options.early.filter(|after| *after < options.duration) else { return };
        if options.wait_until(start + after).await {
            return;
        }
        let taken = samples.borrow()[..=schedule.latest(after)].to_vec();
        let mut early = Window { asked_s: Some(after.as_secs_f64()), samples: taken, ..window.clone() };
        complete(&mut early, &server_host);
        report(Progress::Early(Box::new(early)));
    };
    match (session, version) {
        (Ok(session), Some(version)) => {
            let mut asking = Asking::new(target, version, session, start, schedule.last() + 1);
            let keep_early = |k: usize, answers: &ServerSample| {
                if options.early.is_some_and(|after| schedule.due(k) <= after) {
                    samples.borrow_mut()[k].server = answers.clone();
                }
            };
            let deadline = start + options.duration + Asking::patience(&target.limits);
            let watch_server =
                tokio::time::timeout_at(deadline, asking.run(options, schedule, &report, &keep_early));
            // Polled in this order: at an instant when both are due the host is read first, and the
            // time it takes is not in the server's.
            let ((), in_time, ()) = tokio::join!(biased; watch_host, watch_server, hand_over_early);
            if in_time.is_err() {
                asking.cut_short();
            }
            let (answers, cost) = asking.finish().await;
            window.cost = cost;
            window.samples = samples.into_inner();
            for (sample, answers) in window.samples.iter_mut().zip(answers) {
                sample.server = answers;
            }
        }
        _ => {
            tokio::join!(watch_host, hand_over_early);
            window.samples = samples.into_inner();
        }
    }

    window.profile = match (profiler, &window.server.no_pid) {
        (Some(profiler), _) => profiler.finish(start.into()),
        (None, Some(why)) => Reading::Unavailable(why.clone()),
        (None, None) => Reading::default(),
    };
    // Where the window was ended early, those that were not taken are due after the last one.
    let end_s = window.samples.last().map_or(0.0, |last| last.at_s);
    window.samples.retain(|sample| sample.at_s <= end_s);
    complete(&mut window, &server_host);
    window.samples.iter_mut().for_each(|sample| server_host.rename(&mut sample.server.threads));
    window.cost.own_cpu_ms = (own_cpu() - own_cpu_before).as_secs_f64() * 1000.0;
    Ok(window)
}

/// Adds what follows from the samples as a whole: room and disks elsewhere, uptime.
fn complete(window: &mut Window, server_host: &ServerHost) {
    if let Some(target) = server_host.target() {
        note_other_folders(target, window);
    }
    window.server.uptime_s = window.samples[0]
        .server
        .status
        .value()
        .and_then(|status| status.number("Uptime"))
        .map(|seconds| seconds as u64);
}

/// Asks how much room there is for undo, the binary log and temporary files, where the server keeps them elsewhere than its data, and on
/// which disks it keeps them and its redo log.
fn note_other_folders(target: &host::Target, window: &mut Window) {
    let folder = |name: &str| window.variable(name).filter(|folder| !folder.is_empty()).map(str::to_owned);
    let undo = folder("innodb_undo_directory");
    let log = folder("log_bin_basename").and_then(|base| Some(base.rsplit_once('/')?.0.to_owned()));
    // Several folders are used in turn, `/tmp:/var/tmp`.
    let temporary = folder("tmpdir").and_then(|all| Some(all.split(':').next()?.to_owned()));
    let redo = folder("innodb_log_group_home_dir");
    let by_kind = [
        (FileKind::Undo, &undo),
        (FileKind::Redo, &redo),
        (FileKind::Binlog, &log),
        (FileKind::Temporary, &temporary),
    ];
    let on_disk = |(holds, folder): (FileKind, &Option<String>)| {
        Some(host::data_directory::disk_of(target, holds, folder.as_deref()?))
    };
    let others: Vec<FolderDisk> = by_kind.into_iter().filter_map(on_disk).collect();
    let room = |folder: Option<String>| host::data_directory::room_of(target, &folder?);
    let (undo, log, temporary) = (room(undo), room(log), room(temporary));
    for sample in &mut window.samples {
        if let Reading::Available { value: data, .. } = &mut sample.host.data_directory {
            data.undo_free_bytes = undo.map(|room| room.free_bytes);
            data.log_free_bytes = log.map(|room| room.free_bytes);
            data.temporary_free_bytes = temporary.map(|room| room.free_bytes);
            data.temporary_total_bytes = temporary.map(|room| room.total_bytes);
            data.folders.extend(others.iter().cloned());
        }
    }
}

/// The samples to be filled; those that nobody will fill say why at once.
fn empty_samples(
    schedule: Schedule,
    server_host: &ServerHost,
    no_session: Option<&ConnectError>,
) -> Vec<Sample> {
    let mut samples: Vec<Sample> = (0..=schedule.last())
        .map(|k| Sample { at_s: schedule.due(k).as_secs_f64(), ..Sample::default() })
        .collect();
    if let Some(unavailable) = server_host.unavailable() {
        samples[0].host = unavailable;
    }
    if let Some(error) = no_session {
        for source in mysql::SOURCES {
            source.fail(Unavailable::because(error.to_string()), &mut samples[0].server);
        }
    }
    samples
}

/// The host's half: on time for every sample, whatever the server does.
async fn watch_host(
    server_host: &ServerHost,
    options: &WatchOptions,
    schedule: Schedule,
    start: Instant,
    samples: &RefCell<Vec<Sample>>,
    report: &dyn Fn(Progress),
) {
    let mut k = 0;
    loop {
        if options.wait_until(start + schedule.due(k)).await {
            k = schedule.last();
        }
        {
            let sample = &mut samples.borrow_mut()[k];
            sample.at_s = start.elapsed().as_secs_f64();
            let part = schedule.part(k);
            for source in host::SOURCES.iter().filter(|source| part.asks(source.cadence)) {
                server_host.read(source, start.into_std(), &mut sample.host);
            }
        }
        report(Progress::Sampled { number: k + 1, of: schedule.last() + 1 });
        if k == schedule.last() {
            return;
        }
        k += 1;
    }
}

/// CPU time that this process used so far.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Endpoint;

    fn nobody() -> Target {
        Target::new(Endpoint::Socket("/nonexistent/mysqld.sock".into()), "app")
    }

    #[tokio::test]
    async fn a_window_that_is_stopped_ends_at_once_with_a_last_sample() {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let options = WatchOptions {
            host: HostChoice::Pid(std::process::id()),
            host_alone: true,
            stop: Some(stopped),
            ..WatchOptions::lasting(Duration::from_secs(3_600))
        };
        let window = watch(&nobody(), &options, &mut |event| {
            if matches!(event, Progress::Sampled { number: 1, .. }) {
                stop.send_replace(true);
            }
        })
        .await
        .unwrap();
        assert_eq!(window.samples.len(), 2);
        assert!(window.seconds() < 3_600.0);
    }

    #[tokio::test]
    async fn what_was_read_so_far_is_handed_over_once_and_the_window_goes_on() {
        let options = WatchOptions {
            host: HostChoice::Pid(std::process::id()),
            host_alone: true,
            every: Duration::from_millis(20),
            early: Some(Duration::from_millis(50)),
            ..WatchOptions::lasting(Duration::from_millis(200))
        };
        let mut early = Vec::new();
        let window = watch(&nobody(), &options, &mut |event| {
            if let Progress::Early(window) = event {
                early.push(*window);
            }
        })
        .await
        .unwrap();
        assert_eq!(early.len(), 1);
        // At 0, 18 and 36 ms.
        assert_eq!((early[0].samples.len(), window.samples.len()), (3, 12));
        assert_eq!(early[0].samples[2].host, window.samples[2].host);
        assert_eq!(early[0].interruption(), window.interruption());
    }

    #[tokio::test]
    async fn without_a_session_only_a_host_that_will_do_alone_is_watched() {
        let options = WatchOptions {
            host: HostChoice::Pid(std::process::id()),
            ..WatchOptions::lasting(Duration::from_millis(20))
        };
        let refused = watch(&nobody(), &options, &mut |_| {}).await.unwrap_err();
        assert!(refused.to_string().contains("/nonexistent/mysqld.sock"), "{refused}");
        let options = WatchOptions { host_alone: true, ..options };
        let window = watch(&nobody(), &options, &mut |_| {}).await.unwrap();
        let missing = window.missing(|s| &s.server.status).unwrap();
        assert!(missing.because.contains("/nonexistent/mysqld.sock"), "{missing:?}");
    }
}

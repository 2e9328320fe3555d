//! The workload of a live server: samples of the running statements, its counters every two seconds, and the stacks of
//! its threads where its process is on this host.
//!
//! All of it runs on one thread: a snapshot where one is due, the sample that explains it, the count. The snapshot
//! comes first, because a sample takes CPUs and wakes clients, which changes what the threads do. A server that does
//! not answer delays only the samples.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use spindoctor_collect::host;
use spindoctor_collect::mysql::{
    Source, Target, global_status, global_variables, perf_schema_statement_digests, replica_status,
};
use spindoctor_collect::priority::Ahead;
use spindoctor_collect::source::Answer;
use spindoctor_collect::statements::{Look, Statements, Whose};
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::Activity;
use spindoctor_model::{Profile, Sample, Window};
use spindoctor_stacks::{Profiler, ProfilerOptions, Taken};
use tokio::runtime::Runtime;

use super::args::Workload as Asked;
use super::pace::{LookCost, Pace};
use super::panel::{Ground, panel};
use super::run::{begun, what};
use super::split::Split;
use super::statement::Statement;
use super::tally::{Sighting, Tally};
use super::view::{Cost, Workload};
use super::words::amount;
use crate::common::progress::Progress;
use crate::common::session::{note, process, target};

/// Snapshots of the stacks a second, at most: in ten seconds enough for shares within some points, and half of the cost of
/// ten a second.
const SNAPSHOTS_HZ: f64 = 4.0;
/// What snapshots may take of all CPUs, in percent: the looks take as much again several times.
const SNAPSHOTS_CPU_PERCENT: f64 = 0.05;
/// CPU samples of each CPU a second: samples of the statements show what runs already, these show the phases.
const CPU_SAMPLES_HZ: f64 = 19.0;
/// How often the counters are read: the server adds them up over all connections each time.
const COUNTERS_EVERY: Duration = Duration::from_secs(2);
/// Between two looks at whether somebody pressed Ctrl-C.
const NAP: Duration = Duration::from_millis(100);
/// A broken session is made again after this long.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);
/// How long a goodbye may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(200);
/// Looks come this much earlier or later by chance, as a part of the time between them, so that they are not in step with
/// clients that come by a clock.
const JITTER: f64 = 0.1;

/// Readings of the server's summary of statements in a time that is compared with another, besides the first: enough for an
/// interval, at some 20 ms of the server's each.
const SUMMARIES: u32 = 12;

/// What of the host is read with the counters.
const HOST_SOURCES: [&host::HostSource; 3] =
    [&host::process::SOURCE, &host::pressure::SOURCE, &host::disks::SOURCE];

/// Looks until the time is over, or until Ctrl-C.
pub fn look(asked: &Asked) -> anyhow::Result<Workload> {
    let _ahead = Ahead::of_others();
    let target = target(&asked.connection)?;
    let mut notes = Vec::new();
    let found = match asked.connection.remote {
        true => Err("--remote was given".to_owned()),
        false => match process(&asked.connection, &target) {
            Ok((pid, None)) => Ok(pid),
            Ok((_, Some(why))) => Err(why),
            Err(why) => Err(format!("{why:#}")),
        },
    };
    let process = found.as_ref().ok().map(|pid| host::Target::live(*pid));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?;
    let profiler = match (&found, asked.no_stacks) {
        (_, true) => Err("--no-stacks was given".to_owned()),
        (Ok(pid), false) => start_profiler(*pid, asked),
        (Err(why), false) => Err(why.clone()),
    };
    let mut server = Server::connect(runtime, target, process.clone(), asked)?;
    notes.append(&mut server.notes);
    let own_before = own_cpu();
    let mut run = Run::new(asked, profiler);
    run.go(&mut server, process.as_ref(), asked)?;

    let mut workload = begun(asked, &server.named);
    workload.start = Some(run.start);
    let ground = ground(process.as_ref(), &found, &server);
    workload.panel = panel(&run.window, &ground);
    workload.judge(&run.window);
    workload.count_by_server(&run.window);
    let served_by = server.session.as_ref().and_then(Statements::served_by);
    let (queries, answered_ms, server_cpu) = server.finish();
    let mut stopped = 0;
    workload.split = match run.profile {
        Ok(profile) => {
            stopped = profile.snapshots.iter().map(|cost| u64::from(cost.stopped)).sum();
            notes.extend(profile.notes.iter().cloned());
            Ok(Split::from_profile(&profile, asked.replica, served_by))
        }
        Err(why) => Err(why),
    };
    let own = own_cpu().saturating_sub(own_before);
    let took_s = run.window.seconds().max(run.began.elapsed().as_secs_f64());
    workload.cost = Some(Cost {
        server_queries: queries,
        answered_ms,
        server_cpu_ms: server_cpu.map(|cpu| cpu.as_secs_f64() * 1e3),
        own_cpu_ms: own.as_secs_f64() * 1e3,
        cpu_share: server_cpu.map(|cpu| (cpu + own).as_secs_f64() / (took_s.max(0.001) * cpus() as f64)),
        threads_stopped: stopped,
    });
    if run.pace.is_slowed() && run.tally.looks() > 1 {
        notes.push(format!(
            "sampling {} a second would load the server too much: slowed to {:.1}",
            amount(asked.hz, "time", "times"),
            run.tally.looks() as f64 / took_s.max(0.001)
        ));
    }
    notes.extend(run.notes);
    workload.counted = run.tally.finish();
    if asked.replica && workload.replica.as_ref().is_ok_and(Vec::is_empty) && workload.counted.seen == 0 {
        bail!("{} is not a replica: it has no replication channel", workload.subject);
    }
    workload.notes = notes;
    Ok(workload)
}

fn start_profiler(pid: u32, asked: &Asked) -> Result<Profiler, String> {
    let options = ProfilerOptions {
        hz: asked.hz.min(SNAPSHOTS_HZ),
        most_cpu_percent: SNAPSHOTS_CPU_PERCENT,
        cpu_hz: CPU_SAMPLES_HZ,
        frames: spindoctor_rules::FRAME_STATES,
        ..ProfilerOptions::default()
    };
    let mut profiler = Profiler::start(pid, options).map_err(|why| why.to_string())?;
    // The first one reads symbols: it makes no look late.
    profiler.snapshot().map_err(|why| why.to_string())?;
    Ok(profiler)
}

/// What is known of the host beside the window.
fn ground(process: Option<&host::Target>, found: &Result<u32, String>, server: &Server) -> Ground {
    let why_not = || found.clone().err().unwrap_or_default();
    Ground {
        links: process.and_then(|process| host::network_links::read(process).ok()).unwrap_or_default(),
        device: match process {
            Some(process) => host::block_device::of_data(process).map_err(|why| why.because),
            None => Err(why_not()),
        },
        rows_sent: server.rows_sent,
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of this process so far.
fn own_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// CPU time of this thread so far.
fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The server, and the session that it is asked over.
struct Server {
    runtime: Runtime,
    target: Target,
    process: Option<host::Target>,
    whose: Whose,
    session: Option<Statements>,
    /// A broken session is not made again before this instant.
    retry: Instant,
    start: Instant,
    named: String,
    notes: Vec<String>,
    rows_sent_before: Option<f64>,
    rows_sent: Option<f64>,
    /// True where the session is another than it was, and counters may have begun from zero.
    has_restarted: bool,
    /// What sessions before this one cost.
    queries: u64,
    answered_ms: f64,
    cpu: Option<Duration>,
}

impl Server {
    fn connect(
        runtime: Runtime,
        target: Target,
        process: Option<host::Target>,
        asked: &Asked,
    ) -> anyhow::Result<Self> {
        let whose = if asked.replica { Whose::Appliers } else { Whose::Clients };
        let start = Instant::now();
        let mut session =
            runtime.block_on(Statements::connect(&target, process.clone(), whose))?.counting_from(start);
        let rows_sent_before = runtime.block_on(session.rows_sent());
        Ok(Self {
            named: session.session().server(),
            notes: session.session().notes().to_vec(),
            runtime,
            target,
            process,
            whose,
            session: Some(session),
            retry: start,
            start,
            rows_sent_before,
            rows_sent: None,
            has_restarted: false,
            queries: 0,
            answered_ms: 0.0,
            cpu: None,
        })
    }

    /// Looks; None where the server does not answer just now. With what the look took of the server's CPU.
    fn look(&mut self) -> anyhow::Result<Option<(Look, Option<Duration>)>> {
        if self.session.is_none() && Instant::now() >= self.retry {
            self.reconnect();
        }
        let Some(session) = self.session.as_mut() else { return Ok(None) };
        let before = session.server_cpu();
        match self.runtime.block_on(session.look()) {
            Ok(look) => {
                let spent =
                    session.server_cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
                Ok(Some((look, spent)))
            }
            Err(why) if session.session().is_broken() => {
                self.lost(&why.to_string());
                Ok(None)
            }
            Err(why) => Err(why).context("the server does not show the running statements"),
        }
    }

    /// Reads the counters into a sample.
    fn counters(&mut self, sources: &[&Source], sample: &mut Sample) {
        let Some(session) = self.session.as_mut() else { return };
        if let Err(why) = self.runtime.block_on(session.read(sources, &mut sample.server)) {
            self.lost(&why.to_string());
        }
    }

    fn lost(&mut self, why: &str) {
        note(&format!("the server stopped answering: {why}"));
        self.notes.push(format!("the server stopped answering for a while: {why}"));
        self.count_session();
        self.retry = Instant::now() + RECONNECT_AFTER;
    }

    fn reconnect(&mut self) {
        let connected =
            self.runtime.block_on(Statements::connect(&self.target, self.process.clone(), self.whose));
        match connected {
            Ok(session) => {
                note("the server answers again");
                // Rows that were sent before a restart are not known any more.
                self.rows_sent_before = None;
                self.has_restarted = true;
                self.session = Some(session.counting_from(self.start));
            }
            Err(_) => self.retry = Instant::now() + RECONNECT_AFTER,
        }
    }

    /// Adds up what the session cost, and gives it up.
    fn count_session(&mut self) {
        let Some(session) = self.session.take() else { return };
        let cost = session.session().cost();
        self.queries += cost.queries;
        self.answered_ms += cost.busy_ms;
        if let Some(cpu) = session.server_cpu() {
            self.cpu = Some(self.cpu.unwrap_or_default() + cpu);
        }
        // A server that hangs gets no goodbye.
        self.runtime.block_on(async {
            drop(tokio::time::timeout(GOODBYE_WITHIN, session.close()).await);
        });
    }

    /// What is to be asked when all is over.
    fn last(&mut self) {
        if let (Some(session), Some(before)) = (self.session.as_mut(), self.rows_sent_before) {
            let after = self.runtime.block_on(session.rows_sent());
            self.rows_sent = after.map(|after| after - before).filter(|rows| *rows >= 0.0);
        }
    }

    /// Statements, milliseconds until they were answered, and CPU time of the server.
    fn finish(mut self) -> (u64, f64, Option<Duration>) {
        self.count_session();
        (self.queries, self.answered_ms, self.cpu)
    }
}

/// Looks in the making.
struct Run {
    began: Instant,
    start: Timestamp,
    pace: Pace,
    tally: Tally,
    window: Window,
    profiler: Option<Profiler>,
    profile: Result<Profile, String>,
    snapshot_due: Instant,
    counters_due: Instant,
    summary_due: Instant,
    notes: Vec<String>,
    cut: bool,
    is_over: bool,
}

impl Run {
    fn new(asked: &Asked, profiler: Result<Profiler, String>) -> Self {
        let now = Instant::now();
        let (profiler, profile) = match profiler {
            Ok(profiler) => (Some(profiler), Err("there was no snapshot".to_owned())),
            Err(why) => (None, Err(why)),
        };
        Self {
            began: now,
            start: Timestamp::now(),
            pace: Pace::new(asked.hz, cpus()),
            tally: Tally::new(what(asked)),
            window: Window { start: Timestamp::now(), ..Window::default() },
            profiler,
            profile,
            snapshot_due: now,
            counters_due: now,
            summary_due: now,
            notes: Vec::new(),
            cut: false,
            is_over: false,
        }
    }

    fn go(
        &mut self,
        server: &mut Server,
        process: Option<&host::Target>,
        asked: &Asked,
    ) -> anyhow::Result<()> {
        let interrupted = on_ctrl_c()?;
        let mut bar = Progress::new(asked.duration).counting("look", "looks");
        let until = self.began + asked.duration;
        self.window.server.version = server.session.as_ref().map(Statements::version);
        let mut threads = Vec::new();
        while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
            let begun = Instant::now();
            if let Some(seen) = self.one(server)? {
                threads = seen;
            }
            if begun >= self.counters_due {
                self.counters_due = begun + COUNTERS_EVERY;
                self.counters(server, process, asked, &threads);
            } else if asked.is_compared() && !asked.replica && begun >= self.summary_due {
                self.summary(server, asked);
            }
            bar.show(self.began.elapsed(), usize::try_from(self.tally.looks()).unwrap_or(usize::MAX));
            let chance = 1.0 + JITTER * (2.0 * fastrand::f64() - 1.0);
            self.rest((begun + self.pace.interval().mul_f64(chance)).min(until), &interrupted);
        }
        drop(bar);
        // The process's CPU time is counted to the end, and so are the stacks.
        self.snapshot_due = Instant::now();
        self.snapshot();
        self.is_over = true;
        self.counters(server, process, asked, &threads);
        server.last();
        if let Some(profiler) = self.profiler.take() {
            self.profile = Ok(profiler.finish());
        }
        self.notes.append(&mut server.notes);
        if self.cut {
            self.notes.push("more ran than a look lists: some of it is not counted".to_owned());
        }
        if self.tally.looks() == 0 {
            bail!("the server did not answer once");
        }
        Ok(())
    }

    /// One look, after a snapshot where one is due; the threads that were seen.
    fn one(&mut self, server: &mut Server) -> anyhow::Result<Option<Vec<ServerThread>>> {
        let is_explained = self.snapshot();
        let own_before = thread_cpu();
        let Some((look, server_cpu)) = server.look()? else { return Ok(None) };
        let at_s = self.began.elapsed().as_secs_f64();
        let own = thread_cpu().saturating_sub(own_before);
        if is_explained {
            self.explain(&look);
        }
        let own_before = thread_cpu();
        self.cut |= look.cut;
        let took = Duration::try_from_secs_f64(look.took_ms / 1e3).unwrap_or_default();
        let seen = Sighting { at_s, threads: look.threads, tables: look.tables, waits: look.waits };
        self.tally.look(&seen);
        let own = own + thread_cpu().saturating_sub(own_before);
        self.pace.took(LookCost { cpu: server_cpu.map(|cpu| cpu + own), took });
        Ok(Some(seen.threads))
    }

    /// A snapshot, where one is due; whether it was taken.
    fn snapshot(&mut self) -> bool {
        let Some(profiler) = self.profiler.as_mut() else { return false };
        let now = Instant::now();
        if now < self.snapshot_due {
            return false;
        }
        self.snapshot_due = now + profiler.interval();
        let is_taken = matches!(profiler.snapshot(), Ok(Taken::Snapshot(_)));
        if !is_taken && let Some(profiler) = self.profiler.take() {
            // What was seen until now is a profile.
            self.profile = Ok(profiler.finish());
        }
        is_taken
    }

    /// Says of the last snapshot what its threads did for their clients.
    fn explain(&mut self, look: &Look) {
        let Some(profiler) = self.profiler.as_mut() else { return };
        let by_thread: HashMap<u32, Activity> = look
            .threads
            .iter()
            .filter_map(|thread| Some((u32::try_from(thread.thread_os_id?).ok()?, activity(thread))))
            .collect();
        profiler.set_activities(&|tid| by_thread.get(&tid).cloned());
    }

    fn counters(
        &mut self,
        server: &mut Server,
        process: Option<&host::Target>,
        asked: &Asked,
        threads: &[ServerThread],
    ) {
        let is_first = self.window.samples.is_empty();
        let mut sources: Vec<&Source> = Vec::new();
        if is_first {
            sources.push(&global_variables::SOURCE);
        }
        sources.push(&global_status::SOURCE);
        // At both ends: the server sorts its whole summary for it.
        if (is_first || self.is_over) && !asked.replica {
            self.summary_due = Instant::now() + asked.duration / SUMMARIES;
            sources.push(&perf_schema_statement_digests::SOURCE);
        }
        if asked.replica {
            sources.push(&replica_status::SOURCE);
        }
        let at_s = server.start.elapsed().as_secs_f64();
        let mut sample = Sample { at_s, ..Sample::default() };
        server.counters(&sources, &mut sample);
        self.compare_with(server, &sample);
        let answer = Answer { at_s, took_ms: 0.0 };
        sample.server.threads = answer.reading(threads.to_vec());
        if let Some(process) = process {
            for source in HOST_SOURCES {
                source.read_into(&mut sample.host, process, server.start);
            }
            if is_first {
                host::effective_cpus::SOURCE.read_into(&mut sample.host, process, server.start);
            }
        }
        self.window.samples.push(sample);
    }

    /// Reads the server's summary of statements between the ends: the parts that another time is compared with.
    fn summary(&mut self, server: &mut Server, asked: &Asked) {
        self.summary_due = Instant::now() + asked.duration / SUMMARIES;
        let at_s = server.start.elapsed().as_secs_f64();
        let mut sample = Sample { at_s, ..Sample::default() };
        server.counters(&[&perf_schema_statement_digests::SOURCE], &mut sample);
        self.compare_with(server, &sample);
    }

    /// Counts a sample's summary of statements, where it has one.
    fn compare_with(&mut self, server: &mut Server, sample: &Sample) {
        if std::mem::take(&mut server.has_restarted) {
            self.tally.restarted();
        }
        if let Some(digests) = sample.server.digests.value() {
            let name = perf_schema_statement_digests::SOURCE.name;
            let is_cut = sample.server.cut.iter().any(|cut| cut == name);
            self.tally.reading(sample.at_s, digests, is_cut);
        }
    }

    /// Rests until then; CPU samples are read meanwhile, whose buffers are small.
    fn rest(&mut self, until: Instant, interrupted: &AtomicBool) {
        while !interrupted.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= until {
                return;
            }
            let next = until.min(now + NAP);
            match self.profiler.as_mut() {
                Some(profiler) => profiler.rest(next),
                None => std::thread::sleep(next - now),
            }
        }
    }
}

/// What a thread does, as a profile keeps it: without literals.
fn activity(thread: &ServerThread) -> Activity {
    let line = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let digest = thread.statement.as_deref().map(|text| Statement::parse(text).digest);
    Activity {
        connection_id: thread.connection_id,
        user: line(&thread.user),
        host: None,
        database: line(&thread.schema),
        command: line(&thread.command),
        state: None,
        statement: None,
        digest_text: digest.filter(|text| !text.is_empty()),
    }
}

/// True from the first Ctrl-C on.
fn on_ctrl_c() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let text = Arc::clone(&interrupted);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?;
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                text.store(true, Ordering::Relaxed);
            }
        })
        .context("could not start a thread")?;
    Ok(interrupted)
}

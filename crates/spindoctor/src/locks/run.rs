//! `spindoctor locks`: who blocks whom, now, once or again and again, in the format that was asked for.
//!
//! One snapshot: the server's lists of locks, its threads' stacks with the C library's locks in their memory, and the
//! server's threads once more: threads that moved on meanwhile are left out.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use spindoctor_collect::host;
use spindoctor_collect::locks::Locks as Session;
use spindoctor_collect::mysql::{SessionCost, Target};
use spindoctor_collect::priority::Ahead;
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Profile, Sample, ServerSample, ServerVersion, Window};
use spindoctor_profile::WaitedLatch;
use spindoctor_rules::wait_graph::{self, Readings};
use spindoctor_stacks::{Profiler, ProfilerOptions, Taken};

use super::args::Locks as Asked;
use super::html;
use super::json::one_line;
use super::view::{FORMATS, Format};
use super::waits::Locks;
use crate::common::exit::ExitStatus;
use crate::common::local_time::beside;
use crate::common::runtime::wait_for;
use crate::common::session::{note, process, target};
use crate::common::terminal::rows_of_stdout;
use crate::common::{output, terminal, window_file};
use spindoctor_page::text::Look;

/// A look waits so many times as long as the server took to answer the one before: asking takes no more than a
/// twentieth of the time of one of its threads, however many locks it has to list.
const REST: f64 = 20.0;
/// A server that refused or broke the session is asked again after this long.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);
/// How long a goodbye may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(200);
/// Only the last snapshot counts; this is longer than one takes, however many threads there are.
const KEPT: Duration = Duration::from_secs(5);

/// Looks and shows what it saw.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.output {
        output::expect_format_writable(file, FORMATS, format_name(asked).is_some())?;
    }
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    let format = output::chosen_format(FORMATS, format_name(asked), asked.output.as_deref())?;
    if let Some(file) = &asked.window {
        let window = window_file::load(file)?;
        let mut locks = of_window(&window)
            .ok_or_else(|| anyhow!("{} has no sample with the server's locks", file.display()))?;
        if asked.literals {
            window.samples.iter().for_each(|sample| put_literals_back(&mut locks, &sample.server));
        }
        write_page(asked, &locks)?;
        write(asked, format, &(format.render)(&locks, look(asked))?)?;
        return Ok(ExitStatus::Done);
    }
    if asked.watch.is_some() && asked.output.is_none() && !["text", "json"].contains(&format.name) {
        bail!("--watch shows text or JSON; {} needs a file: --output waits.{}", format.name, format.name);
    }
    let _ahead = Ahead::of_others();
    let mut source = Source::open(asked)?;
    wait_for(async {
        tokio::select! {
            shown = show(asked, format, &mut source) => shown,
            interrupted = tokio::signal::ctrl_c() => interrupted.context("could not listen for Ctrl-C"),
        }
    })?;
    Ok(ExitStatus::Done)
}

async fn show(asked: &Asked, format: &Format, source: &mut Source) -> anyhow::Result<()> {
    source.connect().await?;
    loop {
        let began = Instant::now();
        let locks = source.look().await?;
        write_page(asked, &locks)?;
        match (asked.watch, &asked.output) {
            (None, _) | (Some(_), Some(_)) => write(asked, format, &(format.render)(&locks, look(asked))?)?,
            (Some(_), None) if format.name == "json" => output::print(&one_line(&locks)?)?,
            (Some(_), None) => output::print(&screen(&(format.render)(&locks, look(asked))?, &locks))?,
        }
        let Some(every) = asked.watch else { break };
        let rest = Duration::from_secs_f64(locks.server_ms * REST / 1e3);
        tokio::time::sleep(every.saturating_sub(began.elapsed()).max(rest)).await;
    }
    source.close().await;
    Ok(())
}

/// What a terminal shows of a look: from its upper left corner on, as many lines as it has. Where it is no terminal, the
/// looks follow each other.
fn screen(text: &str, locks: &Locks) -> String {
    let at = format!("{}{}", locks.at.strftime("%H:%M:%S UTC"), beside(locks.at));
    let Some(rows) = rows_of_stdout() else { return format!("{at}\n{text}\n") };
    // The cursor stands in the last row.
    let rows = rows.saturating_sub(3).max(5);
    let count = text.lines().count();
    let mut shown: String = text.lines().take(rows).flat_map(|line| [line, "\n"]).collect();
    if count > rows {
        shown = format!(
            "{shown}… {} more lines; a taller terminal or `spindoctor locks` shows them\n",
            count - rows
        );
    }
    format!("\x1b[H\x1b[2J{shown}{at}, Ctrl-C ends it\n")
}

fn format_name(asked: &Asked) -> Option<&str> {
    if asked.json { Some("json") } else { asked.format.as_deref() }
}

/// A file is as wide as a mail; standard output has its own width.
fn look(asked: &Asked) -> Look {
    match &asked.output {
        Some(_) => Look::of_file(),
        None => terminal::wide_look_of_stdout(),
    }
}

fn write_page(asked: &Asked, locks: &Locks) -> anyhow::Result<()> {
    match &asked.html {
        Some(file) => output::write_file(file, html::render(locks), "the page"),
        None => Ok(()),
    }
}

fn write(asked: &Asked, format: &Format, text: &str) -> anyhow::Result<()> {
    match &asked.output {
        Some(file) => output::write_file(file, text, "who waits for whom"),
        None => output::print_format(format.name, text.as_bytes()),
    }
}

/// Whom to ask.
struct Source {
    /// The server; none where the connection leads to another than the process that was named.
    target: Option<Target>,
    process: Option<host::Target>,
    pid: Option<u32>,
    session: Option<Session>,
    /// When the session was tried for the last time.
    tried: Option<Instant>,
    /// True where the process was named with `--pid`: it is worth looking at whatever refuses the session. Else it is
    /// where the refusal says that the server hangs or is full.
    is_named: bool,
    version: Option<ServerVersion>,
    server: String,
    profiler: Option<Profiler>,
    /// What could not be done, and stays so.
    notes: Vec<String>,
    /// True where statements are shown as they were sent.
    literals: bool,
}

impl Source {
    /// Finds the process and gets ready to look at its threads.
    fn open(asked: &Asked) -> anyhow::Result<Self> {
        let target = target(&asked.connection)?;
        let mut notes = Vec::new();
        let found = match asked.connection.remote {
            true => Err(anyhow!("--remote was given")),
            false => process(&asked.connection, &target),
        };
        let (pid, is_asked) = match found {
            // The server's answers would be about other threads than the stacks.
            Ok((pid, Some(_))) => {
                notes.push(format!("no server was asked: {} leads to another process", target.address()));
                (Some(pid), false)
            }
            Ok((pid, None)) => (Some(pid), true),
            Err(why) => {
                notes.push(format!("{NO_STACKS}: {why:#}"));
                (None, true)
            }
        };
        let mut profiler = None;
        if asked.no_stacks {
            if !is_asked {
                bail!(
                    "--pid is another process than the server's; without stacks there is nothing to look at"
                );
            }
            notes.clear();
            notes.push(format!("{NO_STACKS}: --no-stacks was given"));
        } else if let Some(pid) = pid {
            match warm(pid) {
                Ok(ready) => profiler = Some(ready),
                Err(error) => notes.push(format!("{NO_STACKS}: {error}")),
            }
        }
        Ok(Self {
            target: is_asked.then_some(target),
            process: pid.map(host::Target::live),
            pid,
            session: None,
            tried: None,
            is_named: asked.connection.pid.is_some(),
            version: None,
            server: String::new(),
            profiler,
            notes,
            literals: asked.literals,
        })
    }

    async fn connect(&mut self) -> anyhow::Result<()> {
        let Some(target) = &self.target else { return Ok(()) };
        let first = self.tried.is_none();
        let connected = Session::connect(target, self.process.clone()).await;
        self.tried = Some(Instant::now());
        match connected {
            Ok(session) => {
                if first {
                    session.notes().iter().for_each(|what| note(what));
                }
                self.version = Some(session.version());
                self.server = session.server();
                self.session = Some(session);
                Ok(())
            }
            Err(why)
                if self.profiler.is_some() && (self.is_named || !first || why.as_no_session().is_some()) =>
            {
                if first {
                    note(&format!("no session, so only the process is examined: {why}"));
                }
                Ok(())
            }
            Err(why) => Err(why.into()),
        }
    }

    /// One look.
    async fn look(&mut self) -> anyhow::Result<Locks> {
        if self.session.is_none() && self.tried.is_none_or(|tried| tried.elapsed() >= RECONNECT_AFTER) {
            self.connect().await?;
        }
        let (at, began) = (Timestamp::now(), Instant::now());
        let cost_before = self.cost();
        let mut notes = self.notes.clone();
        let mut server = self.read(&mut notes).await?;
        let profile = self.snapshot(&mut notes)?;
        if let (Some(session), Some(server)) = (&mut self.session, &mut server)
            && wait_graph::is_text_of_use(server, profile.as_ref())
            && let Err(why) = session.read_text(server).await
        {
            self.lost(&why.to_string(), &mut notes)?;
        }
        let again = match &mut self.session {
            Some(session) => Some(session.read_again().await),
            None => None,
        };
        let again = match again {
            Some(Ok(again)) => Some(again),
            Some(Err(why)) => {
                self.lost(&why.to_string(), &mut notes)?;
                None
            }
            None => None,
        };
        let mut locks = graph(self.version, server.as_ref(), again.as_ref(), profile.as_ref());
        if let (true, Some(server)) = (self.literals, &server) {
            put_literals_back(&mut locks, server);
        }
        let cost = self.cost();
        locks.graph.notes.extend(notes);
        locks.server.clone_from(&self.server);
        if let (true, Some(profile)) = (locks.server.is_empty(), &profile) {
            locks.server.clone_from(&profile.process.name);
        }
        locks.pid = self.pid;
        locks.at = at;
        locks.took_ms = began.elapsed().as_secs_f64() * 1e3;
        locks.server_queries = cost.queries.saturating_sub(cost_before.queries);
        locks.server_ms = (cost.busy_ms - cost_before.busy_ms).max(0.0);
        Ok(locks)
    }

    async fn read(&mut self, notes: &mut Vec<String>) -> anyhow::Result<Option<ServerSample>> {
        let Some(session) = &mut self.session else {
            if self.target.is_some() {
                notes.push("the server was not queried: there is no session".to_owned());
            }
            return Ok(None);
        };
        match session.read().await {
            Ok(sample) => Ok(Some(sample)),
            Err(why) => {
                self.lost(&why.to_string(), notes)?;
                Ok(None)
            }
        }
    }

    /// The session broke: its process may show more. Where there is none, nothing is left to examine.
    fn lost(&mut self, why: &str, notes: &mut Vec<String>) -> anyhow::Result<()> {
        self.session = None;
        self.tried = Some(Instant::now());
        if self.profiler.is_none() {
            bail!("the server does not answer: {why}");
        }
        notes.push(format!("the server does not answer: {why}"));
        Ok(())
    }

    fn snapshot(&mut self, notes: &mut Vec<String>) -> anyhow::Result<Option<Profile>> {
        let Some(profiler) = &mut self.profiler else { return Ok(None) };
        match profiler.snapshot()? {
            Taken::Snapshot(_) => {
                profiler.read_futex_waits();
                let profile = profiler.profile();
                notes.extend(notes_of_one_look(&profile).cloned());
                if is_stopped(&profile) {
                    notes.push(
                        "all its threads are stopped: by a signal, a debugger or the freezer".to_owned(),
                    );
                }
                Ok(Some(profile))
            }
            Taken::ProcessGone => bail!("the server's process ended"),
        }
    }

    fn cost(&self) -> SessionCost {
        self.session.as_ref().map(Session::cost).unwrap_or_default()
    }

    async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            // A server that hangs gets no goodbye.
            drop(tokio::time::timeout(GOODBYE_WITHIN, session.close()).await);
        }
    }
}

/// Statements as they were sent, for who asked for that: the graph has none with literals.
fn put_literals_back(locks: &mut Locks, server: &ServerSample) {
    for thread in &mut locks.graph.threads {
        let listed = server.threads.value().into_iter().flatten();
        let same = |listed: &&ServerThread| {
            thread.connection_id.is_some() && listed.connection_id == thread.connection_id
        };
        let Some(text) = listed
            .filter(same)
            .find_map(|listed| listed.statement.as_ref().or(listed.last_statement.as_ref()))
        else {
            continue;
        };
        if thread.statement.as_deref() == Some(spindoctor_sql::digest(text).as_str()) {
            thread.statement = Some(text.clone());
        }
    }
}

/// What is not seen without stacks.
const NO_STACKS: &str = "mutexes, commit queues and what the holders do were not checked";

/// A profiler that has taken its first snapshot: that one reads symbols, and the next is quick.
fn warm(pid: u32) -> spindoctor_stacks::Result<Profiler> {
    let options = ProfilerOptions {
        cpu: false,
        keep: Some(KEPT),
        frames: spindoctor_rules::FRAME_STATES,
        ..ProfilerOptions::default()
    };
    let mut profiler = Profiler::start(pid, options)?;
    profiler.snapshot()?;
    Ok(profiler)
}

/// A profile's notes without that of a rate that was too low: one look has none.
fn notes_of_one_look(profile: &Profile) -> impl Iterator<Item = &String> {
    profile.notes.iter().filter(|note| !note.contains("snapshots a second"))
}

/// True where no thread of the last snapshot could go on, whatever it waits for.
fn is_stopped(profile: &Profile) -> bool {
    let last = profile.observations.iter().rev();
    let last = last.take_while(|observation| observation.snapshot as usize + 1 == profile.snapshots.len());
    let mut states = last.map(|observation| observation.state).peekable();
    states.peek().is_some() && states.all(|state| state == ThreadState::Stopped)
}

/// The graph of what was read, with its roots and rings.
fn graph(
    version: Option<ServerVersion>,
    server: Option<&ServerSample>,
    again: Option<&ServerSample>,
    profile: Option<&Profile>,
) -> Locks {
    let nothing = ServerSample::default();
    let server = server.unwrap_or(&nothing);
    let graph = wait_graph::build(&Readings { version, server, again, profile });
    Locks {
        roots: wait_graph::roots(&graph),
        cycles: wait_graph::cycles(&graph),
        latches: profile.map(slept_for).unwrap_or_default(),
        threads_seen: match (profile, server.threads.value()) {
            (Some(profile), _) => profile.snapshots.last().map(|snapshot| snapshot.threads.into()),
            (None, Some(threads)) => Some(threads.len() as u64),
            (None, None) => None,
        },
        threads_stopped: profile
            .and_then(|profile| profile.snapshots.last())
            .map_or(0, |snapshot| snapshot.stopped.into()),
        graph,
        ..Locks::default()
    }
}

/// Latches that threads sleep for in the last snapshot, as many as the graph is of.
fn slept_for(profile: &Profile) -> Vec<WaitedLatch> {
    let Some(last) = profile.snapshots.len().checked_sub(1) else { return Vec::new() };
    let seen = profile.observations.iter().filter(|seen| seen.snapshot as usize == last);
    let look = Profile {
        source: profile.source,
        snapshots: profile.snapshots[last..].to_vec(),
        observations: seen.cloned().collect(),
        stacks: profile.stacks.clone(),
        frames: profile.frames.clone(),
        ..Profile::default()
    };
    spindoctor_profile::latches(&look)
}

/// The look at the sample of a window in which the most wait; the last one of equals, as it is of the same time as the
/// last snapshot. None where no sample has locks.
pub fn of_window(window: &Window) -> Option<Locks> {
    let profile = window.profile.value();
    let has_locks = |server: &ServerSample| {
        server.row_lock_waits.value().is_some() || server.metadata_locks.value().is_some()
    };
    let samples = window.samples.iter().enumerate().filter(|(_, sample)| has_locks(&sample.server));
    let looks = samples.map(|(at, sample)| {
        // Stacks are of the last snapshot: they show nothing of earlier samples.
        let profile = profile.filter(|_| at + 1 == window.samples.len());
        (sample, graph(window.server.version, Some(&sample.server), None, profile))
    });
    let (sample, mut locks) = looks.max_by_key(|(_, locks)| locks.waiting())?;
    name(&mut locks, window, sample.at_s);
    Some(locks)
}

/// The look at the newest sample of a window that has locks. None where no sample has.
pub fn of_newest(window: &Window) -> Option<Locks> {
    let has_locks = |sample: &&Sample| {
        sample.server.row_lock_waits.value().is_some() || sample.server.metadata_locks.value().is_some()
    };
    let sample = window.samples.iter().rev().find(has_locks)?;
    let mut locks = graph(window.server.version, Some(&sample.server), None, None);
    name(&mut locks, window, sample.at_s);
    Some(locks)
}

/// Says whose look it is, and when it was.
fn name(locks: &mut Locks, window: &Window, at_s: f64) {
    locks.server = window.server.version.map_or_else(
        || window.server.version_text.clone(),
        |version| format!("{version} on {}", window.server.hostname),
    );
    locks.pid = window.server.pid;
    locks.at = window.start + Duration::from_secs_f64(at_s.max(0.0));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn one_look_says_nothing_of_how_many_there_were_in_a_second() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: reading the stacks of another process needs root");
            return;
        }
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        // Less than any snapshot takes.
        let options = ProfilerOptions { cpu: false, most_cpu_percent: 1e-4, ..ProfilerOptions::default() };
        let mut profiler = Profiler::start(child.id(), options).unwrap();
        for _ in 0..5 {
            profiler.snapshot().unwrap();
        }
        let profile = profiler.profile();
        child.kill().unwrap();
        child.wait().unwrap();
        let is_of_rate = |note: &String| note.starts_with("fewer than 10 ");
        assert!(profile.notes.iter().any(is_of_rate), "{:?}", profile.notes);
        assert!(!notes_of_one_look(&profile).any(is_of_rate), "{:?}", profile.notes);
    }
}

//! A window of a live server: connect as the flags say, watch for a while, show the progress.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use spindoctor_collect::host::{HostChoice, find_server};
use spindoctor_collect::mysql::{ConnectFlags, Environment, Secret, Target, resolve};
use spindoctor_collect::watch::{self, Profiling, WatchOptions, watch};
use spindoctor_model::{Unavailable, Window};
use tokio::sync::watch::Sender;

use super::flags::{Connection, Login};
use super::output;
use super::progress::Progress;
use super::runtime::wait_for;
use spindoctor_page::safe::safe;

/// What to do where there is no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutSession {
    /// Fail: the command is about the server.
    Fail,
    /// Watch the host alone, where the server's process was named with `--pid`.
    WatchHost,
}

/// How a server is watched.
pub struct Watching<'a> {
    /// For how long, or until Ctrl-C.
    pub duration: Duration,
    /// What to do where there is no session.
    pub without_session: WithoutSession,
    /// With stacks and CPU samples where this says how.
    pub profiling: Option<Profiling>,
    /// Gets what was read after so long, where it is wanted before the end.
    pub early: Option<Early<'a>>,
}

/// After how long, and who gets the window.
pub type Early<'a> = (Duration, &'a mut dyn FnMut(&Window));

/// Watches a server for so long, or until Ctrl-C; with stacks and CPU samples where `profiling` says how.
pub fn window(
    connection: &Connection,
    duration: Duration,
    without_session: WithoutSession,
    profiling: Option<Profiling>,
) -> anyhow::Result<Window> {
    let watching = Watching { duration, without_session, profiling, early: None };
    window_of(&target(connection)?, connection, watching)
}

/// The same of a server that is resolved already.
pub fn window_of(target: &Target, connection: &Connection, watching: Watching<'_>) -> anyhow::Result<Window> {
    let Watching { duration, without_session, profiling, early } = watching;
    let (early_after, early) = early.unzip();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let options = WatchOptions {
        host: host(connection),
        host_alone: without_session == WithoutSession::WatchHost && connection.pid.is_some(),
        profiling,
        early: early_after,
        stop: Some(stopped),
        ..WatchOptions::lasting(duration)
    };
    let mut shown = SampleProgress { bar: Progress::new(duration), started: None, taken: 0, early };
    let window = wait_for(async {
        let mut tell = |event| shown.event(event);
        let watching = watch(target, &options, &mut tell);
        tokio::select! {
            window = watching => Ok(window?),
            interrupted = interrupted_twice(&stop) => Err(interrupted),
        }
    })?;
    if *stop.borrow() && shown.taken < 2 {
        bail!("interrupted before there were two samples to compare");
    }
    Ok(window)
}

/// Which process is the server's.
pub fn host(connection: &Connection) -> HostChoice {
    match connection.pid {
        Some(pid) => HostChoice::Pid(pid),
        None if connection.remote => HostChoice::None {
            because: Unavailable::because("--remote was given")
                .unlock("run spindoctor on the server's host, without --remote"),
        },
        None => HostChoice::Find,
    }
}

/// The first Ctrl-C ends the window with a last sample; the second ends the program.
async fn interrupted_twice(stop: &Sender<bool>) -> anyhow::Error {
    for _ in 0..2 {
        if let Err(error) = tokio::signal::ctrl_c().await {
            return anyhow::Error::new(error).context("could not listen for Ctrl-C");
        }
        stop.send_replace(true);
    }
    anyhow!("interrupted")
}

/// Whom to connect to, with the password that the user typed where one is to be asked for.
pub fn target(connection: &Connection) -> anyhow::Result<Target> {
    let target = resolve(&connect_flags(connection), &Environment::from_process())?;
    for passed_over in &target.notes {
        note(passed_over);
    }
    with_password(target)
}

/// As [`target`], read again while a command runs; `before` where the password was typed, as nobody can be asked for it
/// again.
pub fn target_again(connection: &Connection, before: &Target) -> anyhow::Result<Target> {
    let target = resolve(&connect_flags(connection), &Environment::from_process())?;
    Ok(if target.needs_password() { before.clone() } else { target })
}

/// With the password that the user typed, where one is to be asked for.
pub fn with_password(target: Target) -> anyhow::Result<Target> {
    if !target.needs_password() {
        return Ok(target);
    }
    let password = rpassword::prompt_password("Password: ").context(
        "could not ask for the password: standard input is not a terminal; use an option file, a login path or MYSQL_PWD",
    )?;
    Ok(target.with_password(Secret::from(password)))
}

/// The process, and a note where the connection leads to another: its answers would be about other threads.
pub fn process(connection: &Connection, target: &Target) -> anyhow::Result<(u32, Option<String>)> {
    let found = find_server::find(target);
    match (connection.pid, found) {
        (Some(pid), Ok(other)) if pid != other => Ok((
            pid,
            Some(format!("no connections: {} leads to process {other}, not to {pid}", target.address())),
        )),
        (Some(pid), _) => Ok((pid, None)),
        (None, Ok(pid)) => Ok((pid, None)),
        (None, Err(why)) => {
            let unlock = why.unlock.map_or(String::new(), |unlock| format!("; {unlock}"));
            Err(anyhow::anyhow!("{}{unlock}", why.because)).context("the server's process was not found")
        }
    }
}

/// What the flags of a connection say.
pub fn connect_flags(connection: &Connection) -> ConnectFlags {
    let Connection { target, host, port, socket, login, connect_timeout, query_timeout, pid: _, remote: _ } =
        connection.clone();
    ConnectFlags { host, port, socket, dsn: target, connect_timeout, query_timeout, ..login_flags(&login) }
}

/// How to log in, wherever the server is.
pub fn login_flags(login: &Login) -> ConnectFlags {
    let Login {
        user,
        password,
        defaults_file,
        defaults_extra_file,
        defaults_group_suffix,
        no_defaults,
        login_path,
        ssl_mode,
        ssl_ca,
        ssl_cert,
        ssl_key,
        server_public_key_path,
        get_server_public_key,
        trust_unverified_server,
    } = login.clone();
    ConnectFlags {
        user,
        password,
        defaults_file,
        defaults_extra_file,
        defaults_group_suffix,
        no_defaults,
        login_path,
        ssl_mode,
        ssl_ca,
        ssl_cert,
        ssl_key,
        server_public_key_path,
        get_server_public_key,
        trust_unverified_server,
        ..ConnectFlags::default()
    }
}

/// What the user sees meanwhile.
struct SampleProgress<'a> {
    bar: Progress,
    started: Option<Instant>,
    taken: usize,
    early: Option<&'a mut dyn FnMut(&Window)>,
}

impl SampleProgress<'_> {
    fn event(&mut self, event: watch::Progress) {
        match event {
            watch::Progress::Connected { .. } => {}
            watch::Progress::Sampled { .. } => {
                self.taken += 1;
                let started = *self.started.get_or_insert_with(Instant::now);
                self.bar.show(started.elapsed(), self.taken);
            }
            watch::Progress::Note(what) => self.note(&what),
            watch::Progress::Early(window) => {
                self.bar.clear();
                if let Some(early) = &mut self.early {
                    early(&window);
                }
            }
            watch::Progress::NoSession { because } => {
                self.note(&format!("no session, so only the host is read: {because}"));
            }
            watch::Progress::ServerLost { because } => {
                self.note(&format!("the server stopped answering: {because}"));
            }
            watch::Progress::ServerBack => self.note("the server answers again"),
        }
    }

    /// A note takes the bar's line; the next sample draws the bar again below.
    fn note(&self, what: &str) {
        self.bar.clear();
        note(what);
    }
}

/// Shows the user a message during a wait.
pub fn note(what: &str) {
    output::note(&format!("spindoctor: {}", safe(what)));
}

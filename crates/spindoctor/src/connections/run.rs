//! `spindoctor connections`: the cost of accepting connections, the accounts that make them, and the queues of waiting
//! clients.
//!
//! A window as `doctor` takes it, and beside it, on a thread of its own, the account of the server's accepting thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use spindoctor_collect::watch::Profiling;
use spindoctor_model::Unavailable;
use spindoctor_model::connections::{AcceptTime, ThreadTime};
use spindoctor_rules::accept_time::account;
use spindoctor_stacks::thread_time::{ThreadTimeOptions, look};

use super::args::Connections as Asked;
use super::formats::FORMATS;
use super::view::Connections;
use crate::common::exit::ExitStatus;
use crate::common::session::{Watching, WithoutSession, note, process, target, window_of};
use crate::common::{output, terminal, window_file};
use spindoctor_page::text::Look;

/// Looks for a while and shows what it saw.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    let name = if asked.json { Some("json") } else { asked.format.as_deref() };
    if let Some(file) = &asked.output {
        output::expect_format_writable(file, FORMATS, name.is_some())?;
    }
    let format = output::chosen_format(FORMATS, name, asked.output.as_deref())?;
    let connections = match &asked.window {
        Some(file) => {
            let why = Unavailable::because("a saved window has no account of the accepting thread");
            Connections::from_window(&window_file::load(file)?, Err(why.unlock("look at a live server")))
        }
        None => live(asked)?,
    };
    let look = if asked.output.is_some() { Look::of_file() } else { terminal::look_of_stdout() };
    let text = (format.render)(&connections, look)?;
    match &asked.output {
        Some(file) => output::write_file(file, text, "what accepting costs")?,
        None => output::print_format(format.name, text.as_bytes())?,
    }
    Ok(ExitStatus::Done)
}

fn live(asked: &Asked) -> anyhow::Result<Connections> {
    let target = target(&asked.connection)?;
    let looking = match asked.connection.remote {
        true => Err(Unavailable::because("--remote was given")
            .unlock("run spindoctor on the server's host, without --remote")),
        false => match process(&asked.connection, &target) {
            Ok((pid, elsewhere)) => {
                elsewhere.iter().for_each(|what| note(what));
                Ok(Looking::start(pid, asked))
            }
            Err(why) => Err(Unavailable::because(format!("{why:#}"))),
        },
    };
    let profiling = Profiling::with(spindoctor_rules::FRAME_STATES);
    let watching = Watching {
        duration: asked.duration,
        without_session: WithoutSession::Fail,
        profiling: Some(profiling),
        early: None,
    };
    let window = window_of(&target, &asked.connection, watching);
    // Whatever became of the window, the thread ends.
    let accept = looking.and_then(Looking::finish);
    Ok(Connections::from_window(&window?, accept))
}

/// The look at the accepting thread, at work.
struct Looking {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<spindoctor_stacks::Result<ThreadTime>>,
}

impl Looking {
    /// The first thread of the process accepts, on MySQL and MariaDB alike.
    fn start(pid: u32, asked: &Asked) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let (seen, duration) = (Arc::clone(&stopped), asked.duration);
        let thread = std::thread::spawn(move || {
            let is_stopped = || seen.load(Ordering::Relaxed);
            look(pid, pid, &ThreadTimeOptions { duration, stopped: &is_stopped })
        });
        Self { stopped, thread }
    }

    fn finish(self) -> Result<AcceptTime, Unavailable> {
        self.stopped.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(Ok(time)) => Ok(account(&time)),
            Ok(Err(spindoctor_stacks::Error::Unavailable { because, unlock, .. })) => {
                Err(Unavailable::because(because).unlock(unlock))
            }
            Ok(Err(other)) => Err(Unavailable::because(other.to_string())),
            Err(_) => Err(Unavailable::because("the look at the accepting thread failed; please report it")),
        }
    }
}

//! `spindoctor fleet top`: what all servers run, on a terminal again and again, or once as a table.
//!
//! The terminal is this thread's; a second thread keeps a connection to each server and notes what they say on a board
//! that both share.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context as _, bail};
use ratatui::crossterm::event::{self, KeyEventKind};
use spindoctor_fleet::running::{FromServer, Listener, Servers};
use tokio::sync::{mpsc, watch};

use super::args::FleetTop;
use super::query::{connections_that_fit, interrupted_twice, report, wait_for};
use super::running::table;
use super::servers::{Fleet, limits};
use super::writer::Finished;
use crate::common::exit::ExitStatus;
use crate::common::terminal::{in_cells_of_locale, size_of_stdout};
use crate::common::{output, terminal};
use crate::top::{
    Board, Drawn, FleetFacts, FleetState, Flow, GiveBack, LOOK_AROUND, Theme, draw_fleet, ended_by_signal,
    may_be_held_down,
};
use spindoctor_page::number;

/// Answers of one look that may wait to be noted.
const WAITING: usize = 64;

/// Shows what was asked for.
pub fn run(asked: &FleetTop) -> anyhow::Result<ExitStatus> {
    let fleet = Fleet::from_flags(&asked.which, &asked.login)?;
    let mut limits = limits(&asked.login);
    limits.connections = connections_that_fit(limits.connections.min(fleet.targets.len()));
    let servers = Servers::new(fleet.targets.clone(), limits);
    let state = FleetState::new(asked.group, &asked.filter);
    let is_watched = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if asked.once || !is_watched {
        return once(&fleet, &servers, &state);
    }
    if limits.connections < servers.len() {
        bail!(
            "a connection to each of {} is kept, and only {} are allowed: raise --connections or the limit of open \
             files, choose with --where, or take --once",
            number::counted(servers.len() as u64, "server", "servers"),
            number::plain(limits.connections as f64)
        );
    }
    let following = Following::start(servers, asked.interval)?;
    let shown = show(&fleet, &following.board, state);
    following.finish();
    shown?;
    Ok(ExitStatus::Done)
}

/// Prints what runs now, and who did not answer.
fn once(fleet: &Fleet, servers: &Servers, state: &FleetState) -> anyhow::Result<ExitStatus> {
    let begun = Instant::now();
    let (board, left) = wait_for(look(servers))?;
    let listing = state.listing(&board, &fleet.names, Instant::now());
    output::print(&table(&listing, size_of_stdout().0))?;
    let cut = match board.counts().cut {
        0 => Vec::new(),
        cut => vec![format!(
            "spindoctor: of {} only the longest statements are listed",
            number::counted(cut as u64, "server", "servers")
        )],
    };
    let finished = Finished { answered: board.counts().answer, failures: board.failures(), notes: cut };
    report(fleet, &finished, &left, begun)
}

/// One look at all servers.
async fn look(servers: &Servers) -> anyhow::Result<(Board, Vec<usize>)> {
    let (stop, stopped) = watch::channel(false);
    let (sender, mut received) = mpsc::channel::<FromServer>(WAITING);
    let looking = servers.once(stopped, sender);
    let noting = async {
        let mut board = Board::with_servers(servers.len());
        while let Some((server, what)) = received.recv().await {
            board.note(server, what, Instant::now());
        }
        board
    };
    tokio::select! {
        (left, board) = async { tokio::join!(looking, noting) } => Ok((board, left)),
        error = interrupted_twice(&stop) => Err(error),
    }
}

/// What all servers said last, for both threads.
type Shared = Arc<Mutex<Board>>;

/// Notes what servers say.
struct Noting(Shared);

impl Listener for Noting {
    fn receive(&self, (server, what): FromServer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).note(server, what, Instant::now());
    }
}

/// The thread that asks.
struct Following {
    board: Shared,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Following {
    fn start(servers: Servers, every: std::time::Duration) -> anyhow::Result<Self> {
        let board = Arc::new(Mutex::new(Board::with_servers(servers.len())));
        let (stop, stopped) = watch::channel(false);
        let noting = Arc::new(Noting(board.clone()));
        let thread = std::thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || {
                let following = async {
                    servers.follow(every, stopped, noting).await;
                    Ok(())
                };
                // Where there is no runtime the board stays empty, and the screen says that nobody answers.
                drop(wait_for(following));
            })
            .context("could not start a thread")?;
        Ok(Self { board, stop, thread })
    }

    /// Says goodbye to the servers.
    fn finish(self) {
        self.stop.send_replace(true);
        // It does not panic; if it did, there is nobody to say goodbye.
        let _ended = self.thread.join();
    }
}

/// Draws, and obeys keys, until the person has seen enough or a signal ends it.
fn show(fleet: &Fleet, shared: &Shared, mut state: FleetState) -> anyhow::Result<()> {
    let theme = Theme { colour: terminal::look_of_stdout().colour };
    let is_ended = ended_by_signal()?;
    let mut terminal = ratatui::try_init().context("could not take over the terminal")?;
    let _give_back = GiveBack;
    let mut board = Board::default();
    let mut now = Instant::now();
    while !is_ended.load(std::sync::atomic::Ordering::Relaxed) {
        if !state.is_frozen || board.servers.is_empty() {
            board.clone_from(&shared.lock().unwrap_or_else(PoisonError::into_inner));
            now = Instant::now();
        }
        let listing = state.listing(&board, &fleet.names, now);
        let mut drawn = Drawn::default();
        terminal.draw(|frame| {
            drawn = draw_fleet(frame.buffer_mut(), &state, &board, &listing, theme);
            in_cells_of_locale(frame.buffer_mut());
        })?;
        state.clamp(listing.rows.len());
        if !event::poll(LOOK_AROUND)? {
            continue;
        }
        let facts = FleetFacts { rows: listing.rows.len(), orders: listing.orders, page: drawn.page };
        loop {
            let event = event::read()?;
            if let Some(key) = event.as_key_event().filter(|key| key.kind != KeyEventKind::Release)
                && state.key(key, facts) == Flow::Quit
            {
                return Ok(());
            }
            if !may_be_held_down(&event) || !event::poll(std::time::Duration::ZERO)? {
                break;
            }
        }
    }
    Ok(())
}

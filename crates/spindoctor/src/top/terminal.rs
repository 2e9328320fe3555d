//! The terminal while `top` has it: drawing, keys, the mouse, and restoring it however the program ends.

use std::io::{Write as _, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, MouseEventKind};
use spindoctor_model::EventHead;
use tokio::signal::unix::{SignalKind, signal};

use super::clipboard;
use super::draw::{Drawn, Theme, draw};
use super::feed::{Extent, Feed};
use super::moment::Moment;
use super::peak::peak;
use super::screen::Screen;
use super::state::{Clock, Facts, Flow, State};
use super::view::{Content, kill};
use crate::common::terminal::{self, in_cells_of_locale};

/// While a recording plays, so many pictures a second are drawn at most: more than an eye needs of numbers.
const FRAME: Duration = Duration::from_millis(100);
/// A key is obeyed at once; new samples and signals are looked for that often.
pub const LOOK_AROUND: Duration = Duration::from_millis(250);

/// After a signal the loop ends within this time, or something blocks it.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// What a picture depends on, but for keys: where it is the same, nothing is read again.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    /// The instant; while a recording plays, its second.
    at: Option<Timestamp>,
    rates_over_s: f64,
    extent: Option<Extent>,
    trouble: Option<String>,
    with_at_work: bool,
}

/// Clicks and the wheel are reported, and not each movement as crossterm's own sequence asks (xterm's control sequences, "Mouse
/// Tracking": 1000 and the coordinates of 1006).
const MOUSE: &str = "\u{1b}[?1000h\u{1b}[?1006h";
const NO_MOUSE: &str = "\u{1b}[?1006l\u{1b}[?1000l";

/// Gives the terminal back when it is dropped; a panic hook does so before the panic is printed.
pub struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives back the mouse and the terminal.
fn restore() {
    // Where the terminal is gone there is nothing to give back.
    let _gone = write_to_terminal(NO_MOUSE);
    ratatui::restore();
}

/// Takes over the terminal. Where the program panics the mouse is given back with it.
fn take_over() -> anyhow::Result<DefaultTerminal> {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _gone = write_to_terminal(NO_MOUSE);
        before(panic);
    }));
    ratatui::try_init().context("could not take over the terminal")
}

/// Writes what is no text of the screen.
fn write_to_terminal(sequence: &str) -> std::io::Result<()> {
    let mut stdout = stdout().lock();
    stdout.write_all(sequence.as_bytes())?;
    stdout.flush()
}

/// Copies a statement, and says so; the reason where there is none.
fn copied(statement: Result<String, &'static str>) -> anyhow::Result<String> {
    Ok(match statement {
        Ok(statement) => {
            write_to_terminal(&clipboard::request(&statement)).context("could not write to the terminal")?;
            format!("copied, where the terminal takes it: {statement}")
        }
        Err(why) => why.to_owned(),
    })
}

/// Shows a feed until the person has seen enough, or a signal ends it.
pub fn show(feed: &mut dyn Feed, mut state: State) -> anyhow::Result<()> {
    let theme = Theme { colour: terminal::look_of_stdout().colour };
    let is_ended = ended_by_signal()?;
    let mut terminal = take_over()?;
    let _give_back = GiveBack;
    let mut has_mouse = false;
    let mut moment = Moment::default();
    let mut read: Option<Wanted> = None;
    let mut passed = Instant::now();
    while !is_ended.load(Ordering::Relaxed) {
        if has_mouse != state.has_mouse {
            write_to_terminal(if state.has_mouse { MOUSE } else { NO_MOUSE })?;
            has_mouse = state.has_mouse;
        }
        let wanted = Wanted {
            at: state.at().map(|at| if is_playing(&state) { whole_second(at) } else { at }),
            rates_over_s: state.rates_over_s(),
            extent: feed.extent()?,
            trouble: feed.trouble(),
            with_at_work: state.screen == Screen::Load,
        };
        let is_new = read.as_ref() != Some(&wanted);
        if is_new {
            moment = Moment::from_feed(feed, state.at(), state.rates_over_s())?;
            moment.read_at_work(feed, state.screen)?;
            read = Some(wanted);
        }
        let mut shown = Content::new(&state, &moment);
        let mut drawn = Drawn::default();
        let mut picture = |moment: &Moment, shown: &Content, state: &State| {
            terminal.draw(|frame| {
                drawn = draw(frame.buffer_mut(), state, moment, shown, theme);
                in_cells_of_locale(frame.buffer_mut());
            })?;
            anyhow::Ok(())
        };
        picture(&moment, &shown, &state)?;
        // What takes longer comes when the first picture is there, and only where no key wants another one.
        if is_new && !event::poll(Duration::ZERO)? {
            moment.read_history(feed)?;
            shown = Content::new(&state, &moment);
            picture(&moment, &shown, &state)?;
        }
        let rows = shown.rows().or(drawn.lines);
        if let Some(rows) = rows {
            state.clamp(rows);
        }
        if event::poll(if is_playing(&state) { FRAME } else { LOOK_AROUND })? {
            let targets = shown.targets();
            let columns = terminal.size()?.width;
            loop {
                let event = event::read()?;
                let facts = Facts {
                    extent: moment.extent,
                    at: state.at().or(moment.at),
                    targets: &targets,
                    rows: rows.unwrap_or(0),
                    orders: shown.orders(),
                    page: drawn.page,
                };
                let flow = match event {
                    Event::Key(key) if key.kind != KeyEventKind::Release => state.key(key, &facts),
                    Event::Mouse(mouse) => state.mouse(mouse, columns, drawn, &facts),
                    _ => Flow::Stay,
                };
                match flow {
                    Flow::Stay => {}
                    Flow::Quit => return Ok(()),
                    Flow::CopyKill => state.message = Some(copied(kill(&state, &moment, &shown))?),
                    Flow::GoTo(sought) => {
                        let peak = |event: &EventHead| peak(feed, event, &moment.ends);
                        let peak = sought.peak_from(facts.at.unwrap_or_default(), &moment.events, peak)?;
                        state.arrive(sought, peak, moment.extent);
                    }
                }
                if !may_be_held_down(&event) || !event::poll(Duration::ZERO)? {
                    break;
                }
            }
        }
        let elapsed = passed.elapsed();
        passed = Instant::now();
        state.pass(elapsed, moment.extent);
    }
    Ok(())
}

fn is_playing(state: &State) -> bool {
    matches!(state.clock, Clock::Playing(..))
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// True of keys that move, and of the wheel: where more of them wait they are obeyed before the next picture, so that one that is held down does not
/// lag. After any other key the next means what the next picture shows: its rows, and what Enter opens there.
pub fn may_be_held_down(event: &Event) -> bool {
    use KeyCode::{Down, Left, PageDown, PageUp, Right, Up};
    if let Event::Mouse(mouse) = event {
        return matches!(mouse.kind, MouseEventKind::ScrollUp | MouseEventKind::ScrollDown);
    }
    event.as_key_event().is_some_and(|key| matches!(key.code, Up | Down | PageUp | PageDown | Left | Right))
}

/// Becomes true when a signal asks the program to end: the terminal is given back first.
pub fn ended_by_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let is_ended = Arc::new(AtomicBool::new(false));
    let text = Arc::clone(&is_ended);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?;
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
    let mut signals = {
        let _within = runtime.enter();
        kinds
            .into_iter()
            .map(signal)
            .collect::<Result<Vec<_>, _>>()
            .context("could not listen for signals")?
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let [terminate, hangup, interrupt, quit] = &mut signals[..] else { return };
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
                _ = quit.recv() => {}
            }
            text.store(true, Ordering::Relaxed);
        });
        end_anyway();
    });
    Ok(is_ended)
}

/// Ends the program where the loop does not: crossterm reads for ever from a terminal that is gone.
#[expect(clippy::exit, reason = "the main thread cannot be reached")]
fn end_anyway() {
    std::thread::sleep(ENDS_WITHIN);
    restore();
    std::process::exit(0);
}

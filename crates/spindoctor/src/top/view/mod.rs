//! What each screen shows of a moment: pure functions from a [`Moment`] and a [`State`] to text, numbers and moods.
//! Nothing here knows how large the screen is, but which of its columns a list gives up first.

mod detail;
mod events;
mod freeing;
mod host;
mod listing;
mod load;
mod locks;
mod overview;
mod queries;
mod replication;
pub mod running;
mod threads;
mod verdict;
mod waiting;
mod waits;

pub use detail::detail;
pub use freeing::kill;
pub use listing::{Align, Head, Listing};
pub use load::{LoadOver, LoadShown};
pub use locks::LocksShown;
pub use overview::{Bar, Block, Meter, Overview};
pub use verdict::server_text;

use spindoctor_model::{Unavailable, Window};

use super::moment::Moment;
use super::screen::Screen;
use super::state::State;
use crate::host::HostReport;
use spindoctor_page::number;

/// How something is to be taken: what a colour would say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mood {
    /// As it is.
    #[default]
    Plain,
    /// It supports and is not the message.
    Quiet,
    /// It is the message.
    Strong,
    /// All is well.
    Good,
    /// Somebody should look.
    Warn,
    /// Somebody should act.
    Alarm,
}

/// A piece of text and how it is to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MoodText {
    /// The text.
    pub text: String,
    /// Its mood.
    pub mood: Mood,
}

impl MoodText {
    /// A text in a mood.
    pub fn new(text: impl Into<String>, mood: Mood) -> Self {
        Self { text: text.into(), mood }
    }
}

/// What a row stands for: it can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A thread that serves a connection, by the connection's number.
    Thread(u64),
    /// A thread that serves none, by the server's number for it: another thread's connection may have the same.
    Background(u64),
    /// A statement, by schema and digest.
    Query(String, String),
    /// A stall, by its number.
    Event(u64),
}

/// What a screen shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// The first screen.
    Overview(Box<Overview>),
    /// A list.
    List(Listing),
    /// The trees of who waits for whom.
    Locks(Box<LocksShown>),
    /// Sessions at work over time.
    Load(Box<LoadShown>),
    /// The host.
    Host(Box<HostReport>),
    /// The keys.
    Help,
    /// Why there is nothing to show.
    Nothing(String),
}

impl Content {
    /// What the state's screen shows of a moment.
    pub fn new(state: &State, moment: &Moment) -> Self {
        if state.screen == Screen::Help {
            return Self::Help;
        }
        if state.screen == Screen::Events {
            return Self::List(events::listing(state, moment));
        }
        let Some(window) = &moment.window else { return Self::Nothing(why_nothing(moment)) };
        let over_s = state.rates_over_s();
        match state.screen {
            Screen::Threads => Self::List(threads::listing(state, window)),
            Screen::Queries => Self::List(queries::listing(state, window, over_s)),
            Screen::Waits => Self::List(waits::listing(state, window, over_s)),
            Screen::Locks => Self::Locks(Box::new(locks::shown(moment, window))),
            Screen::Load => Self::Load(Box::new(LoadShown::from_moment(moment, window))),
            Screen::Host => Self::Host(Box::new(host::report(window, over_s))),
            Screen::Replication => Self::List(replication::listing(state, window)),
            Screen::Overview | Screen::Events | Screen::Help => {
                Self::Overview(Box::new(overview::build(moment, window, over_s)))
            }
        }
    }

    /// Rows that can be marked.
    pub fn rows(&self) -> Option<usize> {
        match self {
            Self::List(list) => Some(list.rows.len()),
            _ => None,
        }
    }

    /// What its rows stand for.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Self::List(list) => list.rows.iter().filter_map(|row| row.target.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Orders that its list knows.
    pub fn orders(&self) -> usize {
        match self {
            Self::List(list) => list.orders,
            _ => 0,
        }
    }
}

/// Over how many whole seconds something is: `10 s`, `2 min`.
pub fn seconds(seconds: f64) -> String {
    let whole = number::duration(seconds.round());
    whole.strip_suffix(" min 0 s").map_or_else(|| whole.clone(), |minutes| format!("{minutes} min"))
}

/// Why there is no sample to show.
fn why_nothing(moment: &Moment) -> String {
    match (&moment.trouble, &moment.gap) {
        (Some(trouble), _) => trouble.clone(),
        (None, Some(gap)) => format!("no samples of this time: {}", gap.because),
        (None, None) if moment.is_live => "waiting for the first sample".to_owned(),
        (None, None) => "this recording holds no sample".to_owned(),
    }
}

/// Why a source says nothing, with what would unlock it.
fn missing_text(why: &Unavailable) -> String {
    match &why.unlock {
        Some(unlock) => format!("{}; to enable: {unlock}", why.because),
        None => why.because.clone(),
    }
}

/// Why something that needs two answers of a source has none: it could not be read, or it was read once.
fn no_change<T>(
    window: &Window,
    pick: impl Fn(&spindoctor_model::Sample) -> &spindoctor_model::Reading<T>,
) -> String {
    match window.missing(pick) {
        Some(why) if why.because == spindoctor_model::window::NOT_ASKED_FOR => {
            "not read in these seconds: it is asked for less often".to_owned()
        }
        Some(why) => missing_text(&why),
        None => "read once so far; a rate needs two readings".to_owned(),
    }
}

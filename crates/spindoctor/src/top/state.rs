//! The user's choices, and the effect of each key. Nothing is drawn or read here.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::Extent;
use super::jump;
use super::peak::Sought;
use super::screen::Screen;
use super::view::Target;

/// A step with an arrow.
const STEP: SignedDuration = SignedDuration::from_secs(1);
/// A step with shift or a bracket.
const LONG_STEP: SignedDuration = SignedDuration::from_mins(1);
/// How many times faster than it was recorded a recording is played.
pub const SPEEDS: [u32; 6] = [1, 2, 5, 10, 30, 60];
/// Rates are over at least so many seconds: the last sample alone, ten, a minute.
pub const RATES_OVER_S: [f64; 3] = [1.0, 10.0, 60.0];
/// No statement that somebody looks for is longer.
const LONGEST_INPUT: usize = 200;

/// What instant is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    /// The last one there is, as it comes: live, or the end of a recording.
    Latest,
    /// This one.
    At(Timestamp),
    /// One that moves, so many times faster than the clock.
    Playing(Timestamp, u32),
}

/// What is typed at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A filter of the list.
    Filter(String),
    /// An instant to go to.
    Jump(String),
}

/// What of a list is shown, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListState {
    /// Only rows that hold this, in any case; empty for all.
    pub filter: String,
    /// Which of the list's orders; the first is the list's own.
    pub order: usize,
    /// The other way round.
    pub is_reversed: bool,
    /// The row that is marked, or the first line of a text that is shown.
    pub selected: usize,
}

/// What the person chose.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// What is looked at.
    pub screen: Screen,
    /// Which instant.
    pub clock: Clock,
    /// Which of [`RATES_OVER_S`].
    pub rates: usize,
    /// Whether threads that rest are shown, and statements about the server.
    pub with_idle: bool,
    /// Whether the mouse is ours; else it marks text in the terminal.
    pub has_mouse: bool,
    /// What is typed.
    pub prompt: Option<Prompt>,
    /// The row whose details are shown over the screen.
    pub detail: Option<Target>,
    /// The message after the last key, if there is one.
    pub message: Option<String>,
    lists: [ListState; Screen::TABS.len() + 1],
    behind_help: Screen,
}

/// What a key's meaning depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// Of when there are samples.
    pub extent: Option<Extent>,
    /// The instant that is shown.
    pub at: Option<Timestamp>,
    /// What the rows of the list stand for.
    pub targets: &'a [Target],
    /// Rows of the list or lines of the text.
    pub rows: usize,
    /// Orders that the list knows.
    pub orders: usize,
    /// Rows that the screen has room for.
    pub page: usize,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Stay,
    /// The person has seen enough.
    Quit,
    /// Copy the KILL of what is shown; what became of it is for [`State::message`].
    CopyKill,
    /// Go to an event: where its trouble shows most has to be read first. The answer is for [`State::arrive`].
    GoTo(Sought),
}

impl State {
    /// A screen at the last instant.
    pub fn new(screen: Screen) -> Self {
        Self {
            screen,
            clock: Clock::Latest,
            rates: 0,
            with_idle: false,
            has_mouse: true,
            prompt: None,
            detail: None,
            message: None,
            lists: Default::default(),
            behind_help: Screen::Overview,
        }
    }

    /// The instant to show; None for the last.
    pub fn at(&self) -> Option<Timestamp> {
        match self.clock {
            Clock::Latest => None,
            Clock::At(at) | Clock::Playing(at, _) => Some(at),
        }
    }

    /// Rates are over at least so many seconds.
    pub fn rates_over_s(&self) -> f64 {
        RATES_OVER_S[self.rates.min(RATES_OVER_S.len() - 1)]
    }

    /// Rates over so many seconds, or the nearest that there is below.
    pub fn rates_over(&mut self, seconds: f64) {
        self.rates = RATES_OVER_S.iter().rposition(|over_s| *over_s <= seconds).unwrap_or(0);
    }

    /// What of the screen's list is shown.
    pub fn list(&self) -> &ListState {
        &self.lists[self.place()]
    }

    pub(super) fn list_mut(&mut self) -> &mut ListState {
        &mut self.lists[self.place()]
    }

    fn place(&self) -> usize {
        Screen::TABS.iter().position(|tab| *tab == self.screen).unwrap_or(Screen::TABS.len())
    }

    /// Keeps the marked row within the list.
    pub fn clamp(&mut self, rows: usize) {
        let list = self.list_mut();
        list.selected = list.selected.min(rows.saturating_sub(1));
    }

    /// Moves what plays on by the time that passed. At the end of a recording it stops; at the end of a live view it is live
    /// again.
    pub fn pass(&mut self, elapsed: Duration, extent: Option<Extent>) {
        let (Clock::Playing(at, speed), Some(extent)) = (self.clock, extent) else { return };
        let moved = SignedDuration::try_from(elapsed * speed).ok().and_then(|by| at.checked_add(by).ok());
        self.clock = match moved {
            Some(moved) if moved < extent.to => Clock::Playing(moved, speed),
            _ => Clock::Latest,
        };
    }

    /// Shows an instant; one outside of what there is becomes the nearest.
    pub fn go_to(&mut self, at: Timestamp, extent: Option<Extent>) {
        let at = extent.map_or(at, |extent| extent.nearest(at));
        self.clock = Clock::At(at);
    }

    /// Obeys a key.
    pub fn key(&mut self, key: KeyEvent, facts: &Facts<'_>) -> Flow {
        let with = |modifier| key.modifiers.contains(modifier);
        if with(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Flow::Quit;
        }
        if with(KeyModifiers::CONTROL) || with(KeyModifiers::ALT) {
            return Flow::Stay;
        }
        self.message = None;
        if self.prompt.is_some() {
            self.type_in(key.code, facts);
            return Flow::Stay;
        }
        if self.detail.is_some() {
            if matches!(key.code, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q')) {
                self.detail = None;
                return Flow::Stay;
            }
            if !matches!(key.code, KeyCode::Left | KeyCode::Right | KeyCode::Char('[' | ']' | ' ')) {
                self.detail = None;
            }
        }
        match key.code {
            KeyCode::Char('q') if self.screen == Screen::Help => self.screen = self.behind_help,
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Esc => self.escape(),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help(),
            KeyCode::Char(digit @ '1'..='9') => {
                self.screen = Screen::TABS[digit as usize - '1' as usize];
            }
            KeyCode::Tab => self.screen = self.screen.further(1),
            KeyCode::BackTab => self.screen = self.screen.further(-1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1, facts),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1, facts),
            KeyCode::PageUp => self.move_by(-(facts.page.max(2) as isize - 1), facts),
            KeyCode::PageDown => self.move_by(facts.page.max(2) as isize - 1, facts),
            KeyCode::Left if with(KeyModifiers::SHIFT) => self.step(-LONG_STEP, facts),
            KeyCode::Right if with(KeyModifiers::SHIFT) => self.step(LONG_STEP, facts),
            KeyCode::Left => self.step(-STEP, facts),
            KeyCode::Right => self.step(STEP, facts),
            KeyCode::Char('[') => self.step(-LONG_STEP, facts),
            KeyCode::Char(']') => self.step(LONG_STEP, facts),
            KeyCode::Char(' ') => self.play_or_pause(facts),
            KeyCode::Char('+' | '=') => self.faster(1),
            KeyCode::Char('-') => self.faster(-1),
            KeyCode::Home => {
                if let Some(extent) = facts.extent {
                    self.clock = Clock::At(extent.from);
                }
            }
            KeyCode::End => self.clock = Clock::Latest,
            KeyCode::Char('g') => self.prompt = Some(Prompt::Jump(String::new())),
            KeyCode::Char('n') => return Flow::GoTo(Sought::Next),
            KeyCode::Char('N' | 'p') => return Flow::GoTo(Sought::Before),
            KeyCode::Char('/') => self.ask_for_filter(facts),
            KeyCode::Char('s') => self.order(facts),
            KeyCode::Char('S') => {
                let list = self.list_mut();
                list.is_reversed = !list.is_reversed;
            }
            KeyCode::Char('i') => self.with_idle = !self.with_idle,
            KeyCode::Char('y') => return Flow::CopyKill,
            KeyCode::Char('m') => {
                self.has_mouse = !self.has_mouse;
                let whose = match self.has_mouse {
                    true => "the mouse moves and marks here",
                    false => "the mouse is the terminal's; m takes it",
                };
                self.message = Some(whose.to_owned());
            }
            KeyCode::Char('w') => self.rates = (self.rates + 1) % RATES_OVER_S.len(),
            KeyCode::Enter => return self.open(facts),
            _ => {}
        }
        Flow::Stay
    }

    fn type_in(&mut self, code: KeyCode, facts: &Facts<'_>) {
        let Some(prompt) = &mut self.prompt else { return };
        let (Prompt::Filter(text) | Prompt::Jump(text)) = prompt;
        match code {
            KeyCode::Char(typed) if text.chars().count() < LONGEST_INPUT => text.push(typed),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Esc => {
                if matches!(prompt, Prompt::Filter(_)) {
                    self.list_mut().filter.clear();
                }
                self.prompt = None;
                return;
            }
            KeyCode::Enter => return self.entered(facts),
            _ => {}
        }
        // A filter acts as it is typed.
        if let Some(Prompt::Filter(text)) = self.prompt.clone() {
            let list = self.list_mut();
            list.filter = text;
            list.selected = 0;
        }
    }

    fn entered(&mut self, facts: &Facts<'_>) {
        let Some(Prompt::Jump(text)) = self.prompt.take() else { return };
        let Some(cursor) = facts.at.filter(|_| !text.trim().is_empty()) else { return };
        match jump::parse(&text, cursor, facts.extent) {
            Ok(at) => {
                let is_outside = facts.extent.is_some_and(|extent| !extent.holds(at));
                self.go_to(at, facts.extent);
                if is_outside {
                    self.message = Some("there are no samples of that time; this is the nearest".to_owned());
                }
            }
            Err(why) => self.message = Some(why),
        }
    }

    fn escape(&mut self) {
        if self.screen == Screen::Help {
            self.screen = self.behind_help;
            return;
        }
        self.list_mut().filter.clear();
    }

    pub(super) fn help(&mut self) {
        if self.screen == Screen::Help {
            self.screen = self.behind_help;
        } else {
            self.behind_help = self.screen;
            self.screen = Screen::Help;
        }
    }

    pub(super) fn move_by(&mut self, by: isize, facts: &Facts<'_>) {
        let last = facts.rows.saturating_sub(1);
        let list = self.list_mut();
        list.selected = list.selected.saturating_add_signed(by).min(last);
    }

    fn step(&mut self, by: SignedDuration, facts: &Facts<'_>) {
        let Some(at) = facts.at else { return };
        let Ok(moved) = at.checked_add(by) else { return };
        self.go_to(moved, facts.extent);
    }

    fn play_or_pause(&mut self, facts: &Facts<'_>) {
        let Some((at, extent)) = facts.at.zip(facts.extent) else { return };
        self.clock = match self.clock {
            Clock::Latest => Clock::At(at),
            Clock::At(at) if at >= extent.to => {
                self.message = Some("this is the end; Left and [ go back".to_owned());
                Clock::At(at)
            }
            Clock::At(at) => Clock::Playing(at, SPEEDS[0]),
            Clock::Playing(at, _) => Clock::At(at),
        };
    }

    fn faster(&mut self, by: isize) {
        let Clock::Playing(at, speed) = self.clock else {
            self.message = Some("space plays; + and - change how fast".to_owned());
            return;
        };
        let place = SPEEDS.iter().position(|known| *known == speed).unwrap_or(0);
        let place = place.saturating_add_signed(by).min(SPEEDS.len() - 1);
        self.clock = Clock::Playing(at, SPEEDS[place]);
    }

    /// Shows the event that was to be gone to, at its peak; says so where there is none.
    pub fn arrive(&mut self, sought: Sought, peak: Option<Timestamp>, extent: Option<Extent>) {
        let Some(peak) = peak else {
            self.message = Some(sought.missing().to_owned());
            return;
        };
        if matches!(sought, Sought::Event(_)) {
            self.screen = Screen::Overview;
        }
        self.go_to(peak, extent);
    }

    fn ask_for_filter(&mut self, facts: &Facts<'_>) {
        if facts.orders == 0 {
            self.message = Some("only lists have a filter: threads, queries, waits, events".to_owned());
            return;
        }
        self.prompt = Some(Prompt::Filter(self.list().filter.clone()));
    }

    fn order(&mut self, facts: &Facts<'_>) {
        if facts.orders == 0 {
            self.message = Some("only lists can be sorted: threads, queries, waits, events".to_owned());
            return;
        }
        let list = self.list_mut();
        list.order = (list.order + 1) % facts.orders;
        list.is_reversed = false;
        list.selected = 0;
    }

    pub(super) fn open(&mut self, facts: &Facts<'_>) -> Flow {
        match facts.targets.get(self.list().selected) {
            Some(Target::Event(id)) => return Flow::GoTo(Sought::Event(*id)),
            Some(target) => self.detail = Some(target.clone()),
            None => {}
        }
        Flow::Stay
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::EventHead;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap()
    }

    /// Two events; the peak of each is ten seconds after its beginning.
    fn events() -> Vec<EventHead> {
        [(1, 100), (2, 200)]
            .map(|(id, began)| EventHead { id, began: at(began), ..EventHead::default() })
            .into()
    }

    /// A recording of ten minutes with two events, looked at with these keys; where it leads.
    fn pressed(state: &mut State, keys: &str) -> Flow {
        let events = events();
        let extent = Some(Extent { from: at(0), to: at(600) });
        let mut flow = Flow::Stay;
        for key in keys.split_whitespace() {
            let facts = Facts {
                extent,
                at: Some(state.at().unwrap_or(at(600))),
                targets: &[Target::Event(1), Target::Event(2)],
                rows: 2,
                orders: 3,
                page: 10,
            };
            let (modifiers, name) = match key.strip_prefix("S-") {
                Some(name) => (KeyModifiers::SHIFT, name),
                None => (KeyModifiers::NONE, key),
            };
            let code = match name {
                "left" => KeyCode::Left,
                "right" => KeyCode::Right,
                "home" => KeyCode::Home,
                "end" => KeyCode::End,
                "down" => KeyCode::Down,
                "enter" => KeyCode::Enter,
                "esc" => KeyCode::Esc,
                "tab" => KeyCode::Tab,
                "space" => KeyCode::Char(' '),
                one => KeyCode::Char(one.chars().next().unwrap()),
            };
            flow = state.key(KeyEvent::new(code, modifiers), &facts);
            if let Flow::GoTo(sought) = flow {
                let peak = |event: &EventHead| Ok(event.began + SignedDuration::from_secs(10));
                let peak = sought.peak_from(facts.at.unwrap(), &events, peak).unwrap();
                state.arrive(sought, peak, extent);
            }
        }
        flow
    }

    fn after(keys: &str) -> State {
        let mut state = State::new(Screen::Overview);
        pressed(&mut state, keys);
        state
    }

    #[test]
    fn arrows_step_by_a_second_and_brackets_by_a_minute_within_what_there_is() {
        assert_eq!(after("left").clock, Clock::At(at(599)));
        assert_eq!(after("S-left [ right").clock, Clock::At(at(481)));
        assert_eq!(after("home left").clock, Clock::At(at(0)));
        assert_eq!(after("right").clock, Clock::At(at(600)));
        assert_eq!(after("left end").clock, Clock::Latest);
    }

    #[test]
    fn the_space_bar_freezes_plays_and_pauses() {
        assert_eq!(after("space").clock, Clock::At(at(600)));
        assert_eq!(after("home space + +").clock, Clock::Playing(at(0), 5));
        assert_eq!(after("home space + + + + + + + -").clock, Clock::Playing(at(0), 30));
        assert_eq!(after("home space + space").clock, Clock::At(at(0)));
        assert!(after("+").message.is_some());
    }

    #[test]
    fn what_plays_moves_with_time_and_ends_at_the_end() {
        let mut state = after("home space + +");
        let extent = Some(Extent { from: at(0), to: at(600) });
        state.pass(Duration::from_secs(2), extent);
        assert_eq!(state.clock, Clock::Playing(at(10), 5));
        state.pass(Duration::from_secs(1_000), extent);
        assert_eq!(state.clock, Clock::Latest);
        let mut frozen = after("space");
        frozen.pass(Duration::from_secs(9), extent);
        assert_eq!(frozen.clock, Clock::At(at(600)));
    }

    #[test]
    fn events_are_gone_to_at_their_peaks_in_order_and_from_their_list() {
        assert_eq!(after("N").clock, Clock::At(at(210)));
        assert_eq!(after("N N").clock, Clock::At(at(110)));
        assert_eq!(after("N N n").clock, Clock::At(at(210)));
        assert_eq!(after("N left n").clock, Clock::At(at(210)), "the peak of the event that is shown");
        assert_eq!(after("N right N").clock, Clock::At(at(210)));
        let state = after("N N N");
        assert_eq!((state.clock, state.message.as_deref()), (Clock::At(at(110)), Some("no earlier event")));
        let state = after("N n");
        assert_eq!((state.clock, state.message.as_deref()), (Clock::At(at(210)), Some("no later event")));
        let state = after("8 down enter");
        assert_eq!((state.clock, state.screen), (Clock::At(at(210)), Screen::Overview));
        let mut state = State::new(Screen::Events);
        state.arrive(Sought::Event(9), None, None);
        assert_eq!((state.screen, state.message.as_deref()), (Screen::Events, Some("that event is gone")));
    }

    #[test]
    fn a_time_that_is_typed_is_gone_to_and_nonsense_is_shown() {
        let state = after("g - 5 m enter");
        assert_eq!((state.clock, &state.prompt), (Clock::At(at(300)), &None));
        assert!(after("g x enter").message.unwrap().contains("is not a time"));
        assert!(after("g - 9 h enter").message.unwrap().contains("nearest"));
        assert_eq!(after("g - 5 m esc").clock, Clock::Latest);
    }

    #[test]
    fn a_filter_acts_as_it_is_typed_and_goes_with_escape() {
        let state = after("2 / q S");
        assert_eq!(state.list().filter, "qS");
        assert_eq!(after("2 / q enter").list().filter, "q");
        assert_eq!(after("2 / q enter 3").list().filter, "", "each list has its own");
        assert_eq!(after("2 / q enter esc").list().filter, "");
        assert_eq!(after("2 / q esc").list().filter, "");
        let state = after("2 / q enter ? esc");
        assert_eq!(
            (state.screen, state.list().filter.as_str()),
            (Screen::Threads, "q"),
            "Esc left help, and nothing else"
        );
    }

    #[test]
    fn orders_go_round_and_q_leaves_help_first() {
        assert_eq!(after("2 s s").list().order, 2);
        assert_eq!(after("2 s s s").list().order, 0);
        assert!(after("2 S").list().is_reversed);
        assert_eq!(after("3 ? q").screen, Screen::Queries);
        assert_eq!(pressed(&mut State::new(Screen::Host), "q"), Flow::Quit);
        assert_eq!(after("tab tab").screen, Screen::Queries);
    }
}

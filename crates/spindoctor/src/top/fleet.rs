//! The user's choices in `fleet top`, the effect of each key, and the content that follows. Nothing is drawn or read
//! here.

use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::board::Board;
use super::state::{Flow, ListState};
use super::view::Listing;
use crate::top::view::running;

/// No text that somebody looks for is longer.
const LONGEST_INPUT: usize = 200;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FleetScreen {
    /// Every statement that runs.
    #[default]
    Statements,
    /// Equal statements folded.
    Folded,
    /// Every server.
    Servers,
}

impl FleetScreen {
    /// In the order of their tabs: the first has the key 1.
    pub const TABS: [Self; 3] = [Self::Statements, Self::Folded, Self::Servers];

    /// The word on its tab.
    pub fn word(self) -> &'static str {
        match self {
            Self::Statements => "statements",
            Self::Folded => "folded",
            Self::Servers => "servers",
        }
    }
}

/// What the person chose.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetState {
    /// What is looked at.
    pub screen: FleetScreen,
    /// Whether the keys are shown in its place.
    pub is_help: bool,
    /// A filter that is typed at the moment.
    pub prompt: Option<String>,
    /// True while new answers are not shown.
    pub is_frozen: bool,
    lists: [ListState; FleetScreen::TABS.len()],
}

/// What a key's meaning depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct FleetFacts {
    /// Rows of the list, or lines of the help that do not fit.
    pub rows: usize,
    /// Orders that the list knows.
    pub orders: usize,
    /// Rows that the screen has room for.
    pub page: usize,
}

impl FleetState {
    /// A screen, with this filter.
    pub fn new(is_folded: bool, filter: &str) -> Self {
        let screen = if is_folded { FleetScreen::Folded } else { FleetScreen::Statements };
        let mut state = Self { screen, ..Self::default() };
        state.lists.iter_mut().for_each(|list| list.filter = filter.to_owned());
        state
    }

    /// What of the screen's list is shown.
    pub fn list(&self) -> &ListState {
        &self.lists[self.screen as usize]
    }

    fn list_mut(&mut self) -> &mut ListState {
        &mut self.lists[self.screen as usize]
    }

    /// What the screen lists.
    pub fn listing(&self, board: &Board, names: &[String], now: Instant) -> Listing {
        match self.screen {
            FleetScreen::Statements => running::statements(board, names, self.list()),
            FleetScreen::Folded => running::folded(board, names, self.list()),
            FleetScreen::Servers => running::servers(board, names, now, self.list()),
        }
    }

    /// Keeps the marked row within the list.
    pub fn clamp(&mut self, rows: usize) {
        let list = self.list_mut();
        list.selected = list.selected.min(rows.saturating_sub(1));
    }

    /// Obeys a key.
    pub fn key(&mut self, key: KeyEvent, facts: FleetFacts) -> Flow {
        let with = |modifier| key.modifiers.contains(modifier);
        if with(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Flow::Quit;
        }
        if with(KeyModifiers::CONTROL) || with(KeyModifiers::ALT) {
            return Flow::Stay;
        }
        if self.prompt.is_some() {
            self.type_in(key.code);
            return Flow::Stay;
        }
        match key.code {
            KeyCode::Char('q') if self.is_help => self.is_help = false,
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.is_help = !self.is_help,
            KeyCode::Esc if self.is_help => self.is_help = false,
            KeyCode::Esc => self.list_mut().filter.clear(),
            KeyCode::Char(digit @ '1'..='3') => {
                self.show(FleetScreen::TABS[digit as usize - '1' as usize]);
            }
            KeyCode::Tab => self.show(self.further(1)),
            KeyCode::BackTab => self.show(self.further(-1)),
            KeyCode::Char('g') => self.show(match self.screen {
                FleetScreen::Folded => FleetScreen::Statements,
                FleetScreen::Statements | FleetScreen::Servers => FleetScreen::Folded,
            }),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1, facts),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1, facts),
            KeyCode::PageUp => self.move_by(-(facts.page.max(2) as isize - 1), facts),
            KeyCode::PageDown => self.move_by(facts.page.max(2) as isize - 1, facts),
            KeyCode::Home => self.list_mut().selected = 0,
            KeyCode::End => self.move_by(isize::MAX, facts),
            KeyCode::Char('/') => self.prompt = Some(self.list().filter.clone()),
            KeyCode::Char('s') => self.order(facts),
            KeyCode::Char('S') => {
                let list = self.list_mut();
                list.is_reversed = !list.is_reversed;
            }
            KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            _ => {}
        }
        Flow::Stay
    }

    fn show(&mut self, screen: FleetScreen) {
        self.is_help = false;
        self.screen = screen;
    }

    fn further(&self, by: isize) -> FleetScreen {
        let tabs = FleetScreen::TABS.len() as isize;
        FleetScreen::TABS[(self.screen as isize + by).rem_euclid(tabs) as usize]
    }

    fn type_in(&mut self, code: KeyCode) {
        let Some(text) = &mut self.prompt else { return };
        match code {
            KeyCode::Char(typed) if text.chars().count() < LONGEST_INPUT => text.push(typed),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Esc => text.clear(),
            _ => {}
        }
        // A filter acts as it is typed.
        let text = text.clone();
        let list = self.list_mut();
        list.filter = text;
        list.selected = 0;
        if matches!(code, KeyCode::Enter | KeyCode::Esc) {
            self.prompt = None;
        }
    }

    fn move_by(&mut self, by: isize, facts: FleetFacts) {
        let last = facts.rows.saturating_sub(1);
        let list = self.list_mut();
        list.selected = list.selected.saturating_add_signed(by).min(last);
    }

    fn order(&mut self, facts: FleetFacts) {
        let list = self.list_mut();
        list.order = (list.order + 1) % facts.orders.max(1);
        list.is_reversed = false;
        list.selected = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: FleetFacts = FleetFacts { rows: 10, orders: 3, page: 4 };

    fn after(keys: &[KeyCode]) -> (FleetState, Flow) {
        let mut state = FleetState::new(false, "");
        let mut flow = Flow::Stay;
        for key in keys {
            flow = state.key(KeyEvent::new(*key, KeyModifiers::NONE), FACTS);
        }
        (state, flow)
    }

    #[test]
    fn keys_lead_from_screen_to_screen_and_out() {
        let screen = |keys: &[KeyCode]| after(keys).0.screen;
        assert_eq!(screen(&[KeyCode::Char('g')]), FleetScreen::Folded);
        assert_eq!(screen(&[KeyCode::Char('g'), KeyCode::Char('g')]), FleetScreen::Statements);
        assert_eq!(screen(&[KeyCode::BackTab]), FleetScreen::Servers);
        assert_eq!(screen(&[KeyCode::Tab, KeyCode::Tab, KeyCode::Tab]), FleetScreen::Statements);
        assert_eq!(screen(&[KeyCode::Char('3')]), FleetScreen::Servers);
        assert_eq!(after(&[KeyCode::Char('q')]).1, Flow::Quit);
        let (state, flow) = after(&[KeyCode::Char('?'), KeyCode::Char('q')]);
        assert_eq!((state.is_help, flow), (false, Flow::Stay));
        assert!(after(&[KeyCode::Char(' ')]).0.is_frozen);
    }

    #[test]
    fn a_filter_acts_as_it_is_typed_and_quits_nothing() {
        let (state, flow) =
            after(&[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('x'), KeyCode::Backspace]);
        assert_eq!(
            (state.list().filter.as_str(), state.prompt.as_deref(), flow),
            ("q", Some("q"), Flow::Stay)
        );
        let (state, _) = after(&[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Enter]);
        assert_eq!((state.list().filter.as_str(), state.prompt.as_deref()), ("q", None));
        let (state, _) = after(&[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Esc]);
        assert_eq!((state.list().filter.as_str(), state.prompt.as_deref()), ("", None));
    }

    #[test]
    fn the_mark_stays_in_the_list_and_each_key_takes_the_next_order() {
        let selected = |keys: &[KeyCode]| after(keys).0.list().selected;
        assert_eq!(selected(&[KeyCode::PageDown, KeyCode::Down, KeyCode::Up]), 3);
        assert_eq!((selected(&[KeyCode::End]), selected(&[KeyCode::Up])), (9, 0));
        let order = |count: usize| after(&vec![KeyCode::Char('s'); count]).0.list().order;
        assert_eq!((order(1), order(2), order(3)), (1, 2, 0));
        let mut state = FleetState::new(true, "x");
        state.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE), FACTS);
        state.clamp(3);
        assert_eq!(
            (state.screen, state.list().filter.as_str(), state.list().selected),
            (FleetScreen::Folded, "x", 2)
        );
    }
}

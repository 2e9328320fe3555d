//! What the mouse does: the wheel moves as the arrows do, a click chooses a screen, marks a row, and opens the one that is marked.
//!
//! In: the event, where rows and tabs stand, and what a key's meaning depends on. Out: the state. Nothing is drawn or read here.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::draw::{Drawn, TABS_ROW, tab_at};
use super::screen::Screen;
use super::state::{Facts, Flow, State};

/// Rows that a notch of the wheel moves by.
const WHEEL: isize = 3;

impl State {
    /// Obeys the mouse in a window of so many columns.
    pub fn mouse(&mut self, event: MouseEvent, columns: u16, drawn: Drawn, facts: &Facts<'_>) -> Flow {
        let by = match event.kind {
            MouseEventKind::ScrollUp => Some(-WHEEL),
            MouseEventKind::ScrollDown => Some(WHEEL),
            MouseEventKind::Down(MouseButton::Left) => None,
            _ => return Flow::Stay,
        };
        self.message = None;
        // What is typed goes on, and details close as they do with a key.
        if self.prompt.is_some() || self.detail.take().is_some() {
            return Flow::Stay;
        }
        if let Some(by) = by {
            self.move_by(by, facts);
            return Flow::Stay;
        }
        if event.row == TABS_ROW {
            match tab_at(columns, event.column) {
                Some(Screen::Help) => self.help(),
                Some(screen) => self.screen = screen,
                None => {}
            }
            return Flow::Stay;
        }
        match drawn.row_at(event.row).filter(|row| *row < facts.rows) {
            Some(row) if row == self.list().selected => self.open(facts),
            Some(row) => {
                self.list_mut().selected = row;
                Flow::Stay
            }
            None => Flow::Stay,
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyModifiers;

    use super::*;

    use crate::top::view::Target;

    const LIST: Drawn = Drawn { page: 20, lines: None, rows: Some((4, 20)) };

    static TARGETS: [Target; 2] = [Target::Thread(12), Target::Thread(13)];

    fn facts() -> Facts<'static> {
        Facts { targets: &TARGETS, rows: 2, page: 20, ..Facts::default() }
    }

    fn event(kind: MouseEventKind, column: u16, row: u16) -> MouseEvent {
        MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }
    }

    const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

    #[test]
    fn a_click_chooses_a_screen_marks_a_row_and_opens_the_marked_one() {
        let mut state = State::new(Screen::Overview);
        // `1overview 2threads`
        state.mouse(event(CLICK, 10, TABS_ROW), 80, Drawn::default(), &facts());
        assert_eq!(state.screen, Screen::Threads);
        state.mouse(event(CLICK, 30, 5), 80, Drawn { rows: Some((4, 0)), ..LIST }, &facts());
        assert_eq!((state.list().selected, &state.detail), (1, &None));
        state.mouse(event(CLICK, 30, 5), 80, Drawn { rows: Some((4, 0)), ..LIST }, &facts());
        assert_eq!(state.detail, Some(Target::Thread(13)));
        state.mouse(event(CLICK, 30, 5), 80, LIST, &facts());
        assert_eq!((state.list().selected, &state.detail), (1, &None), "a click closes the details");
        state.mouse(event(CLICK, 30, 23), 80, Drawn { rows: Some((4, 0)), ..LIST }, &facts());
        assert_eq!(state.list().selected, 1, "there is no row");
        state.mouse(event(CLICK, 78, TABS_ROW), 80, Drawn::default(), &facts());
        assert_eq!(state.screen, Screen::Help);
        state.mouse(event(CLICK, 78, TABS_ROW), 80, Drawn::default(), &facts());
        assert_eq!(state.screen, Screen::Threads, "and back");
    }

    #[test]
    fn the_wheel_moves_and_other_buttons_do_nothing() {
        let mut state = State::new(Screen::Threads);
        let many = Facts { rows: 10, ..facts() };
        state.mouse(event(MouseEventKind::ScrollDown, 0, 9), 80, LIST, &many);
        assert_eq!(state.list().selected, 3);
        state.mouse(event(MouseEventKind::ScrollUp, 0, 9), 80, LIST, &many);
        assert_eq!(state.list().selected, 0);
        let before = state.clone();
        for kind in [
            MouseEventKind::Down(MouseButton::Right),
            MouseEventKind::Moved,
            MouseEventKind::Up(MouseButton::Left),
        ] {
            assert_eq!(state.mouse(event(kind, 10, TABS_ROW), 80, LIST, &many), Flow::Stay);
        }
        assert_eq!(state, before);
    }

    #[test]
    fn every_tab_is_where_it_is_drawn() {
        for columns in [40, 80, 100, 200] {
            let found: Vec<Screen> = (0..columns).filter_map(|column| tab_at(columns, column)).collect();
            assert_eq!(found.last(), Some(&Screen::Help), "{columns}");
            assert!(
                found.contains(&Screen::Overview) && (columns < 80 || found.contains(&Screen::Load)),
                "{columns}"
            );
        }
    }
}

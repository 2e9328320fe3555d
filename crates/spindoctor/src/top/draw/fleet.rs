//! The screen of `fleet top`: how many servers answer, the list, the keys that matter.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::canvas::{Canvas, Theme};
use super::list;
use crate::top::board::{Board, Counts};
use crate::top::draw::{Drawn, LEAST};
use crate::top::fleet::{FleetScreen, FleetState};
use crate::top::view::{Listing, Mood};
use spindoctor_page::number;

/// Keys and what they do.
const KEYS: &[(&str, &str)] = &[
    ("1 2 3, Tab", "every statement; equal statements folded; every server"),
    ("g", "fold equal statements, and unfold them"),
    ("/", "only rows that hold a text; Esc shows all"),
    ("s S", "sort by the next column; the other way round"),
    ("↑ ↓ PgUp PgDn", "move the mark"),
    ("space", "freeze the list, and let it go on"),
    ("? or h", "this page, and back"),
    ("q, Ctrl-C", "quit"),
    (
        "",
        "Nothing is changed: each session is read only. A server that does not answer is tried again and again.",
    ),
];
/// Where what a key does begins.
const DOES: u16 = 16;

/// Draws it. Returns how many rows there was room for.
pub fn draw_fleet(
    buffer: &mut Buffer,
    state: &FleetState,
    board: &Board,
    listing: &Listing,
    theme: Theme,
) -> Drawn {
    let area = buffer.area;
    let mut canvas = Canvas::new(buffer, theme);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.text(area, 0, 0, "enlarge the window", Mood::Plain);
        return Drawn::default();
    }
    head(&mut canvas, state, board.counts());
    foot(&mut canvas, state, listing);
    let body = Rect { y: area.y + 2, height: area.height - 3, ..area };
    if state.is_help {
        help(&mut canvas, body);
        return Drawn::default();
    }
    list::draw(&mut canvas, body, listing)
}

fn head(canvas: &mut Canvas<'_>, state: &FleetState, counts: Counts) {
    let area = canvas.area();
    let Counts { answer, connecting, lost, running, .. } = counts;
    let all = answer + connecting + lost;
    let line = format!(
        "{} of {} answer",
        number::plain(answer as f64),
        number::counted(all as u64, "server", "servers")
    );
    let end = canvas.text(area, 0, 0, &line, if lost > 0 { Mood::Warn } else { Mood::Strong });
    let missing = match (lost, connecting) {
        (0, 0) => String::new(),
        (0, connecting) => format!("{} connecting", number::plain(connecting as f64)),
        (lost, _) => format!("{} lost: 3 says why", number::plain(lost as f64)),
    };
    canvas.text(area, end + 2, 0, &missing, Mood::Quiet);
    let runs = number::counted(running as u64, "statement runs", "statements run");
    let (mode, mood) = if state.is_frozen { ("FROZEN", Mood::Warn) } else { ("LIVE", Mood::Good) };
    canvas.right(area, area.width, 0, mode, mood);
    canvas.right(area, area.width.saturating_sub(mode.len() as u16 + 2), 0, &runs, Mood::Strong);

    let mut x = 0;
    for (at, tab) in FleetScreen::TABS.iter().enumerate() {
        let text = format!(" {} {} ", at + 1, tab.word());
        let took = if *tab == state.screen && !state.is_help {
            let style = canvas.theme.marked();
            canvas.styled(area, x, 1, &text, style)
        } else {
            canvas.text(area, x, 1, &text, Mood::Quiet)
        };
        x += took + 1;
    }
    canvas.right(area, area.width, 1, "?help", if state.is_help { Mood::Strong } else { Mood::Quiet });
}

fn foot(canvas: &mut Canvas<'_>, state: &FleetState, listing: &Listing) {
    let area = canvas.area();
    let y = area.height - 1;
    if let Some(text) = &state.prompt {
        let line = format!("filter: {text}_   Enter keeps it, Esc clears it");
        canvas.text(area, 0, y, &line, Mood::Strong);
        return;
    }
    let filter = if listing.filter.is_empty() { "/ filter" } else { "Esc all" };
    let line = format!("q quit  {filter}  s sort  g fold  space freeze");
    canvas.right(area, area.width, y, "read only", Mood::Quiet);
    let left = Rect { width: area.width.saturating_sub(11), ..area };
    canvas.text(left, 0, y, &line, Mood::Quiet);
}

fn help(canvas: &mut Canvas<'_>, area: Rect) {
    canvas.rule(area, 0, "help");
    let inner = Rect { x: area.x + 2, width: area.width.saturating_sub(4), ..area };
    let right = Rect { x: inner.x + DOES, width: inner.width.saturating_sub(DOES), ..inner };
    let mut y = 1;
    for (key, does) in KEYS {
        if key.is_empty() {
            y += 1;
            canvas.wrapped(inner, y, does, Mood::Quiet);
        } else {
            canvas.text(inner, 0, y, key, Mood::Strong);
            canvas.text(right, 0, y, does, Mood::Plain);
        }
        y += 1;
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    use crate::top::board::Standing;
    use crate::top::examples::HOSTILE;
    use crate::top::fleet_examples;

    fn drawn(
        state: &FleetState,
        board: &Board,
        names: &[String],
        (width, height): (u16, u16),
    ) -> TestBackend {
        let listing = state.listing(board, names, fleet_examples::now(board));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| {
                draw_fleet(frame.buffer_mut(), state, board, &listing, Theme { colour: false });
            })
            .unwrap();
        terminal.backend().clone()
    }

    #[test]
    fn each_screen_reads_well_in_a_narrow_and_a_wide_window() {
        let (board, names) = (fleet_examples::board(), fleet_examples::names());
        for screen in FleetScreen::TABS {
            for size in [(80, 12), (160, 12)] {
                let mut state = FleetState::new(false, "");
                state.screen = screen;
                let name = format!("fleet_{}_{}", screen.word(), size.0);
                insta::assert_snapshot!(name, drawn(&state, &board, &names, size));
            }
        }
        let mut help = FleetState::new(false, "");
        help.is_help = true;
        insta::assert_snapshot!("fleet_help", drawn(&help, &board, &names, (80, 16)));
    }

    #[test]
    fn servers_whose_sockets_differ_at_the_end_can_be_distinguished_on_every_screen() {
        let board = fleet_examples::board();
        let names: Vec<String> =
            (1..=4).map(|at| format!("/home/dba/.cache/spindoctor/lab/mysql-{at}/mysqld.sock")).collect();
        for (screen, cells) in [
            (FleetScreen::Statements, &["…mysql-1/mysqld.sock", "…mysql-2/mysqld.sock"][..]),
            (FleetScreen::Folded, &["…mysql-2/mysqld.sock"]),
            (FleetScreen::Servers, &["…lab/mysql-3/mysqld.sock", "…lab/mysql-4/mysqld.sock"]),
        ] {
            let mut state = FleetState::new(false, "");
            state.screen = screen;
            let text = drawn(&state, &board, &names, (80, 24)).to_string();
            assert!(cells.iter().all(|cell| text.contains(cell)), "{text}");
            assert!(!text.contains("/home"), "{text}");
        }
    }

    #[test]
    fn no_string_of_a_server_steers_the_terminal_at_any_size() {
        let mut board = fleet_examples::board();
        for standing in &mut board.servers {
            match standing {
                Standing::Answers { running, .. } => {
                    for thread in &mut std::sync::Arc::make_mut(running).threads {
                        for text in [&mut thread.user, &mut thread.schema, &mut thread.state] {
                            text.push_str(HOSTILE);
                        }
                        thread.statement = Some(HOSTILE.to_owned());
                    }
                }
                Standing::Lost { failure, .. } => {
                    failure.error.push_str(HOSTILE);
                }
                Standing::Connecting => {}
            }
        }
        let names: Vec<String> = (0..4).map(|_| HOSTILE.to_owned()).collect();
        for screen in FleetScreen::TABS {
            for size in [(200, 50), (80, 24), (40, 8), (20, 5), (1, 1)] {
                for is_help in [false, true] {
                    let mut state = FleetState::new(false, "");
                    (state.screen, state.is_help) = (screen, is_help);
                    let text = drawn(&state, &board, &names, size).to_string();
                    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
                    assert!(!text.contains(steers), "{screen:?} {size:?}: {text}");
                }
            }
        }
    }
}

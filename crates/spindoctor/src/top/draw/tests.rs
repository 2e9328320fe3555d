//! Every screen of every made-up moment, in a narrow and in a wide window.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_width::UnicodeWidthStr as _;

use crate::top::draw::*;
use crate::top::examples;
use crate::top::examples::HOSTILE;
use crate::top::screen::Screen;
use crate::top::state::{Clock, Facts, Prompt};
use crate::top::view::Target;

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 50)];

fn drawn(state: &State, moment: &Moment, (width, height): (u16, u16)) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let shown = Content::new(state, moment);
    terminal
        .draw(|frame| {
            draw(frame.buffer_mut(), state, moment, &shown, Theme { colour: false });
        })
        .unwrap();
    terminal.backend().clone()
}

fn state(screen: Screen, moment: &Moment) -> State {
    let mut state = State::new(screen);
    if !moment.is_live
        && let Some(at) = moment.at
    {
        state.clock = Clock::At(at);
    }
    state
}

/// The screens that show something of their own in this moment.
fn snapshots(name: &str, moment: &Moment, screens: &[Screen]) {
    for screen in screens {
        for size in SIZES {
            let screen_drawn = drawn(&state(*screen, moment), moment, size);
            insta::assert_snapshot!(format!("{name}_{}_{}", screen.word(), size.0), screen_drawn);
        }
    }
}

#[test]
fn a_healthy_busy_server_reads_well_on_every_screen() {
    let screens: Vec<Screen> = Screen::TABS.into_iter().chain([Screen::Help]).collect();
    snapshots("busy", &examples::busy(), &screens);
}

#[test]
fn a_stall_in_a_recording_is_shown_with_its_root_and_what_frees_it() {
    let moment = examples::stalled();
    snapshots(
        "stalled",
        &moment,
        &[Screen::Overview, Screen::Threads, Screen::Locks, Screen::Events, Screen::Load],
    );
    let overview = drawn(&state(Screen::Overview, &moment), &moment, (80, 24)).to_string();
    assert!(overview.contains("STALL since 14:02:51 (29 s): metadata-lock-pileup"), "{overview}");
    let locks = drawn(&state(Screen::Locks, &moment), &moment, (80, 24)).to_string();
    assert!(locks.contains("Connection 12 blocks 23 threads") && locks.contains("KILL 12"), "{locks}");
}

#[test]
fn what_is_missing_says_why_and_what_unlocks_it() {
    let screens = [Screen::Overview, Screen::Queries, Screen::Waits, Screen::Host];
    snapshots("remote", &examples::remote(), &screens);
    snapshots("silent", &examples::silent(), &[Screen::Overview]);
    snapshots("gap", &examples::gap(), &[Screen::Overview]);
}

#[test]
fn no_string_of_a_server_steers_the_terminal_on_any_screen_at_any_size() {
    for (name, moment) in examples::all() {
        for screen in Screen::TABS.into_iter().chain([Screen::Help]) {
            for size in
                [(80, 24), (200, 50), (120, 30), (60, 12), (40, 10), (40, 8), (20, 5), (80, 4), (1, 1)]
            {
                let mut state = state(screen, &moment);
                for detail in
                    [None, Some(Target::Thread(12)), Some(Target::Query("shop".into(), "a1".into()))]
                {
                    state.detail = detail;
                    let text = drawn(&state, &moment, size).to_string();
                    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
                    assert!(!text.contains(steers), "{name} {screen:?} {size:?}: {text}");
                }
            }
        }
    }
    let threads =
        drawn(&state(Screen::Threads, &examples::hostile()), &examples::hostile(), (200, 50)).to_string();
    assert!(!threads.contains(HOSTILE) && threads.contains(r"\u{1b}]2;owned"), "{threads}");
}

#[test]
fn everything_of_a_row_is_shown_over_the_list() {
    let moment = examples::busy();
    let mut state = State::new(Screen::Queries);
    state.detail = Some(Target::Query("shop".to_owned(), "b2".to_owned()));
    insta::assert_snapshot!("detail_query", drawn(&state, &moment, (80, 24)));
    let mut state = State::new(Screen::Threads);
    state.detail = Some(Target::Thread(19));
    insta::assert_snapshot!("detail_thread", drawn(&state, &moment, (80, 24)));
    state.detail = Some(Target::Thread(9_999));
    assert!(drawn(&state, &moment, (80, 24)).to_string().contains("not in the list of this instant"));
}

#[test]
fn the_column_that_a_list_is_sorted_by_has_a_mark_in_every_window() {
    let press = |state: &mut State, key: char, orders| {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
        state.key(key, &Facts { orders, ..Facts::default() });
    };
    for (screen, moment, own) in [
        (Screen::Threads, examples::busy(), "time▼"),
        (Screen::Queries, examples::busy(), "time▼"),
        (Screen::Waits, examples::busy(), "time▼"),
        (Screen::Events, examples::stalled(), "began (UTC)▼"),
    ] {
        for size in [(80, 24), (40, 10), (200, 50)] {
            let mut state = state(screen, &moment);
            let orders = Content::new(&state, &moment).orders();
            for order in 0..orders {
                let text = drawn(&state, &moment, size).to_string();
                assert_eq!(text.matches(['▼', '▲']).count(), 1, "{screen:?} {size:?} {order}: {text}");
                assert!(order > 0 || text.contains(own), "{text}");
                press(&mut state, 'S', orders);
                let reversed = drawn(&state, &moment, size).to_string();
                assert_eq!(
                    reversed.matches(['▼', '▲']).count(),
                    1,
                    "{screen:?} {size:?} {order}: {reversed}"
                );
                assert_ne!(text.contains('▼'), reversed.contains('▼'), "{text}{reversed}");
                press(&mut state, 's', orders);
            }
        }
    }
    let mut state = state(Screen::Queries, &examples::busy());
    press(&mut state, 's', 3);
    press(&mut state, 's', 3);
    let text = drawn(&state, &examples::busy(), (80, 24)).to_string();
    assert!(text.contains("by load▼ ─"), "a column that has no room here: {text}");
}

#[test]
fn what_is_typed_stands_in_the_last_line() {
    let moment = examples::busy();
    let last = |prompt| {
        let mut state = State::new(Screen::Threads);
        state.prompt = Some(prompt);
        let screen = drawn(&state, &moment, (80, 24)).to_string();
        screen.lines().last().unwrap().trim_matches(['"', ' ']).to_owned()
    };
    assert!(last(Prompt::Jump("14:0".to_owned())).starts_with("go to (UTC): 14:0_"));
    assert!(last(Prompt::Filter("stock".to_owned())).starts_with("filter: stock_"));
}

#[test]
fn colour_is_an_accent_and_none_where_it_is_not_wanted() {
    let moment = examples::stalled();
    let state = state(Screen::Overview, &moment);
    let shown = Content::new(&state, &moment);
    let colours = |colour| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
        draw(&mut buffer, &state, &moment, &shown, Theme { colour });
        buffer.content.iter().filter(|cell| cell.fg != ratatui::style::Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 0);
}

#[test]
fn no_line_is_wider_than_the_window() {
    for (name, moment) in examples::all() {
        for size in [(80, 24), (61, 17)] {
            let text = drawn(&state(Screen::Overview, &moment), &moment, size).to_string();
            let widest = text.lines().map(|line| line.trim_matches('"').width()).max();
            assert!(widest <= Some(usize::from(size.0)), "{name}: {text}");
        }
    }
}

#[test]
fn sessions_at_work_are_drawn_by_class_in_a_small_window_too() {
    let moment = examples::stalled();
    let text = drawn(&state(Screen::Load, &moment), &moment, (40, 10)).to_string();
    insta::assert_snapshot!("stalled_load_40", text);
    let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
    let state = state(Screen::Load, &moment);
    draw(&mut buffer, &state, &moment, &Content::new(&state, &moment), Theme { colour: true });
    let colours = |x: u16| -> Vec<ratatui::style::Color> { (3..11).map(|y| buffer[(x, y)].fg).collect() };
    // Locks are red, at the right edge, which is now; half a minute before, sessions ran (green) and committed (blue).
    assert_eq!(colours(79), [ratatui::style::Color::Red; 8], "{buffer:?}");
    assert!(!colours(40).contains(&ratatui::style::Color::Red), "{:?}", colours(40));
    // Where nobody reads the lists, the screen says so.
    let mut moment = examples::remote();
    moment.at_work.clear();
    let text = drawn(&State::new(Screen::Load), &moment, (80, 24)).to_string();
    assert!(text.contains("no list of the server's sessions in these minutes"), "{text}");
}

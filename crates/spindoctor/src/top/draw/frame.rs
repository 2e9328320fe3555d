//! The frame of every screen: the server, the instant, the tabs, the keys; and the box of a row's details.

use std::borrow::Cow;

use jiff::Timestamp;
use ratatui::layout::Rect;
use spindoctor_model::ServerIdentity;

use super::canvas::Canvas;
use crate::common::local_time::beside;
use crate::top::jump;
use crate::top::moment::Moment;
use crate::top::screen::Screen;
use crate::top::state::{Clock, Prompt, State};
use crate::top::view::{Content, Listing, Mood, MoodText, server_text};
use spindoctor_page::{number, safe};

/// A live view whose last sample is older than this says so, seconds: samples come every second.
const STALE_S: f64 = 3.0;

/// The row of the screen with the tabs.
pub const TABS_ROW: u16 = 1;
/// From so many columns on the local time has room beside UTC.
const LOCAL_FROM: u16 = 110;
/// The tab of the keys, at the right.
const HELP: &str = "?help";

/// The two lines at the top.
pub fn head(canvas: &mut Canvas<'_>, state: &State, moment: &Moment) {
    let area = canvas.area();
    let (mode, mood) = mode(state, moment);
    let local = |at| if area.width >= LOCAL_FROM { beside(at) } else { String::new() };
    let at = moment.at.map_or_else(String::new, |at| format!("{}{}", day_and_time(at), local(at)));
    let right = format!("{mode}  {at}");
    let right_columns = right.chars().count() as u16;
    canvas.right(area, area.width, 0, &at, Mood::Strong);
    let mode_end = area.width.saturating_sub(at.chars().count() as u16 + 2);
    canvas.right(area, mode_end, 0, &mode, mood);
    let left = Rect { width: area.width.saturating_sub(right_columns + 2), ..area };
    let server = moment.server().map_or_else(|| moment.name.clone(), server_text);
    let end = canvas.text(left, 0, 0, &server, Mood::Strong);
    let more = moment.server().map_or_else(String::new, |server| about(server, moment));
    canvas.text(left, end + 2, 0, &more, Mood::Quiet);

    for (x, text, tab) in tabs(area.width) {
        if tab == state.screen {
            let style = canvas.theme.marked();
            canvas.styled(area, x, TABS_ROW, &text, style);
        } else {
            canvas.text(area, x, TABS_ROW, &text, Mood::Quiet);
        }
    }
    canvas.right(
        area,
        area.width,
        TABS_ROW,
        HELP,
        if state.screen == Screen::Help { Mood::Strong } else { Mood::Quiet },
    );
}

/// The tabs of a window of so many columns: where each begins, and its text.
fn tabs(columns: u16) -> impl Iterator<Item = (u16, String, Screen)> {
    let is_wide = columns >= 100;
    let mut x = 0;
    Screen::TABS.into_iter().enumerate().map(move |(at, tab)| {
        let text = match is_wide {
            true => format!(" {} {} ", at + 1, tab.word()),
            false => format!("{}{}", at + 1, tab.word()),
        };
        let begins = x;
        x += text.len() as u16 + 1;
        (begins, text, tab)
    })
}

/// The screen whose tab stands in this column of the row of tabs.
pub fn tab_at(columns: u16, column: u16) -> Option<Screen> {
    if column >= columns.saturating_sub(HELP.len() as u16) {
        return Some(Screen::Help);
    }
    let mut tabs = tabs(columns);
    tabs.find(|(x, text, _)| (*x..*x + text.len() as u16).contains(&column)).map(|(_, _, tab)| tab)
}

/// Uptime, and the file where it is a recording.
fn about(server: &ServerIdentity, moment: &Moment) -> String {
    let mut text = Vec::new();
    // The server's own word at that moment; else what it was when this segment began.
    let status = moment.window.as_ref().and_then(|window| window.latest(|sample| &sample.server.status));
    let now_s = status.and_then(|status| status.number("Uptime"));
    if let Some(uptime_s) = now_s.or(server.uptime_s.map(|began_s| began_s as f64)) {
        text.push(format!("up {}", number::duration(uptime_s)));
    }
    if !moment.is_live {
        text.push(moment.name.clone());
    }
    text.join("  ")
}

fn mode(state: &State, moment: &Moment) -> (String, Mood) {
    match (state.clock, moment.is_live) {
        (Clock::Latest, true) => ("LIVE".to_owned(), Mood::Good),
        (Clock::Latest, false) => ("END".to_owned(), Mood::Plain),
        (Clock::At(_), true) => ("FROZEN".to_owned(), Mood::Warn),
        (Clock::At(_), false) => ("PAUSED".to_owned(), Mood::Warn),
        (Clock::Playing(_, speed), _) => (format!("PLAYING {speed}x"), Mood::Good),
    }
}

fn day_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The line at the bottom: what is typed, a message, or the keys that matter here.
pub fn foot(canvas: &mut Canvas<'_>, state: &State, shown: &Content, moment: &Moment) {
    let area = canvas.area();
    let y = area.height - 1;
    match &state.prompt {
        Some(Prompt::Filter(text)) => {
            canvas.text(
                area,
                0,
                y,
                &format!("filter: {text}_   Enter keeps it, Esc clears it"),
                Mood::Strong,
            );
            return;
        }
        Some(Prompt::Jump(text)) => {
            canvas.text(area, 0, y, &format!("go to (UTC): {text}_   {}", jump::FORMS), Mood::Strong);
            return;
        }
        None => {}
    }
    let read_only = "read only";
    canvas.right(area, area.width, y, read_only, Mood::Quiet);
    let left = Rect { width: area.width.saturating_sub(read_only.len() as u16 + 2), ..area };
    if let Some(message) = &state.message {
        canvas.text(left, 0, y, message, Mood::Strong);
        return;
    }
    if let Some(trouble) = moment.trouble.as_ref().filter(|_| is_stale(moment)) {
        canvas.text(left, 0, y, trouble, Mood::Alarm);
        return;
    }
    let time = match (state.clock, moment.is_live) {
        (Clock::Latest, true) => ["space freeze", "←→ 1 s", "g go to", "[] 1 min"],
        (Clock::Playing(..), _) => ["space pause", "+- speed", "g go to", "n/N event"],
        (_, true) => ["space play", "←→ 1 s", "End live", "[] 1 min"],
        (_, false) => ["space play", "←→ 1 s", "n/N event", "g go to"],
    };
    let opens = |list: &Listing| list.rows.iter().any(|row| row.target.is_some());
    let here: &[&str] = match shown {
        Content::List(list) if !list.filter.is_empty() => &["Esc all", "s sort", "Enter open"],
        Content::List(list) if opens(list) => &["/ filter", "s sort", "Enter open"],
        Content::List(_) => &["/ filter", "s sort"],
        Content::Locks(_) | Content::Load(_) | Content::Host(_) | Content::Help => &["↑↓ scroll"],
        Content::Overview(_) | Content::Nothing(_) => &["w rates"],
    };
    // Whole hints, as many as there is room for.
    let mut x = 0;
    for hint in ["q quit"].iter().chain(here).chain(&time) {
        let columns = hint.chars().count() as u16;
        if x + columns > left.width {
            break;
        }
        canvas.text(left, x, y, hint, Mood::Quiet);
        x += columns + 2;
    }
}

/// True where the newest sample is older than samples of a live view are.
fn is_stale(moment: &Moment) -> bool {
    let Some((at, sampled)) = moment.extent.map(|extent| extent.to).zip(moment.sampled_at()) else {
        return true;
    };
    !moment.is_live
        || moment.trouble.is_some()
        || (at - sampled).total(jiff::Unit::Second).unwrap_or(0.0) > STALE_S
}

/// The box of a row's details, over the lower part of the screen.
pub fn detail(canvas: &mut Canvas<'_>, body: Rect, detail: Option<(String, Vec<(String, MoodText)>)>) {
    const LABELS: u16 = 16;
    let gone = || {
        let why = MoodText::new("it is not in the list of this instant", Mood::Quiet);
        ("gone".to_owned(), vec![(String::new(), why)])
    };
    let (title, lines) = detail.unwrap_or_else(gone);
    let room = usize::from(body.width.saturating_sub(LABELS).max(1));
    let wrapped: Vec<(String, Vec<String>)> = lines
        .iter()
        .map(|(label, words)| {
            let text = safe::safe(&words.text);
            let lines = textwrap::wrap(&text, room).into_iter().map(Cow::into_owned).collect();
            (label.clone(), lines)
        })
        .collect();
    let needed = wrapped.iter().map(|(_, lines)| lines.len().max(1)).sum::<usize>() as u16 + 2;
    let height = needed.min(body.height.saturating_sub(2));
    let area = Rect { y: body.bottom() - height, height, ..body };
    canvas.clear(area);
    canvas.rule(area, 0, &format!("{title}  (Esc closes)"));
    let mut y = 1;
    for (label, lines) in wrapped {
        canvas.text(area, 1, y, &label, Mood::Quiet);
        for line in lines {
            if y >= height {
                return;
            }
            canvas.text(area, LABELS, y, &line, Mood::Plain);
            y += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::mysql::NamedValues;

    use super::*;

    use crate::top::examples;

    #[test]
    fn the_uptime_is_that_of_the_moment_and_not_of_when_the_segment_began() {
        let mut moment = examples::busy();
        let server = moment.server().unwrap().clone();
        assert_eq!(about(&server, &moment), "up 3 days 5 h");
        let last = moment.window.as_mut().unwrap().samples.last_mut().unwrap();
        let value = NamedValues::from_iter([("Uptime", "90")]);
        last.server.status = Reading::Available { at_s: last.at_s, took_ms: 1.0, value };
        assert_eq!(about(&server, &moment), "up 90 s");
    }
}

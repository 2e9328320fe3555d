//! Sessions at work over time: of each second what they did or waited for, and below it by which statement.

use jiff::Timestamp;
use spindoctor_model::Window;
use spindoctor_sessions::{AtWork, Load};

use crate::common::load::{Layer, SHOWN, averages, layers, stands_on};
use crate::top::moment::Moment;
use crate::top::view::{missing_text, seconds};

/// The lists of the minutes before the instant.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadShown {
    lists: Vec<AtWork>,
    /// Why there are none, where there are none.
    pub note: String,
}

/// What is shown of as many seconds as there is room for.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOver {
    /// What it is, in one line.
    pub title: String,
    /// What it was computed from.
    pub note: String,
    /// The load: its bars are drawn, its statements listed.
    pub load: Load,
    /// What is drawn of each bar, from the bottom.
    pub layers: Vec<Layer>,
    /// The end of the last bar.
    pub until: Timestamp,
}

impl LoadShown {
    /// Of a moment.
    pub fn from_moment(moment: &Moment, window: &Window) -> Self {
        let note = match window.missing(|sample| &sample.server.threads) {
            Some(why) => format!("the server's sessions were not listed: {}", missing_text(&why)),
            None => "no list of the server's sessions in these minutes".to_owned(),
        };
        Self { lists: moment.at_work.clone(), note }
    }

    /// Of the last so many seconds; none where there is no list in them.
    pub fn over(&self, most_s: u16) -> Option<LoadOver> {
        let until = self.lists.last()?.at;
        let is_within = |list: &&AtWork| until.duration_since(list.at).as_secs_f64() < f64::from(most_s);
        let load = Load::by_second(self.lists.iter().filter(is_within), until);
        let title = format!("sessions at work  the last {}: {}", seconds(load.seconds()), averages(&load));
        Some(LoadOver { title, note: stands_on(&load), layers: layers(&load, SHOWN), load, until })
    }
}

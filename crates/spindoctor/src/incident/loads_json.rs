//! Sessions at work over time, in the JSON of an incident.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use spindoctor_model::{KnownBy, TimeClass};
use spindoctor_sessions::{Bar, Load};

use super::loads::Loads;
use spindoctor_export::rows::word;

/// Statements that are listed; the table `sessions_at_work` of an export has all.
const STATEMENTS: usize = 50;

/// Sessions on average, by class: `row-lock`.
type ByClass = BTreeMap<String, f64>;

/// Who was at work in what, second by second.
#[derive(Serialize)]
pub struct SessionsAtWork {
    /// What the classes rest on.
    known_by: KnownBy,
    cpus_granted: Option<f64>,
    over_time: Vec<OverTime>,
    before: Option<Table>,
    during: Option<Table>,
}

/// One list of sessions; in a long time some that follow each other, as their mean.
#[derive(Serialize)]
struct OverTime {
    from: Timestamp,
    to: Timestamp,
    cpus_used: Option<f64>,
    sessions: ByClass,
}

#[derive(Serialize)]
struct Table {
    lists: u64,
    sightings: u64,
    seconds: f64,
    /// Lists without one of InnoDB's transactions: who waits for a row lock counts as running in them.
    lists_without_transactions: u64,
    cpus_used: Option<f64>,
    classes: ByClass,
    statements: Vec<Statement>,
}

#[derive(Serialize)]
struct Statement {
    digest_text: String,
    sessions: ByClass,
}

impl SessionsAtWork {
    /// Of the loads of an incident.
    pub fn from_loads(loads: &Loads) -> Self {
        Self {
            known_by: KnownBy::List,
            cpus_granted: loads.shown.cpus_granted(),
            over_time: loads.shown.bars().iter().map(over_time).collect(),
            before: table(&loads.before),
            during: table(&loads.during),
        }
    }
}

/// Thousandths: sums of seconds have no more to say.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

fn over_time(bar: &Bar) -> OverTime {
    OverTime {
        from: bar.from,
        to: bar.to,
        cpus_used: bar.cpus_used().map(rounded),
        sessions: bar.classes().map(|class| (word(&class), rounded(bar.sessions(class)))).collect(),
    }
}

fn table(load: &Load) -> Option<Table> {
    let classes: Vec<(TimeClass, f64)> = load.classes();
    let statement = |statement: &spindoctor_sessions::Statement| Statement {
        digest_text: statement.text.clone(),
        sessions: classes
            .iter()
            .map(|(class, _)| (word(class), rounded(load.sessions_in(statement, *class))))
            .filter(|(_, sessions)| *sessions > 0.0)
            .collect(),
    };
    (load.lists() > 0).then(|| Table {
        lists: load.lists(),
        sightings: load.sightings(),
        seconds: rounded(load.seconds()),
        lists_without_transactions: load.without_lock_waits(),
        cpus_used: load.cpus_used().map(rounded),
        classes: classes.iter().map(|(class, sessions)| (word(class), rounded(*sessions))).collect(),
        statements: load.statements().into_iter().take(STATEMENTS).map(statement).collect(),
    })
}

//! The running statements of a fleet: every statement, or equal ones folded; and every server, those that do not answer
//! first.

use std::collections::HashMap;
use std::time::Instant;

use spindoctor_model::mysql::ServerThread;
use spindoctor_sql::digest;

use super::listing::{Align, By, Column, Direction, Listed, Listing};
use super::threads::{LONG_S, time};
use crate::top::board::{Board, Standing};
use crate::top::state::ListState;
use crate::top::view::Mood;
use spindoctor_page::number;

/// One statement that runs.
struct Item<'a> {
    server: &'a str,
    thread: &'a ServerThread,
    statement: String,
}

/// Equal statements.
struct Folded {
    statement: String,
    sessions: usize,
    /// How many servers, and the first of them.
    servers: usize,
    server: String,
    longest_s: f64,
    /// Of the longest.
    user: String,
    schema: String,
    state: String,
}

/// A server.
struct Server<'a> {
    name: &'a str,
    standing: &'a Standing,
    now: Instant,
}

/// Every statement that runs, the longest first.
pub fn statements(board: &Board, names: &[String], state: &ListState) -> Listing {
    let mut items: Vec<Item<'_>> = board
        .running()
        .map(|(server, thread)| Item { server: &names[server], thread, statement: one_line(thread) })
        .collect();
    items.sort_by(|a, b| b.thread.time_s.total_cmp(&a.thread.time_s).then(a.server.cmp(b.server)));
    let listed = Listed {
        title: title("statements", board),
        items,
        order: Some(("time", Direction::Descending)),
        empty: empty(board),
        mood: |item| mood(item.thread.time_s),
        target: |_| None,
    };
    listed.shown(&statement_columns(), state)
}

fn statement_columns<'a>() -> Vec<Column<Item<'a>>> {
    vec![
        address_column("server", 20, 0, |item| item.server.to_owned(), By::Text(|item| item.server)),
        text_column("user", 10, 60, |item| item.thread.user.clone(), By::Text(|item| &item.thread.user)),
        text_column("db", 12, 90, |item| item.thread.schema.clone(), By::Text(|item| &item.thread.schema)),
        number_column("time", 8, 0, |item| time(item.thread.time_s), |item| item.thread.time_s),
        text_column("state", 22, 110, |item| item.thread.state.clone(), By::Text(|item| &item.thread.state)),
        text_column("statement", 0, 0, |item| item.statement.clone(), By::Text(|item| &item.statement)),
    ]
}

/// Equal statements of all servers together, the most frequent first.
pub fn folded(board: &Board, names: &[String], state: &ListState) -> Listing {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut items: Vec<Folded> = Vec::new();
    let mut last_servers: Vec<usize> = Vec::new();
    for (server, thread) in board.running() {
        let statement = one_line(thread);
        let place = *places.entry(statement).or_insert_with_key(|statement| {
            items.push(Folded {
                statement: statement.clone(),
                sessions: 0,
                servers: 0,
                server: names[server].clone(),
                longest_s: -1.0,
                user: String::new(),
                schema: String::new(),
                state: String::new(),
            });
            last_servers.push(usize::MAX);
            items.len() - 1
        });
        let item = &mut items[place];
        item.sessions += 1;
        // The servers come one after the other.
        if last_servers[place] != server {
            last_servers[place] = server;
            item.servers += 1;
        }
        if thread.time_s > item.longest_s {
            item.longest_s = thread.time_s;
            item.user.clone_from(&thread.user);
            item.schema.clone_from(&thread.schema);
            item.state.clone_from(&thread.state);
        }
    }
    items.sort_by(|a, b| b.sessions.cmp(&a.sessions).then(b.longest_s.total_cmp(&a.longest_s)));
    let listed = Listed {
        title: title("equal statements", board),
        items,
        order: Some(("sessions", Direction::Descending)),
        empty: empty(board),
        mood: |item| mood(item.longest_s),
        target: |_| None,
    };
    listed.shown(&folded_columns(), state)
}

fn folded_columns() -> Vec<Column<Folded>> {
    vec![
        number_column(
            "sessions",
            8,
            0,
            |item| number::plain(item.sessions as f64),
            |item| item.sessions as f64,
        ),
        address_column("servers", 20, 0, Folded::servers, By::Number(|item| item.servers as f64)),
        text_column("user", 10, 60, |item| item.user.clone(), By::Text(|item| &item.user)),
        text_column("db", 12, 90, |item| item.schema.clone(), By::Text(|item| &item.schema)),
        number_column("longest", 8, 0, |item| time(item.longest_s), |item| item.longest_s),
        text_column("state", 22, 110, |item| item.state.clone(), By::Text(|item| &item.state)),
        text_column("statement", 0, 0, |item| item.statement.clone(), By::Text(|item| &item.statement)),
    ]
}

impl Folded {
    /// The server where it is one, else how many.
    fn servers(&self) -> String {
        match self.servers {
            1 => self.server.clone(),
            many => number::counted(many as u64, "server", "servers"),
        }
    }
}

/// Every server: those that do not answer first, then those that run most.
pub fn servers(board: &Board, names: &[String], now: Instant, state: &ListState) -> Listing {
    let mut items: Vec<Server<'_>> =
        names.iter().zip(&board.servers).map(|(name, standing)| Server { name, standing, now }).collect();
    let rank = |item: &Server<'_>| match item.standing {
        Standing::Lost { .. } => (0, 0),
        Standing::Connecting => (1, 0),
        Standing::Answers { running, .. } => (2, usize::MAX - running.threads.len()),
    };
    // Those alike stay in the order of the list.
    items.sort_by_key(rank);
    let listed = Listed {
        title: title("servers", board),
        items,
        order: Some(("says", Direction::Descending)),
        empty: "there is no server in the list".to_owned(),
        mood: |item| match item.standing {
            Standing::Lost { .. } => Mood::Alarm,
            Standing::Connecting => Mood::Quiet,
            Standing::Answers { .. } => Mood::Plain,
        },
        target: |_| None,
    };
    listed.shown(&server_columns(), state)
}

fn server_columns<'a>() -> Vec<Column<Server<'a>>> {
    vec![
        address_column("server", 24, 0, |item| item.name.to_owned(), By::Text(|item| item.name)),
        text_column("says", 12, 0, |item| item.says().to_owned(), By::Text(Server::says)),
        number_column("since", 8, 0, |item| time(item.ago_s()), Server::ago_s),
        number_column("runs", 6, 0, Server::runs_text, Server::runs),
        text_column("why", 0, 0, |item| item.why().to_owned(), By::Text(Server::why)),
    ]
}

impl Server<'_> {
    fn says(&self) -> &str {
        match self.standing {
            Standing::Connecting => "connecting",
            Standing::Answers { .. } => "answers",
            Standing::Lost { failure, .. } => failure.reason.name(),
        }
    }

    /// Since when: of one that answers, its last answer.
    fn ago_s(&self) -> f64 {
        let since = match self.standing {
            Standing::Connecting => self.now,
            Standing::Answers { at, .. } => *at,
            Standing::Lost { since, .. } => *since,
        };
        self.now.saturating_duration_since(since).as_secs_f64()
    }

    fn runs(&self) -> f64 {
        match self.standing {
            Standing::Answers { running, .. } => running.threads.len() as f64,
            Standing::Connecting | Standing::Lost { .. } => -1.0,
        }
    }

    fn runs_text(&self) -> String {
        match self.standing {
            Standing::Answers { running, .. } => {
                let more = if running.is_cut { "+" } else { "" };
                format!("{}{more}", number::plain(running.threads.len() as f64))
            }
            Standing::Connecting | Standing::Lost { .. } => String::new(),
        }
    }

    fn why(&self) -> &str {
        match self.standing {
            Standing::Lost { failure, .. } => &failure.error,
            Standing::Connecting | Standing::Answers { .. } => "",
        }
    }
}

fn text_column<T>(
    title: &'static str,
    width: u16,
    from: u16,
    text: fn(&T) -> String,
    by: By<T>,
) -> Column<T> {
    Column { title, width, align: Align::Left, from, text, by }
}

fn address_column<T>(
    title: &'static str,
    width: u16,
    from: u16,
    text: fn(&T) -> String,
    by: By<T>,
) -> Column<T> {
    Column { align: Align::Address, ..text_column(title, width, from, text, by) }
}

fn number_column<T>(
    title: &'static str,
    width: u16,
    from: u16,
    text: fn(&T) -> String,
    number: fn(&T) -> f64,
) -> Column<T> {
    Column { title, width, align: Align::Right, from, text, by: By::Number(number) }
}

fn title(what: &str, board: &Board) -> String {
    match board.counts().cut {
        0 => what.to_owned(),
        cut => format!("{what}  of {} only the longest", number::counted(cut as u64, "server", "servers")),
    }
}

fn empty(board: &Board) -> String {
    let counts = board.counts();
    match (counts.answer, counts.connecting) {
        (0, 0) => "no server answers; 3 says why".to_owned(),
        (0, _) => "waiting for the first answer".to_owned(),
        _ => "nothing runs".to_owned(),
    }
}

fn mood(time_s: f64) -> Mood {
    if time_s < LONG_S { Mood::Plain } else { Mood::Warn }
}

/// The statement in one line, without its literals.
fn one_line(thread: &ServerThread) -> String {
    thread.statement.as_deref().map(digest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spindoctor_fleet::failure::Failure;
    use spindoctor_fleet::running::Running;

    use super::*;

    use crate::top::fleet_examples;

    fn cells(listing: &Listing) -> Vec<String> {
        listing.rows.iter().map(|row| row.cells.join("|")).collect()
    }

    #[test]
    fn statements_of_all_servers_stand_together_the_longest_first() {
        let (board, names) = (fleet_examples::board(), fleet_examples::names());
        let listing = statements(&board, &names, &ListState::default());
        assert_eq!(
            cells(&listing)[..2],
            [
                "db2:3306|report|shop|61 s|Sending data|SELECT sum(total) FROM orders WHERE day > ?",
                "db1:3306|app|shop|2 s|executing|SELECT * FROM customer WHERE id = ?"
            ]
        );
        assert_eq!(
            (listing.rows.len(), listing.rows[0].mood, listing.rows[1].mood),
            (4, Mood::Warn, Mood::Plain)
        );
        let filter = ListState { filter: "DB2".to_owned(), ..ListState::default() };
        assert_eq!(statements(&board, &names, &filter).rows.len(), 2);
    }

    #[test]
    fn equal_statements_are_folded_across_servers_whatever_their_literals() {
        let (board, names) = (fleet_examples::board(), fleet_examples::names());
        let listing = folded(&board, &names, &ListState::default());
        assert_eq!(
            cells(&listing),
            [
                "3|2 servers|app|shop|2 s|executing|SELECT * FROM customer WHERE id = ?",
                "1|db2:3306|report|shop|61 s|Sending data|SELECT sum(total) FROM orders WHERE day > ?"
            ]
        );
    }

    #[test]
    fn servers_that_do_not_answer_stand_first_with_their_reason() {
        let (board, names) = (fleet_examples::board(), fleet_examples::names());
        let listing = servers(&board, &names, fleet_examples::now(&board), &ListState::default());
        let text = cells(&listing);
        assert_eq!(text[0], "db3:3306|connect|5 s||connection refused: nothing listens there");
        assert_eq!(
            (text[1].as_str(), text[2].as_str()),
            ("db4:3306|connecting|< 1 s||", "db1:3306|answers|< 1 s|2|")
        );
    }

    #[test]
    fn a_list_that_is_cut_and_a_fleet_that_is_silent_say_so() {
        let names = vec!["db1".to_owned()];
        let text = |board: &Board| {
            let listing = statements(board, &names, &ListState::default());
            (listing.title, listing.empty)
        };
        let mut board = Board::with_servers(1);
        assert_eq!(text(&board).1, "waiting for the first answer");
        board.note(0, Err(Failure::connect("x")), Instant::now());
        assert_eq!(text(&board).1, "no server answers; 3 says why");
        board.note(
            0,
            Ok(Running { threads: Vec::new(), is_cut: true }),
            Instant::now() + Duration::from_secs(1),
        );
        assert_eq!(
            text(&board),
            ("statements  of 1 server only the longest".to_owned(), "nothing runs".to_owned())
        );
    }
}

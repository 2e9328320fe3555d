//! A board of made-up servers, for the tests of views and drawing.

use std::time::{Duration, Instant};

use spindoctor_fleet::failure::Failure;
use spindoctor_fleet::running::Running;
use spindoctor_model::mysql::ServerThread;

use super::board::{Board, Standing};

fn thread(id: u64, user: &str, time_s: f64, state: &str, statement: &str) -> ServerThread {
    ServerThread {
        connection_id: Some(id),
        is_connection: true,
        user: user.to_owned(),
        schema: "shop".to_owned(),
        command: "Query".to_owned(),
        time_s,
        state: state.to_owned(),
        statement: Some(statement.to_owned()),
        ..ServerThread::default()
    }
}

/// The servers' names.
pub fn names() -> Vec<String> {
    (1..=4).map(|at| format!("db{at}:3306")).collect()
}

/// Two servers answer, the third one refuses, the fourth has said nothing yet.
pub fn board() -> Board {
    let customer = |id: u64| format!("SELECT *\n  FROM customer WHERE id = {id}");
    let mut board = Board::with_servers(4);
    let at = Instant::now();
    let first = vec![
        thread(1, "app", 2.0, "executing", &customer(17)),
        thread(2, "app", 0.0, "statistics", &customer(18)),
    ];
    let second = vec![
        thread(7, "report", 61.0, "Sending data", "SELECT sum(total) FROM orders WHERE day > '2026-01-01'"),
        thread(8, "app", 1.0, "executing", &customer(19)),
    ];
    let after = |seconds| at + Duration::from_secs(seconds);
    board.note(0, Ok(Running { threads: first, is_cut: false }), after(5));
    board.note(1, Ok(Running { threads: second, is_cut: false }), after(5));
    board.note(2, Err(Failure::connect("connection refused: nothing listens there")), at);
    board
}

/// The instant of the last answer.
pub fn now(board: &Board) -> Instant {
    let at = |standing: &Standing| match standing {
        Standing::Answers { at, .. } => Some(*at),
        Standing::Connecting | Standing::Lost { .. } => None,
    };
    board.servers.iter().filter_map(at).max().expect("somebody answers")
}

//! `spindoctor fleet top`: once, and in a real terminal while servers hang and come back.

use spindoctor_lab::Which;
use spindoctor_lab::stub::Conduct;
use spindoctor_lab::stub::mysql::{Apart, answers};

use crate::fleet::{List, Run, ran, stub};
use crate::lab::{in_runtime, with_server};
use crate::program::{printed, spindoctor};
use crate::screen::is_installed;
use crate::top::Terminal;

fn top(list: &List, flags: &[&str]) -> Run {
    ran(spindoctor("fleet top"), list, flags)
}

#[test]
fn the_help_of_fleet_top_is_this() {
    let (help, code) = printed("fleet top --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}

#[test]
fn equal_statements_of_many_servers_are_one_row_and_the_filter_finds_the_others() {
    let stubs = stub(Conduct::Answers(answers(|address| Apart {
        running: match address.octets()[3] {
            7 => vec![(90, "SELECT sum(total) FROM orders".to_owned())],
            _ => Vec::new(),
        },
        ..Apart::default()
    })));
    let dead = stub(Conduct::Hang).port();
    let list = List::from_text(&(stubs.list(200) + &format!("127.0.0.1:{dead}\n")));
    let run = top(&list, &["--once", "--group"]);
    assert_eq!(run.code(), Some(1), "{}", run.err());
    let lines: Vec<String> =
        run.out().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "sessions servers user db longest state statement".to_owned(),
            "200 200 servers app shop < 1 s executing SELECT c FROM sbtest1 WHERE id = ?".to_owned(),
            format!("1 127.0.0.7:{} app shop 90 s executing SELECT sum(total) FROM orders", stubs.port()),
        ]
    );
    assert!(
        run.err().contains("200 of 201 servers answered") && run.err().contains("connect 1"),
        "{}",
        run.err()
    );
    // Standard output is no terminal: --once is not needed.
    let run = top(&list, &["--filter", "ORDERS"]);
    assert_eq!(run.out().lines().count(), 2, "{}", run.out());
}

#[test]
fn an_account_that_may_not_see_others_is_shown_so() {
    with_server(Which::Mysql, |server| {
        let account = "CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'poor'";
        in_runtime(server.execute([account])).expect("an account");
        let run = top(&List::from_text(&format!("127.0.0.1:{}\n", server.port())), &["-u", "poor", "-ppoor"]);
        assert_eq!(run.code(), Some(2), "{}", run.out());
        assert!(run.err().contains("no privilege") && run.err().contains("GRANT PROCESS"), "{}", run.err());
    });
}

#[test]
fn a_server_that_hangs_is_lost_and_comes_back() {
    if !is_installed("tmux") {
        return;
    }
    with_server(Which::Mysql, |server| {
        let stubs = stub(Conduct::Answers(answers(|_| Apart {
            running: vec![(90, "SELECT sum(total) FROM orders".to_owned())],
            ..Apart::default()
        })));
        let list = List::from_text(&format!("127.0.0.1:{}\n{}", server.port(), stubs.list(2)));
        let line = format!(
            "fleet top --no-defaults -u spindoctor -pspindoctor --interval 300ms --query-timeout 1s \
             --connect-timeout 1s --servers {}",
            list.path.display()
        );
        let terminal = Terminal::running(&line, 100, 24);
        terminal.shows(&["3 of 3 servers answer", "4 statements run", "LIVE", "90 s", "FROM orders"]);
        terminal.press("g");
        terminal.shows(&["sessions", "longest", "2 servers"]);
        terminal.press("/");
        terminal.press("o");
        terminal.press("r");
        terminal.press("d");
        terminal.shows(&["filter: ord_", "equal statements  filter \"ord\": 1 of 2"]);
        terminal.press("Enter");
        terminal.press("?");
        terminal.shows(&["fold equal statements", "read only"]);
        terminal.press("3");
        terminal.shows(&["3 of 3 servers answer", "says"]);
        server.pause(true);
        terminal.shows(&["2 of 3 servers answer", "1 lost", "no answer within 1 s"]);
        server.pause(false);
        terminal.shows(&["3 of 3 servers answer"]);
        terminal.press("q");
        terminal.shows(&["it ended with 0"]);
    });
}

//! What pasting, cutting and wrapping do to a text: it is recognised as what it is, or not at all; never as something else.

use std::sync::LazyLock;

use proptest::prelude::*;

use crate::{Kind, Said, recognise};

/// Texts of the corpus, as a client prints them: what they are, and whether each line stands by itself.
static ORIGINALS: LazyLock<Vec<(Kind, String, String)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for trouble in ["row-lock-pile-up", "metadata-lock-pile-up", "replica-lag"] {
        for (server, document) in spindoctor_corpus::captures(trouble).unwrap() {
            for part in &document.parts {
                let kind = match part.asked.as_str() {
                    "SHOW ENGINE INNODB STATUS" => Kind::InnodbStatus,
                    "SHOW FULL PROCESSLIST" => Kind::ProcessList,
                    "SHOW GLOBAL STATUS" => Kind::GlobalStatus,
                    "SHOW GLOBAL VARIABLES" => Kind::GlobalVariables,
                    "SHOW SLAVE STATUS" | "SHOW REPLICA STATUS" | "SHOW ALL SLAVES STATUS" => {
                        Kind::ReplicaStatus
                    }
                    _ => continue,
                };
                if part.text.lines().count() > 1 {
                    all.push((kind, format!("{server} {}", part.name), part.text.clone() + "\n"));
                }
            }
        }
    }
    assert!(all.len() > 40, "only {}", all.len());
    all
});

/// A status of the corpus, with its lines as the server printed them: a client in batch mode writes `\n`.
fn status() -> String {
    let (.., text) = ORIGINALS
        .iter()
        .find(|(kind, name, _)| *kind == Kind::InnodbStatus && name.starts_with("mysql-5.7"))
        .unwrap();
    crate::plain::undamaged(text)
}

fn kinds(text: &str) -> Vec<Kind> {
    recognise("text", text).iter().map(|part| part.kind).collect()
}

#[test]
fn what_real_servers_said_is_recognised() {
    for (kind, name, text) in ORIGINALS.iter() {
        assert_eq!(kinds(text), [*kind], "{name}");
    }
}

#[test]
fn every_damage_leaves_a_status_what_it_is() {
    let status = status();
    let numbers = |text: &str| {
        let parts = recognise("text", text);
        let said = parts.into_iter().flat_map(|part| part.moments).flat_map(|moment| moment.said).next();
        let Some(Said::Innodb(status)) = said else { panic!("{text}") };
        (
            status.transactions.history_list_length,
            status.log.current_lsn,
            status.buffer_pool.pages,
            status.semaphores.reservations,
        )
    };
    let whole = numbers(&status);
    assert!(whole.0.is_some() && whole.1.is_some() && whole.2.is_some() && whole.3.is_some(), "{whole:?}");
    let each = |before: &str| status.lines().map(|line| format!("{before}{line}\n")).collect::<String>();
    let json = serde_json::json!({ "Type": "InnoDB", "Name": "", "Status": status }).to_string();
    for damaged in [
        each("> "),
        each("    "),
        each("db-1 | "),
        each("Feb 12 09:52:22 db1 mysqld[4711]: "),
        each("2024-05-01T10:00:00.123456789Z stdout F "),
        status.replace('\n', "\\n"),
        json.clone(),
        serde_json::json!({ "text": json }).to_string(),
        format!("<pre>{}</pre>", status.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")),
        format!(
            "mysql> show engine innodb status\\G\n*************************** 1. row ***************************\n  Type: InnoDB\n  Name: \nStatus: \n{status}1 row in set (0.00 sec)\n"
        ),
        format!("Type\tName\tStatus\nInnoDB\t\t{}\n", status.replace('\n', "\\n")),
        format!(
            "+--------+------+----+\n| Type   | Name | Status |\n+--------+------+----+\n| InnoDB |      | \n{status} |\n+---+---+---+\n1 row in set (0.00 sec)\n"
        ),
        status.lines().map(|line| format!("{line}   \n")).collect(),
        status.replace('\n', " "),
        format!("Our server hangs: {}", status.split_whitespace().collect::<Vec<_>>().join(" ")),
    ] {
        assert_eq!(kinds(&damaged), [Kind::InnodbStatus], "{}", &damaged[..damaged.floor_char_boundary(600)]);
        assert_eq!(numbers(&damaged), whole, "{}", &damaged[..damaged.floor_char_boundary(600)]);
    }
}

#[test]
fn several_documents_of_one_file_are_several() {
    let list = "+----+------+---------+------+-------+----------+\n| Id | User | Command | Time | State | Info     |\n\
                +----+------+---------+------+-------+----------+\n|  7 | app  | Query   |    3 | x     | SELECT a |\n\
                +----+------+---------+------+-------+----------+\n1 row in set (0.00 sec)\n\n";
    let text = format!(
        "Hello, our server hangs.\n\nmysql> show processlist;\n{list}mysql> show engine innodb status\\G\n{}\n[mysqld]\nport = 1\n",
        status()
    );
    assert_eq!(kinds(&text), [Kind::ProcessList, Kind::InnodbStatus, Kind::OptionFile]);
}

#[test]
fn rows_that_a_foot_counts_and_that_are_not_there_are_said() {
    let list = |foot: &str| {
        let text = format!(
            "+----+------+---------+------+-------+------+\n| Id | User | Command | Time | State | Info |\n\
             +----+------+---------+------+-------+------+\n|  7 | app  | Query   |    3 | x     | DO 1 |\n\
             |  8 | app  | Query   |    3 | x     | DO 2 |\n+----+------+---------+------+-------+------+\n{foot}\n"
        );
        recognise("text", &text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>()
    };
    assert_eq!(
        list("15 rows in set (0.00 sec)"),
        ["2 sessions", "13 of the 15 rows are not in what was given"]
    );
    assert_eq!(list("2 rows in set (0.00 sec)"), ["2 sessions"]);
}

#[test]
fn a_table_of_markdown_alone_keeps_its_bars() {
    let list = "| waiting_trx_id   | waiting_thread | waiting_query    | blocking_trx_id | blocking_thread | blocking_query  |\n\
                |------------------|----------------|------------------|-----------------|-----------------|-----------------|\n\
                | 71               | 6              | UPDATE a SET b=1 | 70              | 5               | SELECT SLEEP(9) |\n";
    assert_eq!(kinds(list), [Kind::LockWaits]);
    assert_eq!(
        kinds(&list.replace("\n|", "\n--\n|").replacen("\n--", "", 1)),
        [Kind::LockWaits],
        "parted by grep"
    );
}

#[test]
fn a_list_and_a_status_in_one_line_are_both_read() {
    let border = "+----+------+------+------+---------+------+--------+------+";
    let list = format!(
        "mysql> show processlist; {border} | Id | User | Host | db | Command | Time | State | Info | {border} | 7 | app | | shop | Query | \
         113 | Locked | UPDATE a SET b = 1 | | 8 | app | | shop | Sleep | 9 | | NULL | {border} 2 rows in set "
    );
    let other = "mysql> select * from a; +---+---+ | b | c | +---+---+ | 1 | 2 | +---+---+ ";
    let status = "SEMAPHORES ---------- OS WAIT ARRAY INFO: reservation count 160, signal count 158 ------------ TRANSACTIONS \
                  ------------ Trx id counter 0 381462 Purge done for trx's n:o < 0 381459 undo n:o < 0 0 History list length 8 \
                  LIST OF TRANSACTIONS FOR EACH SESSION: ---TRANSACTION 0 381460, not started";
    let text = &format!("{list}{other}{status}");
    let found = kinds(text);
    assert!([Kind::ProcessList, Kind::InnodbStatus].iter().all(|kind| found.contains(kind)), "{found:?}");
    let sessions = crate::threads::testing::sessions(text);
    assert!(sessions.iter().any(|(id, state, _)| *id == Some(7) && state == "Locked"), "{sessions:?}");
    assert!(sessions.iter().any(|(id, ..)| *id == Some(8)), "{sessions:?}");
}

#[test]
fn a_deadlock_that_lost_its_first_lines_is_one() {
    let first = "*** (1) HOLDS THE LOCK(S):\nRECORD LOCKS space id 3 page no 4 n bits 72 index by_no of table `shop`.`stock` trx id 71 \
                 lock mode S locks gap before rec\n";
    let second = "*** (2) TRANSACTION:\nTRANSACTION 70, ACTIVE 1 sec inserting\nmysql tables in use 1, locked 1\n\
                  MySQL thread id 8, OS thread handle 1, query id 3 10.0.0.7 app update\nINSERT INTO stock (no) VALUES ('secret')\n\
                  *** WE ROLL BACK TRANSACTION (2)\n";
    for text in [format!("{first}{second}"), second.to_owned()] {
        assert_eq!(kinds(&text), [Kind::InnodbStatus], "{text}");
        let says: String = recognise("text", &text).into_iter().flat_map(|part| part.says).collect();
        assert!(says.contains("its last deadlock") && says.contains("INSERT INTO stock"), "{says}");
        assert!(says.contains("(2) was rolled back") && !says.contains("secret"), "{says}");
    }
}

#[test]
fn a_deadlock_alone_keeps_its_time_where_the_rule_above_its_title_was_cut() {
    let text = "LATEST DETECTED DEADLOCK\n------------------------\n2020-03-01 15:43:35 0x2adf4e24f700\n*** (1) TRANSACTION:\n\
                TRANSACTION 81, ACTIVE 0 sec inserting\nMySQL thread id 9, OS thread handle 47, query id 10 10.0.0.1 app update\n\
                INSERT INTO a VALUES (1)\n*** (1) WAITING FOR THIS LOCK TO BE GRANTED:\n\
                RECORD LOCKS space id 3 page no 80 n bits 0 index PRIMARY of table `s`.`a` trx id 81 lock_mode X waiting\n";
    let parts = recognise("text", text);
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert!(parts[0].says[0].contains("at 2020-03-01 15:43:35"), "{:?}", parts[0].says);
    assert!(
        parts[0].says.iter().any(|said| said.contains("waited for a lock on s.a, index PRIMARY: X")),
        "{:?}",
        parts[0].says
    );
    assert!(parts[0].says.iter().any(|said| said.contains("not in what was given")), "{:?}", parts[0].says);
}

#[test]
fn what_nobody_knows_is_nothing_else() {
    for text in [
        "",
        "\n\n",
        "Hello world\n",
        "Hello all,\nplease find the time of the state in the info.\nid and user are there.\n",
        "#!/bin/sh\necho --thread 1\nls -l | grep x\n",
        "SELECT * FROM t;\nUPDATE t SET a = 1;\n",
        "name,age\nA,1\n",
        "{\"a\": 1}",
        "[1, 2, 3]",
        "<html><body>&lt;&#8211;</body></html>",
        "a | b | c\n1 | 2 | 3\n",
        "2024-01-01 10:00:00 INFO started\n2024-01-01 10:00:01 INFO stopped\n",
    ] {
        assert!(kinds(text).iter().all(|kind| *kind == Kind::Unknown), "{text}: {:?}", kinds(text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_text_that_was_cut_is_the_same_or_unknown(from in 0.0..1.0_f64, to in 0.0..1.0_f64, pick in 0..40_usize) {
        let (kind, name, text) = &ORIGINALS[pick];
        let kind = *kind;
        let text = if kind == Kind::InnodbStatus { crate::plain::undamaged(text) } else { text.clone() };
        let at = |share: f64| text.floor_char_boundary((share * text.len() as f64) as usize);
        let (from, to) = (at(from.min(to)), at(from.max(to)));
        // What stands in no head says nothing of itself: only the beginning may be missing of a status.
        let from = if kind == Kind::InnodbStatus { from } else { 0 };
        for found in kinds(&text[from..to]) {
            prop_assert!(found == kind || found == Kind::Unknown, "{name}: {found:?}");
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(?s)[ -~\n\t]{0,300}", wild in "(?s).{0,100}", places in prop::collection::vec(0.0..1.0_f64, 0..8)) {
        let mut damaged = status();
        for place in places {
            let at = damaged.floor_char_boundary((place * damaged.len() as f64) as usize);
            damaged.insert_str(at, &wild);
        }
        for text in [&text, &wild, &damaged] {
            let parts = recognise("text", text);
            for collection in crate::collections(&parts) {
                let window = crate::window(collection.parts.iter().map(|at| &parts[*at]));
                spindoctor_rules::diagnose(&window);
            }
        }
    }
}

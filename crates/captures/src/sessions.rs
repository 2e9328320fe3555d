//! Whether a table with columns of a process list is one: programs of all kinds have an `id`, a `state` and a `time`.
//!
//! ```text
//! PID   USER     TIME  COMMAND                       ps of a container
//! id,title,state,amount                              an application's table
//! [{"Id": "3f2a...", "State": {...}, ...}]           docker inspect
//! ```

use spindoctor_collect::mysql::Rows;

use crate::counted::{is_command, is_state};
use crate::heads::{STATEMENTS, is_number};
use crate::rows::is_process_list;

/// With so many names of a process list, its `id` among them, a table is one, whatever stands in it. By judgement: tables of others
/// have three of them.
const FEWEST: usize = 4;
/// Rows that are looked at.
const LOOKED_AT: usize = 200;

/// Names that no other program's table has.
fn is_own(name: &str) -> bool {
    name.starts_with("processlist_") || ["conn_id", "thd_id", "current_statement"].contains(&name)
}

/// True for a list of sessions: by the names of its columns, or by a command, a state or a statement of a server in its rows. Where
/// nothing but columns of a process list was selected, seconds are enough.
pub(crate) fn is_list(rows: &Rows) -> bool {
    let names: Vec<String> = rows.names().iter().map(|name| name.to_ascii_lowercase()).collect();
    let known = names.iter().filter(|name| is_process_list(name)).count();
    if names.iter().any(|name| is_own(name)) || known >= FEWEST && names.iter().any(|name| name == "id") {
        return true;
    }
    let has_seconds =
        known == names.len() && rows.first().is_some_and(|row| row.text("time").is_some_and(is_number));
    if has_seconds {
        return true;
    }
    let is_statement = |text: &str| {
        let first = text.split_whitespace().next().unwrap_or_default();
        STATEMENTS.iter().any(|statement| first.eq_ignore_ascii_case(statement))
    };
    rows.iter().take(LOOKED_AT).any(|row| {
        row.text("command").is_some_and(is_command)
            || row.text("state").is_some_and(is_state)
            || row.text("info").is_some_and(is_statement)
    })
}

#[cfg(test)]
mod tests {
    use crate::part::Kind;
    use crate::{recognise, window};

    #[test]
    fn tables_of_other_programs_that_have_an_id_and_a_state_are_no_sessions() {
        for text in [
            "id,title,state,amount\n812,a chair,shipped,40\n813,a table,paid,90\n",
            "| id | state | total |\n|----|-------|-------|\n| 4 | open | 7 |\n| 5 | closed | 9 |\n",
            "PID   USER     TIME  COMMAND\n    1 mysql    12:01 mysqld --datadir=/var/lib/mysql\n   77 root      0:00 sh\n",
            "USER       PID     TIME STATE COMMAND\nmysql     4711    12:01 S     mysqld\n",
            r#"[{"Id": "3f2a4c1e9740", "Created": "2024-05-02", "Path": "docker-entrypoint.sh", "State": {"Status": "exited", "Dead": false}}]"#,
            r#"[{"id": 812, "number": 7, "state": "open", "user": {"login": "somebody"}, "title": "The list hangs"}]"#,
            "id=4 user=bob status=shipped time=7\nid=5 user=amy status=paid time=9\n",
            "| time | user |\n| 10:11 | bob |\n| 10:12 | amy |\n",
        ] {
            let parts = recognise("x", text);
            assert!(parts.iter().all(|part| part.kind != Kind::ProcessList), "{text}: {parts:?}");
            assert!(spindoctor_rules::diagnose(&window(&parts)).findings.is_empty(), "{text}");
        }
    }

    #[test]
    fn lists_that_were_made_shorter_are_known_by_what_stands_in_them() {
        for text in [
            "| id | state |\n| 7 | Waiting for table metadata lock |\n| 8 | Waiting for table metadata lock |\n",
            "id,info\n7,UPDATE a SET b = 1\n",
            "| command | time |\n| Query | 40 |\n",
            "| processlist_id | processlist_state |\n| 7 | something new |\n",
            "| time | user |\n| 1 | shop |\n| 9 | root |\n",
        ] {
            assert_eq!(recognise("x", text)[0].kind, Kind::ProcessList, "{text}");
        }
    }
}
